//! A stripe range: a range of rows in the chunks of one group, and what is being done with it.

use crate::{
    RangeId, index,
    plan::{Ask, Plan, Shape, Strategy, Work},
    recovery::rows::Settling,
    slots::SlotSet,
};
use alloc::{vec, vec::Vec};
use core::ops::{Index, IndexMut};
use spindles_block::{BlockIndex, Instant, MemberIndex, RequestError};
use spindles_format::JournalKind;
use spindles_layout::GroupIndex;

/// Whom a stripe range works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    Request(u32),
    /// Nobody any more: its request was answered when what it writes was durable in the log. It goes to its
    /// places from scratch space.
    Answered,
    /// The replay of what the journals hold.
    Replay,
    /// The row of the job's table.
    Job(u8),
    /// A place where a read failed is made readable again.
    Repair,
}

/// How far a stripe range has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Free,
    Starting,
    /// One operation on one member, without a plan.
    Direct,
    /// Pages of checksums are on their way.
    Paging,
    Flushing,
    Locking,
    /// Its region is not ready to be written, or is being given back.
    Preparing,
    Reading,
    Computing(Work),
    Committing,
    /// What is to be written goes into the journal.
    Logging,
    Writing,
    Acknowledging,
    /// Done by the stripe range that it was merged into.
    Merged,
}

impl Phase {
    /// Whether it may come next. On the way to a commit a stripe range goes to and fro, since it may have to wait,
    /// to read more, or to begin anew under a lock; phases in which there is nothing to do are left out. After
    /// its rows are done the next of them begin.
    ///
    /// ```text
    ///  Free ──▶ Starting ⇄ Locking ⇄ Preparing ⇄ Paging ⇄ Reading ⇄ Computing ──▶ Committing ⇄ Logging
    ///    │  ▲        ▲        └▶ Merged ─▶ Free                │                     │
    ///    ▼  │        └──the next rows──┐                       ▼                     ▼
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

/// What is known of the rows under way in a written region of an array with parity and checksums:
/// not all of its rows need have been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowState {
    /// Not looked at yet.
    Unknown,
    /// The checksum pages of all members are on their way.
    Looking,
    Written,
    /// Never written: no block has a checksum. They read as zeros, whatever the members hold.
    Blank,
    /// The first write is in its places, unlogged: its checksums follow when that is durable.
    Placed,
}

/// An operation that goes straight to one member, without a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    pub(crate) member: MemberIndex,
    /// It is a read of blocks with checksums; only then the two below are set.
    pub(crate) verifies: bool,
    /// Its first block in the data area of the member, and in the array.
    pub(crate) offset: BlockIndex,
    pub(crate) block: BlockIndex,
}

/// The reads under way of a stripe range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    /// When they were begun.
    pub(crate) issued: Instant,
    /// Slots from which a read of a plan is not back yet, if it is for somebody who reads.
    pub(crate) awaited: SlotSet,
    /// It computes what a slow member holds.
    pub(crate) around: bool,
}

/// What was met on the way through a stripe range.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "things that may each be met")]
pub(crate) struct Seen {
    /// Of the reads under way, one failed.
    pub(crate) read_failed: bool,
    pub(crate) corrupt: bool,
    pub(crate) mismatch: bool,
    /// An unlocked read failed verification.
    pub(crate) unlocked_read_failed: bool,
    /// It wrote what is in the list of bad blocks.
    pub(crate) was_bad: bool,
}

/// What is known of the rows under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsUnderWay {
    pub(crate) unreadable: SlotSet,
    /// Of the unreadable slots, those that can be read and hold wrong bytes.
    pub(crate) rotten: SlotSet,
    /// Of these, those whose checksums were lost, so that nothing verifies them.
    pub(crate) checksum_lost: SlotSet,
    /// Of the unreadable slots, those that are made to agree with the others without being known
    /// to be wrong.
    pub(crate) overruled: SlotSet,
    /// Slots that refused what was to repair them.
    pub(crate) refused: SlotSet,
    /// Slots that are zeros, and are not read: they are lost, the log says so, or their rows are blank.
    pub(crate) zeros: SlotSet,
    /// Slots whose checksums are at hand: see `ChecksumsOf`.
    pub(crate) read_checksums: SlotSet,
    pub(crate) made_checksums: SlotSet,
    pub(crate) new_checksums: SlotSet,
    /// The checksums are at hand of what is to be written, and that goes to its place without being logged.
    pub(crate) has_new_checksums: bool,
    /// How far they are put in order after a crash.
    pub(crate) settling: Settling,
    /// Whether they were ever written.
    pub(crate) state: RowState,
    /// Something of what is to be written may be in its place.
    pub(crate) placing: bool,
}

