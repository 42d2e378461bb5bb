//! Checks before anything is opened: the systems with the A/A pair, their needs, the data that
//! would be lost, and free space.

use crate::experiment::systems::names::stands_for_something;
use crate::experiment::systems::options::Subject;
use crate::experiment::systems::{self, Members, ModelledFileSystem};
use crate::experiment::{Experiment, SystemSpec, Work, WorkloadSpec};
use crate::measure::failure::Failure;
use crate::measure::fio::{self, Refusal};
use crate::nodes::Crew;
use crate::run::described::workload_records;
use crate::run::options::Options;
use crate::run::run_error::RunError;
use crate::systems::claims::Claims;
use crate::systems::pool::{self, CALIBRATED_BYTES_MAX};
use crate::systems::scratch::{hole_bytes, remove_servers_left_over};
use crate::systems::targets;
use crate::systems::targets::commands::can_name;
use spindles_admin::write_back::WriteBack;
use spindles_block::counted;
use spindles_device::{Backend, OpenOptions, device_of};
use spindles_host::file_systems;
use spindles_layout::LEVELS;
use spindles_measure::{Stage, System};
use spindles_workload::file::{FilePlan, NotBare};
use spindles_workload::network::Store;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Suffix of the name of the control: the baseline that runs a second time.
const CONTROL_SUFFIX: &str = " again";
/// Space that is left free on the file system.
const ROOM_LEFT_BYTES: u64 = 256 << 20;

/// A system of the experiment, or the control.
#[derive(Clone)]
pub(crate) struct Side {
    /// As defined in the file.
    pub spec: SystemSpec,
    /// The record of the system, complete once the system was opened.
    pub record: System,
}

/// Returns the systems with the control, and the control's name.
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

/// Returns the name by which workloads list a system: the control uses the baseline's.
pub(crate) fn workloads_as(spec: &SystemSpec) -> &str {
    spec.name.strip_suffix(CONTROL_SUFFIX).unwrap_or(&spec.name)
}

/// Returns the workloads that run on a system.
pub(crate) fn workloads_of<'a>(
    experiment: &'a Experiment,
    spec: &'a SystemSpec,
) -> impl Iterator<Item = &'a WorkloadSpec> + Clone {
    let workloads = experiment.workloads.iter();
    workloads.filter(|workload| workload.runs_on(workloads_as(spec)))
}

/// Returns true if workloads on files find a file system: the system is one, or holds one.
pub(crate) fn has_file_system(spec: &SystemSpec) -> bool {
    let kind = systems::kind_of(&spec.target);
    kind.name == "folder" || spec.mounting.is_some() || spec.commands.is_some()
}

/// Returns the modelled host and file system that carry out workloads on files, if any.
pub(crate) fn file_system_on_host(
    experiment: &Experiment,
    spec: &SystemSpec,
) -> Option<ModelledFileSystem> {
    experiment.members.modelled()?.host.as_ref()?;
    let bare = || ModelledFileSystem::bare();
    Some(spec.modelled_fs.clone().unwrap_or_else(bare))
}

/// Returns why the devices and files of a system lose their contents: because it is created on
/// them, or because a workload writes. `None` if they are only read.
pub(crate) fn destroyed_by(experiment: &Experiment, spec: &SystemSpec) -> Option<String> {
    if let Some(mounting) = &spec.mounting {
        return Some(format!(
            "the file system {} is made on it",
            mounting.kind.name
        ));
    }
    if !systems::kind_of(&spec.target).exists {
        return Some("the lab creates it".to_owned());
    }
    let writer = workloads_of(experiment, spec).find(|workload| workload.writes())?;
    Some(format!("{} writes", writer.name))
}

/// Returns the devices and files that a system names itself, without those that its commands create
/// in a folder of the lab.
pub(crate) fn named_by(spec: &SystemSpec) -> Result<Vec<String>, String> {
    let needs = targets::needs(&spec.target)?;
    let is_made = |name: &String| spec.commands.is_some() && stands_for_something(name);
    let named = needs.named.into_iter().chain(spec.journal.clone());
    Ok(named.filter(|name| !is_made(name)).collect())
}

