//! The lab: experiments, their systems, the runner, and the environment of a run. It only makes
//! records; other crates analyse them.
//!
//! A room imports only earlier rooms: `machine`, `experiment`, `systems`, `measure`, `nodes`,
//! `run`.

#![forbid(unsafe_code)]

pub mod builtin;
mod experiment;
mod machine;
mod measure;
pub mod nodes;
mod run;
mod systems;

pub use experiment::fio::{FIO, FioWork};
pub use experiment::replay;
pub use experiment::systems::modelled::{
    Draws, Modelled, ModelledLink, load_controller, load_host, load_software,
};
pub use experiment::systems::{Members, ModelledFileSystem};
pub use experiment::trace as traces;
pub use experiment::{
    BlockWork, Experiment, ExperimentError, ExperimentMistake, NEWFS, Nodes, OnNodes, SystemSpec,
    TOOLS, Tuning, Work, WorkloadSpec, archive, jobs, parameter_of,
};
pub use run::{
    DryRun, Ending, Loss, Observer, Options, Outcome, Progress, RECORDS_FILE, RESULTS_FOLDER,
    RecordsError, RecordsFile, RunError, RunState, STATE_FILE, default_folder, dry_run, load, run,
    run_state, typed,
};
pub use systems::scratch::remove_all;
pub use systems::targets;

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_lab;
#[cfg(test)]
#[path = "../tests/lab.rs"]
mod public;
