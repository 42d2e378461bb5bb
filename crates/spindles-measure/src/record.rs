//! The records of an experiment. A report is derived from them alone.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::verdicts::Intervention;
use crate::{Calibration, Evidence, Histogram, LateMember, Rate, Series, Traffic};

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The experiment as planned.
    Experiment(Experiment),
    /// The machine that runs it.
    Environment(Environment),
    /// Limits of the single components.
    Calibration(Box<Calibration>),
    /// One execution of a workload on a system.
    Run(Box<Run>),
    /// Withdraws the runs of a system.
    Discard(Discard),
}

impl Record {
    /// Returns the run, if it is one.
    pub fn run(&self) -> Option<&Run> {
        match self {
            Self::Run(run) => Some(run),
            _ => None,
        }
    }

    /// Returns the run, if it is one.
    pub fn run_mut(&mut self) -> Option<&mut Run> {
        match self {
            Self::Run(run) => Some(run),
            _ => None,
        }
    }

    /// Returns the head of the experiment, if it is one.
    pub fn experiment_mut(&mut self) -> Option<&mut Experiment> {
        match self {
            Self::Experiment(experiment) => Some(experiment),
            _ => None,
        }
    }
}

/// The experiment as planned: written once, before the first run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Experiment {
    /// Name of the experiment: `quickstart`.
    pub name: String,
    /// Description in one sentence, for the report.
    pub summary: String,
    /// Seed of every random choice of the experiment.
    pub seed: u64,
    /// Start, in milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Number of repetition blocks planned.
    pub repetition_blocks: u32,
    /// Name of the baseline, to which every other system is compared: the single disk.
    pub baseline: String,
    /// Name of the system that is the baseline a second time (the A/A pair), if any.
    pub control: Option<String>,
    /// The systems, in the order of the report.
    pub systems: Vec<System>,
    /// The workloads, in the order of the report.
    pub workloads: Vec<Workload>,
    /// True if sizes are smaller than the workloads define.
    pub scaled: bool,
    /// How sizes were scaled, in plain words. Empty if they were not.
    pub scaled_how: String,
    /// True if all members of the arrays share one physical device.
    pub shared_device: bool,
    /// Text of the experiment file.
    pub definition: String,
    /// Importance of the workloads to the user, by name: any positive numbers. Empty if not stated.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, f64>,
}

impl Experiment {
    /// Number of runs in a complete repetition block.
    pub fn runs_per_block(&self) -> usize {
        let on = |workload: &Workload| {
            let systems = self.systems.iter();
            systems
                .filter(|system| self.runs_on(workload, &system.name))
                .count()
        };
        self.workloads_that_run().map(on).sum()
    }

    /// The workloads that run: all but totals.
    pub fn workloads_that_run(&self) -> impl Iterator<Item = &Workload> {
        self.workloads
            .iter()
            .filter(|workload| !workload.is_total())
    }

    /// Returns the total that includes a workload, if any.
    pub fn total_with(&self, workload: &str) -> Option<&Workload> {
        let mut totals = self.workloads.iter();
        totals.find(|total| total.together.iter().any(|name| name == workload))
    }

