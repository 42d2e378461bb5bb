//! `Committing` to `Writing`: the point from which on a member that fails is out.

use super::{Owner, Phase};
use crate::{
    Engine, Mutation, index,
    plan::{Ask, Strategy, Work},
    slots::SlotSet,
};
use spindles_block::{Operation, RequestError};

impl Engine {
    /// The commit point: from here on a member that fails is out.
    pub(super) fn commit(&mut self, id: u32) {
        let plan = self.columns[index(id)].plan;
        if plan.writes.is_empty() || self.read_only || self.only_looks(id) {
            return self.scrubbed(id, false);
        }
        let group = self.columns[index(id)].group;
        // A device that is being filled is not yet counted on, and what repairs a place writes what
        // should be there already: nothing is in doubt meanwhile.
        let harmless = plan.strategy == Strategy::Rebuild || self.repairs(id);
        // What is logged already goes to its place, whatever comes of the journal.
        let logged = self.columns[index(id)].log_half.is_some();
        // Where a member failed that is durable first: the journals lack what it should have logged.
        let unrecorded = (logged || self.journals())
            && self.metadata.may_count_on(self.missing)
            && !self.mutated(Mutation::LogUnrecorded);
        let undecided = unrecorded || !logged && self.journal_undecided();
        let may_write = harmless
            || self.writes_nothing()
            || !undecided && self.may_commit() && self.may_write_region(group);
        if !may_write {
            self.columns[index(id)].phase = Phase::Committing;
            self.gated.push_back(id);
            return;
        }
        // Members may have gone since the plan was made; what it computed for the others holds.
        let mut writes = plan.writes.minus(self.missing_slots(id));
        if self.mutated(Mutation::RebuildSkipsWrites) && self.columns[index(id)].ask == Ask::Write {
            let end = self.columns[index(id)].low + self.columns[index(id)].blocks;
            writes = writes.minus(self.slots_not_held(id, end));
        }
        if self.mutated(Mutation::StaleParity) && plan.strategy == Strategy::ReadModifyWrite {
            writes = writes.minus(self.shape(id).redundant());
        }
        let given_up = self.writes_nothing();
        if given_up || writes.is_empty() {
            // Settling what has only one copy left, or lost its parity, is done without a write.
            let asked = !self.columns[index(id)].settling.is_under_way();
            if given_up || asked && self.columns[index(id)].ask == Ask::Write {
                self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
            }
            return self.acknowledge(id);
        }
        let column = &mut self.columns[index(id)];
        if column.log_half.is_none() {
            if self.must_log(id) {
                self.columns[index(id)].summed = false;
                return self.begin_log(id, writes);
            }
            if self.has_checksums() && !self.columns[index(id)].summed {
                return self.sum_up(id, writes);
            }
            self.unlogged_begins(id);
        }
        let kept = writes;
        let mut beside = self.replaced_slots(id).and(writes);
        if self.columns[index(id)].ask == Ask::Replace {
            if beside.is_empty() {
                return self.finish_rows(id); // It came to its end meanwhile.
            }
            writes = SlotSet::EMPTY;
        } else if self.mutated(Mutation::ReplaceSkipsWrites) {
            beside = SlotSet::EMPTY;
        }
        let column = &mut self.columns[index(id)];
        column.phase = Phase::Writing;
        column.pending = writes.count() + beside.count();
        self.keep_sums(id, kept);
        for slot in writes.iter() {
            let (operation, source) = (self.slot_write(id, slot), self.write_source(id, slot));
            self.slot_io(id, slot, operation, source);
        }
        for slot in beside.iter() {
            let (operation, source) = (self.slot_write(id, slot), self.write_source(id, slot));
            self.write_beside(id, slot, operation, source);
        }
    }

    /// Whether what a column is about to write is logged first: parts of rows, so that parity always
    /// belongs to the data beside it.
    fn must_log(&self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        column.ask == Ask::Write
            && !column.shape.copies
            && !column.settling.is_under_way()
            && self.journals()
            && !self.grow.is_moving()
    }

