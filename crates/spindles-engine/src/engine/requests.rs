//! Requests, and how they are cut into stripe ranges.
//!
//! A request has a cursor and hands out stripe ranges while free ones are left; the rest waits in
//! `backlog`. A stripe range in use never waits for a free stripe range, so at least one stripe
//! range always ends.

use crate::{
    Engine, Mutation,
    engine::{Closing, context::may_become_quiet, staging::Turn},
    index,
    output::{Busy, Output},
    plan::Ask,
    requests::RequestSlot,
    slots::SlotSet,
    stripe::{Owner, Past, Stage},
};
use spindles_block::{BufferId, Operation, Reply, Request, RequestError};

/// The extent of a request in one group: from `first_row` in its first chunk to `last_end` in its
/// last.
struct GroupExtent {
    /// The slots of the first and the last chunk.
    slots: (u8, u8),
    first_row: u32,
    last_end: u32,
    /// Rows of a chunk.
    chunk: u32,
}

impl GroupExtent {
    fn is_one_chunk(&self) -> bool {
        self.slots.0 == self.slots.1
    }

    /// The end of its rows.
    #[inline]
    fn rows_end(&self) -> u32 {
        if self.is_one_chunk() {
            self.last_end
        } else {
            self.chunk
        }
    }

    /// Returns the next rows, from `low` on, that touch the same slots: the first slot, the end of
    /// the slots, the first row and the end of the rows.
    #[inline]
    fn run_from(&self, mut low: u32) -> (u8, u8, u32, u32) {
        let (first_slot, last_slot) = self.slots;
        if self.is_one_chunk() {
            return (
                first_slot,
                first_slot + 1,
                low.max(self.first_row),
                self.last_end,
            );
        }
        loop {
            let first = first_slot + u8::from(low < self.first_row);
            let end_slot = last_slot + u8::from(low < self.last_end);
            let cut = [self.first_row, self.last_end, self.chunk]
                .into_iter()
                .filter(|&cut| cut > low)
                .min()
                .expect("rows are left");
            if first < end_slot {
                return (first, end_slot, low, cut);
            }
            low = cut;
        }
    }
}

impl Engine {
    pub(crate) fn take_request(&mut self, request: Request) -> Result<(), Busy> {
        if self.closing != Closing::Open {
            return Err(Busy);
        }
        let slot = self.requests.take().ok_or(Busy)?;
        let end = request.block.0.checked_add(u64::from(request.blocks));
        let in_range = end.is_some_and(|end| end <= self.geometry.blocks());
        let flush = request.operation == Operation::Flush;
        if !in_range {
            self.requests.give_back(slot);
            self.outbox.put(Output::Reply(Reply {
                token: request.token,
                result: Err(RequestError::OutOfRange),
                exchanged: None,
            }));
            return Ok(());
        }
        assert!(
            flush == (request.blocks == 0),
            "a request has blocks, unless it is a flush: {request:?}"
        );
        let carries_data = matches!(request.operation, Operation::Read | Operation::Write { .. });
        assert!(
            !carries_data || request.buffer.buffer != BufferId::NONE,
            "a read or write has a buffer"
        );
        self.requests[slot] = RequestSlot::new(
            request.token,
            request.operation,
            request.block,
            request.block.plus(u64::from(request.blocks)),
            request.buffer,
        );
        self.requests[slot].exchangeable = self.hedges.exchanges();
        if self.requests.any_waiting() || !self.advance(slot) {
            self.requests.wait(slot);
        }
        Ok(())
    }

    /// Lets the request that waits longest continue. Returns true if the whole request is handed
    /// out.
    pub(crate) fn advance_backlog(&mut self) -> bool {
        let Some(request) = self.requests.first_waiting() else {
            return false;
        };
        let done = self.advance(request);
        if done {
            self.requests.first_goes();
        }
        done
    }

    /// Hands out stripe ranges of a request while there are free ones. Returns true if all are
    /// handed out.
    pub(crate) fn advance(&mut self, request: u32) -> bool {
        let own = request == self.own_request();
        let is_lost = |engine: &Self| {
            engine.bad.reads_lost(&engine.requests, request) && !engine.is_covered(request)
        };
        if self.bad.any_lost() && !self.holds_back() && is_lost(self) {
            let slot = &mut self.requests[request];
            slot.handed_out = true;
            slot.pending += 1;
            self.request_part_done(request, Some(RequestError::BeyondTolerance));
            return true;
        }
        while !self.requests[request].handed_out {
            let may_wait = !own && !self.requests[request].is_midway();
            let waits = self.holds_back() && may_wait && may_become_quiet(self);
            let few = self.ranges.free_count() <= index(self.hedges.kept_ranges());
            if waits || few && self.requests.must_leave_ranges(&self.ranges, request) {
                return false;
            }
            if self.staging.is_some() && !own && !self.requests[request].is_midway() {
                match self.stage_turn(request) {
                    Turn::Stage => continue,
                    Turn::Waits => return false,
                    Turn::Places => {}
                }
            }
            match self.requests[request].operation {
                Operation::Flush => {
                    self.requests[request].handed_out = true;
                    self.start_flush(request);
                }
                Operation::Read => self.hand_out(request, Ask::Read),
                Operation::Write { .. } | Operation::Discard | Operation::WriteZeroes { .. } => {
                    self.hand_out(request, Ask::Write);
                }
            }
        }
        true
    }