    /// Returns true if a workload runs on the system of this name. The control runs the baseline's
    /// workloads.
    pub(crate) fn runs_on(&self, workload: &Workload, system: &str) -> bool {
        let name = match &self.control {
            Some(control) if control == system => &self.baseline,
            _ => system,
        };
        workload.systems.is_empty() || workload.systems.iter().any(|system| system == name)
    }
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct System {
    /// Short name, unique in the experiment: `raid5`.
    pub name: String,
    /// The array expression: `raid5(a,b,c,d)`.
    pub expression: String,
    /// Level of the outermost array. `single` for one device without an array, `made by commands`
    /// for a device that user commands made of several.
    pub level: String,
    /// Number of devices, including those of inner arrays. 1 for one device without an array.
    pub members: u32,
    /// Chunk size in bytes. 0 for systems without chunks.
    pub chunk_bytes: u64,
    /// Usable capacity in bytes.
    pub capacity_bytes: u64,
    /// Number of these devices, in any combination, whose loss the system survives. 0 if unknown.
    pub survives: u32,
    /// Members that were missing during the measurement.
    pub missing: u32,
    /// Further options, by name: `consistency`, `checksum`, `journal`, `rebuild rate`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Name of a second baseline, in addition to the experiment's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Price, in the currency of the experiment, which is the same for all systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

impl System {
    /// Level of a device that user commands made of several members.
    pub const OF_COMMANDS: &str = "made by commands";
    /// Level of a device that the kernel made of several: md, LVM.
    pub const OF_KERNEL: &str = "made by the kernel";
    /// Level of a folder on an unknown disk, such as one of a network file system.
    pub const FOLDER: &str = "folder";
    /// Option with the mount of a folder as found: `ext4 rw,relatime; rw`. The experiment did not
    /// choose it.
    pub const MOUNTED: &str = "mounted";

    /// Option with the kernel's path to a system that is attached as a device: `FUSE and a loop
    /// device`.
    pub const THROUGH: &str = "through";
    /// Option with the device of the journal.
    pub const JOURNAL: &str = "journal";

    /// The device used only for its journal.
    pub fn journal(&self) -> Option<&str> {
        self.options.get(Self::JOURNAL).map(String::as_str)
    }

    /// Returns true if it is a folder, whose disk is unknown.
    pub fn is_folder(&self) -> bool {
        self.expression.starts_with("folder:") || self.options.contains_key(Self::MOUNTED)
    }

    /// Number of members, in any combination, whose loss it survives. `None` if only its maker
    /// knows.
    pub fn known_to_survive(&self) -> Option<u32> {
        (![Self::OF_COMMANDS, Self::OF_KERNEL, Self::FOLDER].contains(&&*self.level))
            .then_some(self.survives)
    }
}

/// A workload as it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(rename = "ReportedWorkload"))]
pub struct Workload {
    /// Short name, unique in the experiment: `dd-read`.
    pub name: String,
    /// Description in one sentence: `reads 1 MiB after 1 MiB, one at a time`.
    pub summary: String,
    /// Row in the table of workloads: `dd-read`. Empty if unknown.
    pub kind: String,
    /// Size of the part of the system that it uses. 0 if unknown.
    pub size_bytes: u64,
    /// Bytes per operation. 0 if unknown.
    pub operation_bytes: u64,
    /// Operations on one target. 0 if unknown.
    pub operations: u64,
    /// Unit of the result.
    pub rate: Rate,
    /// Highest number of requests in flight at the same time.
    pub in_flight_max: u32,
    /// Names of the systems it runs on; empty for all. The control is not listed: it runs the
    /// baseline's workloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// The job of the array that it runs next to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Its phase, if it is part of a workload with several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// Names of the phases that this total adds up. A total never ran itself, and no record
    /// contains it.
    #[serde(skip_deserializing, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<String>,
    /// Duration in nanoseconds. 0 if the workload runs to completion.
    #[serde(skip_serializing_if = "is_zero")]
    pub duration_ns: u64,
    /// Operations that arrive per second whether or not earlier ones were answered (an open loop).
    /// 0 if each waits for an answer (a closed loop).
    #[serde(skip_serializing_if = "is_zero")]
    pub arrivals_per_s: u64,
    /// Further parameters, by name: `nfiles`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

impl Workload {
    /// Returns true if it did not run itself, but is the total of several phases.
    pub fn is_total(&self) -> bool {
        !self.together.is_empty()
    }

    /// Name of the total of this phase and the one that finishes it. `None` if they belong to
    /// different workloads.
    pub fn name_of_total(&self, end: &Self) -> Option<String> {
        let (first, last) = (self.part.as_ref()?, end.part.as_ref()?);
        let name = format!("{} {} and {}", first.workload, first.phase, last.phase);
        (first.workload == last.workload).then_some(name)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
pub(crate) fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A phase of a workload with several. Every phase is recorded as a separate run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(rename = "PhaseOfWorkload"))]
pub struct Part {
    /// Name of the whole workload: `bonnie`.
    pub workload: String,
    /// Name of the phase: `rewrite`.
    pub phase: String,
}

/// Relation of a workload to the job that it runs next to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Beside {
    /// Name of the job: `rebuild`.
    pub job: String,
    /// Stage relative to the job.
    pub stage: Stage,
    /// Name of the workload, common to all stages.
    pub workload: String,
}

/// When a workload runs, relative to the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(rename = "StageOfJob"))]
pub enum Stage {
    /// Before the job begins.
    #[default]
    Before,
    /// While the job is running.
    During,
    /// After the job has ended.
    After,
}

impl Stage {
    /// All stages in order of time.
    pub const ALL: [Self; 3] = [Self::Before, Self::During, Self::After];

    /// The stage in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::After => "after",
        }
    }
}

/// Use of the stage from which an array answers small writes, in the timed window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Staging {
    /// Staged bytes at the begin.
    pub begin_bytes: u64,
    /// Staged bytes at the end.
    pub end_bytes: u64,
    /// Bytes written again before they were placed.
    pub absorbed_bytes: u64,
    /// Bytes placed.
    pub placed_bytes: u64,
    /// How long the stage was emptied before the window, in nanoseconds.
    pub drained_ns: u64,
}

