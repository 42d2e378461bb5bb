//! Accesses to a target by bytes.

use spindles_block::Operation;
use std::ops::Range;

/// An access by bytes. A flush has neither offset nor length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The operation.
    pub operation: Operation,
    /// The first byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub bytes: u32,
}

impl Access {
    /// Returns the byte after its last one.
    pub(crate) fn end(&self) -> u64 {
        self.offset_bytes + u64::from(self.bytes)
    }

    /// Returns the blocks it touches.
    pub(crate) fn blocks(&self, block_bytes: u32) -> Range<u64> {
        let block_bytes = u64::from(block_bytes);
        if self.bytes == 0 {
            return 0..0;
        }
        self.offset_bytes / block_bytes..self.end().div_ceil(block_bytes)
    }

    /// Returns the bytes before the first one in its block, and after the last one in its block.
    pub(crate) fn margins(&self, block_bytes: u32) -> (u32, u32) {
        let block_bytes = u64::from(block_bytes);
        let before = self.offset_bytes % block_bytes;
        let after = (block_bytes - self.end() % block_bytes) % block_bytes;
        let narrow = |bytes| u32::try_from(bytes).expect("less than a block");
        (narrow(before), narrow(after))
    }

    /// Returns true if it writes a part of a block, the rest of which must stay unchanged.
    pub(crate) fn is_partial_write(&self, block_bytes: u32) -> bool {
        self.operation.is_write() && self.bytes > 0 && self.margins(block_bytes) != (0, 0)
    }
}
