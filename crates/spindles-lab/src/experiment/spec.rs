//! The values of a checked experiment: its systems and workloads.

use crate::experiment::fio::{FIO, FioWork};
use crate::experiment::jobs::Job;
use crate::experiment::replay::ReplayWork;
use crate::experiment::systems::{Commands, Members, ModelledFileSystem, Mounting};
use spindles_admin::write_back::WriteBack;
use spindles_block::SizeBytes;
use spindles_engine::{Policy, ReadPolicy};
use spindles_format::ChecksumKind;
use spindles_measure::Stage;
use spindles_model::Parameters;
use spindles_workload::file::{self, FilePlan};
use spindles_workload::network::CopyPlan;
use spindles_workload::{Kind, Params, Streams};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Settings of the command line that change an experiment file.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Factor for sizes and times; 1 leaves them unchanged.
    pub scale: f64,
    /// Seconds that timed workloads run.
    pub seconds: Option<u64>,
    /// Repetition blocks.
    pub blocks: Option<u32>,
    /// Most repetition blocks, if the runner goes on until intervals are narrow.
    pub blocks_max: Option<u32>,
    /// Names of nodes that replace those of the file; empty to keep the file's.
    pub nodes: Vec<String>,
    /// The command for ssh.
    pub ssh: Option<String>,
    /// The command that starts an agent on a node.
    pub agent: Option<String>,
    /// The address at which nodes reach this machine.
    pub listen: Option<IpAddr>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            scale: 1.0,
            seconds: None,
            blocks: None,
            blocks_max: None,
            nodes: Vec::new(),
            ssh: None,
            agent: None,
            listen: None,
        }
    }
}

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: `quickstart`.
    pub name: String,
    /// One sentence for the reader of the report.
    pub summary: String,
    /// The file or name it was read from.
    pub source: String,
    /// The text of the file.
    pub definition: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// How often every workload runs on every system, at least.
    pub blocks: u32,
    /// How often at most: the runner stops earlier once the interval of every headline ratio is
    /// narrow.
    pub blocks_max: u32,
    /// Operations before each timed window, not counted.
    pub warmup_operations: u32,
    /// True if the machine's caches are emptied before each phase on files, if permitted.
    pub empty_caches: bool,
    /// True if changes that would confirm the verdicts are tried after all blocks.
    pub confirm: bool,
    /// The smallest scale at which its figures are meaningful; `None` for any.
    pub scale_min: Option<f64>,
    /// A block that would end later than this is not begun.
    pub time_limit: Option<Duration>,
    /// How sizes are scaled below the workloads' definitions, in plain words; empty if they are
    /// not.
    pub scaled_how: String,
    /// The devices that systems are made of if their expressions count members.
    pub members: Members,
    /// The folder for files; `None` for the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// The systems in the order of the report.
    pub systems: Vec<SystemSpec>,
    /// Name of the system for comparison with all others.
    pub baseline: String,
    /// Weights of workloads for the reader, by name; empty if not stated.
    pub weights: BTreeMap<String, f64>,
    /// True if the baseline runs once more as another system (the A/A pair).
    pub control: bool,
    /// The workloads in the order in which they run.
    pub workloads: Vec<WorkloadSpec>,
    /// The machines that workloads on nodes run on.
    pub nodes: Option<Nodes>,
    /// Workloads that need more nodes than are given, and the remedy.
    pub left_out: Option<String>,
    /// Lines of job files and configurations that the lab ignores, and why.
    pub notes: Vec<String>,
}

