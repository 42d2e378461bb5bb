//! The options of a scrub, and its findings.

use spindles_block::{BlockIndex, MemberIndex};
use spindles_layout::GroupIndex;

/// The options of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// True to begin at the start of the array, false to continue where the last scrub was
    /// interrupted. A check (`Repair::Nothing`) always begins at the start.
    pub anew: bool,
    /// What it repairs.
    pub repair: Repair,
}

/// What a scrub repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Nothing: findings are only reported.
    Nothing,
    /// Blocks that are unreadable or known to be rotten. The rest is only reported.
    #[default]
    Located,
    /// Rows whose rotten block can't be identified too: their data, or the first copy, counts as
    /// correct. The redundancy agrees afterwards, even with rotten data.
    TrustData,
}

/// The flaw of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The place could not be read.
    Unreadable,
    /// The place was read, but holds other bytes than were written.
    Rotten,
    /// The place was read, but could not be verified, because its checksum was corrupt.
    ChecksumLost,
}

/// What happened to a place with a flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The place was rewritten, durably.
    Repaired,
    /// The member refused the rewrite: the place is in the list of bad blocks.
    Refused,
    /// The place was not repaired: too much is lost for a reconstruction, or no repair was
    /// requested.
    Left,
}

/// A place on a member that has a flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The member.
    pub member: MemberIndex,
    /// The first block, counted from the start of its device.
    pub block: BlockIndex,
    /// The number of blocks.
    pub blocks: u32,
    /// The first affected block of the array; `None` for parity.
    pub array_block: Option<BlockIndex>,
    /// The flaw.
    pub flaw: Flaw,
    /// What happened to the place.
    pub fate: Fate,
    /// True if a scrub found it, false if another reader did.
    pub by_scrub: bool,
}

/// The findings of the current scrub, or else of the last one since opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Wrong blocks of members that the scrub repaired.
    pub repaired_blocks: u64,
    /// Wrong blocks of members that the scrub did not repair.
    pub left_blocks: u64,
    /// Blocks of metadata, and blocks with a corrupt checksum, that were repaired.
    pub metadata_repaired_blocks: u64,
    /// Blocks of metadata, and blocks with a corrupt checksum, that are still wrong.
    pub metadata_left_blocks: u64,
    /// Blocks, and rows of blocks, that an interrupted earlier part of this scrub found wrong and
    /// left.
    pub left_before_blocks: u64,
    /// Rows of blocks that still disagree, without one block known to be wrong.
    pub disagreements: u64,
    /// Rows of blocks that were made to agree with their data.
    pub made_to_agree: u64,
    /// The block of the array at which it began; an earlier scrub covered what lies before.
    pub from: BlockIndex,
    /// The block of the array at which the next scrub continues, unless it begins at the start.
    pub mark: BlockIndex,
}

/// The engine's state of scrubs, apart from the walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScrubState {
    pub(crate) repair: Repair,
    pub(crate) found: ScrubStatus,
    /// Wrong blocks left by an interrupted earlier part, or found by a rebuild since.
    pub(crate) left_before: u64,
    /// The group from which on the mark is to be recorded again.
    pub(crate) due: GroupIndex,
    /// True if places that this scrub has passed have other contents now: the next one begins at
    /// the start.
    pub(crate) outdated: bool,
}

impl ScrubState {
    /// Returns the findings of the current scrub, or else of the last one.
    pub(crate) fn found(&self) -> ScrubStatus {
        self.found
    }

    /// Returns true if the scrub changes nothing. The superblocks then keep the results of the last
    /// scrub.
    pub(crate) fn is_check(&self) -> bool {
        self.repair == Repair::Nothing
    }

    /// Returns the block at which the next scrub continues, unless it begins at the start.
    pub(crate) fn mark(&self) -> BlockIndex {
        self.found.mark
    }

    /// Adds blocks that a rebuild found wrong and could not repair.
    pub(crate) fn also_left(&mut self, blocks: u64) {
        self.left_before += blocks;
    }

    /// Returns the number of unrepaired blocks and disagreements between the start of the array and
    /// the current place of the scrub. A check repairs nothing and does not change this number.
    pub(crate) fn left_blocks(&self) -> u64 {
        if self.is_check() {
            return self.left_before;
        }
        let found = &self.found;
        self.left_before + found.left_blocks + found.metadata_left_blocks + found.disagreements
    }

    /// Sets the place where a scrub was interrupted, from the superblocks.
    pub(crate) fn resume_mark(&mut self, mark: BlockIndex) {
        self.found.mark = mark;
    }

    /// Lets the next scrub begin at the start: a member has another device or was away, or blocks
    /// have moved. No scrub has read what lies there now.
    pub(crate) fn forget_mark(&mut self) {
        self.found.mark = BlockIndex(0);
        self.outdated = true;
    }

    /// Counts blocks of metadata that were wrong.
    pub(crate) fn count_metadata(&mut self, blocks: u64, repaired: bool) {
        let found = &mut self.found;
        if repaired {
            found.metadata_repaired_blocks += blocks;
        } else {
            found.metadata_left_blocks += blocks;
        }
    }

    /// Returns the kinds of repair that a stripe range may do: those of the scrub, or of a rewrite.
    #[cold]
    pub(crate) fn repair_of(&self, is_scrub: bool) -> Repair {
        if is_scrub {
            self.repair
        } else {
            Repair::Located
        }
    }
}
