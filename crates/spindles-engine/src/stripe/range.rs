//! A stripe range: a range of rows in the chunks of one group, with the state of the work on it.

use super::stage::{Past, Stage, Way};
use crate::{
    RangeId,
    jobs::Place,
    plan::{Ask, Plan, Shape, Steps, Strategy},
    recovery::rows::Settling,
    slots::SlotSet,
};
use core::ops::Range;
use spindles_block::{BlockIndex, Instant, MemberIndex, RequestError};
use spindles_layout::GroupIndex;

/// For whom a stripe range works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Request(u32),
    /// A request that was answered once its write was durable in the log. The stripe range writes
    /// the blocks to their places from scratch space.
    Answered,
    /// The stage, which places blocks. `is_durable` is true if the batches of these blocks are
    /// durable.
    Stage {
        is_durable: bool,
    },
    /// The replay of the journals.
    Replay,
    /// The job in this row of the table.
    Job(u8),
    /// A rewrite of a place where a read failed.
    Repair,
}

/// The state of the current rows in a written region of an array with parity and checksums. Not all
/// rows of such a region were necessarily written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// Not determined yet.
    Unknown,
    /// Loading the checksum pages of all members.
    Looking,
    Written,
    /// Never written: no block has a checksum. The rows read as zeros, whatever the members hold.
    Blank,
    /// The first write is in place, unlogged. Its checksums follow once that is durable.
    Placed,
}

/// An operation that goes straight to one member, without a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    pub(crate) member: MemberIndex,
    /// The first block, in the data area of the member and in the array. Set only if blocks have
    /// checksums.
    pub(crate) offset: BlockIndex,
    pub(crate) block: BlockIndex,
}

/// The current reads of a stripe range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// When the reads were issued.
    pub(crate) issued: Instant,
    /// Slots from which a planned read is not back yet. Updated for `Ask::Read` only.
    pub(crate) awaited: SlotSet,
    /// True while it computes the contents of a slow member.
    pub(crate) around: bool,
}

/// Findings in the rows of a stripe range, which its result depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) corrupt: bool,
    pub(crate) mismatch: bool,
    /// An unlocked read failed verification.
    pub(crate) unlocked_read_failed: bool,
}

/// The state of the current rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsUnderWay {
    pub(crate) unreadable: SlotSet,
    /// Unreadable slots that can be read but hold wrong bytes.
    pub(crate) rotten: SlotSet,
    /// Rotten slots that can't be verified, because their checksums were lost.
    pub(crate) checksum_lost: SlotSet,
    /// Unreadable slots that are made to agree with the others, without proof that they are wrong.
    pub(crate) overruled: SlotSet,
    /// Slots that refused a repair.
    pub(crate) refused: SlotSet,
    /// Slots of returning members whose old blocks are read, since the rows can't be filled
    /// otherwise.
    pub(crate) old_contents: SlotSet,
    /// Slots that count as zeros and are not read: they are lost, logged as zeros, or in blank
    /// rows.
    pub(crate) zeros: SlotSet,
    /// Slots whose checksums are at hand: see `ChecksumsOf`.
    pub(crate) read_checksums: SlotSet,
    pub(crate) made_checksums: SlotSet,
    pub(crate) new_checksums: SlotSet,
    /// Progress of settling the rows after a crash.
    pub(crate) settling: Settling,
    /// Whether the rows were ever written.
    pub(crate) state: RowState,
    /// True if blocks of a write to these rows may be in their places.
    pub(crate) placing: bool,
    /// True if old blocks of returning members were tried.
    pub(crate) tried_old_contents: bool,
}

impl RowsUnderWay {
    const UNKNOWN: Self = Self {
        unreadable: SlotSet::EMPTY,
        rotten: SlotSet::EMPTY,
        checksum_lost: SlotSet::EMPTY,
        overruled: SlotSet::EMPTY,
        refused: SlotSet::EMPTY,
        old_contents: SlotSet::EMPTY,
        zeros: SlotSet::EMPTY,
        read_checksums: SlotSet::EMPTY,
        made_checksums: SlotSet::EMPTY,
        new_checksums: SlotSet::EMPTY,
        settling: Settling::No,
        state: RowState::Unknown,
        placing: false,
        tried_old_contents: false,
    };
}