/// One side of the comparison.
#[derive(Clone, Debug, Default)]
pub struct SystemSpec {
    /// Unique name.
    pub name: String,
    /// The kind of system: see [`KINDS`](crate::systems::targets::KINDS).
    pub target: String,
    /// Chunk of the array; `None` for the level's default.
    pub chunk_bytes: Option<u64>,
    /// Consistency policy after crashes; `None` for the level's default.
    pub consistency: Option<&'static Policy>,
    /// Checksum of blocks; `None` for the default of `create`.
    pub checksum: Option<ChecksumKind>,
    /// A device or file for the journal of the array. The lab overwrites it.
    pub journal: Option<String>,
    /// The small writes that the array answers from a stage; `None` for the default of `create`.
    pub write_back: Option<WriteBack>,
    /// Rate guaranteed to jobs, in bytes of each member per second; `None` for the command line's.
    pub rebuild_rate: Option<u64>,
    /// Price, in the currency of the experiment.
    pub price: Option<f64>,
    /// Policy that selects the copy a mirror reads; `None` for the command line's.
    pub read_policy: Option<&'static ReadPolicy>,
    /// True if flushes are not sent to its members, to measure their cost.
    pub ignore_flushes: bool,
    /// True if a single disk is served as arrays are, when the kernel needs it as a device.
    pub is_served: bool,
    /// The file system that is made on it and mounted, if any.
    pub mounting: Option<Mounting>,
    /// The modelled file system on its modelled members, if any.
    pub modelled_fs: Option<ModelledFileSystem>,
    /// The modelled controller between the host and the target, if any.
    pub controller: Option<Arc<Parameters>>,
    /// The modelled costs of the array's software, if other than the host's.
    pub software: Option<Arc<Parameters>>,
    /// Commands that set up and tear down the system, if the lab does not create it.
    pub commands: Option<Commands>,
    /// Name of the system that it is compared with besides the baseline of the experiment.
    pub baseline: Option<String>,
    /// Its line in the file.
    pub line: usize,
}

/// One workload with its choices.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// Unique name.
    pub name: String,
    /// The work to run.
    pub work: Work,
    /// The systems to run on; `None` for all.
    pub systems: Option<Vec<String>>,
    /// The job during which it runs, and the stage.
    pub beside: Option<(&'static Job, Stage)>,
    /// The nodes it runs on; `None` if it runs here.
    pub on_nodes: Option<OnNodes>,
    /// Its line in the file; 0 without a file.
    pub line: usize,
}

/// The work of a workload.
#[derive(Clone, Debug)]
pub enum Work {
    /// Reads and writes blocks.
    Blocks(BlockWork),
    /// Works on files in a folder.
    Files(FilePlan),
    /// Makes a file system on the whole system: this program with these arguments, then the device.
    Newfs(Vec<String>),
    /// Runs fio.
    Fio(FioWork),
    /// Replays a trace on blocks.
    Replay(ReplayWork),
    /// Copies files between this machine and nodes.
    Copy(CopyPlan),
}

/// The name of the workload that makes a file system.
pub const NEWFS: &str = "newfs";

/// The workloads that run another program: names and descriptions.
pub static TOOLS: [(&str, &str); 2] = [
    (
        NEWFS,
        "the time that your own program takes to make a file system on the whole system",
    ),
    (
        FIO,
        "fio with any of its options, on the whole system or on a file",
    ),
];

/// A workload on blocks with its choices.
#[derive(Clone, Copy, Debug)]
pub struct BlockWork {
    /// The kind of workload.
    pub kind: &'static Kind,
    /// Bytes of the system that it works on.
    pub size_bytes: u64,
    /// Size of one operation; `None` for the kind's own.
    pub chunk_bytes: Option<u32>,
    /// Operations in flight; `None` for the kind's own.
    pub in_flight: Option<u32>,
    /// Operations in all; `None` for the kind's own.
    pub operations: Option<u64>,
    /// Percentage of reads; `None` for the kind's own.
    pub read_percent: Option<u32>,
    /// Seconds to run; `None` if it ends by its work.
    pub seconds: Option<u64>,
    /// Operations that arrive per second, whether or not earlier ones were answered. `None` if each
    /// actor issues its next operation after a reply.
    pub arrivals_per_s: Option<u64>,
    /// The window begins with the stage in its steady state.
    pub steady: bool,
}

impl BlockWork {
    /// Returns the parameters for one target, or for `streams` at once.
    pub fn params(&self, seed: u64, streams: u32) -> Params {
        Params {
            size_bytes: self.size_bytes,
            seed,
            streams,
            chunk_bytes: self.chunk_bytes,
            in_flight: self.in_flight,
            operations: self.operations,
            endless: self.seconds.is_some(),
            read_percent: self.read_percent,
        }
    }

    /// Returns true if it works on one target at a time.
    pub(crate) fn on_one(&self) -> bool {
        self.kind.streams == Streams::One
    }
}

impl WorkloadSpec {
    /// Returns its name in records, with the stage if it runs alongside a job.
    pub fn full_name(&self) -> String {
        match self.beside {
            None => self.name.clone(),
            Some((job, stage)) => format!("{} {} {}", self.name, stage.words(), job.name),
        }
    }

    /// Returns true if it runs on that system.
    pub fn runs_on(&self, system: &str) -> bool {
        let listed = |names: &Vec<String>| names.iter().any(|name| name == system);
        self.systems.as_ref().is_none_or(listed)
    }

