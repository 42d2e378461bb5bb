//! The measurements of `spindles bench` that run no workload.

pub mod engine;
pub mod parity;
