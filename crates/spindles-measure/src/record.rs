//! The records of an experiment, one JSON object a line, each with the version
//! of the schema. Everything a report says is drawn from these lines alone.
//!
//! A file starts with one `experiment` and one `environment` line; a `run` line
//! follows for each system × workload × repetition block, in the order they ran, and a `discard` line where
//! the check of a system at the end of a block takes its runs back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::verdicts::Intervention;
use crate::work;
use crate::{Calibration, Evidence, Histogram, LateMember, Series};

/// Version of the schema. Grows when a field changes its meaning; a new field
/// with a default does not change it.
pub const SCHEMA: u32 = 1;

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// What was to be measured.
    Experiment(Experiment),
    /// Where it was measured.
    Environment(Environment),
    /// What the parts can do by themselves.
    Calibration(Box<Calibration>),
    /// One workload once on one system.
    Run(Box<Run>),
    /// Runs of a system that count for nothing after all.
    Discard(Discard),
}

/// What was to be measured: written once, before the first run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Experiment {
    /// Name of the experiment: `quickstart`.
    pub name: String,
    /// One sentence for the reader of the report.
    pub summary: String,
    /// Seed of every random choice of the experiment.
    pub seed: u64,
    /// When it began, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Repetition blocks asked for.
    pub repetition_blocks: u32,
    /// Name of the system all others are compared with: the single disk.
    pub baseline: String,
    /// Name of the system that is the baseline once more (the A/A pair), if any.
    pub control: Option<String>,
    /// The systems, in the order a reader wants to see them.
    pub systems: Vec<System>,
    /// The workloads, in the order a reader wants to see them.
    pub workloads: Vec<Workload>,
    /// Whether sizes are smaller than the workloads define them.
    pub scaled: bool,
    /// How sizes were scaled, in plain words. Empty when they were not.
    pub scaled_how: String,
    /// Whether all members of the arrays share one physical device.
    pub shared_device: bool,
    /// The experiment file, as it was read.
    pub definition: String,
    /// How much workloads matter to who asks, by name: any positive numbers. Empty: not stated.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, f64>,
}

impl Experiment {
    /// Runs of a repetition block that is whole.
    pub fn runs_per_block(&self) -> usize {
        let on = |workload: &Workload| {
            let systems = self.systems.iter();
            systems
                .filter(|it| self.runs_on(workload, &it.name))
                .count()
        };
        self.workloads_that_run().map(on).sum()
    }

