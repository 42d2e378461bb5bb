//! Redundancy groups: the chunks on the members that hold a range of the array.

use core::fmt;
use spindles_block::{BlockIndex, MEMBERS_MAX, MemberIndex};

/// The role of a chunk in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Data chunk i, in the array's order.
    Data(u8),
    /// A further copy of the one data chunk; the first is `Data(0)`.
    Copy(u8),
    /// Parity chunk p: P, Q, R.
    Parity(u8),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Data(index) => write!(f, "D{index}"),
            Self::Copy(index) => write!(f, "C{index}"),
            Self::Parity(0) => f.write_str("P"),
            Self::Parity(1) => f.write_str("Q"),
            Self::Parity(2) => f.write_str("R"),
            Self::Parity(index) => write!(f, "P{index}"),
        }
    }
}

/// A redundancy group, counted in the order of the array's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupIndex(pub u64);

/// One chunk of a group on its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The member.
    pub member: MemberIndex,
    /// The start of the chunk in the member's data area.
    pub offset: BlockIndex,
    /// The chunk's role.
    pub role: Role,
    /// The chunk's index in the code: data below `data_chunks`, parity p at `data_chunks + p`; 0
    /// for copies. With asymmetric RAID 6 the order of data here differs from the array's.
    pub code_index: u8,
}

impl Slot {
    const UNUSED: Self = Self {
        member: MemberIndex(0),
        offset: BlockIndex(0),
        role: Role::Data(0),
        code_index: 0,
    };
}

/// A redundancy group: the chunks that are protected together. A chunk without redundancy is a
/// group of one. Filled by [`Geometry::group_into`](crate::Geometry::group_into).
#[derive(Clone, Debug)]
pub struct Group {
    /// The group's index.
    pub index: GroupIndex,
    /// The start of `Data(0)` in the array; data chunk i starts `i * blocks` later.
    pub first_block: BlockIndex,
    /// The length of each chunk. Only the last chunk of a concatenation's member may be short.
    pub blocks: u32,
    /// The number of data slots, which is also the number of slots that suffice to compute the
    /// others.
    pub data_chunks: u8,
    /// The number of parity slots; 0 if redundancy is copies.
    pub parity_chunks: u8,
    pub(crate) len: u8,
    pub(crate) slots: [Slot; MEMBERS_MAX as usize],
}

impl Group {
    /// A group without slots, to be filled.
    pub const fn empty() -> Self {
        Self {
            index: GroupIndex(0),
            first_block: BlockIndex(0),
            blocks: 0,
            data_chunks: 0,
            parity_chunks: 0,
            len: 0,
            slots: [Slot::UNUSED; MEMBERS_MAX as usize],
        }
    }

    /// The chunks: `Data(0..)` in the array's order, then `Parity(0..)`; or `Data(0)` and then
    /// `Copy(1..)`.
    pub fn slots(&self) -> &[Slot] {
        &self.slots[..usize::from(self.len)]
    }
}

/// The place of one block of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Its group.
    pub group: GroupIndex,
    /// The data chunk of the group that holds it.
    pub data_index: u8,
    /// The block's position in the chunk.
    pub block_in_chunk: u32,
    /// The number of blocks from this one to the end of the chunk; at least 1.
    pub blocks_left: u32,
    /// The member that holds it; if there are copies, the first.
    pub member: MemberIndex,
    /// The block's position in the member's data area.
    pub offset: BlockIndex,
}