/// Returns the devices that arrays name as members or journals, each once. The flag is true if the
/// lab creates the array, so that the device may be written before the first run.
pub(crate) fn named_members(experiment: &Experiment) -> Vec<(String, bool)> {
    let mut members: Vec<(String, bool)> = Vec::new();
    for spec in experiment
        .systems
        .iter()
        .filter(|system| system.commands.is_none())
    {
        let is_made = !systems::kind_of(&spec.target).exists;
        let named = named_by(spec).unwrap_or_default();
        // A device by itself is the whole system, and no member.
        if named.len() < 2 && spec.journal.is_none() {
            continue;
        }
        for name in named {
            match members.iter_mut().find(|(known, _)| *known == name) {
                Some((_, writes)) => *writes &= is_made,
                None => members.push((name, is_made)),
            }
        }
    }
    if let Members::Devices(paths) = &experiment.members {
        members.retain(|(name, _)| !paths.contains(name));
    }
    members
}

/// Claims the devices that the experiment overwrites: `members`, and those that systems name.
/// Checks that nothing else uses them, and that commands can name them. Called before anything is
/// written, after the leftovers of killed runs are removed.
pub(crate) fn check_devices(
    experiment: &Experiment,
    members: &[String],
    open: &OpenOptions,
) -> Result<Claims, RunError> {
    let wrong = |line: usize, what: String| wrong(experiment, Some(line), what);
    remove_servers_left_over();
    let mut claims = Claims::default();
    let mut check = |name: &str| {
        claims.take(name)?;
        targets::check_unused(name, open)
    };
    if let Members::Devices(_) = &experiment.members {
        for name in members {
            check(name).map_err(|why| wrong(0, why))?;
        }
    }
    let named = named_members(experiment)
        .into_iter()
        .filter(|named_member| named_member.1);
    let devices = match &experiment.members {
        Members::Devices(_) => members,
        Members::Files | Members::Fresh(_) | Members::Modelled(_) => &[],
    };
    let filled: Vec<String> = devices
        .iter()
        .cloned()
        .chain(named.map(|named| named.0))
        .collect();
    check_holes(&filled).map_err(|why| wrong(0, why))?;
    for spec in &experiment.systems {
        let system = |why: String| wrong(spec.line, format!("system \"{}\": {why}", spec.name));
        if let Some(commands) = &spec.commands {
            can_name(commands, members).map_err(system)?;
        }
        if destroyed_by(experiment, spec).is_none() {
            continue;
        }
        let named = named_by(spec).map_err(system)?;
        for name in named.iter().filter(|name| !is_made_later(spec, name)) {
            check(name).map_err(system)?;
        }
    }
    Ok(claims)
}

/// Checks the free space for the holes of users' files, which calibration fills.
fn check_holes(members: &[String]) -> Result<(), String> {
    let mut needed: BTreeMap<u64, u64> = BTreeMap::new();
    for name in members {
        let path = Path::new(name);
        let (holes, facts) = match (hole_bytes(path, CALIBRATED_BYTES_MAX), fs::metadata(path)) {
            (0, _) | (_, Err(_)) => continue,
            (holes, Ok(facts)) => (holes, facts),
        };
        let needed = needed.entry(facts.dev()).or_default();
        *needed += holes;
        let free = rustix::fs::statvfs(path)
            .map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        if free < *needed {
            return Err(format!(
                "{name} has holes, which are filled before it is measured, and its file system has \
                 room for {} MiB of {} MiB: make room there, or choose other members",
                free >> 20,
                *needed >> 20
            ));
        }
    }
    Ok(())
}

/// Checks that all nodes of the workloads answer, rather than failing after an hour.
pub(crate) fn check_nodes(experiment: &Experiment, options: &Options<'_>) -> Result<(), Failure> {
    let most = experiment.workloads.iter().map(WorkloadSpec::nodes).max();
    let most = usize::try_from(most.unwrap_or(0)).expect("32 bits fit");
    let Some(nodes) = experiment.nodes.as_ref().filter(|_| most > 0) else {
        return Ok(());
    };
    Crew::gather(nodes, options.agent, most, options.interrupt).map(drop)
}

