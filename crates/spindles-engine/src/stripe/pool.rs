//! The stripe ranges of an engine, and which of them are free.

use super::{
    range::{Owner, StripeRange},
    stage::Stage,
};
use crate::{
    RangeId, index,
    jobs::Place,
    members::Members,
    plan::{Ask, Shape},
    slots::SlotSet,
};
use alloc::{vec, vec::Vec};
use core::ops::{Index, IndexMut, Range};
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_layout::{Geometry, Group, GroupIndex, Slot};

/// The stripe ranges of an engine: first for requests, then for jobs.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    all: Vec<StripeRange>,
    /// The redundancy group of each stripe range.
    groups: Vec<Group>,
    /// The number of stripe ranges for requests.
    clients: u32,
    free: Vec<RangeId>,
    free_for_jobs: Vec<RangeId>,
    /// The number of stripe ranges of `Owner::Answered`.
    answered: u32,
}

impl Ranges {
    /// Creates free stripe ranges for requests, and then for jobs.
    pub(crate) fn new(clients: u32, jobs: u32, shape: Shape) -> Self {
        let all = clients + jobs;
        Self {
            all: vec![StripeRange::free(shape); index(all)],
            groups: vec![Group::empty(); index(all)],
            clients,
            free: (0..clients).rev().map(RangeId).collect(),
            free_for_jobs: (clients..all).rev().map(RangeId).collect(),
            answered: 0,
        }
    }