    /// Returns its work on blocks; `None` if it does other work.
    pub fn blocks(&self) -> Option<&BlockWork> {
        match &self.work {
            Work::Blocks(blocks) => Some(blocks),
            Work::Files(_) | Work::Newfs(_) | Work::Fio(_) | Work::Copy(_) | Work::Replay(_) => {
                None
            }
        }
    }

    /// Returns the bytes that it needs of a new system's blocks; `None` if it works on files.
    pub(crate) fn block_bytes(&self) -> Option<u64> {
        match &self.work {
            Work::Blocks(work) => Some(work.size_bytes),
            Work::Replay(work) => Some(work.needed_bytes()),
            Work::Files(_) | Work::Newfs(_) | Work::Fio(_) | Work::Copy(_) => None,
        }
    }

    /// Returns its work on files; `None` if it does other work.
    pub fn files(&self) -> Option<&FilePlan> {
        match &self.work {
            Work::Blocks(_) | Work::Newfs(_) | Work::Fio(_) | Work::Copy(_) | Work::Replay(_) => {
                None
            }
            Work::Files(plan) => Some(plan),
        }
    }

    /// Returns how many nodes it needs in addition to this machine.
    pub fn nodes(&self) -> u32 {
        match (&self.work, &self.on_nodes) {
            (Work::Copy(plan), _) => plan.nodes(),
            (_, Some(on)) => on.count,
            (_, None) => 0,
        }
    }

    /// Returns true if it writes to the system.
    pub(crate) fn writes(&self) -> bool {
        self.beside.is_some()
            || match &self.work {
                Work::Blocks(work) => work.kind.writes,
                Work::Fio(work) => !work.only_reads(),
                Work::Replay(work) => work.changes(),
                Work::Files(_) | Work::Newfs(_) | Work::Copy(_) => true,
            }
    }
}

impl Experiment {
    /// Creates an experiment of one workload on one system, without a comparison, for `bench`.
    pub fn of_one(target: &str, workload: WorkloadSpec, chunk_bytes: Option<u64>) -> Self {
        Self {
            name: "bench".to_owned(),
            summary: format!("{} on {target}", workload.name),
            source: "bench".to_owned(),
            definition: String::new(),
            seed: 1,
            blocks: 5,
            blocks_max: 5,
            warmup_operations: 16,
            empty_caches: true,
            confirm: false,
            scale_min: None,
            time_limit: None,
            scaled_how: String::new(),
            members: Members::Files,
            folder: None,
            systems: vec![SystemSpec {
                name: target.to_owned(),
                target: target.to_owned(),
                chunk_bytes,
                ..SystemSpec::default()
            }],
            baseline: target.to_owned(),
            weights: BTreeMap::new(),
            control: false,
            workloads: vec![workload],
            nodes: None,
            left_out: None,
            notes: Vec::new(),
        }
    }
}

/// The machines that workloads on nodes run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Destinations of ssh. A workload takes as many as it needs, from the first.
    pub names: Vec<String>,
    /// The command for ssh, with its options: `ssh -p 2222`.
    pub ssh: String,
    /// The command that starts an agent on a node, if not the default of the run.
    pub agent: Option<String>,
    /// The address at which nodes reach this machine; `None` for the one from which ssh comes.
    pub listen: Option<IpAddr>,
}

/// A workload on nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnNodes {
    /// The number of nodes.
    pub count: u32,
    /// The device that fio runs on at each node; `None` for a file in the agent's folder.
    pub device: Option<String>,
}

/// A mistake in an experiment file: its place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentMistake {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub what: String,
}

/// All mistakes in an experiment file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError {
    /// The file.
    pub file: String,
    /// At least one.
    pub mistakes: Vec<ExperimentMistake>,
}

impl std::error::Error for ExperimentError {}

impl fmt::Display for ExperimentError {
    /// Writes a line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, ExperimentMistake { line, what }) in self.mistakes.iter().enumerate() {
            let end = if number > 0 { "\n" } else { "" };
            write!(f, "{end}{}, line {line}: {what}", self.file)?;
        }
        Ok(())
    }
}

/// Parses the value of a parameter: a number or size, or else a word.
pub fn parameter_of(text: &str) -> file::Value {
    match text.parse::<SizeBytes>() {
        Ok(size) => file::Value::Number(size.0),
        Err(_) => file::Value::Word(text.to_owned()),
    }
}