/// Checks everything that can be known to be wrong in advance. Returns how many members the
/// experiment needs.
pub(crate) fn check(experiment: &Experiment, force: bool) -> Result<usize, RunError> {
    let mut errors: Vec<RunError> = check_names(experiment).err().into_iter().collect();
    let mut most = 0;
    for spec in &experiment.systems {
        match check_system(experiment, spec, force) {
            Ok(members) => most = most.max(members),
            Err(error) => errors.push(error),
        }
    }
    errors.extend(check_modelled(experiment));
    errors.extend(check_members(experiment, most, force).err());
    errors.extend(ask_fio(experiment).err());
    match errors.len() {
        0 => Ok(most),
        1 => Err(errors.remove(0)),
        _ => Err(RunError::Several(errors)),
    }
}

/// Returns the parts of an experiment on modelled members that no model has.
fn check_modelled(experiment: &Experiment) -> Vec<RunError> {
    let mut errors = Vec::new();
    let Some(model) = experiment.members.modelled() else {
        return check_real(experiment);
    };
    let mut refuse = |line: usize, name: &str, what: &str| {
        let what = format!("{name}: {what}");
        errors.push(wrong(experiment, Some(line), what));
    };
    for spec in &experiment.systems {
        let name = format!("system \"{}\"", spec.name);
        let kind = systems::kind_of(&spec.target);
        if spec.commands.is_some() {
            let what =
                "commands can't run on modelled members: leave out `up`, or give real members";
            refuse(spec.line, &name, what);
        } else if kind.exists
            || kind.name == "folder"
            || named_by(spec).is_ok_and(|named| !named.is_empty())
        {
            let what = "it names real devices, and the members are modelled: give the number of \
                        members, as in raid5(5), or real members";
            refuse(spec.line, &name, what);
        }
        if let Some(mounting) = &spec.mounting {
            refuse(spec.line, &name, &not_modelled(mounting.kind.name));
        }
        if model.host.is_none()
            && let Some(what) = needs_host(spec)
        {
            refuse(spec.line, &name, &what);
        }
    }
    let has_controller = experiment
        .systems
        .iter()
        .any(|spec| spec.controller.is_some());
    for spec in &experiment.workloads {
        let what = match &spec.work {
            _ if has_controller && spec.beside.is_some() => {
                "jobs behind a controller are not modelled"
            }
            _ if spec.nodes() > 0 => "nodes are not modelled",
            Work::Newfs(words) if model.host.is_some() => {
                if let Err(why) = check_newfs(experiment, spec, words) {
                    refuse(spec.line, &format!("workload \"{}\"", spec.name), &why);
                }
                continue;
            }
            Work::Newfs(_) | Work::Fio(_) => "other programs can't run on modelled members",
            Work::Blocks(work) if !work.on_one() => "work on all members at once is not modelled",
            Work::Blocks(_) | Work::Replay(_) | Work::Files(_) | Work::Copy(_) => continue,
        };
        let name = format!("workload \"{}\"", spec.name);
        refuse(
            spec.line,
            &name,
            &format!("{what}: leave it out, or give real members"),
        );
    }
    if experiment.confirm {
        refuse(
            0,
            "confirm",
            "no trial is made on modelled members: leave it out",
        );
    }
    errors
}

/// Returns the part of a system that needs a host, as an error.
fn needs_host(spec: &SystemSpec) -> Option<String> {
    let part = match (&spec.modelled_fs, &spec.software) {
        (Some(fs), _) => fs.row.name,
        (None, Some(_)) => "`software`",
        (None, None) => return None,
    };
    Some(format!(
        "{part} needs a host: give `host`, --host, one of the models of kind host"
    ))
}

/// Returns why a real file system is refused, with those that can be modelled.
fn not_modelled(name: &str) -> String {
    let rows: Vec<&str> = file_systems::ROWS.iter().map(|row| row.name).collect();
    format!(
        "{name} is not modelled: choose `fs` among {}, with a host; without `fs`, workloads on \
         files place them on the blocks of the array",
        rows.join(", ")
    )
}

/// Checks that each system of a workload `newfs` has a file system that can be made, with the
/// options of its command.
fn check_newfs(
    experiment: &Experiment,
    workload: &WorkloadSpec,
    words: &[String],
) -> Result<(), String> {
    let systems = experiment.systems.iter();
    for spec in systems.filter(|spec| workload.runs_on(&spec.name)) {
        let fs = file_system_on_host(experiment, spec);
        let fs = fs.filter(|fs| fs.row.year.is_some());
        let fs = fs.ok_or("the modelled newfs needs a file system: add fs = \"ffs\"")?;
        newfs_of(&fs, words)?;
    }
    Ok(())
}

