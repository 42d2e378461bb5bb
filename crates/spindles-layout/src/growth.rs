//! Two maps of one array while it grows: the new one applies below a mark, the old one from the
//! mark on.
//!
//! Groups of the new map keep their numbers; those of the old map are counted after them. So all
//! are in the order of the array's blocks, and no number changes while the mark moves. Only *live*
//! groups count: those of the new map below the mark, and those of the old map from it on.

use crate::{Geometry, GroupIndex, Level};
use alloc::boxed::Box;
use core::fmt;
use core::ops::Range;
use spindles_block::{BlockIndex, MemberSet};

/// The map of an array before it began to grow.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    pub(crate) geometry: Geometry,
    /// The old map applies from this block on.
    pub(crate) mark: u64,
    /// The number of the old map's first group.
    pub(crate) first_group: u64,
}

/// Why an array can't grow this way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrowthError {
    /// The level can't grow, or can't be grown to.
    Level {
        /// The level.
        level: &'static Level,
    },
    /// Fewer members than now.
    FewerMembers {
        /// The number of members.
        members: u8,
    },
    /// Less parity than now.
    LessParity,
    /// Nothing changes.
    Nothing,
    /// A row of chunks would hold less data than before. Moved data would overwrite data that was
    /// not moved yet.
    Denser {
        /// Data chunks in a row before.
        from: u8,
        /// Data chunks in a row after.
        to: u8,
        /// The number of members needed.
        members_min: u8,
    },
    /// The members are too small.
    Smaller {
        /// The array's present size, in blocks.
        blocks: u64,
        /// Its new size, in blocks.
        blocks_after: u64,
    },
}

impl fmt::Display for GrowthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level { level } => write!(
                f,
                "growing from or to {level} is not built: only copies on every member, and levels \
                 with parity, grow"
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
    /// Returns the map of an array that grows from `old` to `self`, which applies below `mark`.
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

    /// The map before growth; `None` unless the array is growing.
    pub fn older(&self) -> Option<&Self> {
        Some(&self.older.as_ref()?.geometry)
    }

    /// The first block of the old map; `None` unless the array is growing.
    pub fn mark(&self) -> Option<BlockIndex> {
        Some(BlockIndex(self.older.as_ref()?.mark))
    }

    /// The smallest number of array blocks that is whole groups of both maps: the mark is a
    /// multiple of it. `None` unless the array is growing.
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

    /// Moves the mark to a multiple of the unit or, beyond the end of the old map, to a multiple of
    /// the new map's group size.
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

    /// Drops the old map.
    #[must_use]
    pub fn grown(mut self) -> Self {
        self.older = None;
        self
    }

    /// The live groups: of the new map, and of the old one.
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
        // Before any data is moved, the added members hold none.
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
