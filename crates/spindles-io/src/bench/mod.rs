//! What `spindles bench` measures beside workloads.

pub mod parity;
