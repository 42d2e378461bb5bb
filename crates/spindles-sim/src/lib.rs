//! The array engine in virtual time: disk models, faults within a budget, checkers, and runs that
//! follow from one seed alone. No files, no sockets, no real time, no real randomness.

#![forbid(unsafe_code)]

pub mod checkers;
mod checksums;
mod client;
mod create;
pub mod disk;
pub mod disks;
pub mod enumerate;
pub mod faults;
pub mod grow;
mod journal_device;
mod log;
mod lost_writes;
pub mod maps;
mod media;
mod memory;
mod metadata_rot;
mod mishaps;
pub mod options;
mod places;
pub mod queue;
pub mod random;
pub mod regions;
mod replacement;
mod run;
pub mod scrub;
mod shrink;
pub mod sizes;
mod space;
pub mod stack;
mod stalls;
pub mod trace;
mod unlogged;
pub mod world;

pub use options::{Ending, Fixed, Options};
pub use run::{Outcome, run};
pub use shrink::shrink;
pub use world::Failure;
