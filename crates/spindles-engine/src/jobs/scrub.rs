//! The options of a scrub, and its findings.

use crate::jobs::Place;
use spindles_block::{BlockIndex, BlockSize, MemberIndex};
use spindles_format::ArrayRecord;
use spindles_layout::{Geometry, GroupIndex};

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

/// The superblocks record the mark at least this many times on the way through the array.
const MARKS: u64 = 16;

/// The superblocks record the mark at least once in this many bytes of the array.
const MARK_BYTES: u64 = 4 << 30;

/// The parts of the array on which a scrub depends.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) block_size: BlockSize,
    /// False if only the metadata can be inspected.
    pub(crate) compares: bool,
    pub(crate) read_only: bool,
    /// Blocks that are known to be wrong, as the superblocks record them.
    pub(crate) recorded_left: u64,
}

impl Context {
    /// Returns the number of groups after which the mark is recorded again.
    fn mark_groups(self, geometry: &Geometry) -> u64 {
        let groups = geometry.groups();
        let bytes = geometry.blocks() * u64::from(self.block_size.bytes());
        (groups / MARKS)
            .min(groups / (bytes / MARK_BYTES).max(1))
            .max(1)
    }
}

/// The engine's state of scrubs, apart from the walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScrubState {
    repair: Repair,
    found: ScrubStatus,
    /// Wrong blocks left by an interrupted earlier part, or found by a rebuild since.
    left_before: u64,
    /// The group from which on the mark is to be recorded again.
    due: GroupIndex,
    /// True if places that this scrub has passed have other contents now: the next one begins at
    /// the start.
    outdated: bool,
}

impl ScrubState {
    /// Begins a scrub. Returns the place at which the walk begins.
    pub(crate) fn begin(&mut self, scrub: Scrub, geometry: &Geometry, context: Context) -> Place {
        let kept = self.found.mark;
        let repair = if context.read_only {
            Repair::Nothing
        } else {
            scrub.repair
        };
        let is_check = repair == Repair::Nothing;
        let group = if !context.compares {
            // Only the metadata is inspected: the walk begins at the end of the data.
            GroupIndex(geometry.groups())
        } else if scrub.anew || is_check || kept.0 >= geometry.blocks() {
            GroupIndex(0)
        } else {
            geometry.locate(kept).group
        };
        let goes_on = context.compares && group != GroupIndex(0);
        let left_before = if goes_on || is_check {
            context.recorded_left.max(self.left_blocks())
        } else {
            0
        };
        let start = if context.compares {
            BlockIndex(geometry.blocks_before(group))
        } else {
            BlockIndex(0)
        };
        *self = Self {
            repair,
            left_before,
            found: ScrubStatus {
                from: start,
                mark: if is_check { kept } else { start },
                left_before_blocks: if goes_on { left_before } else { 0 },
                ..ScrubStatus::default()
            },
            due: GroupIndex(group.0 + context.mark_groups(geometry)),
            outdated: false,
        };
        Place::start_of(group)
    }

    /// Notes that the walk is complete below a group. Returns true if the superblocks should record
    /// that now.
    pub(crate) fn advances(
        &mut self,
        group: GroupIndex,
        geometry: &Geometry,
        context: Context,
    ) -> bool {
        let is_inside = group.0 < geometry.groups();
        let is_due = !self.is_check() && group >= self.due && is_inside;
        if is_due {
            self.due = GroupIndex(group.0 + context.mark_groups(geometry));
            self.stands_at(group, geometry);
        }
        is_due
    }

    /// Sets the block at which the next scrub continues if this one ends at `group`.
    pub(crate) fn stands_at(&mut self, group: GroupIndex, geometry: &Geometry) {
        let mark = geometry.blocks_before(group);
        let restarts = self.outdated || mark >= geometry.blocks();
        self.found.mark = BlockIndex(if restarts { 0 } else { mark });
    }

    /// Lets the next scrub begin at the start, because this one went through everything.
    pub(crate) fn ends(&mut self) {
        self.found.mark = BlockIndex(0);
    }

    /// Returns true if the superblocks lack the progress or the results.
    pub(crate) fn differs_from(&self, array: &ArrayRecord) -> bool {
        array.scrub_mark != self.found.mark || array.scrub_left_blocks < self.left_blocks()
    }

