//! Devices at the leaves, and operations on them.

use spindles_block::{BlockIndex, BufferSlice, Operation, Piece};

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
    /// `BufferSlice::PIECES` for a write with several pieces of memory, which go with it.
    pub(crate) buffer: BufferSlice,
}

impl DeviceIo {
    /// Splits a write into one for each of its pieces. Without pieces, returns the operation.
    pub(crate) fn parts(self, pieces: &[Piece]) -> impl Iterator<Item = Self> {
        let one = pieces.is_empty().then_some(self);
        let mut rest = self;
        let parts = pieces.iter().map(move |piece| {
            let block = rest.block;
            rest.advance(piece.blocks);
            Self {
                block,
                blocks: piece.blocks,
                buffer: piece.buffer,
                ..rest
            }
        });
        one.into_iter().chain(parts)
    }

    /// Takes leading blocks off.
    pub(crate) fn advance(&mut self, blocks: u32) {
        self.block = self.block.plus(u64::from(blocks));
        self.buffer = self.buffer.plus(blocks);
        self.blocks -= blocks;
    }
}
