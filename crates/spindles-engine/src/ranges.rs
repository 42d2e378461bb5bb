//! A stripe range: a range of rows in the chunks of one group, with the state of the work on it.

use crate::{
    RangeId, index,
    plan::{Ask, Plan, Shape, Strategy, Work},
    recovery::rows::Settling,
    slots::SlotSet,
};
use alloc::{vec, vec::Vec};
use core::ops::{Index, IndexMut};
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
    /// The replay of the journals.
    Replay,
    /// The job in this row of the table.
    Job(u8),
    /// A rewrite of a place where a read failed.
    Repair,
}

/// Progress of a stripe range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    Starting,
    /// One operation on one member, without a plan.
    Direct,
    /// Loading pages of checksums.
    Paging,
    Flushing,
    Locking,
    /// Waiting for its region, the superblocks or the bad-block list: see `WaitFor`.
    Preparing,
    Reading,
    Computing(Work),
    Committing,
    /// Writing the new blocks to the journal.
    Logging,
    Writing,
    Acknowledging,
    /// Merged into another stripe range, which does the work.
    Merged,
}

impl Phase {
    /// Returns true if `next` may follow. Before a commit a stripe range moves back and forth: it
    /// may have to wait, to read more, or to start again under a lock. Phases with nothing to do
    /// are skipped. When its rows are done, the next rows begin.
    ///
    /// ```text
    ///  Free ──▶ Starting ⇄ Locking ⇄ Preparing ⇄ Paging ⇄ Reading ⇄ Computing ──▶ Committing
    ///    │  ▲        ▲        └▶ Merged ─▶ Free                │                     │   ⇅
    ///    ▼  │        └──the next rows──┐                       ▼                     ▼ Logging
    ///   Direct                     Acknowledging ◀── Flushing ◀──────────────── Writing
    /// ```
    const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Locking, Self::Merged)
            | (Self::Merged, Self::Free)
            | (Self::Logging, Self::Committing)
            | (Self::Flushing, Self::Acknowledging)
            | (Self::Paging, Self::Direct) => true,
            (Self::Merged | Self::Logging | Self::Flushing, _) | (_, Self::Merged) => false,
            (Self::Free, _) => matches!(
                next,
                Self::Free | Self::Starting | Self::Direct | Self::Paging | Self::Flushing
            ),
            (Self::Direct, _) => matches!(
                next,
                Self::Free | Self::Starting | Self::Direct | Self::Paging | Self::Computing(_)
            ),
            (_, Self::Direct) => false,
            (Self::Writing, _) => matches!(
                next,
                Self::Free | Self::Paging | Self::Flushing | Self::Acknowledging
            ),
            _ => true,
        }
    }
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
    /// True for a read of blocks with checksums. The two fields below are set only then.
    pub(crate) verifies: bool,
    /// The first block, in the data area of the member and in the array.
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

/// Events while a stripe range is carried out.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "things that may each be met")]
pub(crate) struct Seen {
    /// One of the current reads failed.
    pub(crate) read_failed: bool,
    pub(crate) corrupt: bool,
    pub(crate) mismatch: bool,
    /// An unlocked read failed verification.
    pub(crate) unlocked_read_failed: bool,
    /// It wrote blocks that are in the list of bad blocks.
    pub(crate) was_bad: bool,
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
    /// True if the checksums of the blocks to write are at hand, and the blocks are not logged.
    pub(crate) has_new_checksums: bool,
    /// Progress of settling the rows after a crash.
    pub(crate) settling: Settling,
    /// Whether the rows were ever written.
    pub(crate) state: RowState,
    /// True if blocks of the current write may be in their places.
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
        has_new_checksums: false,
        settling: Settling::No,
        state: RowState::Unknown,
        placing: false,
        tried_old_contents: false,
    };
}

/// The part of a stripe range that is in the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    /// Slots that are logged, or replayed from the log. `data` are those with blocks.
    pub(crate) slots: SlotSet,
    pub(crate) data: SlotSet,
    /// The segment of the journal that holds it.
    pub(crate) segment: Option<u8>,
    /// True while it writes without being logged.
    pub(crate) bypassed: bool,
}

