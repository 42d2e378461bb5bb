//! What to ask of a target and when: workloads as seeded state machines that emit operations and
//! take completions. They hold no clock, do no I/O and count nothing: who runs them does.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod file;
pub mod history;
pub mod kinds;
pub mod network;
mod plan;
mod random;
mod sequential;
pub mod stamp;
mod stream;

pub use kinds::{KINDS, Kind, by_name};
pub use plan::{Counted, IN_FLIGHT_MAX, Params, Plan, PlanError, STREAMS_MAX, Streams};

use spindles_block::Operation;

/// One operation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Comes back in [`BlockWorkload::complete`]; unique among the operations in flight.
    pub id: u32,
    /// Who asks: `0..Plan::actors`. An actor has at most one operation in flight and one buffer
    /// of `Plan::chunk_bytes`: a read fills it, a write writes what is in it.
    pub actor: u32,
    /// Which target: always 0, except where k targets are asked at once.
    pub stream: u32,
    /// Read or write.
    pub operation: Operation,
    /// Where on the target; a multiple of `bytes`.
    pub offset_bytes: u64,
    /// How much: at most `Plan::chunk_bytes`.
    pub bytes: u32,
    /// The 32-bit integer of the buffer that the actor touches, if any: incremented before a
    /// write, looked at after a read.
    pub touch: Option<u32>,
}

/// What a workload does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Carry this out and call `complete` when it is answered.
    Issue(Issue),
    /// Nothing before one of those in flight is completed.
    Wait,
    /// All is issued and completed.
    Done,
}

/// A workload in progress. All are closed loops: an actor asks again when it was answered.
/// The same plan and the same order of completions give the same operations.
pub trait BlockWorkload {
    /// The next thing to do. To be called until it answers `Wait` or `Done`.
    fn next(&mut self) -> Next;

    /// The operation with that id was answered. Panics when it is not in flight.
    fn complete(&mut self, id: u32);
}