    /// Whether a workload runs on the system of this name. The control runs what the baseline runs.
    pub(crate) fn runs_on(&self, workload: &Workload, system: &str) -> bool {
        let name = match &self.control {
            Some(control) if control == system => &self.baseline,
            _ => system,
        };
        workload.systems.is_empty() || workload.systems.iter().any(|it| it == name)
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct System {
    /// Short name, unique in the experiment: `raid5`.
    pub name: String,
    /// The array expression: `raid5(a,b,c,d)`.
    pub expression: String,
    /// Level of the outermost array; `single` for one device without an array, `made by commands` for what
    /// commands of the user made of several.
    pub level: String,
    /// Devices that it is made of, those of inner arrays too; 1 for one device without an array.
    pub members: u32,
    /// Chunk size in bytes; 0 where there is none.
    pub chunk_bytes: u64,
    /// Bytes the system offers.
    pub capacity_bytes: u64,
    /// How many of these devices may be missing, whichever they are; 0 where that is not known.
    pub survives: u32,
    /// Members that were missing while measuring.
    pub missing: u32,
    /// What was chosen beside that, by name: `consistency`, `checksum`, `journal`, `rebuild rate`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Name of the system that it is compared with besides the baseline of the experiment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// What it costs, in the currency of the experiment: the same for all systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

impl System {
    /// The level of what commands of the user made of several members.
    pub const OF_COMMANDS: &str = "made by commands";
    /// The level of a device that the kernel makes of several: md, LVM.
    pub const OF_KERNEL: &str = "made by the kernel";
    /// The level of a folder of which the kernel does not say on which disk it lies: of a network file system.
    pub const FOLDER: &str = "folder";
    /// The option that holds how a folder was found mounted: `ext4 rw,relatime; rw`. The experiment did not choose it.
    pub const MOUNTED: &str = "mounted";

    /// The option that holds how the kernel reaches a system that it has as a device: `FUSE and a loop device`.
    pub const THROUGH: &str = "through";
    /// The option that holds the device of the journal.
    pub const JOURNAL: &str = "journal";

    /// The device that it has for its journal alone.
    pub fn journal(&self) -> Option<&str> {
        self.options.get(Self::JOURNAL).map(String::as_str)
    }

    /// Whether it is a folder: on which disk it lies is not known.
    pub fn is_folder(&self) -> bool {
        self.expression.starts_with("folder:") || self.options.contains_key(Self::MOUNTED)
    }

    /// How many members may be missing, whichever they are; `None` where only those know who made it.
    pub fn known_to_survive(&self) -> Option<u32> {
        (![Self::OF_COMMANDS, Self::OF_KERNEL, Self::FOLDER].contains(&&*self.level))
            .then_some(self.survives)
    }
}

/// What was run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Short name, unique in the experiment: `dd-read`.
    pub name: String,
    /// One sentence for the reader: `reads 1 MiB after 1 MiB, one at a time`.
    pub summary: String,
    /// Which row of the table of workloads it is: `dd-read`. Empty: unknown.
    pub kind: String,
    /// How much of the system it works on; 0: unknown.
    pub size_bytes: u64,
    /// Size of one operation; 0: unknown.
    pub operation_bytes: u64,
    /// Operations on one target; 0: unknown.
    pub operations: u64,
    /// What its result is counted in.
    pub rate: Rate,
    /// Highest number of requests in flight at once.
    pub in_flight_max: u32,
    /// Names of the systems it runs on, the control aside, which runs what the baseline does; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// The job of the array that it runs beside, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// The phase that it is, of a workload that has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Names of the phases whose runs it is drawn from, together: such a total never ran itself, and no record has it.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<String>,
    /// How long it runs, in nanoseconds; 0: until its work is done.
    #[serde(skip_serializing_if = "is_zero")]
    pub duration_ns: u64,
    /// Operations that come each second whether or not earlier ones were answered (an open loop);
    /// 0: each waits for an answer (a closed loop).
    #[serde(skip_serializing_if = "is_zero")]
    pub arrivals_per_s: u64,
    /// Whatever else was chosen, by name: `nfiles`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A phase of a workload that has several: each is recorded as a run of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// What the whole workload is called: `bonnie`.
    pub workload: String,
    /// What the phase is called: `rewrite`.
    pub phase: String,
}

/// What a workload that runs beside a job is to that job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Beside {
    /// The job: `rebuild`.
    pub job: String,
    /// When it runs.
    pub stage: Stage,
    /// What the workload is called at all its stages.
    pub workload: String,
}

/// When a workload runs that runs beside a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Before the job begins.
    #[default]
    Before,
    /// While it is under way.
    During,
    /// After its end.
    After,
}

impl Stage {
    /// All of them, as time passes.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

/// What a job did beside a workload, and from then on by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobShare {
    /// Bytes of the array gone through beside the workload, of those that workloads work on: what was
    /// never written is passed over.
    pub beside_bytes: u64,
    /// How long that took.
    pub beside_ns: u64,
    /// Bytes of the array gone through while nobody asked for anything.
    pub alone_bytes: u64,
    /// How long that took.
    pub alone_ns: u64,
}

/// What a workload's result is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Bytes of the application per second.
    #[default]
    Bytes,
    /// Operations per second, such as seeks.
    Operations,
}

