//! Describes workloads and systems for their records.

use crate::experiment::fio::FIO;
use crate::experiment::systems::Mounting;
use crate::experiment::{BlockWork, NEWFS, SystemSpec, Work, WorkloadSpec};
use crate::machine::environment::mount_of;
use crate::systems::targets::WatchedFolder;
use spindles_admin::write_back::WriteBack;
use spindles_block::SizeBytes;
use spindles_device::{TargetFacts, physical_device_of};
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use spindles_measure::{Beside, Part, Rate, System, Workload};
use spindles_workload::Counted;
use spindles_workload::file::{FilePhase, FilePlan};
use spindles_workload::network::{BUFFER_BYTES, COPY};
use spindles_workload::replay::REPLAY;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Returns the workload's descriptions for records: one for each phase with a result.
pub(crate) fn workload_records(spec: &WorkloadSpec) -> Vec<Workload> {
    let mut records = records_of_one(spec);
    let systems = spec.systems.as_deref().unwrap_or_default();
    for record in &mut records {
        systems.clone_into(&mut record.systems);
    }
    if let Some(on) = &spec.on_nodes {
        for record in &mut records {
            record.summary = match on.count {
                1 => format!("on a node: {}", record.summary),
                many => format!("on each of {many} nodes: {}", record.summary),
            };
            record.size_bytes = record.size_bytes.saturating_mul(on.count.into());
            record.in_flight_max = record.in_flight_max.saturating_mul(on.count);
            let chosen = [
                (NODES, Some(on.count.to_string())),
                ("device", on.device.clone()),
            ];
            let chosen = chosen.into_iter();
            let chosen = chosen.filter_map(|(name, value)| Some((name.to_owned(), value?)));
            record.parameters.extend(chosen);
        }
    }
    records
}

/// The parameter with the number of nodes.
const NODES: &str = "nodes";

/// Returns the same for one machine.
fn records_of_one(spec: &WorkloadSpec) -> Vec<Workload> {
    match &spec.work {
        Work::Copy(plan) => vec![Workload {
            name: spec.name.clone(),
            summary: plan.summary(),
            kind: COPY.to_owned(),
            size_bytes: plan.file_bytes().saturating_mul(plan.nodes().into()),
            operation_bytes: BUFFER_BYTES.into(),
            rate: Rate::Bytes,
            in_flight_max: plan.nodes(),
            parameters: plan.words(),
            ..Workload::default()
        }],
        Work::Blocks(work) => vec![block_record(spec, work)],
        Work::Files(plan) => {
            let phases = plan.phases();
            let recorded = phases.iter().filter(|phase| phase.counted.is_some());
            recorded
                .map(|phase| file_record(spec, plan, phase))
                .collect()
        }
        Work::Fio(work) => vec![Workload {
            name: spec.name.clone(),
            summary: work.summary(),
            kind: FIO.to_owned(),
            rate: work.rate(),
            operation_bytes: work.operation_bytes(),
            in_flight_max: work.in_flight(),
            duration_ns: work.runtime_ns(),
            parameters: work.options().clone(),
            ..Workload::default()
        }],
        Work::Replay(work) => vec![Workload {
            name: spec.name.clone(),
            summary: work.summary(),
            kind: REPLAY.to_owned(),
            size_bytes: work.needed_bytes(),
            operations: work.facts.requests,
            rate: Rate::Operations,
            in_flight_max: work.plan.in_flight_max,
            parameters: work.words(),
            ..Workload::default()
        }],
        Work::Newfs(words) => vec![Workload {
            name: spec.name.clone(),
            summary: format!("`{}` on the whole", words.join(" ")),
            kind: NEWFS.to_owned(),
            rate: Rate::Operations,
            operations: 1,
            in_flight_max: 1,
            parameters: BTreeMap::from([("command".to_owned(), words.join(" "))]),
            ..Workload::default()
        }],
    }
}