/// Returns the file system that the command of a workload `newfs` makes.
pub(crate) fn newfs_of(
    fs: &ModelledFileSystem,
    words: &[String],
) -> Result<ModelledFileSystem, String> {
    let own = words.get(1..).unwrap_or_default();
    let mkfs = [&fs.mkfs[..], own].concat();
    let made = ModelledFileSystem::new(fs.row.name, &mkfs, &fs.mount);
    made.expect("a row of the table")
}

/// Returns the modelled parts of an experiment on real members.
fn check_real(experiment: &Experiment) -> Vec<RunError> {
    let mut errors = Vec::new();
    let mut refuse = |spec: &SystemSpec, what: &str| {
        let what = format!("system \"{}\": {what}", spec.name);
        errors.push(wrong(experiment, Some(spec.line), what));
    };
    for spec in &experiment.systems {
        if let Some(fs) = &spec.modelled_fs {
            let name = fs.row.name;
            let what =
                format!("{name} is a modelled file system: give modelled members, or another `fs`");
            refuse(spec, &what);
        }
        if spec.controller.is_some() {
            let what = "controllers are modelled: leave out `controller`, or give modelled members";
            refuse(spec, what);
        }
        if spec.software.is_some() {
            let what = "its software is modelled: leave out `software`, or give modelled members";
            refuse(spec, what);
        }
    }
    errors
}

/// Returns an error about the experiment.
fn wrong(experiment: &Experiment, line: Option<usize>, what: String) -> RunError {
    RunError::Experiment {
        file: experiment.source.clone(),
        line: line.filter(|line| *line > 0),
        what,
    }
}

/// Checks that no two workloads have figures of the same name.
fn check_names(experiment: &Experiment) -> Result<(), RunError> {
    let mut owners = BTreeMap::new();
    for spec in &experiment.workloads {
        let records = workload_records(spec);
        // Reports also show totals of phases.
        let totals = records
            .windows(2)
            .filter_map(|two| two[0].name_of_total(&two[1]));
        let totals: Vec<String> = totals.collect();
        let names = records.into_iter().map(|record| record.name).chain(totals);
        for name in names {
            let Some(other) = owners.insert(name.clone(), &spec.name) else {
                continue;
            };
            let what = format!(
                "workloads \"{other}\" and \"{}\" would both have figures called \"{name}\": give \
                 one of them another `name`",
                spec.name
            );
            return Err(wrong(experiment, None, what));
        }
    }
    Ok(())
}

/// Checks a system. Returns how many members of the experiment it needs.
fn check_system(
    experiment: &Experiment,
    spec: &SystemSpec,
    force: bool,
) -> Result<usize, RunError> {
    let line = Some(spec.line);
    let wrong = |line, what| wrong(experiment, line, what);
    if spec.name.ends_with(CONTROL_SUFFIX) {
        let what = format!(
            "system \"{}\" has the name of the second measurement of the baseline: choose a name \
             that does not end in \"{}\"",
            spec.name,
            CONTROL_SUFFIX.trim()
        );
        return Err(wrong(line, what));
    }
    let system = |what: String| wrong(line, format!("system \"{}\": {what}", spec.name));
    let needs = targets::needs(&spec.target).map_err(system)?;
    let workloads = workloads_of(experiment, spec);
    let taken = spec
        .commands
        .as_ref()
        .map_or(0, |commands| commands.members);
    let members = needs.members + taken + newcomers(workloads.clone());
    check_file_system(experiment, spec).map_err(system)?;
    let subject = Subject::new(&spec.target, &experiment.members);
    for workload in workloads.clone() {
        if let Some((job, _)) = workload.beside {
            let can = job.check(&subject);
            can.map_err(|why| system(format!("{}: {why}", workload.name)))?;
        }
    }
    if let Some(what) = device_of_kernel_for(spec, workloads)
        && is_in_memory(spec, &experiment.members)
    {
        return Err(system(format!(
            "{what} needs a kernel device, and members in the memory of this program are none: use \
             files (members = \"files\", --members files with bench), or devices, such as the \
             kernel's RAM disk /dev/ram0"
        )));
    }
    let named = named_by(spec).map_err(system)?;
    for name in named.iter().filter(|name| !is_made_later(spec, name)) {
        is_there(name).map_err(system)?;
    }
    let destroyed = destroyed_by(experiment, spec).filter(|_| !force && !named.is_empty());
    if let Some(why) = destroyed {
        let all = named.join(", ");
        let them = if named.len() > 1 { "them" } else { "it" };
        return Err(system(format!(
            "{why}, and the contents of {all} would be lost: use --force to overwrite {them}"
        )));
    }
    Ok(members)
}