/// Where it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of Spindles.
    pub tool_version: String,
    /// Commit it was built from, if known.
    pub commit: String,
    /// `release` or `debug`.
    pub profile: String,
    /// Operating system and its version.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu_model: String,
    /// Logical CPUs the program may use.
    pub cpus: u32,
    /// Frequency governor, if known.
    pub governor: String,
    /// Hypervisor or container, if known: `kvm`.
    pub virtualization: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory available when the experiment began, in bytes.
    pub memory_available_bytes: u64,
    /// File system of the members: `ext4`. Empty for raw devices.
    pub file_system: String,
    /// Its mount options.
    pub mount_options: String,
    /// Resolution of the clock that timed the runs.
    pub clock_resolution_ns: u64,
    /// The physical devices beneath the members.
    pub devices: Vec<Device>,
    /// Whatever else is worth keeping, by name.
    pub more: BTreeMap<String, String>,
}

/// A physical device beneath the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Kernel name: `nvme0n1`.
    pub name: String,
    /// Model, if known.
    pub model: String,
    /// Serial number, if known.
    pub serial: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it spins.
    pub rotational: bool,
    /// I/O scheduler, if known.
    pub scheduler: String,
    /// Logical sector in bytes.
    pub sector_bytes: u32,
}

/// One workload once on one system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Name of the experiment.
    pub experiment: String,
    /// The system it ran on.
    pub system: System,
    /// What ran.
    pub workload: Workload,
    /// Repetition block: 0, 1, 2 … Every system runs each workload once per block.
    pub repetition_block: u32,
    /// Place among all runs of the experiment: 0, 1, 2 … as time passed.
    pub order: u32,
    /// Seed of this run.
    pub seed: u64,
    /// When it began, milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Wall time of the timed window, the last flush included.
    pub elapsed_ns: u64,
    /// Parts of the timed window, in order. May be empty.
    pub phases: Vec<Phase>,
    /// Operations completed in the timed window.
    pub operations: u64,
    /// What the rate counts, in bytes or operations as the workload's `rate` says: a rewrite
    /// counts its size once though the bytes move twice, a seek counts once though some are
    /// written back.
    pub counted: u64,
    /// Bytes the workload moved.
    pub application: Traffic,
    /// Bytes the members moved, all together, and the device that an array has for its journal.
    pub members: Traffic,
    /// Bytes each of them moved, in the order of the expression. May be empty.
    pub each_member: Vec<Traffic>,
    /// Members that answered late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_members: Vec<LateMember>,
    /// Bytes the physical devices moved by the kernel's own counters, where they can be read.
    pub devices: Option<Traffic>,
    /// Latency per operation in nanoseconds from submission to answer:
    /// `read`, `write`, `flush` …
    pub latency: BTreeMap<String, Histogram>,
    /// The same from the moment at which an operation was to begin, where it did not wait for an
    /// earlier one to be answered (an open loop).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub response: BTreeMap<String, Histogram>,
    /// What happened as time passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// What was seen of the machine meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// CPU time spent in the timed window.
    pub cpu_ns: Cpu,
    /// What the job did beside which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobShare>,
    /// What each of the nodes did that it ran on, where it ran on others than this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRun>,
    /// Jain's fairness index of their rates: 1 where all had the same, 1/n where one had it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// How the members were reached.
    pub io: Io,
    /// Whether sizes are smaller than the workload defines them.
    pub scaled: bool,
    /// Whether all members share one physical device.
    pub shared_device: bool,
    /// Set when it was run to confirm a verdict: it counts in no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// What the runner found doubtful about this run.
    pub doubts: Vec<Doubt>,
    /// Set when the run did not finish: why. Its figures are then not used.
    pub failed: Option<String>,
}

/// What was measured on a system in a repetition block counts for nothing: after its last run it was found
/// damaged. Its runs were recorded before, as they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Discard {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the system.
    pub system: String,
    /// Repetition block.
    pub repetition_block: u32,
    /// What is wrong: for analysis its runs failed with this reason.
    pub why: String,
}

/// A run of a pair that was to confirm a verdict: one as it was, one with a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The workload of the verdict. With the change the run's own may differ from it.
    pub of: String,
    /// The change.
    pub change: Intervention,
    /// The pair: 0, 1, 2 …
    pub pair: u32,
    /// Whether it is the one with the change.
    pub changed: bool,
}

