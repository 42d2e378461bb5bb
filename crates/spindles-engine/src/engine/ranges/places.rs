//! Where the rows of a stripe range lie: on its members, and in buffers.

use crate::{
    Engine, Mutation, RangeId, SLOT_BITS,
    output::Output,
    plan::{Ask, Strategy},
    slots::SlotSet,
    stripe::Owner,
};
use spindles_block::{BlockIndex, BufferSlice, MemberIndex, MemberIo, MemberIoId, Operation};

impl Engine {
    #[expect(
        clippy::inline_always,
        reason = "a call costs a tenth of a read that goes straight to its member"
    )]
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of one member I/O")]
    pub(crate) fn member_io(
        &mut self,
        range: RangeId,
        slot: u8,
        member: MemberIndex,
        operation: Operation,
        offset: BlockIndex,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        let block = self.members.data_start(member).plus(offset.0);
        self.outbox.put(Output::Member(MemberIo {
            id: MemberIoId(range.0 << SLOT_BITS | u32::from(slot)),
            member,
            operation,
            block,
            blocks,
            buffer,
        }));
    }

    /// Issues an I/O of one slot of a stripe range, at the current rows.
    pub(crate) fn slot_io(
        &mut self,
        id: RangeId,
        slot: u8,
        operation: Operation,
        buffer: BufferSlice,
    ) {
        let range = &self.ranges[id];
        let (low, blocks) = (range.low, range.blocks);
        let group = range.group;
        let mirrors = range.shape.mirrors();
        let place = self.ranges.slot(id, slot);
        let offset = place.offset.plus(u64::from(low));
        if mirrors {
            self.load(place.member, offset, blocks);
        }
        if self.grow.is_staged(group) {
            return self.outbox.put(Output::Member(MemberIo {
                id: MemberIoId(id.0 << SLOT_BITS | u32::from(slot)),
                member: place.member,
                operation,
                block: self.grow.staged_place(place.member, offset),
                blocks,
                buffer,
            }));
        }
        self.member_io(id, slot, place.member, operation, offset, blocks, buffer);
    }

    pub(super) fn load(&mut self, member: MemberIndex, offset: BlockIndex, blocks: u32) {
        let load = self.members.load_mut(member);
        load.in_flight += 1;
        load.last_end = offset.plus(u64::from(blocks));
    }

    /// Returns the slots whose members can't be read in the rows below `end` of the stripe range's
    /// group.
    #[inline]
    pub(crate) fn slots_not_held(&self, id: RangeId, end: u32) -> SlotSet {
        if self.members.lost().is_empty() {
            return SlotSet::EMPTY;
        }
        self.slots_lost(id, end)
    }

    #[inline(never)]
    fn slots_lost(&self, id: RangeId, end: u32) -> SlotSet {
        let group = self.ranges.group(id);
        let slots = group.slots();
        (0..self.ranges[id].shape.slots)
            .filter(|&slot| !self.holds(slots[usize::from(slot)].member, group.index, end))
            .fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// Returns the place of a row of the stripe range's scratch space.
    pub(crate) fn row(&self, id: RangeId, row: u8) -> BufferSlice {
        let id = if self.mutated(Mutation::SharedScratch) {
            id.0 / 2
        } else {
            id.0
        };
        self.scratch.row(id, row)
    }

    /// Returns the place for parity `slot` as it should be, next to the parity that was read.
    pub(super) fn witness_row(&self, id: RangeId, slot: u8) -> BufferSlice {
        self.row(
            id,
            slot + (self.ranges[id].shape.slots - self.ranges[id].shape.data),
        )
    }

    /// Returns the place of the client's data for data slot `slot` of the stripe range.
    pub(super) fn client(&self, id: RangeId, slot: u8) -> BufferSlice {
        let mut range = &self.ranges[id];
        if range.owner == Owner::Answered {
            return self.row(id, slot);
        }
        if let Owner::Stage { .. } = range.owner {
            let staging = self.staging.as_ref().expect("it places");
            return staging.source(id, slot).plus(range.low - range.first_row());
        }
        let row = u64::from(range.low); // Merged stripe ranges still have their first row.
        while !range.own.contains(slot) {
            range = &self.ranges[range.merged];
        }
        let Owner::Request(request) = range.owner else {
            panic!("a range that touches data belongs to a request");
        };
        let group = self.ranges.group(id);
        let block = group
            .first_block
            .plus(u64::from(slot) * u64::from(group.blocks) + row);
        self.requests[request].place(block)
    }

    /// Returns the buffer for blocks read from `slot`: the client's buffer if the client reads that
    /// slot.
    pub(crate) fn read_place(&self, id: RangeId, slot: u8) -> BufferSlice {
        let range = &self.ranges[id];
        if range.rows.zeros.contains(slot) {
            return BufferSlice::ZEROS;
        }
        if range.rows.settling.is_under_way() && range.shape.slots > 1 {
            return self.row(id, slot);
        }
        if range.ask == Ask::Read {
            if self.ranges[id].shape.copies {
                // The copy that counts.
                if range.plan.reads.first() == Some(slot) {
                    return self.client(id, 0);
                }
            } else if range.touched.contains(slot) {
                return self.client(id, slot);
            }
        }
        self.row(id, slot)
    }

    /// Returns the place of the data of `slot` as it will be after the plan.
    pub(super) fn new_place(&self, id: RangeId, slot: u8) -> BufferSlice {
        let range = &self.ranges[id];
        let settles = range.rows.settling.is_under_way();
        if range.renewed().contains(slot) && !settles {
            return self.client(id, slot);
        }
        self.read_place(id, slot)
    }

    /// Returns the place of parity as it will be after the plan.
    pub(super) fn parity_place(&self, id: RangeId, slot: u8) -> BufferSlice {
        match self.ranges[id].plan.strategy {
            Strategy::Settle => self.witness_row(id, slot),
            _ => self.row(id, slot),
        }
    }

    pub(crate) fn write_source(&self, id: RangeId, slot: u8) -> BufferSlice {
        let range = &self.ranges[id];
        if self.ranges[id].shape.copies {
            return match (range.ask, range.plan.reads.first()) {
                (Ask::Write, _) | (_, None) => self.client(id, 0),
                (
                    Ask::Read | Ask::Settle | Ask::Rebuild | Ask::Replace | Ask::Scrub,
                    Some(truth),
                ) => self.read_place(id, truth),
            };
        }
        if slot < self.ranges[id].shape.data {
            return self.new_place(id, slot);
        }
        match range.plan.strategy {
            Strategy::Direct => BufferSlice::ZEROS,
            _ => self.parity_place(id, slot),
        }
    }
}