fn block_record(spec: &WorkloadSpec, work: &BlockWork) -> Workload {
    let plan = work
        .kind
        .plan(&work.params(0, 1))
        .expect("checked when it was read");
    Workload {
        name: spec.full_name(),
        summary: plan.summary(),
        kind: work.kind.name.to_owned(),
        size_bytes: plan.size_bytes,
        operation_bytes: plan.chunk_bytes.into(),
        // Timed workloads have no number of operations.
        operations: if plan.endless { 0 } else { plan.operations },
        rate: match work.kind.counted {
            Counted::ReadBytes | Counted::WrittenBytes => Rate::Bytes,
            Counted::Reads | Counted::Writes | Counted::Operations => Rate::Operations,
        },
        in_flight_max: plan.actors_per_stream,
        beside: spec.beside.map(|(job, stage)| Beside {
            job: job.name.to_owned(),
            stage,
            workload: spec.name.clone(),
        }),
        duration_ns: work.seconds.unwrap_or(0) * 1_000_000_000,
        arrivals_per_s: work.arrivals_per_s.unwrap_or(0),
        parameters: [
            (work.kind.read_percent.is_some()).then(|| ("reads", plan.read_percent.to_string())),
            work.steady.then(|| ("steady", "true".to_owned())),
        ]
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.to_owned(), value))
        .collect(),
        ..Workload::default()
    }
}

/// Describes a phase of a workload on files.
pub(crate) fn file_record(spec: &WorkloadSpec, plan: &FilePlan, phase: &FilePhase) -> Workload {
    let name = match phase.name.as_str() {
        "" => spec.name.clone(),
        phase => format!("{} {phase}", spec.name),
    };
    Workload {
        name,
        summary: phase.summary.clone(),
        kind: plan.kind.name.to_owned(),
        size_bytes: plan.bytes(),
        rate: match phase.counted {
            Some(counted) if counted.is_bytes() => Rate::Bytes,
            _ => Rate::Operations,
        },
        in_flight_max: phase.actors,
        duration_ns: if phase.endless {
            plan.seconds() * 1_000_000_000
        } else {
            0
        },
        part: (!phase.name.is_empty()).then(|| Part {
            workload: spec.name.clone(),
            phase: phase.name.clone(),
        }),
        parameters: {
            let own = phase.parameters.iter();
            let own = own.map(|(name, value)| ((*name).to_owned(), value.to_string()));
            plan.words().into_iter().chain(own).collect()
        },
        ..Workload::default()
    }
}

/// Returns the level of a device, or of the device beneath a file or folder, and its number of
/// devices.
fn level_of(path: &Path) -> (&'static str, usize) {
    let slaves = fs::metadata(path).ok().and_then(|facts| {
        let is_device = facts.file_type().is_block_device();
        let device = if is_device { facts.rdev() } else { facts.dev() };
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        fs::read_dir(format!("/sys/dev/block/{major}:{minor}/slaves")).ok()
    });
    match slaves.map_or(0, Iterator::count) {
        0 | 1 if path.is_dir() && physical_device_of(path).is_none() => (System::FOLDER, 1),
        0 | 1 => ("single", 1),
        several => (System::OF_KERNEL, several),
    }
}

/// Describes a system for its records.
pub(crate) fn described(spec: &SystemSpec, facts: &TargetFacts) -> System {
    let (level, members) = level_of(Path::new(spec.target.trim_start_matches("folder:")));
    let mut system = System {
        name: spec.name.clone(),
        options: options(spec),
        baseline: spec.baseline.clone(),
        price: spec.price,
        expression: spec.target.clone(),
        level: level.to_owned(),
        members: u32::try_from(members).expect("few"),
        capacity_bytes: facts.bytes(),
        ..System::default()
    };
    if let Some(made) = spec
        .commands
        .as_ref()
        .filter(|commands| commands.members > 1)
    {
        System::OF_COMMANDS.clone_into(&mut system.level);
        system.members = u32::try_from(made.members).expect("few");
    }
    if let Some(array) = &facts.array {
        array.level.clone_into(&mut system.level);
        let devices = facts.devices.len().max(array.members.into()); // Including missing ones.
        system.members = u32::try_from(devices).expect("few");
        system.chunk_bytes = u64::from(array.chunk_blocks) * u64::from(facts.block_size.bytes());
        system.missing = array.missing.count();
        let survives = crate::systems::arrays::survives(array, &spec.target);
        system.survives = survives.saturating_sub(system.missing);
    }
    system
}

