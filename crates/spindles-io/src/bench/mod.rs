//! What `spindles bench` measures beside workloads.

pub mod engine;
pub mod parity;
