//! `Starting` to `Reading`: a stripe range gets its lock, its region and its plan.

use crate::{
    Engine, Mutation, RangeId,
    agenda::Due,
    plan::{Ask, Contents, Health, Plan, Step, Strategy, plan},
    recovery::rows::Settling,
    slots::SlotSet,
    stripe::{Next, RowState, Stage, StripeRange},
    waits::WaitFor,
};
use spindles_block::{BlockIndex, MemberIndex, Operation};
use spindles_layout::GroupIndex;

/// The slots of a stripe range and its rows, as a plan depends on them.
#[derive(Clone, Copy, Debug)]
struct View {
    /// Slots of members without a device.
    missing: SlotSet,
    /// Slots whose members do not hold these rows.
    not_held: SlotSet,
    unreadable: SlotSet,
    /// Slots of slow members that the plan reads around.
    around: SlotSet,
    /// Slots of slow members that a read of a copy tries again.
    probed: SlotSet,
    /// True if the redundancy of the rows is known to agree.
    in_order: bool,
    /// True if reconstructed blocks can be relied on.
    settled: bool,
    /// True if a write fills the rest of rows that were never written.
    fills: bool,
    contents: Contents,
}

impl Engine {
    /// Plans the work on a stripe range and begins it, as soon as it has its lock, its region and
    /// its pages.
    pub(crate) fn plan_range(&mut self, id: RangeId) -> Next {
        // Planning may wait for other stripe ranges, which may wait for pages: pin no pages
        // meanwhile.
        self.unpin_pages(id);
        let range = &mut self.ranges[id];
        if range.rows.settling.is_under_way() {
            range.rows.settling = Settling::No; // The plan below begins it again if it must.
        }
        if self.bad.any_unread() && self.mark_bad_slots(id) {
            return self.plan_range(id);
        }
        if self.refuses(id) {
            return self.ranges[id].refuse();
        }
        let view = self.view(id);
        let waits = self.must_be_alone(id, &view) && self.waits_to_be_alone(id);
        if waits {
            return Next::Wait;
        }
        let StripeRange { ask, group, .. } = self.ranges[id];
        let undecided = ask == Ask::Write || self.regions.is_half_released(group);
        if self.metadata.is_broken() && view.contents == Contents::Zeros && undecided {
            return self.ranges[id].refuse();
        }
        if !view.settled && view.contents == Contents::Written {
            if !view.in_order
                && let Some(next) = self.awaits_record(id)
            {
                return next;
            }
            if self.has_checksums() && !self.ranges[id].replaces_all() {
                return self.begin_settling(id);
            }
        }
        self.choose_plan(id, &view)
    }

    /// Returns true if a stripe range asks for what nothing can provide.
    fn refuses(&self, id: RangeId) -> bool {
        self.bad.any_lost() && self.asks_for_lost(id)
            || self.refuses_staged_write(id)
            || self.settled.lacks_log() && self.answer_is_in_log(id)
    }

    /// Returns what a plan for a stripe range depends on.
    fn view(&mut self, id: RangeId) -> View {
        let missing = self.ranges.missing_slots(&self.members, id);
        let StripeRange {
            ask,
            group,
            touched,
            low,
            blocks,
            ..
        } = self.ranges[id];
        let not_held = self.slots_not_held(id, low + blocks);
        let not_readable = not_held.minus(self.ranges[id].rows.old_contents);
        let unreadable = not_readable.or(self.ranges[id].rows.unreadable);
        let doubtful = self.settled.lacks_log() && !touched.and(unreadable).is_empty();
        // Rows that a row sum proved are not in doubt, even if the log is gone.
        // A check of an array open read-only compares what a crash left, as it is.
        let checks = self.settings.read_only && ask == Ask::Scrub;
        let in_order =
            self.is_settled_to(group, low + blocks) || self.grow.is_staged(group) || checks;
        let settled = self.ranges[id].rows.settling == Settling::Done || in_order && !doubtful;
        let blank = self.ranges[id].rows.state == RowState::Blank;
        let mut view = View {
            missing,
            not_held,
            unreadable,
            around: SlotSet::EMPTY,
            probed: SlotSet::EMPTY,
            in_order,
            settled,
            fills: blank && self.fills_blank_rows(id),
            contents: Contents::Zeros,
        };
        view.contents = match (
            self.regions.is_written(group) && (view.fills || !blank),
            view.fills,
        ) {
            (false, _) => Contents::Zeros,
            (true, true) => Contents::Blank,
            (true, false) => Contents::Written,
        };
        if settled && !self.settled.lacks_log() && !self.slow.avoided().is_empty() {
            self.avoid_slow(id, &mut view);
        }
        view
    }

