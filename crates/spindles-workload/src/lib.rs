//! Workloads as seeded state machines: they emit operations on a target and take completions. They
//! hold no clock, do no I/O and count nothing; the driver does.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod file;
pub mod history;
mod issue;
pub mod kinds;
pub mod network;
mod on;
mod plan;
mod random;
pub mod replay;
mod sequential;
pub mod stamp;
mod stream;
pub mod trace;

pub use issue::{BlockWorkload, Issue, Next};
pub use kinds::{KINDS, by_name};
pub use on::{On, workload, workloads};
pub use plan::{Counted, IN_FLIGHT_MAX, Kind, Params, Plan, PlanError, STREAMS_MAX, Streams};
