//! What all members of an array say alike.

use crate::Text;
use core::fmt;
use spindles_block::{BlockSize, MEMBERS_MAX, MemberIndex, MemberSet};

/// An identity: random bytes, given by the caller.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// No identity; never valid on a member.
    pub const NIL: Self = Self([0; 16]);

    /// A version 4 identity of random bytes.
    #[must_use]
    pub const fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Features in use, one bit each, by what a reader must do that doesn't know a bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Carry on; a writer that doesn't know the bit clears it.
    pub ignorable: u64,
    /// Read, never write.
    pub read_only: u64,
    /// Refuse the member.
    pub refuse: u64,
}

impl Features {
    /// `refuse`: the array has regions. What was never written is not what the members hold, and a
    /// writer that marks nothing makes the bitmaps lie.
    pub const REGIONS: u64 = 1 << 0;

    /// The features that this version knows.
    pub const KNOWN: Self = Self {
        ignorable: 0,
        read_only: 0,
        refuse: Self::REGIONS,
    };

    /// Whether a feature is in use that this version must not write beside.
    #[must_use]
    pub const fn must_read_only(self) -> bool {
        self.read_only & !Self::KNOWN.read_only != 0
    }
}

/// The state of a member, as the array's record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Holds correct data for its position.
    Active,
    /// No usable device in this position.
    Missing {
        /// The first generation written without it.
        out_since: u64,
    },
}

/// What the array's record says of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    /// The device in this position, or last in it. A device that joins anew gets a new identity.
    pub device_uuid: Uuid,
    /// The length of its data area, in blocks of the array.
    pub data_blocks: u64,
    /// Whether it is part of the array.
    pub state: MemberState,
}

impl MemberRecord {
    /// For positions that the array doesn't have.
    pub const NONE: Self = Self {
        device_uuid: Uuid::NIL,
        data_blocks: 0,
        state: MemberState::Active,
    };
}

/// Which part of the members' journals counts when an array is opened that was not closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalRecord {
    /// Batches with a lower sequence number are done with. 0: nothing is journaled, redundancy may
    /// disagree with data anywhere.
    pub tail: u64,
    /// The nonce of the batches that count.
    pub nonce: u64,
}

/// What all members of an array say alike. Its clone allocates nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct ArrayRecord {
    /// The array's identity.
    pub uuid: Uuid,
    /// The array that this one is a member of; `Uuid::NIL` for one that stands for itself.
    pub parent: Uuid,
    /// The array's name, for people.
    pub name: Text<64>,
    /// When it was created, in seconds since 1970; for people.
    pub created_s: u64,
    /// Grows with each superblock write; at least 1.
    pub generation: u64,
    /// The array's block.
    pub block_size: BlockSize,
    /// The level's name.
    pub level: Text<16>,
    /// The layout's name; empty where the level has only one.
    pub layout: Text<32>,
    /// The chunk size.
    pub chunk_blocks: u32,
    /// Redundancy groups in a region, a power of two; 0 for an array without bitmaps. Goes with
    /// `Features::REGIONS`.
    pub region_groups: u32,
    /// How many members the array has, missing ones included.
    pub members: u8,
    /// Whether data and redundancy are known to agree: closed in order, or never written since.
    pub clean: bool,
    /// The consistency policy's name.
    pub consistency: Text<16>,
    /// Which part of the journals counts.
    pub journal: JournalRecord,
    /// Features in use.
    pub features: Features,
    /// The first `members` of these count; the others are `MemberRecord::NONE`.
    pub member: [MemberRecord; MEMBERS_MAX as usize],
}

impl fmt::Debug for ArrayRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayRecord")
            .field("uuid", &self.uuid)
            .field("name", &self.name)
            .field("generation", &self.generation)
            .field("level", &self.level)
            .field("clean", &self.clean)
            .field("features", &self.features)
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}

impl ArrayRecord {
    /// The members there are.
    #[must_use]
    pub fn members(&self) -> &[MemberRecord] {
        &self.member[..usize::from(self.members)]
    }

    /// Which members the record says are missing.
    #[must_use]
    pub fn missing(&self) -> MemberSet {
        (0..self.members)
            .map(MemberIndex)
            .filter(|member| self.member[usize::from(member.0)].state != MemberState::Active)
            .collect()
    }
}
