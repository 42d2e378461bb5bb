//! Requests: cut at the edges of the cover, and at those of what goes to the stage.

use crate::{
    Engine, Mutation, RangeId,
    plan::Ask,
    requests::RequestSlot,
    slots::SlotSet,
    stage::{Contents, Write, WriteId},
    staging::{Life, Staging, operand},
    stripe::{Next, Owner, Stage},
};
use spindles_block::{BlockIndex, BufferSlice, Operation, RequestError, StepId};
use spindles_format::{StageKind, StageRun};

/// The place of the next blocks of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The stage takes or returns these blocks.
    Stage,
    /// They go to their places, up to `RequestSlot::cut`, or come from there.
    Places,
    /// They wait for room in the stage.
    Waits,
}

/// The blocks of a write that go one way.
struct Piece {
    block: BlockIndex,
    blocks: u32,
    /// True if they are staged, or about to be.
    is_touched: bool,
}

impl Piece {
    /// The next blocks that are all touched, or all not.
    fn next(staging: &Staging, slot: &RequestSlot) -> Self {
        let block = slot.next;
        let left = u32::try_from(slot.end.0 - block.0).unwrap_or(u32::MAX);
        let is_touched = staging.touches(block);
        let is_free = staging.stage.cover().is_empty() && staging.stage.has_no_writes();
        let is_like = |at: &u32| staging.touches(block.plus((*at).into())) == is_touched;
        let blocks = if is_free {
            left
        } else {
            let more = (1..left).take_while(is_like).count();
            1 + u32::try_from(more).expect("less than the request")
        };
        Self {
            block,
            blocks,
            is_touched,
        }
    }
}

impl Engine {
    /// Decides about the next blocks of a request, which is not midway in a group. Takes them if
    /// the stage has them.
    #[inline(never)]
    pub(crate) fn stage_turn(&mut self, request: u32) -> Turn {
        let now = self.now;
        let staging = self.staging();
        (staging.asked, staging.is_awaited) = (now, false);
        let slot = &self.requests[request];
        match slot.operation {
            Operation::Flush => Turn::Places,
            Operation::Read => self.cut_read(request),
            Operation::Write { .. } | Operation::Discard | Operation::WriteZeroes { .. } => {
                self.cut_write(request)
            }
        }
    }

    /// Returns true if a block of a request is covered.
    pub(crate) fn is_covered(&self, request: u32) -> bool {
        let slot = &self.requests[request];
        let blocks = u32::try_from(slot.end.0 - slot.block.0).unwrap_or(u32::MAX);
        let staging = self.staging.as_ref();
        staging.is_some_and(|staging| staging.stage.cover().touches(slot.block, blocks))
    }

    /// Copies covered blocks, so that no read meets a release.
    fn cut_read(&mut self, request: u32) -> Turn {
        let slot = &self.requests[request];
        let left = u32::try_from(slot.end.0 - slot.next.0).unwrap_or(u32::MAX);
        if self.mutated(Mutation::ReadPastStage) {
            return self.leave_to_places(request, left);
        }
        let staging = self.staging.as_ref().expect("the array has a stage");
        if staging.stage.leaves_open(slot.next, left) {
            self.refuse_staged(request);
            return Turn::Stage;
        }
        let mut cuts = staging.stage.cover().cut(slot.next, left);
        let cut = cuts.next().expect("blocks are left");
        drop(cuts);
        let source = match cut.contents {
            Some(Contents::Slot(slot)) => staging.stage.memory(slot),
            Some(Contents::Zeros) => BufferSlice::ZEROS,
            None => {
                let slot = &mut self.requests[request];
                slot.cut = slot.next.plus(cut.blocks.into());
                return Turn::Places;
            }
        };
        let id = self.begin_staged(request, Ask::Read, cut.blocks);
        let staging = self.staging();
        let epoch = staging.epoch;
        staging.reads[usize::from(epoch)] += 1;
        self.ranges[id].preferred = epoch;
        let target = self.requests[request].place(cut.block);
        self.copy_staged(id, source, Some(target), Stage::Covered);
        Turn::Stage
    }