impl Staging {
    /// The bytes by which the stage filled.
    pub fn grown_bytes(&self) -> u64 {
        self.end_bytes.saturating_sub(self.begin_bytes)
    }
}

/// Progress of a job next to a workload, and afterwards alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobShare {
    /// Bytes of the array processed next to the workload, within the part that workloads use.
    /// Blocks never written are skipped.
    pub beside_bytes: u64,
    /// Time spent next to the workload.
    pub beside_ns: u64,
    /// Bytes of the array processed while no workload ran.
    pub alone_bytes: u64,
    /// Time spent alone.
    pub alone_ns: u64,
}

/// The machine that ran the experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Environment {
    /// Version of Spindles.
    pub tool_version: String,
    /// Commit it was built from. Empty if unknown.
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
    /// Frequency governor. Empty if unknown.
    pub governor: String,
    /// Hypervisor or container, such as `kvm`. Empty if unknown.
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
    /// The physical devices that hold the members.
    pub devices: Vec<Device>,
    /// Further facts, by name.
    pub more: BTreeMap<String, String>,
}

/// A physical device that holds members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(rename = "DeviceOfMachine"))]
pub struct Device {
    /// Kernel name: `nvme0n1`.
    pub name: String,
    /// Model, if known.
    pub model: String,
    /// Serial number, if known.
    pub serial: String,
    /// Size in bytes.
    pub bytes: u64,
    /// True for a rotating disk.
    pub rotational: bool,
    /// I/O scheduler, if known.
    pub scheduler: String,
    /// Logical sector in bytes.
    pub sector_bytes: u32,
}

/// The model of the disks of a predicted run, and its draw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Predicted {
    /// The name of the model.
    pub model: String,
    /// The version of the crate of models.
    pub version: String,
    /// The seed of the draw.
    pub draw: u64,
    /// The drawn numbers by name, in the units of the model's file.
    pub numbers: BTreeMap<String, f64>,
    /// The drawn words of switches by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub switches: BTreeMap<String, String>,
    /// The names of the numbers and switches that are only assumed.
    pub assumed: Vec<String>,
    /// The name of the modelled host; empty without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// The name of the modelled file system; empty if the workload used none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file_system: String,
    /// The parts of that file system that are not modelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_modelled: Vec<String>,
    /// The part of the disks that is a tenth faster than drawn. Such a run counts in no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faster: Option<String>,
}

/// One execution of a workload on a system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Name of the experiment.
    pub experiment: String,
    /// The system it ran on.
    pub system: System,
    /// The workload that ran.
    pub workload: Workload,
    /// Repetition block: 0, 1, 2 … Every system runs each workload once per block.
    pub repetition_block: u32,
    /// Position among all runs of the experiment in order of time: 0, 1, 2 …
    pub order: u32,
    /// Random seed of the run.
    pub seed: u64,
    /// Start, in milliseconds since 1970 (UTC).
    pub started_unix_ms: u64,
    /// Wall time of the timed window, the last flush included.
    pub elapsed_ns: u64,
    /// Consecutive parts of the timed window. May be empty.
    pub phases: Vec<Phase>,
    /// Operations completed in the timed window.
    pub operations: u64,
    /// Amount that the rate counts, in bytes or operations according to the workload's `rate`. A
    /// rewrite counts its size once although the bytes move twice. A seek counts once although some
    /// are written back.
    pub counted: u64,
    /// Bytes the workload moved.
    pub application: Traffic,
    /// Bytes moved by all members together, including an array's journal device.
    pub members: Traffic,
    /// Bytes moved by each of them, in the order of the expression. May be empty.
    pub each_member: Vec<Traffic>,
    /// Members that answered late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_members: Vec<LateMember>,
    /// Use of the array's stage for small writes, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging: Option<Staging>,
    /// Bytes moved by the physical devices according to the kernel's counters. `None` if not
    /// readable.
    pub devices: Option<Traffic>,
    /// Latency of each kind of operation in nanoseconds, from submission to answer: `read`,
    /// `write`, `flush` …
    pub latency: BTreeMap<String, Histogram>,
    /// The same from the scheduled start of an operation, if operations did not wait for earlier
    /// answers (an open loop).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub response: BTreeMap<String, Histogram>,
    /// The run over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Observations of the machine during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// CPU time spent in the timed window.
    pub cpu_ns: Cpu,
    /// Progress of the job that it ran next to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobShare>,
    /// Results of each node, if it ran on other machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRun>,
    /// Jain's fairness index of the nodes' rates: 1 for equal rates, 1/n if one node did all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// Access path to the members.
    pub io: Io,
    /// True if sizes are smaller than the workload defines.
    pub scaled: bool,
    /// True if all members share one physical device.
    pub shared_device: bool,
    /// The model whose answers the run counts; `None` if devices were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
    /// Set if the run tests a verdict: it counts in no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
    /// Doubts that the runner recorded about this run.
    pub doubts: Vec<Doubt>,
    /// Reason why the run did not finish. Its figures are then ignored.
    pub failed: Option<String>,
}