/// The slots of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Slots that are logged, or replayed from the log. `data` are those with blocks.
    pub(crate) slots: SlotSet,
    pub(crate) data: SlotSet,
}

/// A range of rows in the chunks of one group, with the state of the work on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeRange {
    stage: Stage,
    pub(crate) owner: Owner,
    pub(crate) ask: Ask,
    pub(crate) group: GroupIndex,
    /// The shape of its group.
    pub(crate) shape: Shape,
    /// The touched data slots, including those of stripe ranges merged into this one.
    pub(crate) touched: SlotSet,
    /// The touched data slots of this stripe range alone.
    pub(crate) own: SlotSet,
    /// The next merged stripe range; `RangeId::NONE` after the last.
    pub(crate) merged: RangeId,
    /// The first row, of work of the array's own.
    start: u32,
    /// The current rows are `low..low + blocks`; the stripe range ends at `end`.
    pub(crate) low: u32,
    pub(crate) blocks: u32,
    pub(crate) end: u32,
    /// The copy to read.
    pub(crate) preferred: u8,
    pub(crate) direct: Direct,
    pub(crate) plan: Plan,
    pub(crate) rows: RowsUnderWay,
    pub(crate) seen: Seen,
    pub(crate) reads: Reads,
    pub(crate) written: Written,
    /// Member I/Os that are not back.
    pub(crate) pending: u32,
    pub(crate) locked: bool,
    pub(crate) error: Option<RequestError>,
    /// The value to pass to `Flushes::ended` after the flush that it waits for.
    pub(crate) covers: u64,
    /// Operands of the current computation.
    pub(crate) sources: u16,
    pub(crate) targets: u16,
}

impl StripeRange {
    /// Returns a free stripe range of an array whose groups have this shape.
    pub(crate) const fn free(shape: Shape) -> Self {
        Self {
            stage: Stage::Free,
            owner: Owner::Nobody,
            ask: Ask::Read,
            group: GroupIndex(0),
            shape,
            touched: SlotSet::EMPTY,
            own: SlotSet::EMPTY,
            merged: RangeId::NONE,
            start: 0,
            low: 0,
            blocks: 0,
            end: 0,
            preferred: 0,
            direct: Direct {
                member: MemberIndex(0),
                offset: BlockIndex(0),
                block: BlockIndex(0),
            },
            plan: Plan {
                strategy: Strategy::Direct,
                steps: Steps::NONE,
                reads: SlotSet::EMPTY,
                recover: SlotSet::EMPTY,
                encode: SlotSet::EMPTY,
                writes: SlotSet::EMPTY,
                writes_always: SlotSet::EMPTY,
            },
            rows: RowsUnderWay::UNKNOWN,
            seen: Seen {
                corrupt: false,
                mismatch: false,
                unlocked_read_failed: false,
            },
            reads: Reads {
                issued: Instant(0),
                awaited: SlotSet::EMPTY,
                around: false,
            },
            written: Written {
                slots: SlotSet::EMPTY,
                data: SlotSet::EMPTY,
            },
            pending: 0,
            locked: false,
            error: None,
            covers: 0,
            sources: 0,
            targets: 0,
        }
    }

    /// Begins work of the array's own on these rows of a group.
    pub(crate) fn begin_own(
        &mut self,
        owner: Owner,
        ask: Ask,
        group: GroupIndex,
        rows: Range<u32>,
    ) {
        self.move_to(Stage::Starting);
        self.owner = owner;
        self.ask = ask;
        self.group = group;
        self.touched = SlotSet::EMPTY;
        self.start = rows.start;
        self.low = rows.start;
        self.blocks = rows.end - rows.start;
        self.end = rows.end;
    }

    /// Returns the first row of work of the array's own.
    #[inline]
    pub(crate) const fn first_row(&self) -> u32 {
        self.start
    }

    /// Returns the place at which a job's stripe range began.
    pub(crate) const fn place(&self) -> Place {
        Place::new(self.group, self.start)
    }

    /// Returns true if it is under way for the job in this row of the table.
    pub(crate) fn is_of_job(&self, row: usize) -> bool {
        let is_of_row = matches!(self.owner, Owner::Job(owner) if usize::from(owner) == row);
        is_of_row && self.stage != Stage::Free
    }

