//! The rows of the level table, and the layouts to choose from.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
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
    /// The name for users. Numbers of copies follow its words, if redundancy is copies.
    pub name: &'static str,
    /// One line for help.
    pub summary: &'static str,
    /// False for a layout whose only use is to read and continue arrays of other systems.
    pub usual: bool,
    pub(crate) period: fn(Shape) -> Period,
    pub(crate) place: fn(Shape, u32, u8) -> ChunkPlace,
}

/// The input of a layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) members: u8,
    /// Copies of each data chunk, the first included.
    pub(crate) copies: u8,
    /// Sections that hold copies, if the layout has both near and far copies; otherwise 0.
    pub(crate) sections: u8,
    /// The number of the zone's first chunk in the array, modulo the members.
    pub(crate) first_chunk: u8,
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

/// A selected layout: a row and the numbers of copies that the row leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub(crate) row: &'static LayoutRow,
    /// The number after each word of the row's name, 0 where there is none.
    pub(crate) counts: [u8; 2],
}

pub(crate) const COPIES_DEFAULT: u8 = 2;

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
        self.layout_of(&self.layouts[0])
    }

    /// Returns the layout of a row with the default numbers of copies.
    pub(crate) fn layout_of(&self, row: &'static LayoutRow) -> Layout {
        let counts = match (self.redundancy, row.words()) {
            (Redundancy::Copies, 1) => [COPIES_DEFAULT, 0],
            (Redundancy::Copies, _) => [COPIES_DEFAULT; 2],
            _ => [0; 2],
        };
        Layout { row, counts }
    }

    /// Returns the name of a layout as users write it, with `N` for each number: `near N far N`.
    pub fn written(&self, row: &LayoutRow) -> String {
        match self.redundancy {
            Redundancy::Copies => row.name.replace(' ', " N ") + " N",
            _ => row.name.to_owned(),
        }
    }

    /// Returns every layout on this many members, with every number of copies.
    pub fn layouts_on(&'static self, members: u8) -> impl Iterator<Item = Layout> {
        let counts = move |row: &LayoutRow| match (self.redundancy, row.words()) {
            (Redundancy::Copies, 1) => (2..=members).map(|copies| [copies, 0]).collect(),
            (Redundancy::Copies, _) => (2..=members / 2)
                .flat_map(|near| (2..=members / near).map(move |far| [near, far]))
                .collect(),
            _ => Vec::from([[0; 2]]),
        };
        let with_counts = move |row: &'static LayoutRow| {
            let counts = counts(row).into_iter();
            counts.map(move |counts| Layout { row, counts })
        };
        self.layouts.iter().flat_map(with_counts)
    }
}

impl LayoutRow {
    /// The number of words of the name.
    fn words(&self) -> usize {
        self.name.split(' ').count()
    }
}

impl Layout {
    /// Copies of each data chunk, the first included; 0 unless the layout says their number.
    pub fn copies(&self) -> u8 {
        match self.counts {
            [copies, 0] => copies,
            [near, far] => near.saturating_mul(far),
        }
    }

    /// True for a layout that new arrays have a use for.
    pub fn is_usual(&self) -> bool {
        self.row.usual
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
        self.row.name == other.row.name && self.counts == other.counts
    }
}

impl Eq for Layout {}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (word, count)) in self.row.name.split(' ').zip(self.counts).enumerate() {
            f.write_str(if index == 0 { "" } else { " " })?;
            match count {
                0 => f.write_str(word)?,
                count => write!(f, "{word} {count}")?,
            }
        }
        Ok(())
    }
}
