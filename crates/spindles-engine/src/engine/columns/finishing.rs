//! `Acknowledging`, and the end of a column.

use crate::{
    Engine, Mutation, SLOT_BITS,
    bad_blocks::Change,
    columns::{NO_COLUMN, Owner, Phase},
    index,
    output::Output,
    plan::Ask,
    waits::WaitFor,
};
use spindles_block::{
    BlockIndex, BufferSlice, MemberIo, MemberIoId, MemberSet, Operation, RequestError,
};

impl Engine {
    pub(super) fn written(&mut self, id: u32) {
        self.writing_ended(id);
        let parity = u32::from(self.shape(id).slots - self.shape(id).data);
        let column = &self.columns[index(id)];
        let not_held = self.slots_not_held(id, column.low + column.blocks);
        if !self.shape(id).copies && not_held.count() > parity {
            self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
        }
        if self.columns[index(id)].settling.is_under_way() {
            return self.acknowledge(id);
        }
        let was_bad = self.bad.any() && self.wrote_bad_blocks(id);
        self.columns[index(id)].was_bad = was_bad;
        if was_bad || self.rests_on_caches(id) || self.is_durable_by_flush(id) {
            return self.flush_for(id);
        }
        self.acknowledge(id);
    }

    /// The rows of a column are done, `wrote` or not: a scrub tells what it found.
    pub(super) fn scrubbed(&mut self, id: u32, wrote: bool) {
        if self.repairs(id) {
            self.tell_repairs(id, wrote);
        }
        self.finish_rows(id);
    }

    /// Nothing that skipped a member is acknowledged before that is durable.
    pub(super) fn acknowledge(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        column.move_to(Phase::Acknowledging);
        if self.metadata.busy() && !self.mutated(Mutation::SkipFailureRecord) {
            self.waits.wait(id, WaitFor::Superblocks);
            return;
        }
        if !self.bad_blocks_are_stored() {
            self.waits.wait(id, WaitFor::BadBlocks);
            return;
        }
        if self.columns[index(id)].was_bad && self.columns[index(id)].error.is_none() {
            let change = self.take_from_bad_blocks(id);
            let column = &mut self.columns[index(id)];
            column.was_bad = change == Change::Wait;
            if change == Change::Full && column.ask == Ask::Write {
                column.error = Some(RequestError::BeyondTolerance);
            }
            return self.acknowledge(id);
        }
        let column = &mut self.columns[index(id)];
        if self.metadata.is_broken() && column.ask == Ask::Write {
            column.error = Some(RequestError::BeyondTolerance);
        }
        self.scrubbed(id, true);
    }

    /// The rows are done; on to the next, or the end.
    pub(crate) fn finish_rows(&mut self, id: u32) {
        self.log_done(id);
        if self.columns[index(id)].settling.is_under_way() {
            return self.rows_settled(id);
        }
        let column = &mut self.columns[index(id)];
        column.low += column.blocks;
        if column.low < column.end && column.error.is_none() {
            column.blocks = column.end - column.low;
            if column.ask == Ask::Scrub {
                // Having narrowed, wider again, so that few blocks are read more often than once
                // for each width there is.
                column.blocks = column.blocks.min(widest(column.low - column.start));
            }
            column.look_anew();
            return self.plan_column(id);
        }
        self.finish(id);
    }

    /// As `finish`, for what had neither plan nor lock.
    #[inline]
    pub(crate) fn finish_direct(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        column.move_to(Phase::Free);
        let Owner::Request(request) = column.owner else {
            panic!("a direct operation belongs to a request");
        };
        if column.ask == Ask::Write {
            self.flushes.write_ended();
        }
        self.let_go_pages(id);
        self.free_columns.push(id);
        self.request_part_done(request, None);
    }

    pub(crate) fn finish(&mut self, id: u32) {
        self.let_go_pages(id);
        let column = &mut self.columns[index(id)];
        column.move_to(Phase::Free);
        let (owner, error, mismatch) = (column.owner, column.error, column.mismatch);
        let around = column.around;
        if column.locked {
            column.locked = false;
            self.locks.release(id, &mut self.ready);
            if self.mutated(Mutation::LostWakeup) {
                self.ready.pop_back();
            }
        }
        if around {
            self.went_around(id);
        }
        match owner {
            Owner::Request(request) => {
                let merged = self.columns[index(id)].merged;
                self.free_columns.push(id);
                self.request_part_done(request, error);
                if merged != NO_COLUMN {
                    self.finish_merged(merged, error);
                }
            }
            Owner::Answered => {
                self.answered -= 1;
                self.free_columns.push(id);
            }
            Owner::Job(row) => self.job_column_done(id, row, error.is_none(), mismatch),
            Owner::Repair => self.repair_done(id),
            Owner::Nobody | Owner::Replay => panic!("a column without an owner ended"),
        }
        self.pump_releases();
    }

    pub(super) fn finish_merged(&mut self, mut id: u32, error: Option<RequestError>) {
        while id != NO_COLUMN {
            let column = &mut self.columns[index(id)];
            assert_eq!(
                column.phase(),
                Phase::Merged,
                "only merged columns are in the list"
            );
            column.move_to(Phase::Free);
            let (owner, next) = (column.owner, column.merged);
            let Owner::Request(request) = owner else {
                panic!("a merged column belongs to a request");
            };
            self.free_columns.push(id);
            self.request_part_done(request, error);
            id = next;
        }
    }

    /// Flushes all members before a column is answered that wrote.
    #[cold]
    pub(crate) fn flush_for(&mut self, id: u32) {
        self.columns[index(id)].move_to(Phase::Flushing);
        self.flush_of_column(id);
    }

    /// Flushes all members for a column.
    pub(crate) fn flush_members(&mut self, id: u32, skip: bool) {
        let column = &mut self.columns[index(id)];
        column.reset();
        column.low = 0;
        column.blocks = 0;
        column.end = 0;
        if skip {
            return self.acknowledge(id);
        }
        self.flush_of_column(id);
    }

    fn flush_of_column(&mut self, id: u32) {
        self.columns[index(id)].covers = self.flushes.begins();
        if !self.defers_flush_of_column(id) {
            self.send_flush_of_column(id);
        }
    }

    pub(crate) fn send_flush_of_column(&mut self, id: u32) {
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        if active.is_empty() {
            return self.acknowledge(id);
        }
        self.columns[index(id)].pending = active.count();
        for member in active.iter() {
            self.output(Output::Member(MemberIo {
                id: MemberIoId(id << SLOT_BITS | u32::from(member.0)),
                member,
                operation: Operation::Flush,
                block: BlockIndex(0),
                blocks: 0,
                buffer: BufferSlice::NONE,
            }));
        }
    }
}

/// The longest piece of a column that may begin so many rows after its start.
fn widest(rows: u32) -> u32 {
    1 << rows.trailing_zeros()
}
