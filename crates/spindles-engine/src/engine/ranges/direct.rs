//! Reads of one member without a plan, whose blocks have checksums.

use crate::{
    Engine, Mutation, RangeId, index,
    output::Output,
    stripe::Stage,
    stripe::{Next, Owner},
};
use spindles_block::{BlockIndex, Operand, Operation};

impl Engine {
    /// Pins the checksum pages of a read that goes straight to a member, or waits for them.
    #[inline(never)]
    pub(crate) fn begin_direct(
        &mut self,
        id: RangeId,
        slot: u8,
        offset: BlockIndex,
        block: BlockIndex,
    ) -> Next {
        let range = &mut self.ranges[id];
        range.preferred = slot;
        range.direct.offset = offset;
        range.direct.block = block;
        if self.pin_pages(id) {
            return self.read_direct(id);
        }
        self.ranges[id].move_to(Stage::DirectPaging);
        Next::Wait
    }

    /// Begins a read that goes straight to a member. The pages of its checksums are pinned.
    pub(crate) fn read_direct(&mut self, id: RangeId) -> Next {
        if self.reads_blank(id) {
            return self.plan_direct(id, false);
        }
        let now = self.now;
        let range = &mut self.ranges[id];
        let Owner::Request(request) = range.owner else {
            panic!("a direct operation belongs to a request");
        };
        range.move_to(Stage::Direct);
        range.reads.issued = now;
        range.pending = 1;
        let (slot, member, offset) = (range.preferred, range.direct.member, range.direct.offset);
        let blocks = range.blocks;
        let buffer = self.requests[request].place(range.direct.block);
        self.member_io(id, slot, member, Operation::Read, offset, blocks, buffer);
        Next::Wait
    }

    /// Computes the checksums of blocks that were read straight from a member.
    #[inline(never)]
    pub(crate) fn verify_direct(&mut self, id: RangeId) {
        let range = &self.ranges[id];
        let Owner::Request(request) = range.owner else {
            panic!("a direct operation belongs to a request");
        };
        let slice = self.requests[request].place(range.direct.block);
        let base = self.workspace.operands_start(id);
        self.workspace
            .set_operand(base, Operand { index: 0, slice });
        let range = &mut self.ranges[id];
        range.sources = 1;
        range.targets = 0;
        range.move_to(Stage::Verifying);
        self.outbox
            .put(Output::Compute(spindles_block::StepId(id.0)));
    }

    /// Uses the blocks that were read straight from a member if they fit their checksums.
    pub(crate) fn verified_direct(&mut self, id: RangeId) -> Next {
        let range = &self.ranges[id];
        let sums = self.workspace.checksums_start(id);
        let sums = &self.workspace.checksums()[sums..sums + index(range.blocks)];
        let pages = self.pages.as_ref().expect("something was summed up");
        let first = range.direct.offset;
        let blind = self.mutated(Mutation::SkipVerify);
        if blind || pages.agree(&self.metadata_buffer, (id.0, 0), first, sums) {
            self.finish_direct(id);
            return Next::Wait;
        }
        self.direct_disagrees(id)
    }

    /// Plans a read again whose blocks do not fit their checksums: without a lock the read may have
    /// met a write.
    #[cold]
    fn direct_disagrees(&mut self, id: RangeId) -> Next {
        self.plan_direct(id, true)
    }

    /// Gives a plan to a read that went straight to a member.
    #[cold]
    pub(crate) fn plan_direct(&mut self, id: RangeId, unlocked_read_failed: bool) -> Next {
        self.unpin_pages(id);
        let range = &mut self.ranges[id];
        range.reset();
        range.seen.unlocked_read_failed = unlocked_read_failed;
        range.move_to(Stage::Starting);
        let group = range.group;
        self.geometry.group_into(group, self.ranges.group_mut(id));
        Next::Plan
    }

    /// Continues a read that goes straight to a member. Its pages are pinned now.
    pub(crate) fn paged_direct(&mut self, id: RangeId) -> Next {
        let member = self.ranges[id].direct.member;
        if self.members.missing().contains(member) {
            return self.direct_disagrees(id);
        }
        self.read_direct(id)
    }
}
