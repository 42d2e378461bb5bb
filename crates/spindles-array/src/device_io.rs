//! Devices at the leaves, and operations on them.

use spindles_block::{BlockIndex, BufferSlice, Operation};

/// A device at a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceIndex(pub(crate) u16);

impl DeviceIndex {
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// One operation on a device, in its blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceIo {
    pub(crate) operation: Operation,
    pub(crate) block: BlockIndex,
    pub(crate) blocks: u32,
    pub(crate) buffer: BufferSlice,
}

impl DeviceIo {
    /// Takes leading blocks off.
    pub(crate) fn advance(&mut self, blocks: u32) {
        self.block = self.block.plus(u64::from(blocks));
        self.buffer = self.buffer.plus(blocks);
        self.blocks -= blocks;
    }
}
