//! Modelled hosts and file systems. A [`Host`] takes actions on files with the moment at which they
//! begin, and returns block requests, processor time and waits. Files have sizes, places and dates,
//! but no contents. The caller carries the requests out and reports their answers: the crate knows
//! no disks, no arrays and no clock.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod block;
mod cache;
mod cpus;
mod effect;
mod error;
pub mod file_systems;
mod host;
mod intent_log;
mod machine;
mod stream;

pub use block::{Request, RequestId, RequestKind};
pub use error::HostError;
pub use host::{Begun, Host, lay_out, prepare};
pub use machine::Machine;