    /// Counts slots of slow members as unreadable, as far as the others suffice.
    fn avoid_slow(&mut self, id: RangeId, view: &mut View) {
        let (all, data) = (
            self.ranges[id].shape.all(),
            u32::from(self.ranges[id].shape.data),
        );
        let suffices = |slots: SlotSet| slots.count() >= data;
        let stalled = self.slow.stalled_slots(&self.ranges, id);
        if suffices(all.minus(view.unreadable).minus(stalled)) {
            view.unreadable = view.unreadable.or(stalled);
        }
        (view.around, view.probed) = self.slow.slow_slots(&self.ranges, id);
        view.around = view.around.minus(view.unreadable);
        if suffices(all.minus(view.unreadable).minus(view.around)) {
            view.unreadable = view.unreadable.or(view.around);
        }
    }

    /// Returns true if a stripe range must not meet another in the same rows. A read of present,
    /// settled blocks sees the old or the new state of a write in flight, as on any disk.
    /// Everything else must not meet a write half-way.
    fn must_be_alone(&self, id: RangeId, view: &View) -> bool {
        let StripeRange {
            ask,
            group,
            touched,
            low,
            end,
            ..
        } = self.ranges[id];
        let readable = if self.ranges[id].shape.copies || view.contents == Contents::Zeros {
            view.settled
        } else {
            view.settled && touched.and(view.unreadable).is_empty()
        };
        let shared =
            self.ranges[id].shape.slots > 1 || self.has_checksums() || self.replace.copies();
        let apart = ask == Ask::Read
            && readable
            && !self.ranges[id].seen.unlocked_read_failed
            && !self.awaits_places(id, group, low..end);
        !apart && shared
    }

    /// Locks the rows of a stripe range and opens its region. Returns true if it must wait.
    fn waits_to_be_alone(&mut self, id: RangeId) -> bool {
        let StripeRange {
            ask,
            group,
            low,
            end,
            locked,
            ..
        } = self.ranges[id];
        let unlocked = self.mutated(Mutation::DropStripeLock)
            || ask == Ask::Scrub && self.mutated(Mutation::ScrubUnlocked);
        if !unlocked && !locked {
            if !self.locks.acquire(id, group, low, end) {
                self.ranges[id].move_to(Stage::Locking);
                self.ranges[id].rows.state = RowState::Unknown;
                return true;
            }
            self.ranges[id].locked = true;
        }
        if !self.regions.are_stored() || self.region_is_open(id) {
            return false;
        }
        self.ranges[id].move_to(Stage::Preparing);
        // Meanwhile the region may be released, and written for the first time again.
        self.ranges[id].rows.state = RowState::Unknown;
        self.waits.wait(id, WaitFor::Region);
        if self.regions.has_releases() {
            self.agenda.add(Due::Releases);
        }
        true
    }

    /// Chooses the plan of a stripe range and begins it. Without a plan the stripe range fails,
    /// unless it can go on otherwise.
    fn choose_plan(&mut self, id: RangeId, view: &View) -> Next {
        let StripeRange { ask, touched, .. } = self.ranges[id];
        let health = Health {
            // A scrub leaves rows that a rebuild has not reached to the rebuild.
            missing: if ask == Ask::Scrub {
                view.not_held
            } else {
                view.missing
            },
            unreadable: view.unreadable,
            settled: view.settled,
            contents: view.contents,
            trust_unsettled: self.settings.trust_unsettled,
            checksums: self.has_checksums(),
        };
        let preferred = if ask == Ask::Read && self.ranges[id].shape.copies {
            let probed = view.probed.minus(view.unreadable).first();
            probed.unwrap_or_else(|| self.choose_copy(id, view.unreadable))
        } else {
            0
        };
        let gives_up = self.mutated(Mutation::NoRecovery) && view.unreadable != view.not_held;
        let mut planned = plan(self.ranges[id].shape, health, ask, touched, preferred);
        let Some(plan) = planned.as_mut().filter(|_| !gives_up) else {
            return self.go_without_plan(id, view);
        };
        let old_contents = self.ranges[id].rows.old_contents;
        let unused = old_contents.minus(plan.reads);
        if !unused.is_empty() {
            // Only blocks that are read are proved: the plan writes the others.
            self.ranges[id].rows.old_contents = old_contents.minus(unused);
            return self.plan_range(id);
        }
        self.adopt_plan(id, view, plan, preferred)
    }

