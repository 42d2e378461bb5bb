//! What is asked and answered: requests of clients, I/O on members, steps of computation.

use crate::{BlockIndex, BufferSlice, MemberError, MemberIndex, RequestError};

/// What a request or a member I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Fills the buffer from the blocks.
    Read,
    /// Writes the buffer to the blocks; with `fua` it is durable when answered.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// When answered, all writes answered before it was sent are durable. No blocks, no buffer.
    Flush,
    /// The blocks read as zeros afterwards, and their space is given back where possible.
    Discard,
    /// The blocks read as zeros afterwards; with `fua` durably so when answered.
    WriteZeroes {
        /// Force unit access.
        fua: bool,
    },
}

impl Operation {
    /// Whether the operation changes what the blocks hold.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::Discard | Self::WriteZeroes { .. }
        )
    }
}

/// What a client asks of an array, in whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's own; comes back in the reply.
    pub token: u64,
    /// What to do.
    pub operation: Operation,
    /// The first block of the array.
    pub block: BlockIndex,
    /// How many blocks; 0 for a flush only.
    pub blocks: u32,
    /// The data, `blocks` long. It belongs to the engine's driver until the reply.
    pub buffer: BufferSlice,
}

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request's.
    pub token: u64,
    /// Done, or why not.
    pub result: Result<(), RequestError>,
    /// Where what was read is, if not in the request's buffer: that is the client's from now on, and
    /// the request's buffer is not. Only where the client agreed to that.
    pub exchanged: Option<BufferSlice>,
}

/// Names a member I/O between its output and its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIoId(pub u32);

/// One operation on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// To be given back with the result.
    pub id: MemberIoId,
    /// The member.
    pub member: MemberIndex,
    /// What to do.
    pub operation: Operation,
    /// The first block, counted from the start of the device (not of its data area).
    pub block: BlockIndex,
    /// How many blocks; 0 for a flush only.
    pub blocks: u32,
    /// The data, `blocks` long.
    pub buffer: BufferSlice,
}

/// The result of a member I/O.
pub type MemberResult = Result<(), MemberError>;

/// Names a step of computation between its output and its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u32);

/// What a step computes. Data chunk i of a group has index i in the order the code counts, parity
/// chunk p has index `data_chunks + p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// From `data_chunks` sources, any chunks of the group, the targets: any others. Encoding and
    /// recovery alike.
    Solve,
    /// The sources come in pairs (old, new) of the same data chunk; each target, a parity chunk,
    /// is changed in place by what the pairs differ in.
    Update,
    /// Whether source 2i equals source 2i+1, for every i. Answers `Done` or `Mismatch`.
    Compare,
    /// Source i is copied to target i.
    Copy,
    /// Whether the sources, any chunks of the group and more than `data_chunks`, fit together.
    /// Answers `Done`, `Located`, or `Mismatch` where no single source explains it.
    Locate,
    /// The checksum of every block of every source, for `Engine::checksums_mut`.
    Checksum,
}

/// A chunk that takes part in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Which chunk of the group, in the order the code counts.
    pub index: u8,
    /// Where its bytes are.
    pub slice: BufferSlice,
}

/// A step of computation over buffers, borrowed from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'engine> {
    /// What to compute.
    pub compute: Compute,
    /// Data chunks of the group.
    pub data_chunks: u8,
    /// Parity chunks of the group; 0 where redundancy is copies.
    pub parity_chunks: u8,
    /// Length of every operand, in blocks.
    pub blocks: u32,
    /// Read, never written.
    pub sources: &'engine [Operand],
    /// Written; for `Update` read first.
    pub targets: &'engine [Operand],
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeResult {
    /// Computed, or compared and equal.
    Done,
    /// Compared and not equal.
    Mismatch,
    /// The place among the sources of the one that does not fit to all others.
    Located(u8),
}
