//! From the commit point until the blocks go to their places: one function for each stage. From
//! here on, a member that fails goes out.

use crate::{
    Engine, Mutation, RangeId,
    plan::{Ask, Step, Strategy},
    slots::SlotSet,
    stripe::{Next, Owner, Past, RowState, Rows, Stage, Way, WritePath},
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
    /// Brings a stripe range to the commit point. From here on a member that fails goes out.
    pub(super) fn reach_commit(&mut self, id: RangeId) -> Next {
        self.ranges[id].move_to(Stage::Begin);
        self.begin_write(id)
    }

    /// `Begin`: decides how the new blocks get to their places.
    #[inline(never)]
    pub(super) fn begin_write(&mut self, id: RangeId) -> Next {
        if let Some(next) = self.cannot_write(id) {
            return next;
        }
        match self.write_path(id) {
            WritePath::Places => self.write_places(id),
            path => {
                self.plan_write(id, path);
                self.next_write_step(id, Step::Commit)
            }
        }
    }

    /// `Agree`: settled contents are not logged, and have the checksums that they agree with.
    pub(super) fn write_settled_rows(&mut self, id: RangeId) -> Next {
        if let Some(next) = self.cannot_write(id) {
            return next;
        }
        self.next_write_step(id, Step::Commit)
    }

    /// `Summed`: members may have gone out since, so that the write needs the log after all.
    pub(super) fn write_summed(&mut self, id: RangeId) -> Next {
        if let Some(next) = self.cannot_write(id) {
            return next;
        }
        let path = self.write_path(id);
        if path == WritePath::Log {
            self.plan_write(id, path);
            return self.next_write_step(id, Step::Commit);
        }
        self.write_places(id)
    }

    /// `Logged`: the client may be answered now.
    pub(super) fn write_logged(&mut self, id: RangeId) -> Next {
        if let Some(next) = self.cannot_write(id) {
            return next;
        }
        let answers = self.may_answer(id);
        let plan = &mut self.ranges[id].plan;
        plan.steps = plan.steps.with_if(Step::Keep, answers);
        self.next_write_step(id, Step::Log)
    }

    /// `Kept`: the client is answered.
    pub(super) fn write_kept(&mut self, id: RangeId) -> Next {
        if let Some(next) = self.cannot_write(id) {
            return next;
        }
        self.next_write_step(id, Step::Keep)
    }

    /// Takes the step of a stripe range's plan that follows `done`, from the commit on.
    fn next_write_step(&mut self, id: RangeId, done: Step) -> Next {
        let steps = self.ranges[id].plan.steps;
        match steps.after(Some(done)) {
            Some(step @ Step::Checksum) => {
                let logs = steps.contains(Step::Log);
                self.compute(id, step, Stage::Checksumming { logs });
            }
            Some(Step::Log) => self.queue_for_log(id),
            Some(Step::Keep) => self.keep_data(id),
            _ => return self.write_places(id),
        }
        Next::Wait
    }

    /// Returns the next action of a stripe range that can't write now: it waits, or ends without a
    /// write.
    fn cannot_write(&mut self, id: RangeId) -> Option<Next> {
        let given_up = self.writes_nothing();
        if !given_up {
            if let Some(reason) = self.commit_waits_for(id) {
                self.waits.wait(id, reason);
                return Some(Next::Wait);
            }
            if !self.ranges.slots_to_write(&self.members, id).is_empty() {
                return None;
            }
        }
        // Settling rows with one copy left, or without their parity, needs no write.
        let range = &mut self.ranges[id];
        let asked = range.stage().way() != Way::Settled;
        if given_up || asked && range.ask == Ask::Write {
            range.error = Some(RequestError::BeyondTolerance);
        }
        Some(Next::Acknowledge(range.stage().past()))
    }

    /// Returns what must be durable before a stripe range commits; `None` if nothing.
    fn commit_waits_for(&mut self, id: RangeId) -> Option<WaitFor> {
        let range = &self.ranges[id];
        if range.is_harmless() {
            return None;
        }
        // Logged blocks go to their places, even if the journal fails.
        let logged = range.is_logged();
        // The loss of a member must be durable first: the journals lack its part.
        let unrecorded =
            (logged || self.journals()) && self.metadata.may_count_on(self.members.missing());
        let undecided = unrecorded || !logged && self.log.is_undecided();
        if undecided || !self.may_commit() {
            return Some(WaitFor::Superblocks);
        }
        (!self.may_write_region(id)).then_some(WaitFor::Region)
    }

    /// Writes slots of a stripe range to their places.
    #[inline(never)]
    fn write_places(&mut self, id: RangeId) -> Next {
        let kept = self.ranges.slots_to_write(&self.members, id);
        let mut writes = kept;
        let to_replacement = self.replace.slots(&self.ranges, id).and(writes);
        if self.ranges[id].ask == Ask::Replace {
            if to_replacement.is_empty() {
                // The replacement ended meanwhile.
                self.ranges[id].move_to(Stage::Acknowledging(Past::NOTHING));
                return Next::RowsDone;
            }
            writes = SlotSet::EMPTY;
        }
        let blank = self.ranges[id].rows.state == RowState::Blank;
        let follows = blank && self.checksums_follow(id);
        let harmless = self.ranges[id].is_harmless();
        self.log.writing_begins(&self.ranges, id);
        let range = &mut self.ranges[id];
        range.move_to(Stage::Placing(range.stage().way()));
        range.rows.placing = !harmless;
        range.pending = writes.count() + to_replacement.count();
        if follows {
            self.ranges[id].rows.state = RowState::Placed;
        } else {
            self.keep_checksums(id, kept);
        }
        let operations = self.slot_writes(id);
        let copied = self.ranges[id].shape.copies;
        let copied = copied.then(|| self.write_source(id, 0));
        for slot in writes.iter() {
            let source = copied.unwrap_or_else(|| self.write_source(id, slot));
            self.slot_io(id, slot, operations.of(slot), source);
        }
        for slot in to_replacement.iter() {
            let source = self.write_source(id, slot);
            self.write_to_replacement(id, slot, operations.of(slot), source);
        }
        Next::Wait
    }

    /// Returns how the new blocks of a stripe range get to their places.
    #[expect(
        clippy::inline_always,
        reason = "most writes need no more than the first comparison"
    )]
    #[inline(always)]
    fn write_path(&self, id: RangeId) -> WritePath {
        let range = &self.ranges[id];
        let writes = range.ask == Ask::Write && !range.shape.copies;
        if writes && self.journals() && !self.grow.is_moving() {
            return self.rows_to_write(id).path(self.has_checksums());
        }
        WritePath::unlogged(self.has_checksums())
    }

    /// Returns the rows of a client's write, as its path depends on them.
    fn rows_to_write(&self, id: RangeId) -> Rows {
        let range = &self.ranges[id];
        let touched = if self.mutated(Mutation::PartsUnlogged) {
            range.shape.all_data()
        } else {
            range.touched
        };
        let mut rows = Rows::of(range.shape, touched);
        if rows.is_whole() {
            let mut lost = self.members.lost();
            if !self.mutated(Mutation::UnloggedEarly) {
                lost = lost.union(self.metadata.lost_durable());
            }
            if !self.mutated(Mutation::DegradedUnlogged) {
                rows.lack(self.ranges.slots_of(id, lost));
            }
            // A staged block must not become an unlogged one that is not durable.
            let volatile = range.owner == Owner::Stage { is_durable: false };
            let live = self.log.may_hold(range.group) && !self.mutated(Mutation::WholeOverLive);
            let live = live || volatile;
            let listed = self.bad.any() && self.writes_bad_blocks(id);
            let first = range.rows.state == RowState::Blank && self.logs_first_write(id);
            rows.held(live, listed, first);
        }
        rows
    }

    /// Adds the steps of a path to a plan, and begins the row sums.
    fn plan_write(&mut self, id: RangeId, path: WritePath) {
        let plan = &mut self.ranges[id].plan;
        let steps = plan.steps.without(Step::Checksum).without(Step::Log);
        plan.steps = steps.or(path.steps());
        self.note_writes(id, self.ranges.slots_to_write(&self.members, id));
        if path == WritePath::Log && self.mutated(Mutation::FilledUnlogged) {
            let filled = self.ranges.slots_of(id, self.members.lost());
            let range = &mut self.ranges[id];
            range.written.slots = range.written.slots.minus(filled);
        }
        if self.has_checksums() {
            self.begin_row_sums(id);
        }
        let range = &mut self.ranges[id];
        if range.rows.new_checksums.is_empty() {
            range.plan.steps = range.plan.steps.without(Step::Checksum);
            self.checksums_known(id);
        }
    }

    /// Continues when the checksums of a write are computed.
    pub(super) fn checksums_ready(&mut self, id: RangeId, logs: bool) -> Next {
        self.checksums_known(id);
        if logs {
            return self.next_write_step(id, Step::Checksum);
        }
        self.ranges[id].move_to(Stage::Summed);
        self.write_summed(id)
    }

    fn checksums_known(&mut self, id: RangeId) {
        if self.has_checksums() {
            self.end_row_sums(id);
        }
        let range = &self.ranges[id];
        if range.plan.steps.contains(Step::Log) && self.mutated(Mutation::EntriesEarly) {
            self.keep_checksums(id, range.written.slots);
        }
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
        let new_checksums = self.ranges[id].slots_to_checksum(data);
        let range = &mut self.ranges[id];
        range.written.slots = writes;
        range.written.data = data.and(writes);
        range.rows.new_checksums = new_checksums;
    }

    /// Returns the operations that write the slots of a stripe range.
    fn slot_writes(&self, id: RangeId) -> SlotWrites {
        let (fua, zeros) = self.requests.write_kind(&self.ranges, id);
        // Logged blocks are durable in the log. Blocks with checksums become durable by a later
        // flush.
        let range = &self.ranges[id];
        let later = || range.is_logged() || self.is_durable_by_flush(id);
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
}
