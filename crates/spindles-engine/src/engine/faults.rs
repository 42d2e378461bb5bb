//! Members that can't read some places: the places are rewritten from redundancy. A place that can't be
//! rewritten goes into the bad-block list, and a member with too many errors goes out.

use crate::{
    Engine, Mutation, RangeId,
    engine::Closing,
    faults::{MemberFaults, Place},
    output::{Event, OutReason, Output},
    plan::Ask,
    ranges::{Owner, Phase},
    slots::SlotSet,
};
use spindles_block::{MemberError, MemberIndex, MemberSet};
use spindles_format::{BadBlockKind, BadBlocks, ErrorCounts};

impl Engine {
    /// What went wrong on a member.
    pub(crate) fn faults_of(&self, member: MemberIndex) -> MemberFaults {
        MemberFaults {
            bad_blocks: self.bad.blocks(BadBlockKind::Unread(member)),
            ..self.faults.of(member)
        }
    }

    /// Counts errors in the record of a member's device, and writes the superblocks, but only
    /// once a minute for errors.
    #[cold]
    pub(crate) fn count_errors(&mut self, member: MemberIndex, more: &ErrorCounts) {
        let due = self.metadata.count_errors(member, more, self.now);
        if due && !self.has_failed() {
            self.want_update();
        }
    }

    /// A read of a stripe range failed in some place of a member.
    pub(crate) fn note_fault(
        &mut self,
        id: RangeId,
        slot: u8,
        member: MemberIndex,
        error: MemberError,
    ) {
        let range = &self.ranges[id];
        let place = Place {
            slot,
            group: range.group,
            low: range.low,
            blocks: range.blocks,
            rotten: false,
        };
        let scrubs = range.ask == Ask::Scrub;
        // A scrub that repeats the rows in smaller pieces meets the same error again: report it once.
        let closer = scrubs && (place.low > range.start || range.low + place.blocks < range.end);
        if closer || range.owner == Owner::Repair || self.grow.is_staged(range.group) {
            return;
        }
        self.output(Output::Event(Event::MemberFault { member, error }));
        self.faults.read_failed(member);
        let corrupt = error == MemberError::Corrupt;
        self.count_errors(
            member,
            &ErrorCounts {
                read_errors: u64::from(!corrupt),
                corrupt_blocks: if corrupt { place.blocks.into() } else { 0 },
                ..ErrorCounts::NONE
            },
        );
        if self.read_only || self.shape.slots == self.shape.data {
            return;
        }
        let is_new = scrubs || self.queue_repair(place);
        // Rot on an inner array is repaired by writing the blocks again. Whether one of its disks fails
        // is for the inner array to judge.
        let is_rot = error == MemberError::Corrupt;
        if is_new && !is_rot && self.faults.is_too_many(member, self.now) {
            let bad_elsewhere = self.bad.members().without(member).difference(self.missing);
            // What others can't read it alone may hold.
            let is_alone = bad_elsewhere.is_empty() && !self.faults.others_fail(member, self.now);
            if is_alone && self.can_spare(member) {
                self.put_out(member, OutReason::TooManyErrors);
            }
        }
    }

    /// The rows under way of a slot of a stripe range are rotten: queues a rewrite of them.
    #[cold]
    pub(crate) fn repair_rot(&mut self, id: RangeId, slot: u8) {
        let range = &self.ranges[id];
        let place = Place {
            // A repair looks at all slots of the rows, so the rows are queued once.
            slot: 0,
            group: range.group,
            low: range.low,
            blocks: range.blocks,
            rotten: true,
        };
        if self.grow.is_staged(range.group) {
            return;
        }
        if self.read_only || self.shape.slots == self.shape.data {
            let member = self.groups[id.index()].slots()[usize::from(slot)].member;
            self.faults.rotten(member, place.blocks);
            let corrupt_blocks = place.blocks.into();
            self.count_errors(
                member,
                &ErrorCounts {
                    corrupt_blocks,
                    ..ErrorCounts::NONE
                },
            );
            return;
        }
        self.queue_repair(place);
    }

    fn queue_repair(&mut self, place: Place) -> bool {
        let (is_new, in_line) = self.faults.queue(place);
        if in_line {
            self.jobs.someone_waits();
        }
        is_new
    }

    /// Begins to rewrite the next place. Returns false if none is queued or no stripe range is free.
    pub(crate) fn pump_repairs(&mut self) -> bool {
        let open = matches!(self.closing, Closing::Open | Closing::Draining);
        if !self.faults.has_repairs()
            || self.free_job_ranges.is_empty()
            || !open
            || self.holds_back()
        {
            return false;
        }
        let Some(place) = self.faults.next_repair() else {
            return false;
        };
        self.jobs.nobody_waits();
        if !self.regions.is_live(place.group) {
            return true; // A growth has moved these rows elsewhere.
        }
        let id = self.free_job_ranges.pop().expect("there is one");
        self.take_group(id, place.group);
        let range = &mut self.ranges[id];
        range.move_to(Phase::Starting);
        range.owner = Owner::Repair;
        range.ask = Ask::Scrub;
        range.group = place.group;
        range.touched = SlotSet::EMPTY;
        range.start = place.low;
        range.low = place.low;
        range.blocks = place.blocks;
        range.end = place.low + place.blocks;
        if place.rotten {
            self.start(id);
        } else {
            self.start_repair(id, place.slot);
        }
        true
    }

