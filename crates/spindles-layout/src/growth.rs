//! Two maps of one array while it grows: below a mark the new one holds, from there on the old one.
//!
//! Groups of the new map keep their numbers; those of the old one are counted after them, so that
//! all are in the order of the array's blocks and none changes its number while the mark moves.
//! Only *live* groups count: of the new map those below the mark, of the old one those from it on.

use crate::{Geometry, GroupIndex, Level};
use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;
use spindles_block::{BlockIndex, MemberSet};

/// What an array was before it began to grow.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    pub(crate) geometry: Geometry,
    /// From here on the old map holds.
    pub(crate) mark: u64,
    /// What the first group of the old map is counted as.
    pub(crate) first_group: u64,
}

/// Why an array can't grow that way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrowthError {
    /// There is no way from or to such a level.
    Level {
        /// The level.
        level: &'static Level,
    },
    /// Members would go.
    FewerMembers {
        /// How many there are.
        members: u8,
    },
    /// It would have less parity.
    LessParity,
    /// Nothing changes.
    Nothing,
    /// A row of chunks would hold less than before, so that data would have to go where data is
    /// that was not moved yet.
    Denser {
        /// Data chunks in a row before.
        from: u8,
        /// And after.
        to: u8,
        /// How many members it takes.
        members_min: u8,
    },
    /// The members are too small.
    Smaller {
        /// What it holds, in blocks.
        blocks: u64,
        /// What it would hold.
        blocks_after: u64,
    },
}

impl fmt::Display for GrowthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level { level } => write!(
                f,
                "growing from or to {level} is not built: only copies on every member, and levels with parity, grow"
            ),
            Self::FewerMembers { members } => {
                write!(f, "it has {members} members, and none can be taken away")
            }
            Self::LessParity => f.write_str("going to a level with less parity is not built"),
            Self::Nothing => f.write_str("nothing would change"),
            Self::Denser {
                from,
                to,
                members_min,
            } => write!(
                f,
                "a row of chunks would hold {to} of data instead of {from}, so not all of it would \
                 fit: it takes {members_min} members"
            ),
            Self::Smaller {
                blocks,
                blocks_after,
            } => write!(
                f,
                "it would hold {blocks_after} blocks instead of {blocks}: its members are too small"
            ),
        }
    }
}

impl core::error::Error for GrowthError {}

impl Geometry {
    /// The map of an array that grows from `old` to `self`: below `mark` it is `self`.
    pub fn growing_from(mut self, old: Self, mark: BlockIndex) -> Result<Self, GrowthError> {
        for geometry in [&old, &self] {
            let level = geometry.level();
            if !level.grows() {
                return Err(GrowthError::Level { level });
            }
        }
        if self.parity_chunks() < old.parity_chunks() {
            return Err(GrowthError::LessParity);
        }
        if self.members() < old.members() {
            return Err(GrowthError::FewerMembers {
                members: old.members(),
            });
        }
        let same = self.members() == old.members()
            && self.chunk_blocks() == old.chunk_blocks()
            && self.level().name == old.level().name
            && self.layout() == old.layout();
        if same {
            return Err(GrowthError::Nothing);
        }
        if self.data_chunks() < old.data_chunks() {
            return Err(GrowthError::Denser {
                from: old.data_chunks(),
                to: self.data_chunks(),
                members_min: old.data_chunks() + self.parity_chunks(),
            });
        }
        let stripe = self.stripe_blocks();
        if self.blocks < old.blocks.next_multiple_of(stripe) {
            return Err(GrowthError::Smaller {
                blocks: old.blocks,
                blocks_after: self.blocks,
            });
        }
        let first_group = self.groups;
        let older = Older {
            geometry: old,
            mark: 0,
            first_group,
        };
        self.older = Some(Box::new(older));
        self.set_mark(mark);
        Ok(self)
    }

    /// The map from before, while the array grows.
    pub fn older(&self) -> Option<&Self> {
        Some(&self.older.as_ref()?.geometry)
    }

    /// From where on the old map holds, while the array grows.
    pub fn mark(&self) -> Option<BlockIndex> {
        Some(BlockIndex(self.older.as_ref()?.mark))
    }

    /// The blocks of the array in whole groups of both maps: the mark is a multiple of it.
    pub fn growth_unit(&self) -> Option<u64> {
        let older = self.older.as_ref()?;
        let (old, new) = (older.geometry.stripe_blocks(), self.stripe_blocks());
        let (mut a, mut b) = (old, new);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Some(old / a * new)
    }

    /// Data blocks of a group.
    pub fn stripe_blocks(&self) -> u64 {
        u64::from(self.chunk_blocks) * u64::from(self.data_chunks)
    }

    /// Moves the mark: to a multiple of the unit, or beyond the end of the old map to that of a
    /// group of the new one.
    pub fn set_mark(&mut self, mark: BlockIndex) {
        let unit = self.growth_unit().expect("it grows");
        let (stripe, blocks) = (self.stripe_blocks(), self.blocks);
        let older = self.older.as_mut().expect("it grows");
        let between = if mark.0 < older.geometry.blocks {
            mark.0.is_multiple_of(unit)
        } else {
            mark.0.is_multiple_of(stripe) && mark.0 <= blocks
        };
        assert!(between, "the mark is between groups of both maps");
        older.mark = mark.0;
    }

    /// Only the new map holds.
    #[must_use]
    pub fn grown(mut self) -> Self {
        self.older = None;
        self
    }

    /// The groups that hold the array: of the new map, and of the old one.
    pub fn live_groups(&self) -> [Range<u64>; 2] {
        let Some(older) = &self.older else {
            return [0..self.groups, self.groups..self.groups];
        };
        let end = older.first_group + older.geometry.groups;
        let moved = older.mark.div_ceil(self.stripe_blocks());
        let left = older.first_group + older.mark.div_ceil(older.geometry.stripe_blocks());
        [0..moved, left.min(end)..end]
    }

    pub(crate) fn find_growing(
        &self,
        older: &Older,
        member: spindles_block::MemberIndex,
        offset: BlockIndex,
    ) -> Option<(GroupIndex, u8, u32)> {
        let [new, old] = self.live_groups();
        if let Some(found) = self.find_in_zones(member, offset)
            && new.contains(&found.0.0)
        {
            return Some(found);
        }
        let (group, slot, block) = older.geometry.find(member, offset)?;
        let group = older.first_group + group.0;
        old.contains(&group)
            .then_some((GroupIndex(group), slot, block))
    }

    pub(crate) fn survives_more_growing(&self, older: &Older, missing: MemberSet) -> Option<u8> {
        // Before anything is moved, what was added has no part.
        let old = MemberSet::all(older.geometry.members);
        let added = MemberSet::all(self.members).difference(old);
        let counted = match older.mark {
            0 => missing.difference(added),
            _ => missing,
        };
        self.zones_survive_more(counted)
            .min(older.geometry.survives_more(missing))
    }
}
