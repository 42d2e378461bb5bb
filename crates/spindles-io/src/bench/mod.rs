//! What `spindles bench` measures that is no workload.

pub mod engine;
pub mod parity;
