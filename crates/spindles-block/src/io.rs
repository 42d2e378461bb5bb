//! Inputs and outputs of the engine: client requests, member I/O and computation steps.

use crate::{BlockIndex, BufferSlice, MemberError, MemberIndex, RequestError};

/// The operation of a request or a member I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Fills the buffer from the blocks.
    Read,
    /// Writes the buffer to the blocks; with `fua` they are durable once answered.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Once answered, all writes answered before it was sent are durable. Has no blocks and no
    /// buffer.
    Flush,
    /// The blocks read as zeros afterwards, and their space is freed if possible.
    Discard,
    /// The blocks read as zeros afterwards; with `fua` durably so once answered.
    WriteZeroes {
        /// Force unit access.
        fua: bool,
    },
}

impl Operation {
    /// Returns true if the operation changes the contents of blocks.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::Discard | Self::WriteZeroes { .. }
        )
    }
}

/// A client's request to an array, in whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's own token, which the reply returns.
    pub token: u64,
    /// What to do.
    pub operation: Operation,
    /// The first block of the array.
    pub block: BlockIndex,
    /// The number of blocks; 0 for a flush only.
    pub blocks: u32,
    /// The data, `blocks` long. It belongs to the engine's driver until the reply.
    pub buffer: BufferSlice,
}

/// The answer to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The token of the request.
    pub token: u64,
    /// The result: success, or the reason for failure.
    pub result: Result<(), RequestError>,
    /// The buffer that holds the data read, if it is not the request's buffer. The client then owns
    /// this buffer instead of the request's. Set only if the client agreed to exchange buffers.
    pub exchanged: Option<BufferSlice>,
}

/// Identifies a member I/O between its output and its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIoId(pub u32);

/// One operation on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// Returned with the result.
    pub id: MemberIoId,
    /// The member.
    pub member: MemberIndex,
    /// What to do.
    pub operation: Operation,
    /// The first block, counted from the start of the device (not of its data area).
    pub block: BlockIndex,
    /// The number of blocks; 0 for a flush only.
    pub blocks: u32,
    /// The data, `blocks` long. `BufferSlice::PIECES` if it lies in several pieces, one after
    /// another: `Engine::pieces` lists them. Only writes have several.
    pub buffer: BufferSlice,
}

/// The result of a member I/O.
pub type MemberResult = Result<(), MemberError>;

/// Identifies a computation step between its output and its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub u32);

/// The computation of a step. Data chunk i of a group has index i in the order of the code, and
/// parity chunk p has index `data_chunks + p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// Computes the targets, any chunks of the group, from `data_chunks` sources, any others. Used
    /// for encoding and recovery.
    Solve,
    /// Changes each target, a parity chunk, in place. The sources are pairs (old, new) of the same
    /// data chunk, whose differences are applied.
    Update,
    /// Compares source 2i with source 2i+1, for every i. Returns `Done` if all are equal, else
    /// `Mismatch`.
    Compare,
    /// Copies source i to target i.
    Copy,
    /// Checks the sources for consistency: any chunks of the group, more than `data_chunks`.
    /// Returns `Done`, `Located`, or `Mismatch` if no single source explains the difference.
    Locate,
    /// Computes the checksum of every block of every source, for `Engine::checksums_mut`.
    Checksum,
}

/// A chunk used by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// The index of the chunk in the group, in the order of the code.
    pub index: u8,
    /// The place of its bytes.
    pub slice: BufferSlice,
}

/// A computation step over buffers, borrowed from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Computation<'engine> {
    /// The computation.
    pub compute: Compute,
    /// Data chunks of the group.
    pub data_chunks: u8,
    /// Parity chunks of the group; 0 if redundancy is copies.
    pub parity_chunks: u8,
    /// The length of every operand, in blocks.
    pub blocks: u32,
    /// Chunks that are read and never written.
    pub sources: &'engine [Operand],
    /// Chunks that are written; `Update` reads them first.
    pub targets: &'engine [Operand],
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeResult {
    /// Computed, or compared and equal.
    Done,
    /// Compared and not equal.
    Mismatch,
    /// The index of the single source that contradicts all others.
    Located(u8),
}