    /// Continues a stripe range for which there is no plan.
    fn go_without_plan(&mut self, id: RangeId, view: &View) -> Next {
        let ask = self.ranges[id].ask;
        let places = !(self.ranges[id].rows.unreadable)
            .minus(view.not_held)
            .is_empty();
        if places && self.ranges[id].halve() {
            // Members may have bad blocks in different rows: compute each row from its own readable
            // blocks.
            return self.plan_range(id);
        }
        if ask == Ask::Scrub {
            return self.scrub_gives_up(id);
        }
        if ask == Ask::Rebuild && self.tries_old_contents(id, view.not_held) {
            return self.plan_range(id);
        }
        if ask == Ask::Rebuild && self.goes_without(id) {
            return Next::Acknowledge(self.ranges[id].stage().past());
        }
        if self.ranges[id].may_lose_rotten(
            view.unreadable,
            self.bad
                .bad_slots(&self.ranges, id, self.grow.is_staged(self.ranges[id].group)),
        ) {
            return self.lose_rotten(id);
        }
        self.ranges[id].give_up()
    }

    /// Begins a plan, when the pages with its checksums are in memory.
    fn adopt_plan(&mut self, id: RangeId, view: &View, plan: &mut Plan, preferred: u8) -> Next {
        if plan.strategy == Strategy::FullStripeWrite
            && self.requests.writes_zeros(&self.ranges, id)
        {
            // The parity of zeros is zeros, for every linear code.
            plan.strategy = Strategy::Direct;
            plan.encode = SlotSet::EMPTY;
            plan.steps = plan.steps.without(Step::Encode);
        }
        if view.fills {
            self.fill_blank_rows(id, plan);
        }
        let scratch_max = self.settings.limits.range_blocks;
        let range = &mut self.ranges[id];
        if plan.strategy != Strategy::Direct && range.blocks > scratch_max {
            // After a failed direct read, continue in pieces that fit the scratch space: some may
            // succeed.
            range.blocks = scratch_max;
            if !range.rows.unreadable.is_empty() {
                range.forget_findings();
            }
            return self.plan_range(id);
        }
        range.plan = *plan;
        range.preferred = preferred;
        let group = range.group;
        if !plan.recover.and(view.around).is_empty() {
            self.reads_around(id);
        }
        let touches = !plan.reads.or(plan.writes).is_empty();
        // The checksums of staged blocks lie behind them.
        let paged = self.has_checksums() && touches && !self.grow.is_staged(group);
        if paged && !self.pin_pages(id) {
            self.ranges[id].move_to(Stage::Paging);
            return Next::Wait;
        }
        self.carry_out_plan(id)
    }

    /// Takes the steps of a stripe range's plan. The pages with its checksums are pinned.
    pub(crate) fn carry_out_plan(&mut self, id: RangeId) -> Next {
        if self.may_be_blank(id) {
            return self.look_at_rows(id);
        }
        let range = &mut self.ranges[id];
        let fills = range.ask == Ask::Read && !range.rows.settling.is_under_way();
        if fills && !range.touched.and(range.rows.zeros).is_empty() {
            range.plan.steps = range.plan.steps.with(Step::Fill);
        }
        match range.plan.steps.first() {
            Some(Step::Read) => self.read_planned(id),
            _ => self.next_step(id, None),
        }
    }

