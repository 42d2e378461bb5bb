//! Looks up blocks of stripe ranges in the list of bad blocks, and removes rewritten ones.

use crate::{
    Engine, Mutation, RangeId, bad_blocks::Change, plan::Ask, slots::SlotSet, stripe::Owner,
};
use core::ops::Range;
use spindles_block::{MemberIndex, MemberSet};
use spindles_format::{AreaKind, BadBlockKind, BadBlocks};

impl Engine {
    /// Returns the data slots whose blocks of the array get new contents from a stripe range. A
    /// growth moves blocks without changing them.
    fn renewed(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        if range.owner == Owner::Request(self.own_request()) {
            return SlotSet::EMPTY;
        }
        match (range.ask, range.shape.copies) {
            (Ask::Write, true) => SlotSet::one(0),
            (Ask::Write, false) => range.touched,
            _ => SlotSet::EMPTY,
        }
    }

    /// Returns the slots that a stripe range wrote and that have blocks in the list.
    fn rewritten(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        let written = range
            .plan
            .writes
            .minus(self.ranges.missing_slots(&self.members, id));
        self.bad
            .bad_slots(&self.ranges, id, self.grow.is_staged(self.ranges[id].group))
            .and(written.minus(range.rows.refused))
    }

    /// Returns true if a stripe range wrote blocks in the list. The blocks are removed when the
    /// write is durable.
    #[cold]
    pub(crate) fn wrote_bad_blocks(&self, id: RangeId) -> bool {
        self.renews_lost(id) || !self.rewritten(id).is_empty()
    }

    /// Returns true if a stripe range writes rows that have a block in the list.
    #[cold]
    pub(crate) fn writes_bad_blocks(&self, id: RangeId) -> bool {
        self.renews_lost(id)
            || !self
                .bad
                .bad_slots(&self.ranges, id, self.grow.is_staged(self.ranges[id].group))
                .is_empty()
    }

    fn renews_lost(&self, id: RangeId) -> bool {
        let lost = |slot| self.bad.is_listed_lost(&self.ranges, id, slot);
        self.renewed(id).iter().any(lost)
    }

    /// Removes blocks from the list that a stripe range wrote durably.
    #[cold]
    pub(crate) fn take_from_bad_blocks(&mut self, id: RangeId) -> Change {
        let mut all = Change::Done;
        let mut remove = |engine: &mut Self, kind, blocks: Range<u64>| {
            let change = engine.bad.remove(kind, &blocks);
            if all != Change::Full && change != Change::Done {
                all = change;
            }
        };
        for slot in self.renewed(id).iter() {
            remove(self, BadBlockKind::Lost, self.ranges.array_blocks(id, slot));
        }
        for slot in self.rewritten(id).iter() {
            let place = self.ranges.slot(id, slot);
            let range = &self.ranges[id];
            let start = place.offset.0 + u64::from(range.low);
            let blocks = start..start + u64::from(range.blocks);
            remove(self, BadBlockKind::Unread(place.member), blocks);
        }
        self.choose_direct();
        self.write_area(AreaKind::BAD_BLOCKS);
        all
    }

    /// Returns true if a stripe range reads, for a client, blocks that were found lost since the
    /// request.
    #[cold]
    pub(crate) fn asks_for_lost(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let own = Owner::Request(self.own_request());
        let client = matches!(range.owner, Owner::Request(_)) && range.owner != own;
        let lost = |slot| self.bad.is_listed_lost(&self.ranges, id, slot);
        client && range.ask == Ask::Read && range.touched.iter().any(lost)
    }

    /// Updates the set of members that are never read directly: those with bad blocks, and slow
    /// ones.
    pub(crate) fn choose_direct(&mut self) {
        let members = self.bad.members().union(self.slow.avoided());
        self.members.set_indirect(members);
    }

    /// Forgets the errors and latency of a member that is out: they belong to its device.
    pub(crate) fn forget_faults(&mut self, member: MemberIndex) {
        self.faults.forget_recent(member);
        self.slow.forget_device(member);
        self.choose_direct();
    }

    /// Forgets the bad blocks of devices that are durably recorded as out. Not earlier, since the
    /// next opening may count on them.
    pub(crate) fn forget_bad_blocks(&mut self, members: MemberSet) {
        for member in members.intersection(self.bad.members()).iter() {
            self.bad.forget_member(member);
        }
        self.write_area(AreaKind::BAD_BLOCKS);
        self.choose_direct();
    }

    /// Marks the regions of a missing member's bad blocks dirty. If its device comes back, it lacks
    /// these blocks, as it lacks missed writes.
    pub(crate) fn mark_bad_blocks(&mut self, member: MemberIndex) {
        if self.mutated(Mutation::ForgetBadBlocksEarly) {
            self.forget_bad_blocks(MemberSet::EMPTY.with(member));
        }
        if !self.regions.are_stored() || self.mutated(Mutation::ReturnBadBlocks) {
            return; // The device would be filled as a whole.
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

    /// Counts slots with bad blocks in the current rows as unreadable. Returns true if a scrub
    /// should first repeat the rows in shorter pieces.
    #[cold]
    pub(crate) fn mark_bad_slots(&mut self, id: RangeId) -> bool {
        let missing = self.ranges.missing_slots(&self.members, id);
        let bad = self
            .bad
            .bad_slots(&self.ranges, id, self.grow.is_staged(self.ranges[id].group))
            .minus(missing);
        let range = &mut self.ranges[id];
        range.rows.unreadable = range.rows.unreadable.or(bad);
        !bad.is_empty() && range.ask == Ask::Scrub && range.narrow(missing)
    }
}
