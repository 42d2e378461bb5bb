//! The array engine in virtual time: disk models, faults within a budget, checkers, and runs that
//! follow from one seed alone. No files, no sockets, no real time, no real randomness.

#![forbid(unsafe_code)]

mod arrays;
pub mod checkers;
mod client;
mod clock;
mod create;
mod decay;
mod devices;
pub mod disk;
pub mod disks;
pub mod enumerate;
pub mod faults;
pub mod grow;
mod log;
mod lost_writes;
mod media;
mod memory;
mod metadata_rot;
mod mishaps;
mod opening;
pub mod options;
pub mod planted;
pub mod queue;
pub mod random;
mod replacement;
mod run;
pub mod scrub;
mod session;
mod shrink;
pub mod sizes;
pub mod stack;
mod swarm;
pub mod trace;
pub mod truth;
pub mod world;

pub use log::Failure;
pub use options::{Ending, Options};
pub use run::{Outcome, run};
pub use shrink::shrink;
pub use swarm::Fixed;

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_sim;
#[cfg(test)]
#[path = "../tests/simulation.rs"]
mod public;