    /// Counts a finding of the scrub.
    pub(crate) fn count(&mut self, finding: &Finding) {
        let found = &mut self.found;
        let count = match (finding.flaw, finding.fate == Fate::Repaired) {
            (Flaw::ChecksumLost, true) => &mut found.metadata_repaired_blocks,
            (Flaw::ChecksumLost, false) => &mut found.metadata_left_blocks,
            (Flaw::Unreadable | Flaw::Rotten, true) => &mut found.repaired_blocks,
            (Flaw::Unreadable | Flaw::Rotten, false) => &mut found.left_blocks,
        };
        *count += u64::from(finding.blocks);
    }

    /// Counts rows that disagree, or were made to agree.
    pub(crate) fn count_disagreement(&mut self, rows: u32, made_to_agree: bool) {
        if made_to_agree {
            self.found.made_to_agree += u64::from(rows);
        } else {
            self.found.disagreements += u64::from(rows);
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_layout::{Level, Spec};

    /// An array of 32 groups that records the mark every two groups.
    fn geometry() -> Geometry {
        let spec = Spec {
            level: Level::by_name("raid5").expect("a row of the table"),
            layout: None,
            chunk_blocks: 2,
            member_blocks: vec![64; 3],
        };
        Geometry::new(&spec).expect("a legal array")
    }

    const CONTEXT: Context = Context {
        block_size: BlockSize::B4096,
        compares: true,
        read_only: false,
        recorded_left: 0,
    };

    /// Returns a scrub that was interrupted at a group, where it left a block.
    fn interrupted(geometry: &Geometry, group: u64) -> ScrubState {
        let mut scrub = ScrubState::default();
        scrub.begin(Scrub::default(), geometry, CONTEXT);
        scrub.also_left(1);
        scrub.stands_at(GroupIndex(group), geometry);
        scrub
    }

    #[test]
    fn a_scrub_goes_on_where_the_last_one_was_interrupted() {
        let geometry = geometry();
        let mut scrub = interrupted(&geometry, 5);
        let from = scrub.begin(Scrub::default(), &geometry, CONTEXT);
        assert_eq!(from, Place::start_of(GroupIndex(5)));
        assert_eq!(scrub.found().from, BlockIndex(20));
        assert_eq!(scrub.found().left_before_blocks, 1);
        assert_eq!(scrub.left_blocks(), 1);
    }

    #[test]
    fn a_scrub_from_the_start_forgets_what_was_left() {
        let geometry = geometry();
        let mut scrub = interrupted(&geometry, 5);
        let anew = Scrub {
            anew: true,
            ..Scrub::default()
        };
        let from = scrub.begin(anew, &geometry, CONTEXT);
        assert_eq!((from, scrub.left_blocks()), (Place::default(), 0));
    }

    #[test]
    fn a_check_changes_neither_the_mark_nor_the_results() {
        let geometry = geometry();
        let mut scrub = interrupted(&geometry, 5);
        let context = Context {
            recorded_left: 7,
            ..CONTEXT
        };
        let check = Scrub {
            anew: false,
            repair: Repair::Nothing,
        };
        assert_eq!(scrub.begin(check, &geometry, context), Place::default());
        assert!(!scrub.advances(GroupIndex(9), &geometry, context));
        scrub.count_disagreement(3, false);
        assert_eq!((scrub.mark(), scrub.left_blocks()), (BlockIndex(20), 7));
        let context = Context {
            read_only: true,
            ..context
        };
        scrub.begin(Scrub::default(), &geometry, context);
        assert!(scrub.is_check(), "read-only arrays are only checked");
    }

    #[test]
    fn without_redundancy_only_metadata_is_inspected() {
        let geometry = geometry();
        let context = Context {
            compares: false,
            ..CONTEXT
        };
        let from = ScrubState::default().begin(Scrub::default(), &geometry, context);
        assert_eq!(from, Place::start_of(GroupIndex(32)));
    }

    #[test]
    fn the_mark_is_recorded_from_time_to_time() {
        let geometry = geometry();
        let mut scrub = ScrubState::default();
        scrub.begin(Scrub::default(), &geometry, CONTEXT);
        let mut is_due = |group| scrub.advances(GroupIndex(group), &geometry, CONTEXT);
        let due = [1, 2, 3, 4, 32].map(&mut is_due);
        assert_eq!(due, [false, true, false, true, false]);
        assert_eq!(scrub.mark(), BlockIndex(16));
    }

    #[test]
    fn a_scrub_that_passed_other_contents_is_not_continued() {
        let geometry = geometry();
        let mut scrub = interrupted(&geometry, 5);
        scrub.begin(Scrub::default(), &geometry, CONTEXT);
        scrub.forget_mark();
        assert!(scrub.advances(GroupIndex(9), &geometry, CONTEXT));
        assert_eq!(scrub.mark(), BlockIndex(0));
    }
}