    /// Whether nothing can be written any more.
    pub(crate) fn writes_nothing(&self) -> bool {
        let failed = || !self.missing.is_empty() && !self.geometry.survives(self.lost);
        self.metadata.broken || (!self.shape.copies && failed())
    }

    /// What is to be written goes into the journal first.
    fn begin_log(&mut self, id: u32, writes: SlotSet) {
        let data = self.note_writes(id, writes);
        let copies = self.shape(id).copies;
        self.columns[index(id)].intent = (copies || !data.is_empty()) && self.may_intend(id);
        if data.is_empty() {
            return self.log(id);
        }
        self.work_step(id, Work::Checksum);
    }

    /// What is to be written, and is not logged, is summed up first.
    fn sum_up(&mut self, id: u32, writes: SlotSet) {
        self.columns[index(id)].summed = true;
        if self.note_writes(id, writes).is_empty() {
            return self.commit(id);
        }
        self.work_step(id, Work::Checksum);
    }

    /// Takes down what is to be written. The slots of it that are not just zeros.
    fn note_writes(&mut self, id: u32, writes: SlotSet) -> SlotSet {
        let data = writes
            .iter()
            .filter(|&slot| matches!(self.slot_write(id, slot), Operation::Write { .. }))
            .fold(SlotSet::EMPTY, SlotSet::with);
        let column = &mut self.columns[index(id)];
        column.log_slots = writes;
        column.log_data = data;
        data
    }

    /// Whether the journal need not hold what a column writes. Checksums tell of each block whether it
    /// is old or new, if it can't be torn; and of a block that may be, each copy by itself. Where all
    /// data of rows is new, redundancy can be made from it again, and what can't be told is in a list
    /// then.
    fn may_intend(&self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        if column.shape.copies {
            let counted_on = column.log_slots.minus(self.slots_of(id, self.lost));
            return !self.tears || counted_on.count() > 1;
        }
        column.touched == column.shape.all_data() && self.bad.is_kept()
    }

    /// How `slot` of a column is written.
    fn slot_write(&self, id: u32, slot: u8) -> Operation {
        let (fua, zeros) = self.write_kind(id);
        let settles = || self.columns[index(id)].settling.is_under_way();
        let fua = fua && !settles() && !self.is_durable_by_flush(id);
        let data = slot < self.shape(id).data || self.shape(id).copies;
        let parity_of_zeros = self.columns[index(id)].plan.strategy == Strategy::Direct;
        match zeros {
            Some(operation) if data || parity_of_zeros => operation,
            _ => Operation::Write { fua },
        }
    }

    /// Whether a column writes durably, by a flush after its checksums are written too.
    pub(super) fn is_durable_by_flush(&self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        self.checksums_count(column.shape.copies)
            && column.ask == Ask::Write
            && self.write_kind(id).0
    }

    /// Whether a column writes durably, and which operation stands for zeros.
    pub(crate) fn write_kind(&self, id: u32) -> (bool, Option<Operation>) {
        if self.columns[index(id)].ask != Ask::Write {
            // A copy that was read must be the one that is there after power loss, even if the
            // member it was read from is lost as well: the others agree durably before the reply.
            let settles = self.shape(id).copies
                && self.columns[index(id)].plan.strategy == Strategy::Settle
                && !self.mutated(Mutation::SettleInCache);
            // What is told to be repaired is.
            let repairs = self.repairs(id) && !self.mutated(Mutation::RepairInCache);
            return (settles || repairs, None);
        }
        let Owner::Request(request) = self.columns[index(id)].owner else {
            return (false, None);
        };
        match self.handed_down(self.requests[index(request)].operation) {
            Operation::Write { fua } => (fua, None),
            zeros @ Operation::WriteZeroes { fua } => (fua, Some(zeros)),
            Operation::Discard => (false, Some(Operation::Discard)),
            Operation::Read | Operation::Flush => (false, None),
        }
    }
}
