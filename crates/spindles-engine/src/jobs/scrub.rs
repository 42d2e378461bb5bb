//! What a scrub is asked to do, and what it finds.

use spindles_block::{BlockIndex, MemberIndex};
use spindles_layout::GroupIndex;

/// What a scrub is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// Whether it begins at the start of the array; otherwise it goes on where the last one was
    /// interrupted. A check (`Repair::Nothing`) always begins there.
    pub anew: bool,
    /// What it does about what is wrong.
    pub repair: Repair,
}

/// What a scrub does about what is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: it tells.
    Nothing,
    /// Repairs what can't be read, and what is known to be rotten; tells the rest.
    #[default]
    Located,
    /// Where it can't be known what is rotten, takes the data for the truth, or the first copy: the
    /// redundancy agrees afterwards, over rotten data too.
    TrustData,
}

/// What was wrong with a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It could not be read.
    Unreadable,
    /// It was read, and the bytes were not those that had been written.
    Rotten,
    /// It was read, and nothing could verify it: its checksum was corrupt.
    ChecksumLost,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was written anew, durably.
    Repaired,
    /// The member refused what was to repair it: it is in the list of bad blocks.
    Refused,
    /// Nothing was done: too much is lost to tell what belongs there, or nothing was to be done.
    Left,
}

/// A place on a member where something was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The member.
    pub member: MemberIndex,
    /// The first block, counted from the start of its device.
    pub block: BlockIndex,
    /// How many.
    pub blocks: u32,
    /// The first block of the array that is there; `None` for parity.
    pub array_block: Option<BlockIndex>,
    /// What was wrong.
    pub flaw: Flaw,
    /// What became of it.
    pub fate: Fate,
    /// Whether a scrub found it, and not somebody who read there.
    pub by_scrub: bool,
}

/// What the scrub under way found so far, or else the last one since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Blocks of members that were wrong and were repaired.
    pub repaired_blocks: u64,
    /// Blocks of members that were wrong and still are.
    pub left_blocks: u64,
    /// Blocks of metadata, and blocks whose checksum was corrupt, that were repaired.
    pub metadata_repaired_blocks: u64,
    /// The same that still are wrong.
    pub metadata_left_blocks: u64,
    /// Blocks, and rows of blocks, that an earlier part of this scrub, which was interrupted, found wrong and left.
    pub left_before_blocks: u64,
    /// Rows of blocks that did not fit together without one being known to be wrong, and still
    /// don't.
    pub disagreements: u64,
    /// Rows of blocks that were made to agree with their data.
    pub made_to_agree: u64,
    /// Where the next one that does not begin anew goes on, as a block of the array.
    pub mark: BlockIndex,
}

/// What the engine keeps about scrubs, besides the walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScrubState {
    pub(crate) repair: Repair,
    pub(crate) found: ScrubStatus,
    /// What the part before left that was interrupted, or a rebuild met since.
    pub(crate) left_before: u64,
    /// The group from which on the mark is to be kept again.
    pub(crate) due: GroupIndex,
}

impl ScrubState {
    /// What the scrub under way found so far, or else the last one.
    pub(crate) fn found(&self) -> ScrubStatus {
        self.found
    }

    /// Whether it changes nothing: the superblocks then keep what they say of the last scrub.
    pub(crate) fn is_check(&self) -> bool {
        self.repair == Repair::Nothing
    }

    /// Where the next one that does not begin anew goes on.
    pub(crate) fn mark(&self) -> BlockIndex {
        self.found.mark
    }

    /// So many blocks were found wrong by a rebuild, and could not be repaired.
    pub(crate) fn also_left(&mut self, blocks: u64) {
        self.left_before += blocks;
    }

    /// What could not be repaired, on the way here from the start of the array. A check repairs nothing, and
    /// leaves this as it was.
    pub(crate) fn left_blocks(&self) -> u64 {
        if self.is_check() {
            return self.left_before;
        }
        let found = &self.found;
        self.left_before + found.left_blocks + found.metadata_left_blocks + found.disagreements
    }
}