/// Returns how many extra devices the jobs of these workloads need together.
fn newcomers<'a>(workloads: impl Iterator<Item = &'a WorkloadSpec>) -> usize {
    let (mut taken, mut free) = (0, 0);
    for workload in workloads {
        if let Some((job, Stage::During)) = workload.beside {
            let (needs, frees) = job.devices;
            taken += needs.saturating_sub(free);
            free = free.saturating_sub(needs) + frees;
        }
    }
    taken
}

/// Checks that a system has a file system if its workloads need one, and none if they make one.
fn check_file_system(experiment: &Experiment, spec: &SystemSpec) -> Result<(), String> {
    let has_one = has_file_system(spec) || file_system_on_host(experiment, spec).is_some();
    for workload in workloads_of(experiment, spec).filter(|_| !has_one) {
        let remedy = match workload.files().map(FilePlan::bytes_bare) {
            None | Some(Ok(_)) => continue,
            Some(Err(NotBare::NeedsFileSystem)) => {
                "needs a file system: give a folder, or have one made and mounted: `fs = \"ext4\"` \
                 in an experiment, --fs ext4 with bench"
            }
            Some(Err(NotBare::Grows)) => {
                "lets its files grow, and there is no file system: choose grow = \"no\" (--set \
                 grow=no with bench), give a folder, or have a file system made"
            }
        };
        return Err(format!("{} {remedy}", workload.name));
    }
    let makes_one = |workload: &&WorkloadSpec| matches!(workload.work, Work::Newfs(_));
    let has_one = systems::kind_of(&spec.target).name == "folder" || spec.mounting.is_some();
    let made_again = workloads_of(experiment, spec).find(makes_one);
    if let Some(newfs) = made_again.filter(|_| has_one) {
        return Err(format!(
            "{} makes a file system, and there is one already: leave out `fs` (--fs), or name \
             other systems in the workload's `systems`",
            newfs.name
        ));
    }
    Ok(())
}

/// Checks the number of members, and that the experiment may overwrite them.
fn check_members(experiment: &Experiment, most: usize, force: bool) -> Result<(), RunError> {
    if let Members::Devices(paths) = &experiment.members {
        if paths.len() < most {
            let what = format!(
                "`members` has {} and a system needs {most}: list more devices in `members`, or \
                 ask for smaller arrays",
                counted(paths.len(), "device")
            );
            return Err(wrong(experiment, None, what));
        }
        if most > 0 && !force {
            for path in paths {
                is_there(path).map_err(|what| wrong(experiment, None, what))?;
            }
            let all = paths.join(", ");
            let what =
                format!("the contents of {all} would be lost: use --force to overwrite them");
            return Err(wrong(experiment, None, what));
        }
    }
    Ok(())
}

/// Checks that fio accepts the options of its workloads.
fn ask_fio(experiment: &Experiment) -> Result<(), RunError> {
    for spec in &experiment.workloads {
        let Work::Fio(work) = &spec.work else {
            continue;
        };
        let why = match fio::ask(work) {
            Ok(()) => continue,
            // The nodes' own fio runs it.
            Err(Refusal::NotThere(_)) if spec.on_nodes.is_some() => continue,
            Err(Refusal::NotThere(why) | Refusal::Option(why)) => why,
        };
        let what = format!("workload \"{}\": {why}", spec.name);
        return Err(wrong(experiment, Some(spec.line), what));
    }
    Ok(())
}

/// Returns true if a program needs a system as a block device of the kernel.
pub(crate) fn is_exported(experiment: &Experiment, spec: &SystemSpec) -> bool {
    device_of_kernel_for(spec, workloads_of(experiment, spec)).is_some()
}

