//! The array engine in virtual time: disk models, faults within a budget, checkers, and runs that
//! follow from one seed alone. No files, no sockets, no real time, no real randomness.

#![forbid(unsafe_code)]

pub mod disk;
pub mod disks;
pub mod log;
pub mod queue;
pub mod random;
pub mod stack;
