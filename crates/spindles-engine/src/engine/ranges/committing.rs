//! `Committing` to `Writing`: from the commit point on, a member that fails goes out.

use crate::{
    Engine, Mutation, RangeId,
    plan::{Ask, Strategy, Work},
    ranges::{Owner, Phase, RowState},
    slots::SlotSet,
    waits::WaitFor,
};
use spindles_block::{Operation, RequestError};

/// The operations that write the slots of a stripe range.
#[derive(Clone, Copy)]
struct SlotWrites {
    fua: bool,
    /// Slots that get the operation `zeros`, if set, instead of a write.
    with_zeros: SlotSet,
    zeros: Option<Operation>,
}

impl SlotWrites {
    fn of(&self, slot: u8) -> Operation {
        let zeros = self.zeros.filter(|_| self.with_zeros.contains(slot));
        zeros.unwrap_or(Operation::Write { fua: self.fua })
    }
}

impl Engine {
    /// Commits a stripe range: from here on a member that fails goes out.
    pub(crate) fn commit(&mut self, id: RangeId) {
        let plan = self.ranges[id].plan;
        if plan.writes.is_empty() || self.only_looks(id) {
            return self.scrubbed(id, false);
        }
        // No reader relies on a device being filled yet, and a repair writes the contents that the
        // place should already have: no row is in doubt meanwhile.
        let harmless = plan.strategy == Strategy::Rebuild || self.repairs(id);
        if let Some(reason) = self.commit_waits_for(id, harmless) {
            self.ranges[id].move_to(Phase::Committing);
            self.waits.wait(id, reason);
            return;
        }
        // Members may have gone out since the plan was made; the blocks computed for other members
        // are valid.
        let writes = plan.writes.minus(self.missing_slots(id));
        let given_up = self.writes_nothing();
        if given_up || writes.is_empty() {
            // Settling rows with one copy left, or without their parity, needs no write.
            let asked = !self.ranges[id].rows.settling.is_under_way();
            if given_up || asked && self.ranges[id].ask == Ask::Write {
                self.ranges[id].error = Some(RequestError::BeyondTolerance);
            }
            return self.acknowledge(id);
        }
        let range = &self.ranges[id];
        if range.log.segment.is_none() {
            if self.must_log(id) {
                return self.begin_log(id, writes);
            }
            if self.has_checksums()
                && !range.rows.has_new_checksums
                && !range.rows.settling.is_under_way()
            {
                return self.checksum_writes(id, writes);
            }
        } else if self.may_answer(id) {
            return self.work_step(id, Work::Keep);
        }
        self.write_places(id, writes, harmless);
    }

    /// Returns what must be durable before a stripe range commits; `None` if nothing.
    fn commit_waits_for(&mut self, id: RangeId, harmless: bool) -> Option<WaitFor> {
        if harmless || self.writes_nothing() {
            return None;
        }
        // Logged blocks go to their places, even if the journal fails.
        let logged = self.ranges[id].log.segment.is_some();
        // The loss of a member must be durable first: the journals lack its part.
        let unrecorded =
            (logged || self.journals()) && self.metadata.may_count_on(self.members.missing());
        let undecided = unrecorded || !logged && self.log.is_undecided();
        if undecided || !self.may_commit() {
            return Some(WaitFor::Superblocks);
        }
        (!self.may_write_region(id)).then_some(WaitFor::Region)
    }

    /// Writes slots of a stripe range to their places. If `harmless`, no row is in doubt meanwhile.
    fn write_places(&mut self, id: RangeId, mut writes: SlotSet, harmless: bool) {
        let kept = writes;
        let to_replacement = self.replaced_slots(id).and(writes);
        if self.ranges[id].ask == Ask::Replace {
            if to_replacement.is_empty() {
                return self.finish_rows(id); // The replacement ended meanwhile.
            }
            writes = SlotSet::EMPTY;
        }
        let blank = self.ranges[id].rows.state == RowState::Blank;
        let follows = blank && self.checksums_follow(id);
        self.writing_begins(id);
        let range = &mut self.ranges[id];
        range.move_to(Phase::Writing);
        range.rows.placing = !harmless;
        range.pending = writes.count() + to_replacement.count();
        if follows {
            self.ranges[id].rows.state = RowState::Placed;
        } else {
            self.keep_checksums(id, kept);
        }
        let operations = self.slot_writes(id);
        for slot in writes.iter() {
            let source = self.write_source(id, slot);
            self.slot_io(id, slot, operations.of(slot), source);
        }
        for slot in to_replacement.iter() {
            let source = self.write_source(id, slot);
            self.write_to_replacement(id, slot, operations.of(slot), source);
        }
    }

    /// Returns true if a stripe range must log its writes: a part of a row, or a whole row that a
    /// crash could leave in a state that the row itself does not show.
    fn must_log(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let writes = range.ask == Ask::Write && !range.rows.settling.is_under_way();
        if !writes || range.shape.copies || !self.journals() || self.grow.is_moving() {
            return false;
        }
        let whole = range.touched == range.shape.all_data();
        let whole = whole || self.mutated(Mutation::PartsUnlogged);
        let mut lost = self.members.lost();
        if !self.mutated(Mutation::UnloggedEarly) {
            lost = lost.union(self.metadata.lost_durable());
        }
        let degraded = !self.slots_of(id, lost).is_empty();
        let degraded = degraded && !self.mutated(Mutation::DegradedUnlogged);
        let live = self.log.may_hold(range.group) && !self.mutated(Mutation::WholeOverLive);
        let listed = self.bad.any() && self.writes_bad_blocks(id);
        let first = range.rows.state == RowState::Blank && self.logs_first_write(id);
        !self.has_checksums() || !whole || degraded || live || listed || first
    }