/// Returns what needs a system as a block device of the kernel, in words.
fn device_of_kernel_for<'a>(
    spec: &SystemSpec,
    mut workloads: impl Iterator<Item = &'a WorkloadSpec>,
) -> Option<String> {
    if let Some(mounting) = &spec.mounting {
        return Some(format!("a file system ({})", mounting.kind.name));
    }
    if spec
        .commands
        .as_ref()
        .is_some_and(|commands| commands.members > 0)
    {
        return Some("`up`".to_owned());
    }
    if spec.modelled_fs.is_some() {
        return None;
    }
    let tool = workloads.find(|workload| {
        workload.on_nodes.is_none() && matches!(workload.work, Work::Newfs(_) | Work::Fio(_))
    });
    tool.map(|tool| tool.name.clone())
}

/// Returns true if a system, or the members of its commands, are in the memory of this process.
fn is_in_memory(spec: &SystemSpec, members: &Members) -> bool {
    match (&spec.commands, members) {
        (Some(_), Members::Fresh(_)) => true,
        (Some(_), Members::Files | Members::Devices(_) | Members::Modelled(_)) => false,
        (None, _) => !Subject::new(&spec.target, members).outlives,
    }
}

/// Returns true if a device or file that a system names is missing until its commands create it.
fn is_made_later(spec: &SystemSpec, name: &str) -> bool {
    spec.commands.is_some() && is_there(name).is_err()
}

/// Checks that a named device or file exists, before the user is asked to give up its contents.
fn is_there(name: &str) -> Result<(), String> {
    if !Backend::facts_of(name).is_path {
        return Ok(());
    }
    let there = fs::metadata(&*device_of(name)).map(drop);
    there.map_err(|error| format!("{name}: {error}: name a device or file that exists"))
}

/// Returns the size of the largest workload on blocks.
pub(crate) fn size_bytes(experiment: &Experiment) -> u64 {
    let workloads = experiment.workloads.iter();
    let bytes = workloads.filter_map(WorkloadSpec::block_bytes);
    bytes.max().unwrap_or(0)
}

/// The least size of members of an array with a stage. It leaves room for a stage of 8 MiB.
const STAGED_BYTES_MIN: u64 = 1 << 30;

/// Returns the size of each member that the lab creates.
pub(crate) fn member_bytes(experiment: &Experiment) -> u64 {
    let levels = LEVELS.iter().map(|level| level.chunk_bytes.into());
    let chunks = experiment
        .systems
        .iter()
        .filter_map(|spec| spec.chunk_bytes);
    let chunk_bytes = chunks.chain(levels).max().unwrap_or(0);
    let bytes = pool::member_bytes(
        needed_bytes(experiment, size_bytes(experiment)),
        chunk_bytes,
    );
    let has_stage = |spec: &SystemSpec| spec.write_back.is_some_and(|mode| mode != WriteBack::Off);
    let stages = experiment.systems.iter().any(has_stage);
    bytes.max(if stages { STAGED_BYTES_MIN } else { 0 })
}

/// Returns how much each member must hold: for workloads on blocks, for the files of workloads on
/// files, and for the file system around them.
fn needed_bytes(experiment: &Experiment, size_bytes: u64) -> u64 {
    /// For anything that a command creates.
    const COMMANDS_BYTES: u64 = 192 << 20;
    let needs = experiment.systems.iter().map(|spec| {
        let overhead_bytes = match (&spec.mounting, &spec.commands) {
            (Some(mounting), _) => mounting.kind.overhead_bytes,
            (None, Some(_)) => COMMANDS_BYTES,
            (None, None) => return bare_bytes(experiment, spec),
        };
        let workloads = experiment.workloads.iter();
        let files = workloads.map(|workload| file_bytes(experiment, workload));
        let files = files.max().unwrap_or(0);
        let most = files.max(size_bytes);
        most + most / 4 + overhead_bytes
    });
    needs.max().unwrap_or(0).max(size_bytes)
}

