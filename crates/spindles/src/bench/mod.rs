//! The measurements of `spindles bench` that run no workload.

pub(crate) mod engine;
pub(crate) mod parity;