impl Run {
    /// The workload whose verdict the run was to confirm; its own where it was no trial.
    pub(crate) fn workload_of_trial(&self) -> &str {
        let of = self.trial.as_ref().map(|trial| &trial.of);
        of.unwrap_or(&self.workload.name)
    }

    /// The result: bytes or operations per second, as the workload's `rate` says. 0 when
    /// nothing was timed.
    pub fn per_second(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        crate::histogram::to_f64(self.counted) * 1e9 / crate::histogram::to_f64(self.elapsed_ns)
    }

    /// Whether it finished and has a result: others count nowhere.
    pub(crate) fn counts(&self) -> bool {
        self.failed.is_none() && self.per_second() > 0.0
    }
}

/// What one node did of a run on several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRun {
    /// Its address: `10.0.0.2:7117`.
    pub name: String,
    /// When it began, from the begin of the first.
    pub begin_ns: u64,
    /// How far off that may be: half of the fastest round trip by which its clock was compared.
    pub begin_uncertainty_ns: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// Operations completed.
    pub operations: u64,
    /// What its rate counts, see [`Run::counted`].
    pub counted: u64,
    /// Bytes moved by the workload.
    pub bytes: Traffic,
    /// Latency per operation, see [`Run::latency`].
    pub latency: BTreeMap<String, Histogram>,
    /// CPUs that it has.
    pub cpus: u32,
    /// CPU time on it; no array is there.
    pub cpu_ns: Cpu,
}

impl NodeRun {
    /// Its result: bytes or operations per second, as the workload's `rate` says. 0 when nothing was timed.
    pub fn per_second(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        crate::histogram::to_f64(self.counted) * 1e9 / crate::histogram::to_f64(self.elapsed_ns)
    }
}

/// A part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phase {
    /// Name: `stream 0`, `flush`.
    pub name: String,
    /// When it began, from the start of the timed window.
    pub begin_ns: u64,
    /// How long it took.
    pub elapsed_ns: u64,
    /// Operations completed in it.
    pub operations: u64,
    /// Bytes moved in it by the workload.
    pub bytes: u64,
}

/// Bytes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Traffic {
    /// Bytes in both directions.
    pub fn total(self) -> u64 {
        self.read.saturating_add(self.written)
    }
}

/// CPU time of the timed window in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Making requests and checking answers.
    pub workload: u64,
    /// The array: planning, parity, submitting member I/O, including the kernel on its behalf.
    pub engine: u64,
    /// The whole machine busy, all CPUs, *including* the two above.
    pub machine: u64,
}

impl Cpu {
    /// What the machine was busy with beside the workload and the engine.
    pub fn rest(self) -> u64 {
        self.machine
            .saturating_sub(self.workload.saturating_add(self.engine))
    }
}

/// How the members were reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Io {
    /// Backend that ran: `io_uring`, `threads`, `mem`, `null`.
    pub backend: String,
    /// Whether the page cache was passed by (`O_DIRECT`).
    pub direct: bool,
}

/// A reason not to take a figure at face value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Doubt {
    /// Its kind, a row of the table of doubts: `few-blocks`.
    pub kind: String,
    /// The evidence, in plain words.
    pub detail: String,
}

/// Why records could not be read. The line counts from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file is from a later version.
    #[error(
        "line {line}: records of schema {found}, this version of spindles reads schema {SCHEMA}: \
         use a newer spindles"
    )]
    Newer {
        /// Line.
        line: usize,
        /// Its schema.
        found: u64,
    },
    /// Not one of our records.
    #[error("line {line} is not a record of spindles: {reason}")]
    Malformed {
        /// Line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// One run twice, and not the same.
    #[error(
        "lines {first} and {line} are the same run ({what}) with different contents: one of them was changed; remove the \
         line that is not as it was measured"
    )]
    Differs {
        /// Line of the first.
        first: usize,
        /// Line of the second.
        line: usize,
        /// Which run.
        what: String,
    },
    /// Records of two experiments.
    #[error(
        "lines {first} and {line} are of different experiments ({what}), and figures of different work have no mean: put \
         the records of each in a file of its own, and hold them against each other with `spindles lab compare`"
    )]
    Mixed {
        /// Line of the first.
        first: usize,
        /// Line of the other.
        line: usize,
        /// What differs.
        what: String,
    },
}

