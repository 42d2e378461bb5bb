//! Repairs unreadable places on members by rewriting them from redundancy. A place that refuses the
//! rewrite goes into the bad-block list, and a member with too many errors goes out.

use crate::{
    Engine, RangeId,
    faults::Place,
    jobs::scrub::Fate,
    output::{Event, OutReason, Output},
    plan::Ask,
    stripe::Owner,
};
use spindles_block::{MemberError, MemberIndex};
use spindles_format::{AreaKind, BadBlockKind, ErrorCounts};

impl Engine {
    /// Handles a failed read of a stripe range at some place of a member.
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
        // A scrub that repeats the rows in smaller pieces meets the same error again: report it
        // once.
        let closer =
            scrubs && (place.low > range.first_row() || range.low + place.blocks < range.end);
        if closer || range.owner == Owner::Repair || self.grow.is_staged(range.group) {
            return;
        }
        self.outbox
            .put(Output::Event(Event::MemberFault { member, error }));
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
        if self.settings.read_only || self.shape.slots == self.shape.data {
            return;
        }
        let is_new = scrubs || self.queue_repair(place);
        // Rot on an inner array is repaired by writing the blocks again. Whether one of its disks
        // fails is for the inner array to judge.
        let is_rot = error == MemberError::Corrupt;
        if is_new && !is_rot && self.faults.is_too_many(member, self.now) {
            let bad_elsewhere = self
                .bad
                .members()
                .without(member)
                .difference(self.members.missing());
            // This member alone may hold the blocks that others can't read.
            let is_alone = bad_elsewhere.is_empty() && !self.faults.others_fail(member, self.now);
            if is_alone && self.can_spare(member) {
                self.put_out(member, OutReason::TooManyErrors);
            }
        }
    }

    /// Queues a rewrite of the current rows of a slot, which are rotten. Without redundancy, only
    /// reports them.
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
        if self.shape.slots == self.shape.data {
            // No redundancy can repair it.
            return self.tell_finding(id, slot, Fate::Left);
        }
        if self.settings.read_only {
            let member = self.ranges.member(id, slot);
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

    /// Returns true if the others can reconstruct everything that a member holds. Parity in doubt
    /// can't: an opening after a crash refuses an array that lost a member in that state.
    fn can_spare(&self, member: MemberIndex) -> bool {
        let settled = self.settled.everywhere() || self.shape.copies;
        settled && self.geometry.survives(self.members.lost().with(member))
    }

    /// Handles a member's refusal to rewrite the current rows of one of its chunks. Returns false
    /// if the member is gone. Otherwise the rows go into the bad-block list. If that is full, the
    /// member goes out unless it is needed.
    pub(crate) fn rewrite_refused(&mut self, id: RangeId, slot: u8, error: MemberError) -> bool {
        if error == MemberError::Gone {
            return false;
        }
        let range = &mut self.ranges[id];
        range.rows.refused = range.rows.refused.with(slot);
        let (low, blocks) = (range.low, range.blocks);
        let place = self.ranges.slot(id, slot);
        let start = place.offset.0 + u64::from(low);
        let range = start..start + u64::from(blocks);
        if !self.bad.add(BadBlockKind::Unread(place.member), range) {
            if self.can_spare(place.member) {
                self.put_out(place.member, OutReason::TooManyBadBlocks);
            }
            return true;
        }
        self.write_area(AreaKind::BAD_BLOCKS);
        self.choose_direct();
        true
    }
}
