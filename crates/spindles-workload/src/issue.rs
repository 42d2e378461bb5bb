//! The operations of a workload on blocks, and the workload in progress.

use spindles_block::Operation;

/// One operation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Passed back to [`BlockWorkload::complete`]; unique among the operations in flight.
    pub id: u32,
    /// The actor: one of `0..Plan::actors`. An actor has at most one operation in flight and one
    /// buffer of `Plan::chunk_bytes`: a read fills it, a write writes its contents.
    pub actor: u32,
    /// The target: always 0, except for kinds that work on several targets at once.
    pub stream: u32,
    /// Read or write.
    pub operation: Operation,
    /// Offset on the target; a multiple of `bytes`.
    pub offset_bytes: u64,
    /// Length: at most `Plan::chunk_bytes`.
    pub bytes: u32,
    /// The 32-bit integer of the buffer that the actor touches, if any: incremented before a write,
    /// looked at after a read.
    pub touch: Option<u32>,
}

/// The next thing that a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Carry this out and call `complete` once it is answered.
    Issue(Issue),
    /// Nothing until an operation in flight completes.
    Wait,
    /// Everything is issued and completed.
    Done,
}

/// A workload in progress. Workloads are closed loops: an actor continues once its operation is
/// answered. The same plan and the same order of completions give the same operations.
pub trait BlockWorkload {
    /// Returns the next thing to do. Call it until it returns `Wait` or `Done`.
    fn next(&mut self) -> Next;

    /// Completes the operation with that id. Panics if it is not in flight.
    fn complete(&mut self, id: u32);
}