/// A range of rows in the chunks of one group, with the state of the work on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeRange {
    phase: Phase,
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
    /// The first row of a job's stripe range.
    pub(crate) start: u32,
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
    pub(crate) log: Logged,
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
            phase: Phase::Free,
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
                verifies: false,
                offset: BlockIndex(0),
                block: BlockIndex(0),
            },
            plan: Plan {
                strategy: Strategy::Direct,
                reads: SlotSet::EMPTY,
                recover: SlotSet::EMPTY,
                encode: SlotSet::EMPTY,
                writes: SlotSet::EMPTY,
                writes_always: SlotSet::EMPTY,
            },
            rows: RowsUnderWay::UNKNOWN,
            seen: Seen {
                read_failed: false,
                corrupt: false,
                mismatch: false,
                unlocked_read_failed: false,
                was_bad: false,
            },
            reads: Reads {
                issued: Instant(0),
                awaited: SlotSet::EMPTY,
                around: false,
            },
            log: Logged {
                slots: SlotSet::EMPTY,
                data: SlotSet::EMPTY,
                segment: None,
                bypassed: false,
            },
            pending: 0,
            locked: false,
            error: None,
            covers: 0,
            sources: 0,
            targets: 0,
        }
    }

    /// Returns its phase.
    #[inline]
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Moves on to another phase. Panics if that may not follow.
    #[inline]
    pub(crate) fn move_to(&mut self, phase: Phase) {
        assert!(
            self.phase.may_become(phase),
            "a range went from {:?} to {phase:?}",
            self.phase
        );
        self.phase = phase;
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

    /// Forgets the state of an earlier attempt.
    pub(crate) fn reset(&mut self) {
        self.own = self.touched;
        self.merged = RangeId::NONE;
        self.locked = false;
        self.direct.verifies = false;
        self.error = None;
        self.seen = Seen::default();
        self.forget_findings();
    }

    /// Forgets the state of the current rows.
    pub(crate) fn forget_findings(&mut self) {
        self.rows = RowsUnderWay::UNKNOWN;
    }
}

/// The stripe ranges of an engine: first for requests, then for jobs.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    all: Vec<StripeRange>,
    /// The number of stripe ranges for requests.
    clients: u32,
    free: Vec<RangeId>,
    free_for_jobs: Vec<RangeId>,
    /// The number of stripe ranges of `Owner::Answered`.
    answered: u32,
}

impl Ranges {
    /// Creates free stripe ranges for requests, and then for jobs.
    pub(crate) fn new(clients: u32, jobs: u32, shape: Shape) -> Self {
        let all = clients + jobs;
        Self {
            all: vec![StripeRange::free(shape); index(all)],
            clients,
            free: (0..clients).rev().map(RangeId).collect(),
            free_for_jobs: (clients..all).rev().map(RangeId).collect(),
            answered: 0,
        }
    }

    /// The number of stripe ranges.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).expect("stripe ranges are counted in 32 bits")
    }

    /// The number of stripe ranges that are free for requests.
    #[inline]
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// The number of stripe ranges that requests use.
    pub(crate) fn used_count(&self) -> usize {
        index(self.clients) - self.free.len()
    }

    /// Returns true if neither a request nor a job uses one.
    pub(crate) fn all_free(&self) -> bool {
        self.free.len() + self.free_for_jobs.len() == self.all.len()
    }

    /// Returns the stripe range that `take` takes next. Panics if none is free.
    #[inline]
    pub(crate) fn next_free(&self) -> RangeId {
        *self.free.last().expect("the caller looked")
    }

    /// Takes a stripe range for a request. Panics if none is free.
    #[inline]
    pub(crate) fn take(&mut self) -> RangeId {
        self.free.pop().expect("the caller looked")
    }

    /// Returns a request's stripe range to the pool.
    #[inline]
    pub(crate) fn give_back(&mut self, id: RangeId) {
        self.free.push(id);
    }

    /// Returns true if a stripe range is free for a job.
    pub(crate) fn any_free_for_jobs(&self) -> bool {
        !self.free_for_jobs.is_empty()
    }

    /// Takes a stripe range for a job. Panics if none is free.
    pub(crate) fn take_for_job(&mut self) -> RangeId {
        self.free_for_jobs.pop().expect("the caller looked")
    }

    /// Returns a job's stripe range to the pool.
    pub(crate) fn give_back_of_job(&mut self, id: RangeId) {
        self.free_for_jobs.push(id);
    }

    /// Notes that the request of a stripe range is answered, although its rows are not in place.
    pub(crate) fn note_answered(&mut self, id: RangeId) {
        self[id].owner = Owner::Answered;
        self.answered += 1;
    }

    /// Returns such a stripe range to the pool.
    pub(crate) fn give_back_answered(&mut self, id: RangeId) {
        self.answered -= 1;
        self.give_back(id);
    }

    /// The number of stripe ranges whose requests are answered.
    #[inline]
    pub(crate) fn answered_count(&self) -> u32 {
        self.answered
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StripeRange> {
        self.all.iter()
    }

    /// Iterates over the stripe ranges for jobs.
    pub(crate) fn for_jobs(&self) -> impl Iterator<Item = &StripeRange> {
        self.all[index(self.clients)..].iter()
    }

    /// Sets the shape of all groups.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        for range in &mut self.all {
            range.shape = shape;
        }
    }
}

impl Index<RangeId> for Ranges {
    type Output = StripeRange;

    #[inline]
    fn index(&self, id: RangeId) -> &StripeRange {
        &self.all[id.index()]
    }
}

impl IndexMut<RangeId> for Ranges {
    #[inline]
    fn index_mut(&mut self, id: RangeId) -> &mut StripeRange {
        &mut self.all[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a range went from Flushing to Writing")]
    fn a_phase_that_may_not_follow_is_refused() {
        let mut range = StripeRange::free(Shape {
            slots: 3,
            data: 2,
            copies: false,
        });
        range.move_to(Phase::Flushing);
        range.move_to(Phase::Writing);
    }
}
