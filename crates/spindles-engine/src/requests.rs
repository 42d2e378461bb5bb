//! A request and its cursor, up to which its blocks have been handed out to stripe ranges.

use crate::hedges::Pairing;
use spindles_block::{BlockIndex, BufferSlice, Operation, RequestError};

/// A request that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSlot {
    pub(crate) token: u64,
    pub(crate) operation: Operation,
    pub(crate) block: BlockIndex,
    pub(crate) end: BlockIndex,
    pub(crate) buffer: BufferSlice,
    /// The first block of the group part that is being handed out.
    pub(crate) next: BlockIndex,
    /// How far into the chunks of that group stripe ranges have been handed out.
    pub(crate) low: u32,
    pub(crate) handed_out: bool,
    pub(crate) pending: u32,
    pub(crate) error: Option<RequestError>,
    /// True if `buffer` may be lent, and the answer may name other memory.
    pub(crate) exchangeable: bool,
    pub(crate) pairing: Pairing,
}

impl RequestSlot {
    pub(crate) const fn new(
        token: u64,
        operation: Operation,
        block: BlockIndex,
        end: BlockIndex,
        buffer: BufferSlice,
    ) -> Self {
        Self {
            token,
            operation,
            block,
            end,
            buffer,
            next: block,
            low: 0,
            handed_out: false,
            pending: 0,
            error: None,
            exchangeable: false,
            pairing: Pairing::Single,
        }
    }

    /// Returns true if all its stripe ranges have been handed out.
    pub(crate) const fn is_handed_out(&self) -> bool {
        self.handed_out
    }

    /// Ends the handing out of stripe ranges.
    pub(crate) const fn stop(&mut self) {
        self.handed_out = true;
    }

    /// Returns true if some stripe ranges of a group have been handed out, and others have not.
    pub(crate) const fn is_midway(&self) -> bool {
        self.low > 0
    }

    pub(crate) const fn free() -> Self {
        Self {
            token: 0,
            operation: Operation::Flush,
            block: BlockIndex(0),
            end: BlockIndex(0),
            buffer: BufferSlice::NONE,
            next: BlockIndex(0),
            low: 0,
            handed_out: false,
            pending: 0,
            error: None,
            exchangeable: false,
            pairing: Pairing::Single,
        }
    }

    /// Returns the buffer place of array block `block`.
    pub(crate) fn place(&self, block: BlockIndex) -> BufferSlice {
        if matches!(
            self.operation,
            Operation::Discard | Operation::WriteZeroes { .. }
        ) {
            return BufferSlice::ZEROS;
        }
        let blocks = u32::try_from(block.0 - self.block.0).expect("within the request");
        self.buffer.plus(blocks)
    }
}
