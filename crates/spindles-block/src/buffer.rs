//! Handles of the driver's buffers. The engine passes them on and never looks inside.

/// A buffer of the driver: a whole number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u32);

impl BufferId {
    /// Reads as zeros wherever it is read, however long; never written to.
    pub const ZEROS: Self = Self(u32::MAX);
    /// No buffer: requests and member I/O that carry no data.
    pub const NONE: Self = Self(u32::MAX - 1);
}

/// A place in a buffer. The length goes with whatever names the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferSlice {
    /// The buffer.
    pub buffer: BufferId,
    /// The first block in it.
    pub first_block: u32,
}

impl BufferSlice {
    /// For what carries no data.
    pub const NONE: Self = Self {
        buffer: BufferId::NONE,
        first_block: 0,
    };
    /// Zeros, however long.
    pub const ZEROS: Self = Self {
        buffer: BufferId::ZEROS,
        first_block: 0,
    };

    /// The place `blocks` further on in the same buffer.
    #[must_use]
    pub fn plus(self, blocks: u32) -> Self {
        match self.buffer {
            BufferId::ZEROS | BufferId::NONE => self,
            buffer => Self {
                buffer,
                first_block: self.first_block + blocks,
            },
        }
    }
}