#[derive(Serialize)]
struct Line<'a> {
    schema: u32,
    #[serde(flatten)]
    record: &'a Record,
}

/// The record as one line of JSON, with its newline.
pub fn to_line(record: &Record) -> String {
    let mut line = serde_json::to_string(&Line {
        schema: SCHEMA,
        record,
    })
    .expect("records hold strings, integers and maps with string keys");
    line.push('\n');
    line
}

/// All records of a file. A last line that was cut off (a run that was interrupted) is left
/// out, and a byte order mark before the first passed over.
///
/// # Errors
/// Anything else that is not a record, with its line; records of a later schema; a run that is there twice with different
/// contents.
pub fn from_lines(text: &str) -> Result<Vec<Record>, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let mut lines = Vec::new();
    let complete = text.ends_with('\n');
    let count = text.lines().count();
    for (index, content) in text.lines().enumerate() {
        let line = index + 1;
        if content.trim().is_empty() {
            continue;
        }
        match read_line(line, content) {
            Err(ReadError::Malformed { .. }) if line == count && !complete => {}
            read => {
                records.push(read?);
                lines.push(line);
            }
        }
    }
    check_runs(&records, &lines)?;
    check_work(&records, &lines)?;
    Ok(records)
}

/// Whether a run that is there several times is the same each time. Without the time at which they began it is not known
/// whether two are one.
fn check_runs(records: &[Record], lines: &[usize]) -> Result<(), ReadError> {
    let mut known = BTreeMap::new();
    for (record, &line) in records.iter().zip(lines) {
        let Record::Run(run) = record else { continue };
        let (system, workload) = (&*run.system.name, &*run.workload.name);
        let place = (run.repetition_block, run.order, run.trial.is_some());
        let identity = (run.started_unix_ms, run.seed, place, system, workload);
        let (first, same) = *known.entry(identity).or_insert((line, run));
        if run.started_unix_ms > 0 && same != run {
            let block = run.repetition_block.saturating_add(1);
            return Err(ReadError::Differs {
                first,
                line,
                what: format!("{system}, {workload}, block {block}"),
            });
        }
    }
    Ok(())
}

/// Whether all are of one experiment, so that what goes by one name can be averaged.
fn check_work(records: &[Record], lines: &[usize]) -> Result<(), ReadError> {
    let Some(mixture) = work::mixture(records) else {
        return Ok(());
    };
    let (first, second) = mixture.records;
    let differences = mixture.differences.iter();
    let words =
        differences.map(|it| format!("{}: {} {} and {}", it.of, it.what, it.before, it.after));
    Err(ReadError::Mixed {
        first: lines[first],
        line: lines[second],
        what: words.collect::<Vec<_>>().join("; "),
    })
}

