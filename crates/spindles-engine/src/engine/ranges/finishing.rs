//! `Acknowledging`, and the end of a stripe range.

use crate::{
    Engine, Mutation, RangeId, SLOT_BITS,
    bad_blocks::Change,
    output::Output,
    plan::Ask,
    ranges::{Owner, Phase, RowState},
    slots::SlotSet,
    waits::WaitFor,
};
use spindles_block::{
    BlockIndex, BufferSlice, MemberIo, MemberIoId, MemberSet, Operation, RequestError,
};

impl Engine {
    pub(super) fn written(&mut self, id: RangeId) {
        self.writing_ended(id);
        let parity = u32::from(self.shape(id).slots - self.shape(id).data);
        let range = &self.ranges[id];
        let not_held = self.slots_not_held(id, range.low + range.blocks);
        if !self.shape(id).copies && not_held.count() > parity {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
        }
        if self.ranges[id].rows.settling.is_under_way() {
            return self.acknowledge(id);
        }
        let was_bad = self.bad.any() && self.wrote_bad_blocks(id);
        let placed = self.ranges[id].rows.state == RowState::Placed;
        self.ranges[id].seen.was_bad = was_bad;
        if placed || was_bad || self.rests_on_caches(id) || self.is_durable_by_flush(id) {
            return self.flush_for(id);
        }
        self.acknowledge(id);
    }

    /// The rows of a stripe range are done, `wrote` or not: a scrub tells what it found.
    pub(super) fn scrubbed(&mut self, id: RangeId, wrote: bool) {
        if self.repairs(id) {
            self.tell_repairs(id, wrote);
        }
        self.finish_rows(id);
    }

    /// Nothing that skipped a member is acknowledged before that is durable.
    pub(super) fn acknowledge(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        range.move_to(Phase::Acknowledging);
        if self.metadata.busy() && !self.mutated(Mutation::SkipFailureRecord) {
            self.waits.wait(id, WaitFor::Superblocks);
            return;
        }
        if !self.bad_blocks_are_stored() {
            self.waits.wait(id, WaitFor::BadBlocks);
            return;
        }
        if self.ranges[id].seen.was_bad && self.ranges[id].error.is_none() {
            let change = self.take_from_bad_blocks(id);
            let range = &mut self.ranges[id];
            range.seen.was_bad = change == Change::Wait;
            if change == Change::Full && range.ask == Ask::Write {
                range.error = Some(RequestError::BeyondTolerance);
            }
            return self.acknowledge(id);
        }
        let range = &mut self.ranges[id];
        if self.metadata.is_broken() && range.ask == Ask::Write {
            range.error = Some(RequestError::BeyondTolerance);
        }
        self.scrubbed(id, true);
    }

    /// The rows are done; on to the next, or the end.
    pub(crate) fn finish_rows(&mut self, id: RangeId) {
        self.log_done(id);
        if self.ranges[id].rows.settling.is_under_way() {
            return self.rows_settled(id);
        }
        let range = &mut self.ranges[id];
        range.low += range.blocks;
        if range.low < range.end && range.error.is_none() {
            range.blocks = range.end - range.low;
            if range.ask == Ask::Scrub {
                // Having narrowed, wider again, so that few blocks are read more often than once
                // for each width there is.
                range.blocks = range.blocks.min(widest(range.low - range.start));
            }
            range.forget_findings();
            return self.plan_range(id);
        }
        self.finish(id);
    }

