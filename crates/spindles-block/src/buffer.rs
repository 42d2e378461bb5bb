//! Handles of the driver's buffers. The engine only passes them on and never accesses the data.

/// A buffer of the driver: a whole number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

impl BufferId {
    /// The zero buffer: reads as zeros at any length, and is never written.
    pub const ZEROS: Self = Self(u32::MAX);
    /// No buffer: requests and member I/O that carry no data.
    pub const NONE: Self = Self(u32::MAX - 1);
    /// Several pieces of memory, which the engine lists for the write that has them.
    pub const PIECES: Self = Self(u32::MAX - 2);
}

/// A position in a buffer. The length is given separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferSlice {
    /// The buffer.
    pub buffer: BufferId,
    /// The first block in it.
    pub first_block: u32,
}

impl BufferSlice {
    /// For operations without data.
    pub const NONE: Self = Self {
        buffer: BufferId::NONE,
        first_block: 0,
    };
    /// A slice of zeros, of any length.
    pub const ZEROS: Self = Self {
        buffer: BufferId::ZEROS,
        first_block: 0,
    };

    /// For writes whose data lies in several pieces.
    pub const PIECES: Self = Self {
        buffer: BufferId::PIECES,
        first_block: 0,
    };

    /// Returns the position `blocks` further on in the same buffer.
    #[must_use]
    pub fn plus(self, blocks: u32) -> Self {
        match self.buffer {
            BufferId::ZEROS | BufferId::NONE | BufferId::PIECES => self,
            buffer => Self {
                buffer,
                first_block: self.first_block + blocks,
            },
        }
    }
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Its position.
    pub buffer: BufferSlice,
    /// Its length.
    pub blocks: u32,
}
