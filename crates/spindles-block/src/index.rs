//! Positions, sizes and time.

use core::fmt;

/// A block of an array or of a member, counted from its first block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u64);

impl BlockIndex {
    /// Returns the block `blocks` further on. Panics on overflow.
    #[must_use]
    pub const fn plus(self, blocks: u64) -> Self {
        match self.0.checked_add(blocks) {
            Some(sum) => Self(sum),
            None => panic!("a block index wrapped"),
        }
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A position in an array, `0..members`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIndex(pub u8);

impl fmt::Display for MemberIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The addressing unit of an array, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4096 bytes, the default.
    B4096,
}

impl BlockSize {
    /// The size in bytes: 512 or 4096.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }

    /// Returns the block size of this many bytes; `None` unless 512 or 4096.
    #[must_use]
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            512 => Some(Self::B512),
            4096 => Some(Self::B4096),
            _ => None,
        }
    }

    /// Returns the largest block size that divides `bytes`; 512 if none does.
    #[must_use]
    pub const fn dividing(bytes: u64) -> Self {
        if bytes.is_multiple_of(4096) {
            Self::B4096
        } else {
            Self::B512
        }
    }
}

/// A moment, in nanoseconds since the driver started. Virtual in the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Returns the moment `duration_ns` later. Panics on overflow (after 584 years).
    #[must_use]
    pub const fn plus_ns(self, duration_ns: u64) -> Self {
        match self.0.checked_add(duration_ns) {
            Some(sum) => Self(sum),
            None => panic!("an instant wrapped"),
        }
    }

    /// Nanoseconds since `earlier`; 0 if `earlier` is later.
    #[must_use]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