    /// Whether places wait to be rewritten.
    pub(crate) fn has_repairs(&self) -> bool {
        self.faults.has_repairs()
    }

    pub(crate) fn repair_done(&mut self, id: RangeId) {
        self.free_job_ranges.push(id);
    }

    /// Whether the others can reconstruct all that a member holds. Parity in doubt can't, and an array that
    /// lost a member in that state is refused at the opening after a crash.
    fn can_spare(&self, member: MemberIndex) -> bool {
        let settled = self.all_settled || self.shape.copies;
        settled && self.geometry.survives(self.lost.with(member))
    }

    /// A member refused the rewrite of the rows under way of one of its chunks. Returns false if it is
    /// gone; otherwise the rows go into the bad-block list, or the member out if the list is full.
    pub(crate) fn rewrite_refused(&mut self, id: RangeId, slot: u8, error: MemberError) -> bool {
        if error == MemberError::Gone {
            return false;
        }
        let range = &mut self.ranges[id];
        range.rows.refused = range.rows.refused.with(slot);
        let (low, blocks) = (range.low, range.blocks);
        let place = self.groups[id.index()].slots()[usize::from(slot)];
        let start = place.offset.0 + u64::from(low);
        let range = start..start + u64::from(blocks);
        if !self.bad.add(BadBlockKind::Unread(place.member), range) {
            if self.can_spare(place.member) {
                self.put_out(place.member, OutReason::TooManyBadBlocks);
            }
            return true;
        }
        self.write_bad_blocks();
        self.choose_direct();
        true
    }

    /// Counts slots with bad blocks in the rows under way as unreadable. Returns true if a scrub is to
    /// repeat the rows in shorter pieces first.
    #[cold]
    pub(crate) fn mark_bad_slots(&mut self, id: RangeId) -> bool {
        let bad = self.bad_slots(id).minus(self.missing_slots(id));
        let range = &mut self.ranges[id];
        range.rows.unreadable = range.rows.unreadable.or(bad);
        !bad.is_empty() && range.ask == Ask::Scrub && self.narrow(id)
    }

    /// Slots of a stripe range with bad blocks in the rows under way. None for what a growth staged: staged
    /// blocks are elsewhere; the bad-block list does not apply.
    pub(crate) fn bad_slots(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        if self.grow.is_staged(range.group) {
            return SlotSet::EMPTY;
        }
        let slots = (0..).zip(self.groups[id.index()].slots());
        let is_bad = |&(_, place): &(u8, &spindles_layout::Slot)| {
            let start = place.offset.0 + u64::from(range.low);
            let range = start..start + u64::from(range.blocks);
            let kind = BadBlockKind::Unread(place.member);
            self.bad.overlaps(kind, &range)
        };
        slots
            .filter(is_bad)
            .fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot))
    }

    /// Updates the set of members that are never read directly: those with bad blocks, and slow ones.
    pub(crate) fn choose_direct(&mut self) {
        self.indirect = self.bad.members().union(self.slow.avoided());
    }

    /// Another device has the position: clears the error counts of the one before it.
    pub(crate) fn forget_device(&mut self, member: MemberIndex) {
        self.faults.forget_counts(member);
    }

    /// A member is out: forgets its errors and latency, which belong to its device.
    pub(crate) fn forget_faults(&mut self, member: MemberIndex) {
        self.faults.forget_recent(member);
        self.forget_latency(member);
        self.choose_direct();
    }

    /// It is durable that the devices of these members are out: forgets their bad blocks. Not before, since the next
    /// opening may count on them.
    pub(crate) fn forget_bad_blocks(&mut self, members: MemberSet) {
        for member in members.intersection(self.bad.members()).iter() {
            self.bad.forget_member(member);
        }
        self.write_bad_blocks();
        self.choose_direct();
    }

    /// A member is out. Where its device comes back it lacks its bad blocks as it does what was written meanwhile.
    pub(crate) fn mark_bad_blocks(&mut self, member: MemberIndex) {
        if self.mutated(Mutation::ForgetBadBlocksEarly) {
            self.forget_bad_blocks(MemberSet::EMPTY.with(member));
        }
        if !self.regions.are_stored() || self.mutated(Mutation::ReturnBadBlocks) {
            return; // It is filled as a whole.
        }
        let of_member = |entry: &&BadBlocks| entry.kind == BadBlockKind::Unread(member);
        for entry in self.bad.entries().filter(of_member) {
            let mut offset = entry.start;
            while offset < entry.end()
                && let Some((group, ..)) = self.geometry.find(member, offset)
            {
                self.regions.mark_dirty(group);
                offset = offset.plus(1);
            }
        }
    }
}