    fn cut_write(&mut self, request: u32) -> Turn {
        let staging = self.staging.as_ref().expect("the array has a stage");
        let mut piece = Piece::next(staging, &self.requests[request]);
        piece.is_touched &= !self.mutated(Mutation::PastStage);
        let (life, blocks_max) = (staging.life, staging.write_blocks_max);
        if self.writes_nothing() {
            // The request gets its error from there.
            return self.leave_to_places(request, piece.blocks);
        }
        if !piece.is_touched {
            let is_write = matches!(self.requests[request].operation, Operation::Write { .. });
            if !is_write || self.bad.any() {
                return self.leave_to_places(request, piece.blocks);
            }
            if !self.is_part_of_settled_rows(&mut piece) {
                return self.leave_to_places(request, piece.blocks);
            }
        }
        // The last stripe range stays free for placing: a batch that is written again may find no
        // room before blocks are placed, and its writes hold their stripe ranges.
        if life == Life::On && self.ranges.is_last() {
            return Turn::Waits;
        }
        if !piece.is_touched && !self.is_chosen(&piece) {
            return self.leave_to_places(request, piece.blocks);
        }
        let blocks = piece.blocks.min(blocks_max);
        self.staging().is_wanted = true;
        let may_stage = life == Life::On && self.client_ranges() > 1 && self.may_stage();
        if may_stage && self.stage_write(request, piece.block, blocks) {
            return Turn::Stage;
        }
        if piece.is_touched && self.staging().is_stuck() {
            self.refuse_staged(request);
            return Turn::Stage;
        }
        if piece.is_touched {
            self.staging().is_awaited = true;
            return Turn::Waits;
        }
        self.leave_to_places(request, piece.blocks)
    }

    /// Ends a request over blocks that can be neither staged nor placed.
    fn refuse_staged(&mut self, request: u32) {
        let slot = &mut self.requests[request];
        slot.handed_out = true;
        slot.pending += 1;
        self.request_part_done(request, Some(RequestError::BeyondTolerance));
    }

    fn leave_to_places(&mut self, request: u32, blocks: u32) -> Turn {
        let slot = &mut self.requests[request];
        slot.cut = slot.next.plus(blocks.into());
        Turn::Places
    }

    /// Cuts a piece at the end of its group. Returns true if it replaces no row of the group as a
    /// whole, and the rows are settled. Where they are not, an ordinary write settles them first;
    /// once a member is lost that may be impossible, and staged blocks could never be placed.
    fn is_part_of_settled_rows(&mut self, piece: &mut Piece) -> bool {
        let id = self.ranges.next_free();
        let location = self.geometry.locate(piece.block);
        self.ranges.take_group(&self.geometry, id, location.group);
        let group = self.ranges.group(id);
        let (chunk, data) = (u64::from(group.blocks), u64::from(group.data_chunks));
        let first = piece.block.0 - group.first_block.0;
        let left = chunk * data - first;
        if u64::from(piece.blocks) > left {
            piece.blocks = u32::try_from(left).expect("less than the piece");
        }
        // The first row is the first that could be whole.
        let end = first + u64::from(piece.blocks);
        let is_settled = self.is_settled_to(group.index, group.blocks);
        first + (data - 1) * chunk >= end && is_settled
    }

    /// Returns true if the mode stages this part of a row, whose group was located.
    fn is_chosen(&mut self, piece: &Piece) -> bool {
        let id = self.ranges.next_free();
        let group = self.ranges.group(id);
        let (first, chunk) = (group.first_block, u64::from(group.blocks));
        let row = (piece.block.0 - first.0) % chunk;
        let slots = u64::from(group.data_chunks);
        let staging = self.staging.as_mut().expect("the array has a stage");
        let Staging { choice, stage, .. } = staging;
        let cover = stage.cover();
        let is_staged = |slot| cover.touches(first.plus(slot * chunk + row), 1);
        let joins = || (0..slots).any(is_staged);
        choice.stages(piece.block, piece.blocks, stage.fill(), joins)
    }

    /// Takes blocks of a request into the stage. Returns false if there is no room for them.
    fn stage_write(&mut self, request: u32, block: BlockIndex, blocks: u32) -> bool {
        let operation = self.requests[request].operation;
        let kind = match operation {
            Operation::Write { .. } => StageKind::Contents,
            _ => StageKind::Zeros,
        };
        let (Operation::Write { fua } | Operation::WriteZeroes { fua }) = operation else {
            return self.take_staged(request, block, blocks, kind, false);
        };
        self.take_staged(request, block, blocks, kind, fua)
    }