/// Withdraws the results of a system in a repetition block, because it was found damaged after its
/// last run. The runs themselves were recorded before, as each ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Discard {
    /// Name of the experiment.
    pub experiment: String,
    /// Name of the system.
    pub system: String,
    /// Repetition block.
    pub repetition_block: u32,
    /// The damage. Analysis treats the runs as failed for this reason.
    pub why: String,
}

/// One run of a pair that tests a verdict: one unchanged, one with a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The workload that the verdict is about. With the change, the run's own workload may differ.
    pub of: String,
    /// The change.
    pub change: Intervention,
    /// Number of the pair: 0, 1, 2 …
    pub pair: u32,
    /// True for the run with the change.
    pub changed: bool,
}

impl Run {
    /// The workload whose verdict the run tests; its own if it is no trial.
    pub(crate) fn workload_of_trial(&self) -> &str {
        let of = self.trial.as_ref().map(|trial| &trial.of);
        of.unwrap_or(&self.workload.name)
    }

    /// The result: bytes or operations per second, according to the workload's `rate`. 0 if the
    /// timed window is empty.
    pub fn per_second(&self) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        crate::histogram::to_f64(self.counted) * 1e9 / crate::histogram::to_f64(self.elapsed_ns)
    }

    /// The part of modelled disks that is a tenth faster than drawn; `None` if none is.
    pub fn faster_part(&self) -> Option<&str> {
        self.predicted.as_ref()?.faster.as_deref()
    }

    /// Returns true if the run finished and has a result. Other runs count nowhere.
    pub(crate) fn counts(&self) -> bool {
        self.failed.is_none() && self.per_second() > 0.0
    }
}

/// Results of one node in a run on several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRun {
    /// The destination of ssh: `10.0.0.2`.
    pub name: String,
    /// Start, relative to the first node's.
    pub begin_ns: u64,
    /// Uncertainty of `begin_ns`: half of the fastest round trip in the comparison of clocks.
    pub begin_uncertainty_ns: u64,
    /// Duration.
    pub elapsed_ns: u64,
    /// Operations completed.
    pub operations: u64,
    /// Amount that its rate counts, see [`Run::counted`].
    pub counted: u64,
    /// Bytes moved by the workload.
    pub bytes: Traffic,
    /// Latency of each kind of operation, see [`Run::latency`].
    pub latency: BTreeMap<String, Histogram>,
    /// Number of CPUs.
    pub cpus: u32,
    /// CPU time on the node, where no array runs.
    pub cpu_ns: Cpu,
}

impl NodeRun {
    /// The result: bytes or operations per second, according to the workload's `rate`. 0 if the
    /// timed window is empty.
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
    /// Start, relative to the timed window's.
    pub begin_ns: u64,
    /// Duration.
    pub elapsed_ns: u64,
    /// Operations completed.
    pub operations: u64,
    /// Bytes moved by the workload.
    pub bytes: u64,
}

/// CPU time of the timed window in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Cpu {
    /// Issuing requests and checking answers.
    pub workload: u64,
    /// The array: planning, parity, submitting member I/O, including kernel time on its behalf.
    pub engine: u64,
    /// Busy time of the whole machine, all CPUs, *including* the two above.
    pub machine: u64,
}

impl Cpu {
    /// Busy time of the machine apart from the workload and the engine.
    pub fn rest(self) -> u64 {
        self.machine
            .saturating_sub(self.workload.saturating_add(self.engine))
    }
}

impl AddAssign for Cpu {
    fn add_assign(&mut self, more: Self) {
        self.workload = self.workload.saturating_add(more.workload);
        self.engine = self.engine.saturating_add(more.engine);
        self.machine = self.machine.saturating_add(more.machine);
    }
}

/// Access path to the members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Io {
    /// Backend used: `io_uring`, `threads`, `mem`, `null`.
    pub backend: String,
    /// True if the page cache was bypassed (`O_DIRECT`).
    pub direct: bool,
}

/// A reason not to take a figure at face value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Doubt {
    /// Its kind, an entry in the table of doubts: `few-blocks`.
    pub kind: String,
    /// The evidence, in plain words.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_count_per_timed_window() {
        let run = Run {
            counted: 3 << 20,
            elapsed_ns: 500_000_000,
            ..Run::default()
        };
        assert!((run.per_second() - 6_291_456.0).abs() < 1e-6);
        assert!(Run::default().per_second().abs() < f64::EPSILON);
    }
}