    /// Begins the reads of a stripe range's plan.
    #[inline(never)]
    pub(super) fn read_planned(&mut self, id: RangeId) -> Next {
        let range = &mut self.ranges[id];
        let reads = range.plan.reads.minus(range.rows.zeros);
        if reads.is_empty() {
            return Next::After(Step::Verify);
        }
        range.move_to(Stage::Reading { failed: false });
        range.pending = reads.count();
        range.reads.awaited = reads;
        range.reads.issued = self.now;
        for slot in reads.iter() {
            let place = self.read_place(id, slot);
            self.slot_io(id, slot, Operation::Read, place);
        }
        Next::Wait
    }

    /// Returns the slot, member and place of the copy to read; those of slot 0 if no copy is
    /// readable. Fills in the group of stripe range `id`.
    #[inline(never)]
    pub(crate) fn locate_copy(
        &mut self,
        id: RangeId,
        group: GroupIndex,
        low: u32,
        blocks: u32,
    ) -> (u8, MemberIndex, BlockIndex) {
        self.ranges.take_group(&self.geometry, id, group);
        self.ranges[id].low = low;
        let slot = self.choose_copy(id, self.slots_not_held(id, low + blocks));
        let place = self.ranges.slot(id, slot);
        let offset = place.offset.plus(u64::from(low));
        let direct = !self.members.indirect().contains(place.member);
        if direct && self.holds(place.member, group, low + blocks) {
            self.load(place.member, offset, blocks);
        }
        (slot, place.member, offset)
    }

    /// Returns the readable copy with the lowest cost; 0 if none is readable.
    fn choose_copy(&mut self, id: RangeId, unreadable: SlotSet) -> u8 {
        let low = u64::from(self.ranges[id].low);
        let slots = self.ranges.group(id).slots();
        let chosen = self.ranges[id]
            .shape
            .all()
            .minus(unreadable)
            .iter()
            .min_by_key(|&slot| {
                let place = &slots[usize::from(slot)];
                let load = self.members.load(place.member);
                (
                    load.write_mostly,
                    (self.settings.read_policy.cost)(load, place.offset.plus(low)),
                )
            })
            .unwrap_or(0);
        self.reads_chosen += 1;
        let member = slots[usize::from(chosen)].member;
        self.members.load_mut(member).last_chosen = self.reads_chosen;
        chosen
    }

    /// Merges the writes that wait for the same rows of other chunks: together they read less, and
    /// parity is written once. Stops at the first stripe range that can't be merged, so that no
    /// write is overtaken.
    pub(super) fn merge_waiting(&mut self, id: RangeId) {
        if self.ranges[id].shape.copies || self.ranges[id].ask != Ask::Write {
            return;
        }
        let mut last = id;
        let mut at = id;
        while let Some(next) = self.locks.next_overlapping(id, at) {
            let (range, other) = (&self.ranges[id], &self.ranges[next]);
            let same_rows = range.low == other.low && range.end == other.end;
            let disjoint = range.touched.and(other.touched).is_empty();
            let same_kind =
                self.requests
                    .write_operation(&self.ranges, id)
                    .is_some_and(|operation| {
                        other.ask == Ask::Write
                            && self.requests.write_operation(&self.ranges, next) == Some(operation)
                    });
            if !(same_rows && disjoint && same_kind) {
                return;
            }
            let touched = range.touched.or(other.touched);
            at = self.locks.withdraw(next);
            self.ranges[id].touched = touched;
            self.ranges[last].merged = next;
            self.ranges[next].move_to(Stage::Merged);
            last = next;
        }
    }

    /// Takes the step of a stripe range's plan that follows `done`, up to the commit. Without a
    /// commit the rows are done.
    pub(crate) fn next_step(&mut self, id: RangeId, done: Option<Step>) -> Next {
        match self.ranges[id].plan.steps.after(done) {
            Some(Step::Read) => self.read_planned(id),
            Some(Step::Prove) => {
                let range = &self.ranges[id];
                let recovered = range.plan.recover.and(range.shape.all_data());
                self.checksum_made(id, Step::Prove, recovered);
                Next::Wait
            }
            Some(Step::Commit) if !self.only_looks(id) => self.reach_commit(id),
            None | Some(Step::Commit) => self.scrubbed(id, false),
            Some(step) => {
                self.take_step(id, step);
                Next::Wait
            }
        }
    }
}