    /// Returns true if more members are lost than the level survives.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        !self.members.lost().is_empty() && !self.geometry.survives(self.members.lost())
    }

    /// Returns true if nothing can be written from now on.
    pub(crate) fn writes_nothing(&self) -> bool {
        let failed = || !self.members.missing().is_empty() && self.has_failed();
        self.metadata.is_broken() || (!self.shape.copies && failed())
    }

    /// Begins to log a write by computing its checksums.
    fn begin_log(&mut self, id: RangeId, writes: SlotSet) {
        self.ranges[id].rows.has_new_checksums = false;
        self.note_writes(id, writes);
        if self.mutated(Mutation::FilledUnlogged) {
            let filled = self.slots_of(id, self.members.lost());
            let range = &mut self.ranges[id];
            range.log.slots = range.log.slots.minus(filled);
        }
        self.checksum_new(id);
    }

    /// Begins to compute the checksums of a write that is not logged.
    fn checksum_writes(&mut self, id: RangeId, writes: SlotSet) {
        self.ranges[id].rows.has_new_checksums = true;
        self.note_writes(id, writes);
        self.checksum_new(id);
    }

    fn checksum_new(&mut self, id: RangeId) {
        if self.has_checksums() {
            self.begin_row_sums(id);
        }
        if self.ranges[id].rows.new_checksums.is_empty() {
            return self.checksums_ready(id);
        }
        self.work_step(id, Work::Checksum);
    }

    /// Continues when the checksums of a write are computed.
    pub(super) fn checksums_ready(&mut self, id: RangeId) {
        if self.has_checksums() {
            self.end_row_sums(id);
        }
        if self.ranges[id].rows.has_new_checksums {
            return self.commit(id);
        }
        if self.mutated(Mutation::EntriesEarly) {
            self.keep_checksums(id, self.ranges[id].log.slots);
        }
        self.queue_for_log(id);
    }

    /// Records the slots to write, and among them the slots with data other than zeros. A row sum
    /// includes new data on missing members.
    fn note_writes(&mut self, id: RangeId, writes: SlotSet) {
        let range = &self.ranges[id];
        let mut summed = writes;
        if !range.shape.copies && self.has_checksums() {
            summed = summed.or(range.renewed());
        }
        let operations = self.slot_writes(id);
        let is_data = |&slot: &u8| {
            let writes = matches!(operations.of(slot), Operation::Write { .. });
            writes && !range.rows.zeros.contains(slot)
        };
        let data = summed.iter().filter(is_data);
        let data = data.fold(SlotSet::EMPTY, SlotSet::with);
        let new_checksums = self.slots_to_checksum(id, data);
        let range = &mut self.ranges[id];
        range.log.slots = writes;
        range.log.data = data.and(writes);
        range.rows.new_checksums = new_checksums;
    }

    /// Returns the operations that write the slots of a stripe range.
    fn slot_writes(&self, id: RangeId) -> SlotWrites {
        let (fua, zeros) = self.write_kind(id);
        // Logged blocks are durable in the log. Blocks with checksums become durable by a later
        // flush.
        let range = &self.ranges[id];
        let later = || range.log.segment.is_some() || self.is_durable_by_flush(id);
        let settles = range.rows.settling.is_under_way();
        let parity_of_zeros = range.plan.strategy == Strategy::Direct;
        SlotWrites {
            fua: fua && !settles && !later(),
            with_zeros: if range.shape.copies || parity_of_zeros {
                range.shape.all()
            } else {
                range.shape.all_data()
            },
            // Settling writes the old contents back, even if the client's write replaces them.
            zeros: zeros.filter(|_| !settles),
        }
    }

    /// Returns true if a flush makes the writes of a stripe range durable: logged writes if the log
    /// may be lost, other writes if blocks have checksums, which are written before the flush.
    pub(super) fn is_durable_by_flush(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let flushed = match range.log.segment {
            Some(_) => self.log.is_on_device(),
            None => self.has_checksums(),
        };
        flushed && range.ask == Ask::Write && self.write_kind(id).0
    }

    /// Returns whether a stripe range writes durably, and the operation that writes zeros.
    pub(crate) fn write_kind(&self, id: RangeId) -> (bool, Option<Operation>) {
        if self.ranges[id].ask != Ask::Write {
            // The contents that a client read must survive a power loss, even if the member that
            // was read is lost as well: the other copies agree durably before the reply.
            let settles =
                self.shape(id).copies && self.ranges[id].plan.strategy == Strategy::Settle;
            // A reported repair is durable.
            return (settles || self.repairs(id), None);
        }
        let Owner::Request(request) = self.ranges[id].owner else {
            return (false, None);
        };
        match self.requests[request].operation {
            Operation::Write { fua } => (fua, None),
            zeros @ Operation::WriteZeroes { fua } => (fua, Some(zeros)),
            Operation::Discard => (false, Some(Operation::Discard)),
            Operation::Read | Operation::Flush => (false, None),
        }
    }
}
