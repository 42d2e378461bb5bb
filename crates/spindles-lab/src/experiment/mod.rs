//! Experiments as values: systems × workloads × repetition blocks, read from TOML. Nothing here
//! opens a device or starts a program.

pub(crate) mod addresses;
pub mod archive;
pub(crate) mod fio;
pub mod jobs;
mod read;
pub mod replay;
mod spec;
pub(crate) mod systems;
pub mod trace;

pub use spec::{
    BlockWork, Experiment, ExperimentError, ExperimentMistake, NEWFS, Nodes, OnNodes, SystemSpec,
    TOOLS, Tuning, Work, WorkloadSpec, parameter_of,
};
