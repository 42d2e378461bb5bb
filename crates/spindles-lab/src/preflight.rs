//! What can be known before anything is opened: the systems with the A/A pair, what they need,
//! what would be lost, whether there is room.

use crate::experiment::{Experiment, Members, SystemSpec, WorkloadSpec};
use crate::jobs::newcomers;
use crate::runner::RunError;
use crate::targets;
use spindles_block::SizeBytes;
use spindles_format::ChecksumKind;
use spindles_io::TargetFacts;
use spindles_measure::{Beside, Rate, System, Workload};
use spindles_workload::Counted;
use std::collections::BTreeMap;
use std::path::Path;

/// The name of the baseline's second self.
const CONTROL_SUFFIX: &str = " again";
/// Room that is left free on the file system.
const ROOM_LEFT_BYTES: u64 = 256 << 20;

/// A system of the experiment; the control is one more.
pub(crate) struct Side {
    /// As the file has it.
    pub spec: SystemSpec,
    /// As its records have it, once it was opened.
    pub record: System,
}

/// The systems with the baseline's second self, and its name.
pub(crate) fn sides(experiment: &Experiment) -> (Vec<Side>, Option<String>) {
    let mut sides = Vec::new();
    let mut control = None;
    for spec in &experiment.systems {
        let side = |spec: &SystemSpec| Side {
            spec: spec.clone(),
            record: System::default(),
        };
        sides.push(side(spec));
        if experiment.control && spec.name == experiment.baseline {
            let again = SystemSpec {
                name: format!("{}{CONTROL_SUFFIX}", spec.name),
                baseline: None,
                ..spec.clone()
            };
            control = Some(again.name.clone());
            sides.push(side(&again));
        }
    }
    (sides, control)
}

/// The name under which workloads list a system: the control goes by the baseline's.
pub(crate) fn workloads_as(spec: &SystemSpec) -> &str {
    spec.name.strip_suffix(CONTROL_SUFFIX).unwrap_or(&spec.name)
}

/// The first workload that writes to the system.
pub(crate) fn writer<'a>(
    experiment: &'a Experiment,
    spec: &SystemSpec,
) -> Option<&'a WorkloadSpec> {
    experiment.workloads.iter().find(|workload| {
        (workload.kind.writes || workload.beside.is_some()) && workload.runs_on(workloads_as(spec))
    })
}

/// How many members the experiment needs; what can be known to be wrong before anything is done.
pub(crate) fn check(experiment: &Experiment, force: bool) -> Result<usize, RunError> {
    let wrong = |line: Option<usize>, what: String| RunError::Experiment {
        file: experiment.source.clone(),
        line: line.filter(|line| *line > 0),
        what,
    };
    let mut most = 0;
    for spec in &experiment.systems {
        let line = Some(spec.line);
        let system = |what: String| wrong(line, format!("system \"{}\": {what}", spec.name));
        let kind = targets::kind_of(&spec.target);
        let needs = (kind.needs)(&spec.target).map_err(system)?;
        let runs = |workload: &&WorkloadSpec| workload.runs_on(workloads_as(spec));
        let workloads = experiment.workloads.iter().filter(runs);
        most = most.max(needs.members + newcomers(workloads));
        let writer = writer(experiment, spec);
        let mut named = needs.named.iter().chain(&spec.journal);
        if let (Some(writer), Some(device), false) = (writer, named.next(), force) {
            return Err(system(format!(
                "{} writes, and what {device} holds would be lost: say --force if that may be",
                writer.name
            )));
        }
    }
    if let Members::Devices(paths) = &experiment.members {
        if paths.len() < most {
            return Err(wrong(
                None,
                format!(
                    "there are {} members and a system needs {most}: list more devices in \
                     `members`, or ask for smaller arrays",
                    paths.len()
                ),
            ));
        }
        if most > 0 && !force {
            let all = paths.join(", ");
            return Err(wrong(
                None,
                format!("what {all} hold would be lost: say --force if that may be"),
            ));
        }
    }
    Ok(most)
}

pub(crate) fn check_room(folder: &Path, members: usize, member_bytes: u64) -> Result<(), RunError> {
    let stat = rustix::fs::statvfs(folder).map_err(|error| RunError::Members {
        folder: folder.to_owned(),
        source: error.into(),
    })?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let count = u64::try_from(members).expect("few");
    let needed = member_bytes.saturating_mul(count) + ROOM_LEFT_BYTES;
    if free < needed {
        return Err(RunError::NoRoom {
            folder: folder.to_owned(),
            free_mib: free >> 20,
            needed_mib: needed >> 20,
        });
    }
    Ok(())
}

pub(crate) fn workload_record(spec: &WorkloadSpec) -> Workload {
    let plan = spec
        .kind
        .plan(&spec.params(0, 1))
        .expect("checked when it was read");
    Workload {
        name: spec.full_name(),
        summary: plan.summary(),
        kind: spec.kind.name.to_owned(),
        size_bytes: plan.size_bytes,
        operation_bytes: plan.chunk_bytes.into(),
        operations: plan.operations,
        rate: match spec.kind.counted {
            Counted::ReadBytes | Counted::WrittenBytes => Rate::Bytes,
            Counted::Reads | Counted::Writes => Rate::Operations,
        },
        in_flight_max: plan.actors_per_stream,
        beside: spec.beside.map(|(job, stage)| Beside {
            job: job.name.to_owned(),
            stage,
            workload: spec.name.clone(),
        }),
        ..Workload::default()
    }
}

/// What a system is, for its records.
pub(crate) fn described(spec: &SystemSpec, facts: &TargetFacts) -> System {
    let mut system = System {
        name: spec.name.clone(),
        options: options(spec),
        baseline: spec.baseline.clone(),
        expression: spec.target.clone(),
        level: "single".to_owned(),
        members: 1,
        capacity_bytes: facts.bytes(),
        ..System::default()
    };
    if let Some(array) = &facts.array {
        array.level.clone_into(&mut system.level);
        system.members = array.members.into();
        system.chunk_bytes = u64::from(array.chunk_blocks) * u64::from(facts.block_size.bytes());
        system.survives = crate::arrays::survives(array);
        system.missing = array.missing.count();
    }
    system
}

/// What was chosen for the system beside its target and chunk.
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
    let chosen = [
        ("consistency", spec.consistency.map(|policy| policy.name)),
        ("checksum", spec.checksum.and_then(checksum)),
        ("journal", spec.journal.as_deref()),
        ("rebuild rate", rate.as_deref()),
    ];
    let chosen = chosen.into_iter();
    chosen
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect()
}