fn read_line(line: usize, content: &str) -> Result<Record, ReadError> {
    let malformed = |reason: String| ReadError::Malformed { line, reason };
    let value: serde_json::Value =
        serde_json::from_str(content).map_err(|error| malformed(error.to_string()))?;
    let schema = value.get("schema").and_then(serde_json::Value::as_u64);
    match schema {
        Some(found) if found > u64::from(SCHEMA) => Err(ReadError::Newer { line, found }),
        Some(_) => serde_json::from_value(value).map_err(|error| malformed(error.to_string())),
        None => Err(malformed("it has no \"schema\"".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let mut latency = Histogram::new();
        for value in [1, 900, 1_000_000, u64::MAX] {
            latency.record(value);
        }
        Run {
            experiment: "quickstart".to_owned(),
            elapsed_ns: u64::MAX,
            latency: BTreeMap::from([("read".to_owned(), latency)]),
            devices: Some(Traffic {
                read: 1,
                written: 2,
            }),
            doubts: vec![Doubt {
                kind: "scaled".to_owned(),
                detail: "é \"x\"\n".to_owned(),
            }],
            ..Run::default()
        }
    }

    #[test]
    fn records_survive_a_round_trip() {
        let records = vec![
            Record::Experiment(Experiment {
                name: "q".to_owned(),
                ..Experiment::default()
            }),
            Record::Environment(Environment {
                cpus: 2,
                ..Environment::default()
            }),
            Record::Run(Box::new(run())),
        ];
        let text: String = records.iter().map(to_line).collect();
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.lines()
                .all(|line| line.starts_with("{\"schema\":1,\"record\":\""))
        );
        assert_eq!(from_lines(&text), Ok(records));
    }

    #[test]
    fn the_rate_is_what_is_counted_over_the_timed_window() {
        let run = Run {
            counted: 3 << 20,
            elapsed_ns: 500_000_000,
            ..Run::default()
        };
        assert!((run.per_second() - 6_291_456.0).abs() < 1e-6);
        assert!(Run::default().per_second().abs() < f64::EPSILON);
    }

    #[test]
    fn a_line_cut_off_by_an_interruption_is_left_out() {
        let text = to_line(&Record::Run(Box::new(run())));
        let both = format!("{text}{}", &text[..text.len() / 2]);
        assert_eq!(from_lines(&both).unwrap().len(), 1);
        let broken_inside = format!("{}\n{text}", &text[..text.len() / 2]);
        assert!(matches!(
            from_lines(&broken_inside),
            Err(ReadError::Malformed { line: 1, .. })
        ));
    }

    /// Editors of another system put one there.
    #[test]
    fn a_byte_order_mark_is_passed_over() {
        let text = to_line(&Record::Run(Box::new(run())));
        assert_eq!(from_lines(&format!("\u{feff}{text}")), from_lines(&text));
        let inside = format!("{text}\u{feff}{text}");
        assert!(from_lines(&inside).is_err());
    }

    #[test]
    fn a_run_that_is_there_twice_and_not_the_same_is_refused() {
        let record = |began: u64, elapsed_ns: u64| {
            to_line(&Record::Run(Box::new(Run {
                started_unix_ms: began,
                elapsed_ns,
                ..run()
            })))
        };
        let read = |lines: &[String]| from_lines(&lines.concat());
        let error = read(&[record(5, 1), record(6, 1), record(5, 2)]).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("lines 1 and 3 are the same run (, , block 1)"),
            "{said}"
        );
        assert!(said.ends_with("remove the line that is not as it was measured"));
        // The same once more is no other run, and without a time it is not known.
        assert_eq!(read(&[record(5, 1), record(5, 1)]).unwrap().len(), 2);
        assert_eq!(read(&[record(0, 1), record(0, 2)]).unwrap().len(), 2);
    }

    #[test]
    fn fields_of_later_versions_of_the_same_schema_are_passed_over() {
        let text = "{\"schema\":1,\"record\":\"run\",\"elapsed_ns\":7,\"new_field\":[1]}\n";
        let records = from_lines(text).unwrap();
        assert!(matches!(&records[..], [Record::Run(run)] if run.elapsed_ns == 7));
    }

    #[test]
    fn a_later_schema_is_refused_with_the_remedy() {
        let error = from_lines("{\"schema\":2,\"record\":\"run\"}\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: records of schema 2, this version of spindles reads schema 1: \
             use a newer spindles"
        );
    }

    #[test]
    fn what_is_not_a_record_is_refused_with_its_line() {
        for (text, words) in [
            ("hello\n", "line 1 is not a record"),
            ("{\"a\":1}\n", "no \"schema\""),
            ("\n{\"schema\":1,\"record\":\"song\"}\n", "line 2"),
        ] {
            let error = from_lines(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
