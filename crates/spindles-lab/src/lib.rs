//! The lab: experiments, their systems, the runner, and the environment of a run. It only makes
//! records; other crates analyse them.

#![forbid(unsafe_code)]

pub mod archive;
mod arrays;
mod arrivals;
pub mod builtin;
mod caches;
mod calibrate;
mod claims;
mod clock;
mod described;
mod device_counters;
mod dry_run;
mod environment;
mod evidence;
mod execute;
mod experiment;
mod export;
mod failure;
mod files;
mod fill;
mod fio;
pub mod jobs;
mod kernel_text;
mod late;
mod left_over;
mod mounts;
mod newfs;
pub mod nodes;
mod own_counters;
mod pool;
mod preflight;
mod progress;
mod recorder;
mod records;
mod run_error;
mod runner;
mod schedule;
mod scratch;
mod systems;
pub mod targets;
mod tool;
mod undo;
mod whole;

pub use dry_run::{DryRun, Loss, dry_run};
pub use experiment::{
    BlockWork, Experiment, ExperimentError, ExperimentMistake, NEWFS, Nodes, OnNodes, SystemSpec,
    Tuning, Work, WorkloadSpec, parameter_of,
};
pub use fio::{FIO, FioWork};
pub use progress::{Ending, Progress, RECORDS_FILE, RunState, STATE_FILE, run_state};
pub use records::{RESULTS_FOLDER, RecordsError, RecordsFile, default_folder, load, typed};
pub use run_error::RunError;
pub use runner::{Observer, Options, Outcome, run};
pub use scratch::remove_all;
pub use systems::Members;
pub use tool::TOOLS;

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_lab;
#[cfg(test)]
#[path = "../tests/lab.rs"]
mod public;
