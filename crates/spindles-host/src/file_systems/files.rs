//! The places of a file's blocks.

use alloc::vec::Vec;

/// The blocks of a file, as numbers of fragments from the start of the device. The last one may be
/// shorter than a block.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) bytes: u64,
    places: Vec<u32>,
    /// Blocks of pointers to the blocks after the first ones, in order.
    pub(crate) pointers: Vec<u32>,
    /// Fragments of the last block; 0 if it is whole.
    pub(crate) tail_fragments: u8,
}

impl Blocks {
    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.places.len()).expect("64 bits")
    }

    /// Returns the first fragment of a block.
    pub(crate) fn get(&self, block: u64) -> Option<u32> {
        self.places.get(usize::try_from(block).ok()?).copied()
    }

    pub(crate) fn last(&self) -> Option<u32> {
        self.places.last().copied()
    }

    pub(crate) fn push(&mut self, place: u32) {
        self.places.push(place);
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.places.pop()
    }

    /// Takes all places. The file is empty then.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        self.bytes = 0;
        core::mem::take(&mut self.places)
    }
}
