//! Puts rows of regions in doubt in order: fetches the evidence, and carries out what `decide` says.
//!
//! ```text
//!  reading ──▶ verifying ──decide──▶ writing what differs ──▶ flushing ──▶ done
//! ```
//!
//! A column does so with the rows under way before it does anything else with them, holding their
//! lock: for the first read of a region in doubt, and for the resync job. It is durable before the
//! column goes on, so that a second crash can't change what was read once.

use super::decide::{BlockEvidence, decide_copies};
use crate::{
    Engine,
    columns::Phase,
    index,
    plan::{Ask, Plan, Strategy},
    slots::SlotSet,
};
use spindles_block::{MEMBERS_MAX, RequestError};
use spindles_format::stored_checksum;

/// What is known of all blocks of a row.
type Row = [BlockEvidence; MEMBERS_MAX as usize];

/// How far the rows under way of a column are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Settling {
    /// Not at all.
    #[default]
    No,
    /// What is there is read.
    Reading,
    /// It is known what they hold. Copies and checksums are made to agree; whether any did not.
    Agreeing { changed: bool },
    /// That is being made durable.
    Flushing,
    /// They are in order.
    Done,
}

impl Settling {
    /// Whether the column is not yet at what it was asked for.
    #[inline]
    pub(crate) fn is_under_way(self) -> bool {
        !matches!(self, Self::No | Self::Done)
    }
}

impl Engine {
    /// Whether rows of a region in doubt must be put in order before the column goes on. What is
    /// written as a whole, or to all copies, needs no look at what was there.
    pub(crate) fn must_settle(&self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        let whole = column.shape.copies || column.touched == column.shape.all_data();
        self.has_checksums() && column.shape.copies && !(column.ask == Ask::Write && whole)
    }

    /// Reads what is there of the rows under way.
    pub(crate) fn begin_settling(&mut self, id: u32) {
        if !self.bad_blocks_are_stored() {
            // What is lost is durable in the list before anything is written in its place.
            self.columns[index(id)].phase = Phase::Preparing;
            self.gated.push_back(id);
            return;
        }
        let missing = self.missing_slots(id);
        let lost = self.slots_of(id, self.lost);
        let scratch_max = self.limits.column_blocks;
        let column = &mut self.columns[index(id)];
        if column.shape.slots > 1 {
            column.blocks = column.blocks.min(scratch_max);
        }
        let all = column.shape.all();
        let reads = all.minus(lost).minus(column.unreadable);
        if reads.is_empty() {
            let error = if column.corrupt {
                RequestError::Corrupt
            } else {
                RequestError::BeyondTolerance
            };
            column.error.get_or_insert(error);
            return self.finish(id);
        }
        column.settling = Settling::Reading;
        column.zeros = SlotSet::EMPTY;
        column.plan = Plan {
            strategy: Strategy::Settle,
            reads,
            recover: SlotSet::EMPTY,
            encode: SlotSet::EMPTY,
            writes: all.minus(missing),
            writes_always: SlotSet::EMPTY,
        };
        if !self.grow.is_staged(self.columns[index(id)].group) && !self.hold_pages(id) {
            self.columns[index(id)].phase = Phase::Paging;
            return;
        }
        self.carry_out_plan(id);
    }

    /// What is known of a row, counted from the first under way.
    fn evidence(&self, id: u32, row: u32) -> Row {
        let mut evidence = [BlockEvidence::default(); MEMBERS_MAX as usize];
        let column = &self.columns[index(id)];
        let pages = self.pages.as_ref().expect("rows are settled by checksums");
        let missing = self.missing_slots(id);
        for slot in column.shape.all().iter() {
            let of = &mut evidence[usize::from(slot)];
            if column.zeros.contains(slot) {
                of.read = Some(stored_checksum(pages.of_zeros));
                of.kept = of.read;
            } else if column.plan.reads.contains(slot) {
                of.read = Some(stored_checksum(self.verified_checksum(id, slot, row)));
            }
            if !missing.contains(slot) && column.plan.writes.contains(slot) {
                let first = self.block_of_slot(id, slot);
                let block = first.plus(u64::from(row));
                of.kept = pages.known_at(&self.metadata_buffer, (id, slot, first), block);
            }
        }
        evidence
    }

    /// The checksum of what was read of a slot in a row, counted from the first under way.
    fn verified_checksum(&self, id: u32, slot: u8, row: u32) -> u32 {
        let column = &self.columns[index(id)];
        let (reads, blocks) = (column.plan.reads, column.blocks);
        let sums =
            crate::journal::checksum_range(id, reads, slot, blocks, self.checksums_of_column);
        self.checksums[sums.start + index(row)]
    }

    /// What was read of the rows under way has checksums: one copy of each block is chosen, and goes to
    /// all others.
    pub(crate) fn settling_verified(&mut self, id: u32) {
        let shape = self.shape(id);
        let choice = |row| {
            let evidence = self.evidence(id, row);
            let copies = &evidence[..usize::from(shape.slots)];
            let truth = decide_copies(copies).expect("something was read");
            let sum = copies[usize::from(truth)].read;
            let differ = (0..).zip(copies).filter(|(_, copy)| copy.read != sum);
            let differ = differ.fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot));
            (truth, differ)
        };
        let (truth, differ) = choice(0);
        let blocks = self.columns[index(id)].blocks;
        let alike = (0..blocks).take_while(|&row| choice(row) == (truth, differ));
        let alike = u32::try_from(alike.count()).expect("rows of a column");
        let there = shape.all().minus(self.missing_slots(id));
        let mut changed = !differ.and(there).is_empty();
        for row in 0..alike {
            let sum = self.verified_checksum(id, truth, row);
            for slot in there.iter() {
                changed |= self.keep_checksum(id, slot, row, sum);
            }
        }
        let column = &mut self.columns[index(id)];
        column.blocks = alike;
        column.settling = Settling::Agreeing { changed };
        column.plan.reads = SlotSet::one(truth);
        column.plan.writes = differ.and(there);
        column.plan.writes_always = column.plan.writes;
        self.work(id, None);
    }

    /// A block of the rows under way has this checksum from now on. Whether it had another.
    fn keep_checksum(&mut self, id: u32, slot: u8, row: u32, sum: u32) -> bool {
        let first = self.block_of_slot(id, slot);
        let block = first.plus(u64::from(row));
        let of = (id, slot, first);
        let pages = self.pages.as_mut().expect("rows are settled by checksums");
        let changes = !pages.agrees_at(&self.metadata_buffer, of, block, sum);
        if changes {
            pages.set_at(&mut self.metadata_buffer, of, block, sum);
        }
        changes
    }

    /// What was to be written of the rows under way is.
    pub(crate) fn rows_settled(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        if column.error.is_some() {
            return self.finish(id);
        }
        if column.settling == (Settling::Agreeing { changed: true }) {
            // Reads that follow must stay true, and parts of the rows may be logged.
            column.mismatch = true;
            column.settling = Settling::Flushing;
            return self.flush_for(id);
        }
        column.settling = Settling::Done;
        column.plan.writes = SlotSet::EMPTY;
        self.let_go_pages(id);
        if self.columns[index(id)].ask == Ask::Settle {
            return self.finish_rows(id);
        }
        self.plan_column(id);
    }
}
