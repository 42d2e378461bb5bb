//! `Starting` to `Reading`: a stripe range gets its lock, its region and its plan.

use crate::{
    Engine, Mutation, RangeId,
    plan::{Ask, Contents, Health, Strategy, Work, plan},
    ranges::{Owner, Phase, RowState, StripeRange},
    recovery::rows::Settling,
    slots::SlotSet,
    waits::WaitFor,
};
use spindles_block::{BlockIndex, MemberIndex, Operation, RequestError};
use spindles_layout::GroupIndex;

impl Engine {
    pub(crate) fn plan_range(&mut self, id: RangeId) {
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
        if self.bad.any_lost() && self.asks_for_lost(id) {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
            return self.finish(id);
        }
        if self.refuses_staged_write(id) {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
            return self.finish(id);
        }
        if self.unreplayed && self.answer_is_in_log(id) {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
            return self.finish(id);
        }
        let missing = self.missing_slots(id);
        let StripeRange {
            ask,
            group,
            touched,
            low,
            blocks,
            end,
            ..
        } = self.ranges[id];
        let not_held = self.slots_not_held(id, low + blocks);
        let old_contents = self.ranges[id].rows.old_contents;
        let not_readable = not_held.minus(old_contents);
        let mut unreadable = not_readable.or(self.ranges[id].rows.unreadable);
        let doubtful = self.unreplayed && !touched.and(unreadable).is_empty();
        // Rows that a row sum proved are not in doubt, even if the log is gone.
        // A check of an array open read-only compares what a crash left, as it is.
        let checks = self.settings.read_only && ask == Ask::Scrub;
        let in_order = self.settled(group, low + blocks) || self.grow.is_staged(group) || checks;
        let settled = self.ranges[id].rows.settling == Settling::Done || in_order && !doubtful;
        let (mut around, mut probed) = (SlotSet::EMPTY, SlotSet::EMPTY);
        if settled && !self.unreplayed && !self.slow.avoided().is_empty() {
            let (all, data) = (self.shape(id).all(), u32::from(self.shape(id).data));
            let suffices = |slots: SlotSet| slots.count() >= data;
            let stalled = self.stalled_slots(id);
            if suffices(all.minus(unreadable).minus(stalled)) {
                unreadable = unreadable.or(stalled);
            }
            (around, probed) = self.slow_slots(id);
            around = around.minus(unreadable);
            if suffices(all.minus(unreadable).minus(around)) {
                unreadable = unreadable.or(around);
            }
        }
        let blank = self.ranges[id].rows.state == RowState::Blank;
        let fills = blank && self.fills_blank_rows(id);
        let written = self.regions.is_written(group) && (fills || !blank);
        let readable = if self.shape(id).copies || !written {
            settled
        } else {
            settled && touched.and(unreadable).is_empty()
        };
        // A read of present, settled blocks sees the old or the new state of a write in flight, as
        // on any disk. Everything else must not meet a write half-way.
        let unlocked_read_failed = self.ranges[id].seen.unlocked_read_failed;
        let shared = self.shape(id).slots > 1 || self.has_checksums() || self.replace.copies();
        let apart = ask == Ask::Read
            && readable
            && !unlocked_read_failed
            && !self.awaits_places(id, group, low..end);
        let alone = !apart && shared;
        let lock = alone
            && !self.mutated(Mutation::DropStripeLock)
            && !(ask == Ask::Scrub && self.mutated(Mutation::ScrubUnlocked));
        if lock && !self.ranges[id].locked {
            if !self.locks.acquire(id, group, low, end) {
                self.ranges[id].move_to(Phase::Locking);
                self.ranges[id].rows.state = RowState::Unknown;
                return;
            }
            self.ranges[id].locked = true;
        }
        if alone && self.regions.are_stored() && !self.region_is_open(id) {
            self.ranges[id].move_to(Phase::Preparing);
            // Meanwhile the region may be released, and written for the first time again.
            self.ranges[id].rows.state = RowState::Unknown;
            self.waits.wait(id, WaitFor::Region);
            return self.pump_releases();
        }
        let undecided = ask == Ask::Write || self.regions.is_half_released(group);
        if self.metadata.is_broken() && !written && undecided {
            self.ranges[id].error = Some(RequestError::BeyondTolerance);
            return self.finish(id);
        }

        if !settled && written && !blank {
            if !in_order && self.awaits_record(id) {
                return;
            }
            if self.must_settle(id) {
                return self.begin_settling(id);
            }
        }
        let health = Health {
            // A scrub leaves rows that a rebuild has not reached to the rebuild.
            missing: if ask == Ask::Scrub { not_held } else { missing },
            unreadable,
            settled,
            contents: match (written, fills) {
                (false, _) => Contents::Zeros,
                (true, true) => Contents::Blank,
                (true, false) => Contents::Written,
            },
            trust_unsettled: self.settings.trust_unsettled,
        };
        let preferred = if ask == Ask::Read && self.shape(id).copies {
            let probed = probed.minus(unreadable).first();
            probed.unwrap_or_else(|| self.choose_copy(id, unreadable))
        } else {
            0
        };
        let gives_up = self.mutated(Mutation::NoRecovery) && unreadable != not_held;
        let planned = plan(self.shape(id), health, ask, touched, preferred);
        let Some(mut plan) = planned.filter(|_| !gives_up) else {
            let places = !self.ranges[id].rows.unreadable.minus(not_held).is_empty();
            if places && self.halve(id) {
                // Members may have bad blocks in different rows: compute each row from its own
                // readable blocks.
                return self.plan_range(id);
            }
            if ask == Ask::Scrub {
                return self.scrub_gives_up(id);
            }
            if ask == Ask::Rebuild && self.tries_old_contents(id, not_held) {
                return self.plan_range(id);
            }
            if ask == Ask::Rebuild && self.goes_without(id) {
                return;
            }
            if self.may_lose_rotten(id, unreadable) {
                return self.lose_rotten(id);
            }
            let error = if self.ranges[id].seen.corrupt {
                RequestError::Corrupt
            } else {
                RequestError::BeyondTolerance
            };
            self.ranges[id].error.get_or_insert(error);
            return self.finish(id);
        };
        let unused = old_contents.minus(plan.reads);
        if !unused.is_empty() {
            // Only blocks that are read are proved: the plan writes the others.
            self.ranges[id].rows.old_contents = old_contents.minus(unused);
            return self.plan_range(id);
        }
        if plan.strategy == Strategy::FullStripeWrite && self.writes_zeros(id) {
            // The parity of zeros is zeros, for every linear code.
            plan.strategy = Strategy::Direct;
            plan.encode = SlotSet::EMPTY;
        }
        if fills {
            self.fill_blank_rows(id, &mut plan);
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
        range.plan = plan;
        range.preferred = preferred;
        if !plan.recover.and(around).is_empty() {
            self.reads_around(id);
        }
        let touches = !plan.reads.or(plan.writes).is_empty();
        // The checksums of staged blocks lie behind them.
        let paged = self.has_checksums() && touches && !self.grow.is_staged(group);
        if paged && !self.pin_pages(id) {
            self.ranges[id].move_to(Phase::Paging);
            return;
        }
        self.carry_out_plan(id);
    }

    /// Begins the reads of a stripe range's plan, after filling in slots that are zeros according
    /// to the log.
    pub(crate) fn carry_out_plan(&mut self, id: RangeId) {
        if self.may_be_blank(id) {
            return self.look_at_rows(id);
        }
        let range = &self.ranges[id];
        let fills = range.ask == Ask::Read && !range.rows.settling.is_under_way();
        if fills && !range.touched.and(range.rows.zeros).is_empty() {
            return self.work_step(id, Work::Fill);
        }
        self.read_planned(id);
    }

    /// Begins the reads of a stripe range's plan.
    pub(crate) fn read_planned(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        let reads = range.plan.reads.minus(range.rows.zeros);
        if reads.is_empty() {
            return self.work(id, None);
        }
        range.move_to(Phase::Reading);
        range.pending = reads.count();
        range.reads.awaited = reads;
        range.reads.issued = self.now;
        for slot in reads.iter() {
            let place = self.read_place(id, slot);
            self.slot_io(id, slot, Operation::Read, place);
        }
    }

    /// Returns true if there are copies to choose from.
    #[inline]
    pub(crate) fn mirrors(&self, id: RangeId) -> bool {
        self.shape(id).mirrors()
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
        self.take_group(id, group);
        self.ranges[id].low = low;
        let slot = self.choose_copy(id, self.slots_not_held(id, low + blocks));
        let place = self.groups[id.index()].slots()[usize::from(slot)];
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
        let slots = self.groups[id.index()].slots();
        let chosen = self
            .shape(id)
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
        if self.shape(id).copies || self.ranges[id].ask != Ask::Write {
            return;
        }
        let mut last = id;
        let mut at = id;
        while let Some(next) = self.locks.next_overlapping(id, at) {
            let (range, other) = (&self.ranges[id], &self.ranges[next]);
            let same_rows = range.low == other.low && range.end == other.end;
            let disjoint = range.touched.and(other.touched).is_empty();
            let same_kind = self.write_operation(id).is_some_and(|operation| {
                other.ask == Ask::Write && self.write_operation(next) == Some(operation)
            });
            if !(same_rows && disjoint && same_kind) {
                return;
            }
            let touched = range.touched.or(other.touched);
            at = self.locks.withdraw(next);
            self.ranges[id].touched = touched;
            self.ranges[last].merged = next;
            self.ranges[next].move_to(Phase::Merged);
            last = next;
        }
    }

    /// Returns the operation of a stripe range's request; `None` if it does not write data.
    fn write_operation(&self, id: RangeId) -> Option<Operation> {
        let Owner::Request(request) = self.ranges[id].owner else {
            return None;
        };
        let operation = self.requests[request].operation;
        matches!(operation, Operation::Write { .. }).then_some(operation)
    }
}