    /// The number of stripe ranges.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).expect("stripe ranges are counted in 32 bits")
    }

    /// The number of stripe ranges that are free for requests.
    #[inline]
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    /// Returns true if all stripe ranges for requests but one are in use.
    pub(crate) fn is_last(&self) -> bool {
        self.free.len() <= 1 && self.clients > 1
    }

    /// The number of stripe ranges that requests use.
    pub(crate) fn used_count(&self) -> usize {
        index(self.clients) - self.free.len()
    }

    /// Returns true if neither a request nor a job uses one.
    pub(crate) fn all_free(&self) -> bool {
        self.free.len() + self.free_for_jobs.len() == self.all.len()
    }

    /// Returns the stripe range that `take` takes next. Panics if none is free.
    #[inline]
    pub(crate) fn next_free(&self) -> RangeId {
        *self.free.last().expect("the caller looked")
    }

    /// Takes a stripe range for a request. Panics if none is free.
    #[inline]
    pub(crate) fn take(&mut self) -> RangeId {
        self.free.pop().expect("the caller looked")
    }

    /// Returns a request's stripe range to the pool.
    #[inline]
    pub(crate) fn give_back(&mut self, id: RangeId) {
        self.free.push(id);
    }

    /// Returns true if a stripe range is free for a job.
    pub(crate) fn any_free_for_jobs(&self) -> bool {
        !self.free_for_jobs.is_empty()
    }

    /// Takes a stripe range for a job. Panics if none is free.
    pub(crate) fn take_for_job(&mut self) -> RangeId {
        self.free_for_jobs.pop().expect("the caller looked")
    }

    /// Returns a job's stripe range to the pool.
    pub(crate) fn give_back_of_job(&mut self, id: RangeId) {
        self.free_for_jobs.push(id);
    }

    /// Notes that the request of a stripe range is answered, although its rows are not in place.
    pub(crate) fn note_answered(&mut self, id: RangeId) {
        self[id].owner = Owner::Answered;
        self.answered += 1;
    }

    /// Returns such a stripe range to the pool.
    pub(crate) fn give_back_answered(&mut self, id: RangeId) {
        self.answered -= 1;
        self.give_back(id);
    }

    /// The number of stripe ranges whose requests are answered.
    #[inline]
    pub(crate) fn answered_count(&self) -> u32 {
        self.answered
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &StripeRange> {
        self.all.iter()
    }

    /// Iterates over the places at which the stripe ranges under way of a job began.
    pub(crate) fn places_of_job(&self, row: usize) -> impl Iterator<Item = Place> {
        let for_jobs = self.all[index(self.clients)..].iter();
        let of_job = for_jobs.filter(move |range| range.is_of_job(row));
        of_job.map(StripeRange::place)
    }

    /// Returns the group of each stripe range.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns the group of a stripe range.
    #[inline]
    pub(crate) fn group(&self, id: RangeId) -> &Group {
        &self.groups[id.index()]
    }

    #[inline]
    pub(crate) fn group_mut(&mut self, id: RangeId) -> &mut Group {
        &mut self.groups[id.index()]
    }

    /// Returns the chunk of a slot on its member.
    #[inline]
    pub(crate) fn slot(&self, id: RangeId, slot: u8) -> Slot {
        self.group(id).slots()[usize::from(slot)]
    }

    /// Returns the member of a slot.
    #[inline]
    pub(crate) fn member(&self, id: RangeId, slot: u8) -> MemberIndex {
        self.slot(id, slot).member
    }

    /// Returns the slots on these members.
    #[inline(never)]
    pub(crate) fn slots_on(&self, id: RangeId, members: MemberSet) -> SlotSet {
        let slots = self.group(id).slots();
        (0..self[id].shape.slots)
            .filter(|&slot| members.contains(slots[usize::from(slot)].member))
            .fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// Returns the member that an I/O of a stripe range is on. For a flush `slot` is the member.
    pub(crate) fn member_of_io(&self, id: RangeId, slot: u8) -> MemberIndex {
        match self[id].stage() {
            Stage::Flushing(_) => MemberIndex(slot),
            _ => self.member(id, slot),
        }
    }

    /// Returns the first block of a slot's current rows, in the data area of its member.
    pub(crate) fn block_of_slot(&self, id: RangeId, slot: u8) -> BlockIndex {
        self.slot(id, slot).offset.plus(u64::from(self[id].low))
    }

    /// Returns the blocks of the array in the current rows of a data slot.
    pub(crate) fn array_blocks(&self, id: RangeId, slot: u8) -> Range<u64> {
        let (range, group) = (&self[id], self.group(id));
        let first = group.first_block.0 + u64::from(slot) * u64::from(group.blocks);
        let first = first + u64::from(range.low);
        first..first + u64::from(range.blocks)
    }

    /// Returns the first block of the array in the current rows of a slot; `None` for parity.
    pub(crate) fn array_block(&self, id: RangeId, slot: u8) -> Option<BlockIndex> {
        let shape = self[id].shape;
        let data = if shape.copies {
            Some(0)
        } else {
            Some(slot).filter(|&slot| shape.all_data().contains(slot))
        };
        data.map(|slot| BlockIndex(self.array_blocks(id, slot).start))
    }

    /// Returns the members at which a read of a request waits.
    pub(crate) fn waits_at(&self, id: RangeId) -> MemberSet {
        let range = &self[id];
        let reads = range.ask == Ask::Read && matches!(range.owner, Owner::Request(_));
        match range.stage() {
            // The checksums of a direct read lie on the same member.
            Stage::DirectPaging | Stage::Direct if reads => {
                MemberSet::EMPTY.with(range.direct.member)
            }
            Stage::Reading { .. } if reads => {
                let members = range.reads.awaited.iter();
                members.map(|slot| self.member(id, slot)).collect()
            }
            _ => MemberSet::EMPTY,
        }
    }

    /// Sets the shape of all groups.
    pub(crate) fn set_shape(&mut self, shape: Shape) {
        for range in &mut self.all {
            range.shape = shape;
        }
    }

    /// Returns the slots of the stripe range's group on these members.
    #[inline]
    pub(crate) fn slots_of(&self, id: RangeId, members: MemberSet) -> SlotSet {
        if members.is_empty() {
            return SlotSet::EMPTY;
        }
        self.slots_on(id, members)
    }

    /// Returns the slots of the stripe range's group whose members are missing.
    #[inline]
    pub(crate) fn missing_slots(&self, members: &Members, id: RangeId) -> SlotSet {
        self.slots_of(id, members.missing())
    }

    /// Fills in the group of a stripe range.
    pub(crate) fn take_group(&mut self, geometry: &Geometry, id: RangeId, group: GroupIndex) {
        let filled = self.group_mut(id);
        geometry.group_into(group, filled);
        if geometry.older().is_some() {
            self[id].shape = Shape::of(filled);
        }
    }

    /// Returns the block of a slot of the group of a stripe range, in this row.
    pub(crate) fn block_at(&self, id: RangeId, slot: u8, row: u32) -> BlockIndex {
        let group = self.group(id);
        let in_group = u64::from(slot) * u64::from(group.blocks) + u64::from(row);
        group.first_block.plus(in_group)
    }

    /// Returns the slots that a stripe range writes. Members may have gone out since the plan was
    /// made; the blocks computed for other members are valid.
    pub(crate) fn slots_to_write(&self, members: &Members, id: RangeId) -> SlotSet {
        self[id].plan.writes.minus(self.missing_slots(members, id))
    }
}

impl Index<RangeId> for Ranges {
    type Output = StripeRange;

    #[inline]
    fn index(&self, id: RangeId) -> &StripeRange {
        &self.all[id.index()]
    }
}

impl IndexMut<RangeId> for Ranges {
    #[inline]
    fn index_mut(&mut self, id: RangeId) -> &mut StripeRange {
        &mut self.all[id.index()]
    }
}