    /// Returns true if it is past its commit, or about to reach it: it writes to its places.
    pub(crate) fn is_about_to_write(&self) -> bool {
        match self.stage {
            Stage::Free
            | Stage::Starting
            | Stage::Direct
            | Stage::DirectPaging
            | Stage::Verifying
            | Stage::Covered
            | Stage::Copying
            | Stage::Summing
            | Stage::Staged
            | Stage::Merged
            | Stage::Locking
            | Stage::Preparing
            | Stage::Paging
            | Stage::Reading { .. }
            | Stage::Computing(_)
            | Stage::Checksumming { .. }
            | Stage::Keeping { .. }
            | Stage::Acknowledging(_) => false,
            // Its checksums follow.
            Stage::Flushing(_) => self.rows.state == RowState::Placed,
            Stage::Begin
            | Stage::Agree
            | Stage::Summed
            | Stage::Queued
            | Stage::Logging { .. }
            | Stage::Logged { .. }
            | Stage::Kept { .. }
            | Stage::Placing(_) => true,
        }
    }

    /// Returns true if it relies on its region as it was when it was planned.
    pub(crate) fn relies_on_region(&self) -> bool {
        match self.stage {
            Stage::DirectPaging
            | Stage::Verifying
            | Stage::Paging
            | Stage::Reading { .. }
            | Stage::Computing(_)
            | Stage::Checksumming { .. }
            | Stage::Keeping { .. }
            | Stage::Flushing(_) => self.locked,
            Stage::Begin
            | Stage::Agree
            | Stage::Summed
            | Stage::Queued
            | Stage::Logging { .. }
            | Stage::Logged { .. }
            | Stage::Kept { .. }
            | Stage::Placing(_)
            | Stage::Acknowledging(_) => true,
            Stage::Free
            | Stage::Starting
            | Stage::Direct
            | Stage::Covered
            | Stage::Copying
            | Stage::Summing
            | Stage::Staged
            | Stage::Merged
            | Stage::Locking
            | Stage::Preparing => false,
        }
    }

    /// Returns its stage.
    #[inline]
    pub(crate) const fn stage(&self) -> Stage {
        self.stage
    }

    /// Moves on to another stage. Panics if that may not follow.
    #[inline]
    pub(crate) fn move_to(&mut self, stage: Stage) {
        if !self.stage.may_become(stage) {
            self.stage.refuse(stage);
        }
        self.stage = stage;
    }

    /// Notes that one of the current reads failed.
    pub(crate) fn read_fails(&mut self) {
        self.move_to(Stage::Reading { failed: true });
    }

    /// Notes that its batch is durable in the log.
    pub(crate) fn is_committed(&mut self) {
        let segment = self.stage.segment().expect("it is in a batch");
        self.move_to(Stage::Logged { segment });
    }

    /// Returns true if its blocks are durable in the log.
    #[inline]
    pub(crate) fn is_logged(&self) -> bool {
        self.stage.segment().is_some()
    }

    /// Returns the segment of the log that holds its blocks, which are in place now: the log no
    /// longer needs them. `None` if it was not logged.
    pub(crate) fn leaves_log(&mut self) -> Option<u8> {
        let Stage::Acknowledging(Past {
            way: Way::Logged { segment },
            ..
        }) = self.stage
        else {
            return None;
        };
        self.move_to(Stage::Acknowledging(Past::NOTHING));
        Some(segment)
    }

    /// Returns true if it keeps others from its rows.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// Returns the data slots that get new contents.
    pub(crate) fn renewed(&self) -> SlotSet {
        match self.ask {
            Ask::Write => self.touched,
            Ask::Read | Ask::Settle | Ask::Rebuild | Ask::Replace | Ask::Scrub => SlotSet::EMPTY,
        }
    }

    /// Returns true if it rewrites places from settled redundancy.
    #[inline]
    pub(crate) fn repairs(&self) -> bool {
        self.ask == Ask::Scrub && self.plan.strategy != Strategy::Settle
    }

    /// Returns true if no reader relies on the blocks that it writes: a device that is being
    /// filled, or contents that the place should already have. No row is in doubt meanwhile.
    #[inline]
    pub(crate) fn is_harmless(&self) -> bool {
        self.plan.strategy == Strategy::Rebuild || self.repairs()
    }

