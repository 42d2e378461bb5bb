//! The rows of the level table, and the layouts to choose from.

use core::fmt;
use spindles_block::MemberIndex;

/// A RAID level: a row of the table.
#[derive(Debug)]
pub struct Level {
    /// The name for users and in superblocks.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// The capacity of the array, for documentation.
    pub capacity: &'static str,
    /// The members it survives the loss of, for documentation.
    pub survives: &'static str,
    /// The minimum number of members.
    pub members_min: u8,
    /// A note for arrays with fewer members than this: legal, but rarely intended.
    pub note: Option<(u8, &'static str)>,
    /// The default chunk size.
    pub chunk_bytes: u32,
    /// The redundancy of a group.
    pub redundancy: Redundancy,
    /// The layouts, the default first. A level without a choice has one, without a name.
    pub layouts: &'static [LayoutRow],
    pub(crate) sizes: Sizes,
}

/// The redundancy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redundancy {
    /// Nothing: a group is one chunk.
    None,
    /// A copy on every other member.
    CopyOnEveryMember,
    /// As many copies as the layout specifies.
    Copies,
    /// This many parity chunks; the group is a stripe over all members.
    Parity(u8),
}

/// The treatment of members of unequal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// All members are used up to the size of the smallest, rounded down to a chunk.
    Smallest,
    /// Zones, each striped over the members that reach it.
    Zones,
    /// The members one after another, each member up to its last block.
    Sequence,
}

/// A layout: one period of the way roles move over the members from group to group.
#[derive(Debug)]
pub struct LayoutRow {
    /// The name for users, without the number of copies.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    pub(crate) period: fn(Shape) -> Period,
    pub(crate) place: fn(Shape, u32, u8) -> ChunkPlace,
}

/// The input of a layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) members: u8,
    /// Copies of each data chunk, the first included.
    pub(crate) copies: u8,
}

/// The number of groups, and of rows of chunks on the members, after which a layout repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) groups: u32,
    pub(crate) rows: u32,
    /// The number of equal sections that each member is divided into, each with the same rows.
    pub(crate) sections: u8,
}

/// The place of a chunk of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkPlace {
    pub(crate) member: MemberIndex,
    /// The row within the period.
    pub(crate) row: u32,
    pub(crate) section: u8,
    pub(crate) code_index: u8,
}

/// A selected layout: a row and, if the row leaves it open, the number of copies.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub(crate) row: &'static LayoutRow,
    /// 0 if the row does not leave it open.
    pub(crate) copies: u8,
}

const COPIES_DEFAULT: u8 = 2;

impl Level {
    /// Returns true if arrays of this level can grow: by members, or to another level. Growth needs
    /// parity, or copies on every member, which can be converted to parity.
    pub const fn grows(&self) -> bool {
        match self.redundancy {
            Redundancy::CopyOnEveryMember | Redundancy::Parity(_) => true,
            Redundancy::None | Redundancy::Copies => false,
        }
    }

    /// The default layout.
    pub fn layout_default(&'static self) -> Layout {
        Layout {
            row: &self.layouts[0],
            copies: match self.redundancy {
                Redundancy::Copies => COPIES_DEFAULT,
                _ => 0,
            },
        }
    }
}

/// Levels are equal if their names are.
impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Level {}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.row.name == other.row.name && self.copies == other.copies
    }
}

impl Eq for Layout {}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.copies {
            0 => f.write_str(self.row.name),
            copies => write!(f, "{} {copies}", self.row.name),
        }
    }
}
