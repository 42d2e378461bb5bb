//! Runs one workload on one system, and measures it. Knows neither repetitions nor comparisons.

mod arrivals;
pub(crate) mod execute;
pub(crate) mod failure;
pub(crate) mod files;
pub(crate) mod fill;
pub(crate) mod fio;
mod late;
pub(crate) mod measurement;
pub(crate) mod newfs;
pub(crate) mod recorder;
pub(crate) mod replay;
pub(crate) mod schedule;
mod staged;
pub(crate) mod tool;