    /// As `finish`, for what had neither plan nor lock.
    #[expect(
        clippy::inline_always,
        reason = "as `member_io`: a tenth of such a read"
    )]
    #[inline(always)]
    pub(crate) fn finish_direct(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        range.move_to(Phase::Free);
        let Owner::Request(request) = range.owner else {
            panic!("a direct operation belongs to a request");
        };
        if range.ask == Ask::Write {
            self.flushes.write_ended();
        }
        self.unpin_pages(id);
        self.free_ranges.push(id);
        self.request_part_done(request, None);
    }

    pub(crate) fn finish(&mut self, id: RangeId) {
        self.unpin_pages(id);
        let range = &mut self.ranges[id];
        range.move_to(Phase::Free);
        let (owner, error, mismatch) = (range.owner, range.error, range.seen.mismatch);
        let around = range.reads.around;
        if range.locked {
            range.locked = false;
            self.locks.release(id, &mut self.ready);
            if self.mutated(Mutation::LostWakeup) {
                self.ready.pop_back();
            }
        }
        if around {
            self.read_around_ended(id);
        }
        match owner {
            Owner::Request(request) => {
                let merged = self.ranges[id].merged;
                self.free_ranges.push(id);
                self.request_part_done(request, error);
                if merged != RangeId::NONE {
                    self.finish_merged(merged, error);
                }
            }
            Owner::Answered => {
                self.answered -= 1;
                self.free_ranges.push(id);
            }
            Owner::Job(row) => self.job_range_done(id, row, error.is_none(), mismatch),
            Owner::Repair => self.repair_done(id),
            Owner::Nobody | Owner::Replay => panic!("a range without an owner ended"),
        }
        self.pump_releases();
    }

    pub(super) fn finish_merged(&mut self, mut id: RangeId, error: Option<RequestError>) {
        while id != RangeId::NONE {
            let range = &mut self.ranges[id];
            assert_eq!(
                range.phase(),
                Phase::Merged,
                "only merged ranges are in the list"
            );
            range.move_to(Phase::Free);
            let (owner, next) = (range.owner, range.merged);
            let Owner::Request(request) = owner else {
                panic!("a merged range belongs to a request");
            };
            self.free_ranges.push(id);
            self.request_part_done(request, error);
            id = next;
        }
    }

    /// Flushes all members before a stripe range is answered that wrote.
    #[cold]
    pub(crate) fn flush_for(&mut self, id: RangeId) {
        self.ranges[id].move_to(Phase::Flushing);
        self.flush_of_range(id);
    }

    /// Flushes all members for a stripe range.
    pub(crate) fn flush_members(&mut self, id: RangeId, skip: bool) {
        let range = &mut self.ranges[id];
        range.reset();
        range.low = 0;
        range.blocks = 0;
        range.end = 0;
        if skip {
            return self.acknowledge(id);
        }
        self.flush_of_range(id);
    }

    /// The members with parity of rows that a stripe range wrote.
    fn parity_of_write(&self, id: RangeId) -> MemberSet {
        let range = &self.ranges[id];
        let parity = if range.blocks == 0 || range.rows.settling.is_under_way() {
            SlotSet::EMPTY
        } else {
            range.plan.writes.and(range.shape.redundant())
        };
        let slots = self.groups[id.index()].slots();
        let members = parity.iter().map(|slot| slots[usize::from(slot)].member);
        members.fold(MemberSet::EMPTY, MemberSet::with)
    }

    pub(super) fn flush_of_range(&mut self, id: RangeId) {
        self.ranges[id].covers = self.flushes.begins();
        if !self.defers_flush_of_range(id) {
            self.send_flush_of_range(id);
        }
    }

    pub(crate) fn send_flush_of_range(&mut self, id: RangeId) {
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        let active = if self.mutated(Mutation::FlushDataOnly) {
            active.difference(self.parity_of_write(id))
        } else {
            active
        };
        if active.is_empty() {
            return self.acknowledge(id);
        }
        self.ranges[id].pending = active.count();
        for member in active.iter() {
            self.output(Output::Member(MemberIo {
                id: MemberIoId(id.0 << SLOT_BITS | u32::from(member.0)),
                member,
                operation: Operation::Flush,
                block: BlockIndex(0),
                blocks: 0,
                buffer: BufferSlice::NONE,
            }));
        }
    }
}

/// The longest piece of a stripe range that may begin so many rows after its start.
fn widest(rows: u32) -> u32 {
    1 << rows.trailing_zeros()
}
