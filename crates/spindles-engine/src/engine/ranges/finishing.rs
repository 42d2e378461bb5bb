//! `Acknowledging`, and the end of a stripe range.

use crate::{
    Engine, Mutation, RangeId,
    agenda::Due,
    bad_blocks::Change,
    plan::{Ask, Step, Strategy},
    stripe::{Next, Owner, Past, RowState, Stage, Way},
    waits::WaitFor,
};
use spindles_block::RequestError;

impl Engine {
    pub(super) fn written(&mut self, id: RangeId) -> Next {
        self.writing_ended(id);
        let parity = u32::from(self.ranges[id].shape.slots - self.ranges[id].shape.data);
        let range = &self.ranges[id];
        let not_held = self.slots_not_held(id, range.low + range.blocks);
        if !self.ranges[id].shape.copies && not_held.count() > parity {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
        }
        let way = self.ranges[id].stage().way();
        if way == Way::Settled {
            return self.acknowledge(id);
        }
        let was_bad = self.bad.any() && self.wrote_bad_blocks(id);
        let placed = self.ranges[id].rows.state == RowState::Placed;
        let flushes = placed || was_bad || self.rests_on_caches(id) || self.is_durable_by_flush(id);
        let past = Past { way, was_bad };
        if !flushes {
            return self.acknowledge_past(id, past);
        }
        let steps = &mut self.ranges[id].plan.steps;
        *steps = steps.with(Step::Flush);
        self.flush_for(id, past);
        Next::Wait
    }

    /// Finishes the current rows, which were written if `wrote`. A scrub or a repair reports its
    /// findings.
    pub(super) fn scrubbed(&mut self, id: RangeId, wrote: bool) -> Next {
        if self.ranges[id].repairs() {
            self.tell_repairs(id, wrote);
        }
        self.finish_rows(id)
    }

    /// Acknowledges the current rows. If they skipped a member, its loss must be durable first.
    pub(crate) fn acknowledge(&mut self, id: RangeId) -> Next {
        self.acknowledge_past(id, self.ranges[id].stage().past())
    }

    pub(super) fn acknowledge_past(&mut self, id: RangeId, past: Past) -> Next {
        self.ranges[id].move_to(Stage::Acknowledging(past));
        if self.metadata.busy() {
            self.waits.wait(id, WaitFor::Superblocks);
            return Next::Wait;
        }
        if !self.bad_blocks_are_stored() {
            self.waits.wait(id, WaitFor::BadBlocks);
            return Next::Wait;
        }
        if past.was_bad && self.ranges[id].error.is_none() {
            let change = self.take_from_bad_blocks(id);
            let was_bad = change == Change::Wait;
            let range = &mut self.ranges[id];
            range.move_to(Stage::Acknowledging(Past { was_bad, ..past }));
            if change == Change::Full && range.ask == Ask::Write {
                range.error = Some(RequestError::BeyondTolerance);
            }
            return self.acknowledge(id);
        }
        let unrecorded = self.metadata.is_broken() && self.ranges[id].ask == Ask::Write;
        let settles = self.ranges[id].plan.strategy == Strategy::Settle;
        if unrecorded || settles && self.writes_nothing() && self.counts_on_others(id) {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
        }
        self.scrubbed(id, true)
    }

    /// Ends the current rows, and continues with the next ones or ends the stripe range.
    pub(crate) fn finish_rows(&mut self, id: RangeId) -> Next {
        let range = &self.ranges[id];
        if range.error.is_some() && range.rows.placing {
            self.doubt_rows(id);
        }
        self.log_done(id);
        if self.ranges[id].rows.settling.is_under_way() {
            return Next::RowsSettled;
        }
        let range = &mut self.ranges[id];
        range.low += range.blocks;
        if range.low < range.end && range.error.is_none() {
            range.blocks = range.end - range.low;
            if matches!(range.ask, Ask::Scrub | Ask::Rebuild) {
                // After narrowing, widen again, so that few blocks are read more often than once
                // for each width.
                range.blocks = range.blocks.min(widest(range.low - range.first_row()));
            }
            range.forget_findings();
            return Next::Plan;
        }
        self.finish(id)
    }

    /// Like `finish`, for an operation without plan or lock.
    #[expect(
        clippy::inline_always,
        reason = "as `member_io`: a tenth of such a read"
    )]
    #[inline(always)]
    pub(crate) fn finish_direct(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        range.move_to(Stage::Free);
        let Owner::Request(request) = range.owner else {
            panic!("a direct operation belongs to a request");
        };
        if range.ask == Ask::Write {
            self.flushes.write_ended();
        }
        self.unpin_pages(id);
        self.ranges.give_back(id);
        self.request_part_done(request, None);
    }

    /// Ends a stripe range, and hands it back to its owner.
    pub(crate) fn finish(&mut self, id: RangeId) -> Next {
        self.unpin_pages(id);
        let range = &mut self.ranges[id];
        range.move_to(Stage::Free);
        let (owner, error, mismatch) = (range.owner, range.error, range.seen.mismatch);
        let around = range.reads.around;
        if range.locked {
            range.locked = false;
            self.locks.release(id, self.waits.ready_mut());
            if self.mutated(Mutation::LostWakeup) {
                self.waits.ready_mut().pop_back();
            }
        }
        if around {
            self.read_around_ended(id);
        }
        match owner {
            Owner::Request(request) => {
                let merged = self.ranges[id].merged;
                self.ranges.give_back(id);
                self.request_part_done(request, error);
                if merged != RangeId::NONE {
                    self.finish_merged(merged, error);
                }
            }
            Owner::Answered => {
                self.ranges.give_back_answered(id);
            }
            Owner::Stage { .. } => self.staged_rows_placed(id, error),
            Owner::Job(row) => self.job_range_done(id, row, error.is_none(), mismatch),
            Owner::Repair => self.ranges.give_back_of_job(id),
            Owner::Nobody | Owner::Replay => panic!("a range without an owner ended"),
        }
        if self.regions.has_releases() {
            self.agenda.add(Due::Releases);
        }
        Next::Wait
    }

    /// Handles the end of a job's stripe range, whose slot is free again.
    pub(crate) fn job_range_done(&mut self, id: RangeId, row: u8, done: bool, mismatch: bool) {
        let place = self.ranges[id].place();
        self.ranges.give_back_of_job(id);
        self.jobs
            .range_done(usize::from(row), place, done, mismatch);
        self.agenda.add(Due::Jobs);
    }
}

/// Returns the longest piece of a stripe range that may begin this many rows after its start.
fn widest(rows: u32) -> u32 {
    1 << rows.trailing_zeros()
}