    /// Sends an operation that concerns one member alone straight to it: a read of present, settled
    /// blocks, or a write without redundancy. Anything else becomes a stripe range.
    #[inline]
    fn hand_out(&mut self, request: u32, ask: Ask) {
        let unlocked = self.shape.slots == 1 && !self.has_checksums() && !self.replace.copies();
        let alone =
            (unlocked || (self.settled.everywhere() && ask == Ask::Read)) && !self.is_growing();
        // The first write of an opening waits, as a stripe range, until superblocks record the
        // opening.
        let recorded = ask == Ask::Read || self.metadata.is_recorded();
        let slot = &self.requests[request];
        if !alone || !recorded || slot.low > 0 {
            return self.hand_out_range(request, ask);
        }
        let location = self.geometry.locate(slot.next);
        if !self.regions.is_written(location.group) {
            return self.hand_out_range(request, ask);
        }
        let wanted = slot.cut.0 - slot.next.0;
        let blocks_max = location.blocks_left.min(self.settings.direct_blocks_max);
        let last = wanted <= u64::from(blocks_max);
        let blocks = if last {
            u32::try_from(wanted).expect("within the chunk")
        } else {
            blocks_max
        };
        let id = self.ranges.next_free();
        let (slot_index, member, offset) = if self.ranges[id].shape.mirrors() {
            self.locate_copy(id, location.group, location.block_in_chunk, blocks)
        } else {
            (location.data_index, location.member, location.offset)
        };
        // Read a degraded stripe once for all chunks that the request spans, as a stripe range.
        let whole = self.members.lost().is_empty() && self.slow.nobody_stalls();
        let spans = !(last || self.shape.copies || whole);
        let end = location.block_in_chunk + blocks;
        let holds = match ask {
            Ask::Write => !self.members.missing().contains(member),
            _ => {
                !self.members.indirect().contains(member) && self.holds(member, location.group, end)
            }
        };
        let rows = location.block_in_chunk..end;
        let waits = self.awaits_places(id, location.group, rows);
        if spans || !holds || waits {
            return self.hand_out_range(request, ask);
        }
        let slot = &mut self.requests[request];
        let (operation, block, buffer) = (slot.operation, slot.next, slot.place(slot.next));
        slot.next = slot.next.plus(u64::from(blocks));
        slot.handed_out = slot.next == slot.end;
        slot.pending += 1;
        self.ranges.take();
        let range = &mut self.ranges[id];
        range.move_to(Stage::Direct);
        range.owner = Owner::Request(request);
        range.ask = ask;
        range.group = location.group;
        range.touched = SlotSet::one(location.data_index);
        range.low = location.block_in_chunk;
        range.blocks = blocks;
        range.end = location.block_in_chunk + blocks;
        range.direct.member = member;
        range.reads.issued = self.now;
        range.pending = 1;
        if self.has_checksums() {
            let next = self.begin_direct(id, slot_index, offset, block);
            return self.go_on(id, next);
        }
        self.member_io(id, slot_index, member, operation, offset, blocks, buffer);
    }

    /// Hands out the next stripe range: the longest run of rows in which the request touches the
    /// same chunks of its group, as long as scratch space allows.
    #[inline(never)]
    fn hand_out_range(&mut self, request: u32, ask: Ask) {
        let id = self.ranges.take();
        let location = self.geometry.locate(self.requests[request].next);
        self.ranges.take_group(&self.geometry, id, location.group);
        let shape = self.ranges[id].shape;
        let group = self.ranges.group(id);
        let slot = &mut self.requests[request];
        let chunk = group.blocks;
        let group_end = group
            .first_block
            .plus(u64::from(chunk) * u64::from(group.data_chunks));
        let part_end = slot.cut.min(group_end);
        let last = part_end.0 - 1 - group.first_block.0;
        let first_slot = location.data_index;
        let first_row = location.block_in_chunk;
        let last_slot = u8::try_from(last / u64::from(chunk)).expect("a slot of the group");
        let last_end = u32::try_from(last % u64::from(chunk)).expect("within the chunk") + 1;

        let extent = GroupExtent {
            slots: (first_slot, last_slot),
            first_row,
            last_end,
            chunk,
        };
        let rows_end = extent.rows_end();
        let (first, end_slot, low, cut) = extent.run_from(slot.low);
        let zeros = matches!(
            slot.operation,
            Operation::Discard | Operation::WriteZeroes { .. }
        );
        let whole = first == 0 && end_slot == shape.data;
        let needs_scratch = if shape.copies {
            !self.settled.everywhere() && ask == Ask::Read
        } else {
            !(zeros && whole)
        };
        let length = if needs_scratch {
            self.settings.limits.range_blocks
        } else if zeros {
            self.settings.zeros_blocks_max
        } else {
            self.settings.unscratched_blocks_max
        };
        let end = low + length.min(cut - low);
        if end == rows_end {
            slot.next = part_end;
            slot.low = 0;
            slot.handed_out = part_end == slot.end;
        } else {
            slot.low = end;
        }
        slot.pending += 1;

        let range = &mut self.ranges[id];
        range.move_to(Stage::Starting);
        range.owner = Owner::Request(request);
        range.ask = ask;
        range.group = location.group;
        range.touched = SlotSet::range(first, end_slot);
        range.low = low;
        range.blocks = end - low;
        range.end = end;
        self.start(id);
    }

    fn start_flush(&mut self, request: u32) {
        let id = self.ranges.take();
        self.requests[request].pending += 1;
        let range = &mut self.ranges[id];
        range.move_to(Stage::Flushing(Past::NOTHING));
        range.owner = Owner::Request(request);
        range.ask = Ask::Write;
        let staged = self.staging.as_ref();
        let is_staged = staged.is_some_and(|staging| !staging.stage.flush().0.is_empty())
            && !self.mutated(Mutation::FlushSkipsStage);
        let next = self.flush_members(id, self.flushes.is_all_durable() && !is_staged);
        self.go_on(id, next);
    }
}