    /// Returns true if it replaces everything in its rows. Only then rows of a region in doubt need
    /// not be settled before it continues.
    pub(crate) fn replaces_all(&self) -> bool {
        let whole = self.shape.copies || self.touched == self.shape.all_data();
        self.ask == Ask::Write && whole
    }

    /// Returns true if a write that can't be planned should give up rotten blocks as lost, and then
    /// be done. Only if:
    ///
    /// - each unreadable slot is rotten, or in the bad-block list (`bad`): other unreadable blocks
    ///   may become readable later;
    /// - this is the first attempt: blocks that rot right after settling would rot again.
    pub(crate) fn may_lose_rotten(&self, unreadable: SlotSet, bad: SlotSet) -> bool {
        let rotten = unreadable.and(self.rows.rotten);
        let others = unreadable.minus(rotten).minus(bad);
        let rots = !rotten.is_empty() && others.is_empty();
        let once = self.rows.settling == Settling::No;
        rots && once && self.ask == Ask::Write && !self.shape.copies
    }

    /// Narrows the current rows to a leading part. Returns false if there is only one row.
    pub(crate) fn halve(&mut self) -> bool {
        let blocks = self.blocks;
        if blocks > 1 {
            // The largest power of two below.
            self.blocks = 1 << (u32::BITS - 1 - (blocks - 1).leading_zeros());
            self.forget_findings();
        }
        blocks > 1
    }

    /// Narrows a scrub's rows, to find the unreadable blocks. Returns false if there are none, or
    /// no shorter pieces.
    pub(crate) fn narrow(&mut self, missing: SlotSet) -> bool {
        let lost = self.rows.unreadable.minus(missing);
        !lost.is_empty() && self.halve()
    }

    /// Counts a chunk of the current rows as unreadable from here on. It was read, and is known to
    /// hold wrong bytes.
    pub(crate) fn chunk_is_rotten(&mut self, slot: u8) {
        self.rows.rotten = self.rows.rotten.with(slot);
        self.rows.unreadable = self.rows.unreadable.with(slot);
    }

    /// Returns the slots of present members with a flaw in the current rows.
    pub(crate) fn lost_here(&self, missing: SlotSet) -> SlotSet {
        let rows = &self.rows;
        rows.unreadable.minus(rows.overruled).minus(missing)
    }

    /// Returns true if all of the current rows was read.
    pub(crate) fn lacks_nothing(&self) -> bool {
        self.rows.read_checksums == self.shape.all()
    }

    /// Returns the slots of a read that are zeros, and are not read.
    pub(crate) fn filled(&self) -> SlotSet {
        match self.plan.strategy {
            Strategy::Zeros => self.touched,
            _ => self.touched.and(self.rows.zeros),
        }
    }

    /// Returns the slots whose checksums describe its writes: a single slot suffices for copies.
    pub(crate) fn slots_to_checksum(&self, data: SlotSet) -> SlotSet {
        if self.shape.copies {
            data.lowest(1)
        } else {
            data
        }
    }

    /// Returns true if it writes parity.
    pub(crate) fn writes_parity(&self) -> bool {
        let parity = self.plan.writes.and(self.shape.redundant());
        !self.shape.copies && !parity.is_empty()
    }

    /// Returns true if it writes parity other than that of zeros, to blocks with checksums.
    pub(crate) fn writes_row_sums(&self, checksums: bool) -> bool {
        checksums && self.plan.strategy != Strategy::Direct && self.writes_parity()
    }

    /// Forgets the state of an earlier attempt.
    pub(crate) fn reset(&mut self) {
        self.own = self.touched;
        self.merged = RangeId::NONE;
        self.locked = false;
        self.error = None;
        self.seen = Seen::default();
        self.forget_findings();
    }

    /// Forgets the state of the current rows.
    pub(crate) fn forget_findings(&mut self) {
        self.rows = RowsUnderWay::UNKNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stripe range takes five cache lines.
    #[test]
    fn the_size_of_a_stripe_range() {
        assert_eq!(size_of::<Stage>(), 4);
        assert_eq!(size_of::<Plan>(), 48);
        assert_eq!(size_of::<StripeRange>(), 296);
    }
}