/// Returns how much a workload may write into a file system.
fn file_bytes(experiment: &Experiment, workload: &WorkloadSpec) -> u64 {
    let once = match &workload.work {
        Work::Files(plan) => {
            let plans = with_trial(experiment, plan);
            plans.iter().map(FilePlan::bytes).max().unwrap_or(0)
        }
        Work::Copy(plan) if plan.server() == Store::Disk => plan.file_bytes(),
        Work::Fio(work) => work.file_bytes(),
        Work::Copy(_) | Work::Blocks(_) | Work::Newfs(_) | Work::Replay(_) => 0,
    };
    // Nodes may write to a system of ours that they have mounted.
    once.saturating_mul(workload.nodes().max(1).into())
}

/// Returns how much of a system's blocks, from the start, is used by workloads directly.
pub(crate) fn bare_bytes(experiment: &Experiment, spec: &SystemSpec) -> u64 {
    let workloads = experiment.workloads.iter();
    let bytes = workloads.filter_map(|workload| bare_bytes_of(experiment, workload, spec));
    bytes.max().unwrap_or(0)
}

/// Returns how much of a system's blocks, from the start, a workload uses directly. `None` if it
/// works elsewhere: on another system, on files of a file system, or on each device by itself.
pub(crate) fn bare_bytes_of(
    experiment: &Experiment,
    workload: &WorkloadSpec,
    spec: &SystemSpec,
) -> Option<u64> {
    match &workload.work {
        _ if !workload.runs_on(workloads_as(spec)) || workload.on_nodes.is_some() => None,
        Work::Blocks(work) if work.on_one() => {
            let plan = work.kind.plan(&work.params(0, 1)).ok();
            plan.map(|plan| plan.size_bytes)
        }
        Work::Replay(work) => Some(work.needed_bytes()),
        Work::Files(plan) if !has_file_system(spec) => {
            let plans = with_trial(experiment, plan).into_iter();
            plans.filter_map(|plan| plan.bytes_bare().ok()).max()
        }
        // 0 if fio uses a share of the device: see `bare_share_percent`.
        Work::Fio(work) if !has_file_system(spec) => Some(work.file_bytes()),
        Work::Blocks(_) | Work::Files(_) | Work::Newfs(_) | Work::Fio(_) | Work::Copy(_) => None,
    }
}

/// Returns the largest share of the system's device that a workload of fio uses, such as that of
/// `size=50%`, in percent.
pub(crate) fn bare_share_percent(experiment: &Experiment, spec: &SystemSpec) -> u64 {
    let workloads = experiment.workloads.iter();
    let is_bare = |workload: &&WorkloadSpec| bare_bytes_of(experiment, workload, spec).is_some();
    let shares = workloads
        .filter(is_bare)
        .filter_map(|workload| match &workload.work {
            Work::Fio(work) => Some(work.share_percent()),
            _ => None,
        });
    shares.max().unwrap_or(0)
}

/// Returns a plan, and the largest plan that a trial derives from it.
fn with_trial(experiment: &Experiment, plan: &FilePlan) -> Vec<FilePlan> {
    let doubled = plan.with_actors(|actors| actors * 2);
    let doubled = doubled.filter(|_| experiment.confirm);
    std::iter::once(plan.clone()).chain(doubled).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Members have room for the data that fio uses, and it is written beforehand: never-written
    /// blocks are read without a disk.
    #[test]
    fn fio_data_is_allocated_and_written_beforehand() {
        let experiment = |size: &str, fs: &str| {
            let text = format!(
                "name = \"x\"\nsize = \"8M\"\n[[system]]\ntarget = \"raid5(3)\"\n{fs}\
                 [[workload]]\nkind = \"fio\"\n\
                 parameters = {{ rw = \"randread\", size = \"{size}\" }}\n"
            );
            Experiment::parse("x.toml", &text).unwrap()
        };
        let of_fio = |experiment: &Experiment| {
            bare_bytes_of(experiment, &experiment.workloads[0], &experiment.systems[0])
        };
        assert_eq!(of_fio(&experiment("32m", "")), Some(32 << 20));
        // On a file system, fio creates a file of its own.
        assert_eq!(of_fio(&experiment("32m", "fs = \"ext4\"\n")), None);
        let share =
            |experiment: &Experiment| bare_share_percent(experiment, &experiment.systems[0]);
        assert_eq!(share(&experiment("32m", "")), 0);
        assert_eq!(share(&experiment("50%", "")), 50);
        assert_eq!(share(&experiment("50%", "fs = \"ext4\"\n")), 0);
    }
}