/// Describes a system that is only used through a folder, for its records.
pub(crate) fn described_folder(spec: &SystemSpec, place: &WatchedFolder) -> System {
    let stat = rustix::fs::statvfs(&place.folder);
    let mut options = options(spec);
    if !place.how.is_empty() {
        options.insert(System::THROUGH.to_owned(), place.how.to_owned());
    }
    if spec.mounting.is_none()
        && let Some((file_system, mount)) = mount_of(&place.folder)
    {
        let found = format!("{file_system} {mount}");
        options.insert(System::MOUNTED.to_owned(), found);
    }
    let shape = Expression::parse_counted(&spec.target);
    let (level, members) = match (&shape, &spec.commands) {
        (Ok(array @ Expression::Array { level, .. }), _) => (level.name, array.leaves().len()),
        // Commands may build anything from several members: not a single disk, and the level is
        // unknown.
        (_, Some(made)) if made.members > 1 => (System::OF_COMMANDS, made.members),
        // Compare what is beneath the lab's file system.
        _ if spec.mounting.is_some() => level_of(Path::new(&spec.target)),
        _ => level_of(&place.folder),
    };
    System {
        name: spec.name.clone(),
        options,
        baseline: spec.baseline.clone(),
        price: spec.price,
        expression: spec.target.clone(),
        level: level.to_owned(),
        members: u32::try_from(members).expect("few"),
        capacity_bytes: stat.map_or(0, |stat| stat.f_blocks.saturating_mul(stat.f_frsize)),
        ..System::default()
    }
}

/// Returns the options of the system, except its target and chunk.
fn options(spec: &SystemSpec) -> BTreeMap<String, String> {
    let checksum = |kind| {
        let mut names = ChecksumKind::NAMES.iter();
        names
            .find(|(named, _)| *named == kind)
            .map(|(_, name)| *name)
    };
    let rate = spec
        .rebuild_rate
        .map(|rate| SizeBytes(rate).typed().to_string());
    let modelled = spec.modelled_fs.as_ref();
    let mkfs = spec.mounting.as_ref().map(|mounting| &mounting.mkfs);
    let mkfs = mkfs.or(modelled.map(|fs| &fs.mkfs));
    let mkfs = mkfs.map(|words| words.join(" ")).unwrap_or_default();
    let mount = spec.mounting.as_ref().map(Mounting::mount_options);
    let mount = mount.or(modelled.map(|fs| fs.mount.clone()));
    let mount = mount.unwrap_or_default();
    let chosen = [
        ("consistency", spec.consistency.map(|policy| policy.name)),
        ("checksum", spec.checksum.and_then(checksum)),
        (System::JOURNAL, spec.journal.as_deref()),
        ("write-back", spec.write_back.map(WriteBack::name)),
        ("rebuild rate", rate.as_deref()),
        ("flushes", spec.ignore_flushes.then_some("ignored")),
        ("read policy", spec.read_policy.map(|policy| policy.name)),
        (
            "controller",
            spec.controller
                .as_ref()
                .map(|controller| controller.name.as_str()),
        ),
        (
            "software",
            spec.software
                .as_ref()
                .map(|software| software.name.as_str()),
        ),
        (
            "file system",
            spec.mounting
                .as_ref()
                .map(|mounting| mounting.kind.name)
                .or(modelled.map(|fs| fs.row.name)),
        ),
        ("mkfs", Some(mkfs.as_str()).filter(|text| !text.is_empty())),
        (
            "mount",
            Some(mount.as_str()).filter(|text| !text.is_empty()),
        ),
        (
            "made by",
            spec.commands.as_ref().map(|commands| commands.up.as_str()),
        ),
    ];
    let chosen = chosen.into_iter();
    chosen
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_disk_is_single() {
        let folder = tempfile::tempdir().unwrap();
        // Whatever the temporary folder lies on, a file in it lies on the same.
        let file = folder.path().join("a");
        fs::write(&file, "").unwrap();
        if physical_device_of(folder.path()).is_some() {
            assert_eq!(level_of(&file), level_of(folder.path()));
        }
        assert_eq!(level_of(Path::new("single")), ("single", 1));
        for entry in fs::read_dir("/sys/class/block").unwrap().flatten() {
            let slaves = fs::read_dir(entry.path().join("slaves")).map_or(0, Iterator::count);
            let device = Path::new("/dev").join(entry.file_name());
            if device.exists() && slaves > 1 {
                assert_eq!(level_of(&device), (System::OF_KERNEL, slaves));
            }
        }
    }
}