    fn take_staged(
        &mut self,
        request: u32,
        block: BlockIndex,
        blocks: u32,
        kind: StageKind,
        fua: bool,
    ) -> bool {
        let id = WriteId(self.ranges.next_free().0);
        let run = StageRun {
            block,
            blocks,
            kind,
        };
        let taken = self.staging().stage.take(Write { id, run, fua });
        let Some(memory) = taken else {
            return false;
        };
        let id = self.begin_staged(request, Ask::Write, blocks);
        if kind == StageKind::Zeros {
            self.ranges[id].move_to(Stage::Staged);
            return true;
        }
        self.ranges[id].direct.offset = BlockIndex(memory.first_block.into());
        let source = self.requests[request].place(block);
        self.copy_staged(id, source, Some(memory), Stage::Copying);
        true
    }

    /// Takes a stripe range for the next blocks of a request.
    fn begin_staged(&mut self, request: u32, ask: Ask, blocks: u32) -> RangeId {
        let id = self.ranges.take();
        let slot = &mut self.requests[request];
        slot.next = slot.next.plus(blocks.into());
        slot.handed_out = slot.next == slot.end;
        slot.pending += 1;
        let range = &mut self.ranges[id];
        range.owner = Owner::Request(request);
        range.ask = ask;
        range.touched = SlotSet::EMPTY;
        range.low = 0;
        range.blocks = blocks;
        range.end = blocks;
        range.reset();
        id
    }

    /// Begins a copy, or the checksums of `source` without a target.
    fn copy_staged(
        &mut self,
        id: RangeId,
        source: BufferSlice,
        target: Option<BufferSlice>,
        stage: Stage,
    ) {
        let start = self.workspace.operands_start(id);
        self.workspace.set_operand(start, operand(source));
        if let Some(target) = target {
            self.workspace.set_operand(start + 1, operand(target));
        }
        let range = &mut self.ranges[id];
        range.sources = 1;
        range.targets = target.is_some().into();
        range.move_to(stage);
        self.outbox
            .put(crate::output::Output::Compute(StepId(id.0)));
    }

    /// Returns the memory of a write that is being copied.
    fn memory_of(&self, id: RangeId) -> BufferSlice {
        let first = self.ranges[id].direct.offset.0;
        let first_block = u32::try_from(first).expect("a block of the buffer");
        let buffer = self.settings.scratch;
        BufferSlice {
            buffer,
            first_block,
        }
    }

    /// Returns the space for the checksums of a write that was copied.
    pub(crate) fn staged_checksums(&mut self, id: RangeId) -> &mut [u32] {
        let (memory, blocks) = (self.memory_of(id), self.ranges[id].blocks);
        self.staging().stage.checksums_of(memory, blocks)
    }

    /// Handles the end of a copy, or of the checksums of a write.
    pub(crate) fn staged_computed(&mut self, id: RangeId) -> Next {
        match self.ranges[id].stage() {
            Stage::Covered => {
                let epoch = self.ranges[id].preferred;
                self.staging().reads[usize::from(epoch)] -= 1;
                Next::Done
            }
            Stage::Copying => {
                let memory = self.memory_of(id);
                self.copy_staged(id, memory, None, Stage::Summing);
                Next::Wait
            }
            _ => {
                self.ranges[id].move_to(Stage::Staged);
                self.staging().stage.filled(WriteId(id.0));
                Next::Wait
            }
        }
    }

    /// Handles the end of a stripe range that placed.
    pub(crate) fn staged_rows_placed(&mut self, id: RangeId, error: Option<RequestError>) {
        let range = &self.ranges[id];
        let (touched, start, end) = (range.touched, range.first_row(), range.end);
        let range_shape = range.shape;
        // The group may have been filled in for another stripe range only after this.
        for slot in touched.iter() {
            for row in start..end {
                let block = self.ranges.block_at(id, slot, row);
                self.staging().stage.place_ended(block, error.is_none());
            }
        }
        let is_whole = touched == range_shape.all_data();
        let (now, rows) = (self.now, end - start);
        self.ranges.give_back(id);
        let staging = self.staging();
        staging.placed(error.is_none(), now);
        if error.is_none() {
            let blocks = u64::from(rows) * u64::from(touched.count());
            staging.placed_blocks += blocks;
            staging.whole_rows += if is_whole { rows.into() } else { 0 };
            staging.pace.placed(blocks, now);
        }
    }
}