impl RowsUnderWay {
    const UNKNOWN: Self = Self {
        unreadable: SlotSet::EMPTY,
        rotten: SlotSet::EMPTY,
        checksum_lost: SlotSet::EMPTY,
        overruled: SlotSet::EMPTY,
        refused: SlotSet::EMPTY,
        zeros: SlotSet::EMPTY,
        read_checksums: SlotSet::EMPTY,
        made_checksums: SlotSet::EMPTY,
        new_checksums: SlotSet::EMPTY,
        has_new_checksums: false,
        settling: Settling::No,
        state: RowState::Unknown,
        placing: false,
    };
}

/// What a stripe range has in the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    /// What goes into it, or comes out of it: slots, and those of them with blocks.
    pub(crate) slots: SlotSet,
    pub(crate) data: SlotSet,
    /// The segment of the journal that has it.
    pub(crate) segment: Option<u8>,
    /// It writes, and is not in the journal.
    pub(crate) bypassed: bool,
}

/// A range of rows in the chunks of one group, and what is being done with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeRange {
    phase: Phase,
    pub(crate) owner: Owner,
    pub(crate) ask: Ask,
    pub(crate) group: GroupIndex,
    /// Of its group.
    pub(crate) shape: Shape,
    /// The touched data slots, those of stripe ranges merged into this one included.
    pub(crate) touched: SlotSet,
    /// Those of this stripe range alone.
    pub(crate) own: SlotSet,
    /// The next of the stripe ranges that were merged, `RangeId::NONE` after the last.
    pub(crate) merged: RangeId,
    /// The first row, of a job's stripe range.
    pub(crate) start: u32,
    /// The rows under way are `low..low + blocks`, the stripe range's end is at `end`.
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
    /// Member I/O that is not back.
    pub(crate) pending: u32,
    pub(crate) locked: bool,
    pub(crate) error: Option<RequestError>,
    /// What the flush of all members covers that it waits for: see `Flushes`.
    pub(crate) covers: u64,
    /// Operands of the computation under way.
    pub(crate) sources: u16,
    pub(crate) targets: u16,
}

impl StripeRange {
    /// One that has nothing to do, in an array of such groups.
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

    /// How far it has come.
    #[inline]
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// On to another phase, which must be a legal move.
    #[inline]
    pub(crate) fn move_to(&mut self, phase: Phase) {
        assert!(
            self.phase.may_become(phase),
            "a range went from {:?} to {phase:?}",
            self.phase
        );
        self.phase = phase;
    }

    /// Whether it keeps others from its rows.
    pub(crate) fn is_locked(&self) -> bool {
        self.locked
    }

    /// The data slots that get new contents.
    pub(crate) fn renewed(&self) -> SlotSet {
        match self.ask {
            Ask::Write => self.touched,
            Ask::Read | Ask::Settle | Ask::Rebuild | Ask::Replace | Ask::Scrub => SlotSet::EMPTY,
        }
    }

    /// How the journal has what goes to a slot.
    pub(crate) fn journal_kind(&self, slot: u8) -> JournalKind {
        if self.log.data.contains(slot) {
            JournalKind::Data
        } else {
            JournalKind::Zeros
        }
    }

    /// What a stripe range learns while it is carried out is forgotten.
    pub(crate) fn reset(&mut self) {
        self.own = self.touched;
        self.merged = RangeId::NONE;
        self.locked = false;
        self.direct.verifies = false;
        self.error = None;
        self.seen = Seen::default();
        self.forget_findings();
    }

    /// What is known of the rows under way is forgotten.
    pub(crate) fn forget_findings(&mut self) {
        self.rows = RowsUnderWay::UNKNOWN;
    }
}

/// All stripe ranges of an engine: those of requests, then those of jobs.
#[derive(Clone, Debug)]
pub(crate) struct Ranges(Vec<StripeRange>);

impl Ranges {
    /// So many, none of which has anything to do.
    pub(crate) fn new(count: u32, shape: Shape) -> Self {
        Self(vec![StripeRange::free(shape); index(count)])
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("stripe ranges are counted in 32 bits")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StripeRange> {
        self.0.iter()
    }

    /// Those from `first` on.
    pub(crate) fn from(&self, first: u32) -> impl Iterator<Item = &StripeRange> {
        self.0[index(first)..].iter()
    }

    /// All groups have this shape from now on.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        for range in &mut self.0 {
            range.shape = shape;
        }
    }
}

impl Index<RangeId> for Ranges {
    type Output = StripeRange;

    #[inline]
    fn index(&self, id: RangeId) -> &StripeRange {
        &self.0[id.index()]
    }
}

impl IndexMut<RangeId> for Ranges {
    #[inline]
    fn index_mut(&mut self, id: RangeId) -> &mut StripeRange {
        &mut self.0[id.index()]
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
