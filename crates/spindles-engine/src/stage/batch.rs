//! The batch under way: its writes, its columns, the computation of its parity, and its I/O.
//!
//! ```text
//! phase      input                    then
//! Idle       writes wait              Waiting
//! Waiting    there is space, and the  Encoding; Writing if parity is copies, or there is none
//!            loss of holders is durable
//! Encoding   the next computation     Encoding, after the last Writing
//! Writing    the last column, all ok  Idle: answered
//! Writing    the last column, some    Waiting: a holder is out, and the batch gets another number
//!            failed
//! ```

use super::columns::{Chosen, Sizes, Turns};
use crate::index;
use alloc::{collections::VecDeque, vec::Vec};
use spindles_block::{
    BlockIndex, BufferSlice, Computation, Compute, MEMBERS_MAX, MemberIndex, MemberSet, Operand,
};
use spindles_format::{STAGE_HEADER_BYTES, StageColumn, StageKind, StageRun, StageShape};

/// A write to be staged, as the caller names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(pub u32);

/// A write to be staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its name.
    pub id: WriteId,
    /// The blocks of the array.
    pub run: StageRun,
    /// True if it is answered when it is durable.
    pub fua: bool,
}

/// The holders of the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Present holders. Superblocks durably record all other holders as out.
    pub present: MemberSet,
    /// Holders to avoid.
    pub slow: MemberSet,
    /// The number of holders that may still be lost.
    pub parity: u8,
}

/// A write with its contents in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) write: Write,
    /// The first block in memory.
    pub(super) slot: u32,
    /// The length of its memory, in blocks.
    pub(super) takes: u32,
    /// True if the contents and their checksums are in memory.
    pub(super) filled: bool,
}

impl Waiting {
    /// The number of blocks with contents.
    pub(super) fn contents(&self) -> u32 {
        match self.write.run.kind {
            StageKind::Contents => self.write.run.blocks,
            StageKind::Zeros => 0,
        }
    }
}

/// What the caller does for the batch now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing.
    Nothing,
    /// Carry out `computation`, then call `computed`.
    Compute,
    /// Issue the writes of `next_column`.
    Write,
    /// Nothing, until a release makes room.
    Full,
    /// Nothing: fewer holders are there than a batch needs.
    TooFew,
}

/// The write of a column: the header, then the blocks of the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnWrite {
    /// The column.
    pub column: u8,
    /// The holder, and the place in its stage.
    pub to: StageColumn,
    /// Blocks after the header.
    pub blocks: u32,
    /// The memory of these blocks.
    pub contents: BufferSlice,
    /// True if it must be durable when it is answered.
    pub fua: bool,
}

/// What the end of a column's write leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchEvent {
    /// More writes are under way.
    Waits,
    /// The last column is written: `next_answered` returns the writes.
    Answered,
    /// A holder failed. When its loss is durable, `append` writes the batch again.
    Again,
}

/// A computation of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// Parity of the rows in which no column is short.
    Whole,
    /// Parity of the other rows.
    Short,
    /// The checksums of parity.
    Checksums,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Encoding(Encoding),
    Writing {
        /// The next column to issue.
        next: u8,
        pending: u8,
        failed: bool,
    },
    Waiting,
}

/// The batch under way.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    sizes: Sizes,
    memory: BufferSlice,
    /// Parity lies in memory behind the contents of all batches.
    parity_slot: u32,
    turns: Turns,
    phase: Phase,
    number: u64,
    /// The number under which the batch was written when a holder failed.
    failed: Option<u64>,
    /// True if the batch was abandoned. Columns of it may lie on holders.
    is_abandoned: bool,
    shape: StageShape,
    chosen: Option<Chosen>,
    columns: [StageColumn; MEMBERS_MAX as usize],
    writes: VecDeque<Waiting>,
    runs: Vec<StageRun>,
    operands: Vec<Operand>,
    sources: usize,
}

impl Batch {
    pub(super) fn new(
        sizes: Sizes,
        memory: BufferSlice,
        parity_slot: u32,
        writes_max: u32,
    ) -> Self {
        Self {
            sizes,
            memory,
            parity_slot,
            turns: Turns::default(),
            phase: Phase::Idle,
            number: 0,
            failed: None,
            is_abandoned: false,
            shape: StageShape::default(),
            chosen: None,
            columns: [StageColumn::NONE; MEMBERS_MAX as usize],
            writes: VecDeque::with_capacity(index(writes_max)),
            runs: Vec::with_capacity(index(writes_max)),
            operands: Vec::with_capacity(usize::from(MEMBERS_MAX)),
            sources: 0,
        }
    }

    /// Returns true if a computation or a write is under way.
    pub(super) fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Encoding(_) | Phase::Writing { .. })
    }

    /// Gives up the batch, whose writes are never answered, and returns the first of them.
    pub(super) fn abandon_next(&mut self) -> Option<WriteId> {
        assert!(!self.is_under_way(), "nothing of it is under way");
        self.is_abandoned |= self.failed.is_some();
        self.phase = Phase::Idle;
        self.next_answered()
    }

    /// Returns true if the batch was given up and has one of these blocks. The next opening may
    /// find its contents or not.
    pub(super) fn leaves_open(&self, first: BlockIndex, blocks: u32) -> bool {
        let end = first.plus(blocks.into());
        let meets = |run: &StageRun| run.block < end && first < run.block.plus(run.blocks.into());
        self.is_abandoned && self.runs.iter().any(meets)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns true if the batch is formed and nothing of it is under way: it waits for space, or
    /// until the loss of a holder is durable.
    pub(super) fn waits(&self) -> bool {
        self.phase == Phase::Waiting
    }

    /// Returns the number under which a holder failed, until the batch is written again.
    pub(super) fn failed(&self) -> Option<u64> {
        self.failed
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn shape(&self) -> StageShape {
        self.shape
    }

    pub(super) fn runs(&self) -> &[StageRun] {
        &self.runs
    }

    pub(super) fn writes(&self) -> impl Iterator<Item = &Waiting> {
        self.writes.iter()
    }

    pub(super) fn chosen(&self) -> Chosen {
        self.chosen.expect("a batch was formed")
    }

    /// The first block of its contents in memory.
    pub(super) fn slot(&self) -> u32 {
        let with_contents = |waiting: &&Waiting| waiting.contents() > 0;
        let first = self.writes.iter().find(with_contents);
        first.map_or(0, |waiting| waiting.slot)
    }

    /// The blocks of memory that its writes take.
    pub(super) fn memory_takes(&self) -> u32 {
        self.writes.iter().map(|waiting| waiting.takes).sum()
    }

    // ---- forming ------------------------------------------------------------------------------

    /// Takes the first writes that wait, as many as one batch can have. `None` if none is ready, or
    /// there are too few holders.
    pub(super) fn take(
        &mut self,
        waiting: &mut VecDeque<Waiting>,
        context: &Context,
    ) -> Result<(), Next> {
        assert!(self.is_idle() && self.writes.is_empty());
        self.runs.clear();
        self.shape = StageShape::default();
        while let Some(next) = waiting.front().filter(|next| next.filled) {
            if !self.adds(next, context)? {
                break;
            }
            self.writes.extend(waiting.pop_front());
        }
        if self.writes.is_empty() {
            return Err(Next::Nothing);
        }
        self.phase = Phase::Waiting;
        Ok(())
    }

    /// Adds a write to the runs and the shape. Returns false if it does not fit.
    fn adds(&mut self, next: &Waiting, context: &Context) -> Result<bool, Next> {
        let blocks = self.shape.blocks + next.contents();
        let follows = self.shape.blocks == 0 || self.slot() + self.shape.blocks == next.slot;
        if next.contents() > 0 && !follows {
            return Ok(false);
        }
        let usable = Turns::usable(context.present, context.slow, context.parity);
        let data = self
            .sizes
            .data_columns(blocks, usable.count(), context.parity);
        let Some(data) = data else {
            let is_first = self.writes.is_empty();
            return if is_first {
                Err(Next::TooFew)
            } else {
                Ok(false)
            };
        };
        let shape = StageShape {
            blocks,
            data,
            parity: context.parity,
        };
        let run = next.write.run;
        let goes_on = |last: &StageRun| {
            let end = last.block.plus(last.blocks.into());
            last.kind == run.kind && end == run.block
        };
        let joins = self.runs.last().is_some_and(goes_on);
        let runs = self.runs.len() + usize::from(!joins);
        if shape.header_bytes(runs) > STAGE_HEADER_BYTES {
            return Ok(false);
        }
        self.shape = shape;
        match self.runs.last_mut().filter(|_| joins) {
            Some(last) => last.blocks += run.blocks,
            None => self.runs.push(run),
        }
        Ok(true)
    }

    /// Chooses the columns and their holders, again if a holder failed. `false` if there are too
    /// few.
    pub(super) fn choose(&mut self, context: &Context) -> bool {
        let usable = Turns::usable(context.present, context.slow, context.parity);
        let blocks = self.shape.blocks;
        let columns = |usable: MemberSet| {
            let data = self
                .sizes
                .data_columns(blocks, usable.count(), context.parity);
            data.map(|data| (usable, data))
        };
        let chosen = columns(usable).or_else(|| columns(context.present));
        let Some((usable, data)) = chosen else {
            return false;
        };
        self.shape.data = data;
        self.shape.parity = context.parity;
        self.chosen = Some(self.turns.choose(usable, self.shape.columns()));
        true
    }

    // ---- encoding -----------------------------------------------------------------------------

    /// Begins to compute parity, or the writes. Copies of one column need no computation.
    pub(super) fn begin(&mut self) -> Next {
        let StageShape { data, parity, .. } = self.shape;
        if data > 1 && parity > 0 {
            return self.encode(Encoding::Whole);
        }
        Next::Write
    }

    /// Continues after a computation.
    pub(super) fn computed(&mut self) -> Next {
        let Phase::Encoding(done) = self.phase else {
            panic!("computed in state {:?}", self.phase);
        };
        let last = self.shape.blocks_of(self.shape.data - 1);
        let is_short = last < self.shape.column_blocks();
        match done {
            Encoding::Whole if is_short => self.encode(Encoding::Short),
            Encoding::Whole | Encoding::Short => self.encode(Encoding::Checksums),
            Encoding::Checksums => Next::Write,
        }
    }

    fn encode(&mut self, step: Encoding) -> Next {
        self.phase = Phase::Encoding(step);
        self.operands.clear();
        let StageShape { data, parity, .. } = self.shape;
        let length = self.shape.column_blocks();
        let last = self.shape.blocks_of(data - 1);
        let from = if step == Encoding::Short { last } else { 0 };
        let slice = |slot, column: u8| self.memory.plus(slot + u32::from(column) * length + from);
        let sources = if step == Encoding::Checksums { 0 } else { data };
        for column in 0..sources {
            let is_zeros = step == Encoding::Short && column == data - 1;
            self.operands.push(Operand {
                index: column,
                slice: if is_zeros {
                    BufferSlice::ZEROS
                } else {
                    slice(self.slot(), column)
                },
            });
        }
        for column in 0..parity {
            self.operands.push(Operand {
                index: data + column,
                slice: slice(self.parity_slot, column),
            });
        }
        self.sources = match step {
            Encoding::Checksums => usize::from(parity),
            Encoding::Whole | Encoding::Short => usize::from(data),
        };
        Next::Compute
    }

    /// The computation under way.
    pub(super) fn computation(&self) -> Computation<'_> {
        let Phase::Encoding(step) = self.phase else {
            panic!("no computation in state {:?}", self.phase);
        };
        let last = self.shape.blocks_of(self.shape.data - 1);
        let (sources, targets) = self.operands.split_at(self.sources);
        Computation {
            compute: match step {
                Encoding::Whole | Encoding::Short => Compute::Solve,
                Encoding::Checksums => Compute::Checksum,
            },
            data_chunks: self.shape.data,
            parity_chunks: self.shape.parity,
            blocks: match step {
                Encoding::Whole => last,
                Encoding::Short => self.shape.column_blocks() - last,
                Encoding::Checksums => self.shape.column_blocks(),
            },
            sources,
            targets,
        }
    }

    /// The indices of the checksums of parity.
    pub(super) fn parity_slots(&self) -> core::ops::Range<usize> {
        let first = index(self.parity_slot);
        first..first + index(self.shape.checksums() - self.shape.blocks)
    }

    // ---- writing ------------------------------------------------------------------------------

    /// The places of the columns, to be filled.
    pub(super) fn columns_mut(&mut self) -> &mut [StageColumn] {
        &mut self.columns[..usize::from(self.shape.columns())]
    }

    /// The places of the columns.
    pub(super) fn columns(&self) -> &[StageColumn] {
        &self.columns[..usize::from(self.shape.columns())]
    }

    /// Begins to issue the writes of the batch, which has this number.
    pub(super) fn write(&mut self, number: u64) {
        self.number = number;
        self.failed = None;
        self.phase = Phase::Writing {
            next: 0,
            pending: 0,
            failed: false,
        };
    }

    /// Returns the write of the next column; `None` after the last.
    pub(super) fn next_column(&mut self) -> Option<ColumnWrite> {
        let Phase::Writing { next, pending, .. } = &mut self.phase else {
            return None;
        };
        if *next == self.shape.columns() {
            return None;
        }
        let column = *next;
        *next += 1;
        *pending += 1;
        Some(self.column_write(column))
    }

    /// Returns the write of the column on a holder; `None` if it has none.
    pub(super) fn column_on(&self, holder: MemberIndex) -> Option<ColumnWrite> {
        let mut columns = (0..).zip(self.columns());
        let column = columns.find(|(_, column)| column.holder == holder);
        column.map(|(at, _)| self.column_write(at))
    }

    fn column_write(&self, column: u8) -> ColumnWrite {
        let StageShape { data, .. } = self.shape;
        let length = self.shape.column_blocks();
        let first_block = match column.checked_sub(data) {
            None => self.slot() + u32::from(column) * length,
            Some(_) if data == 1 => self.slot(), // Copies.
            Some(parity) => self.parity_slot + u32::from(parity) * length,
        };
        let blocks = self.shape.blocks_of(column);
        ColumnWrite {
            column,
            to: self.columns[usize::from(column)],
            blocks,
            contents: if blocks == 0 {
                BufferSlice::NONE
            } else {
                self.memory.plus(first_block)
            },
            fua: self.fua(),
        }
    }

    /// Returns true if a write of the batch must be durable when it is answered.
    pub(super) fn fua(&self) -> bool {
        self.writes.iter().any(|waiting| waiting.write.fua)
    }

    /// Handles the end of a column's write.
    pub(super) fn column_done(&mut self, ok: bool) -> BatchEvent {
        let columns = self.shape.columns();
        let Phase::Writing {
            next,
            pending,
            failed,
        } = &mut self.phase
        else {
            panic!("a column in state {:?}", self.phase);
        };
        *pending = pending.checked_sub(1).expect("a write came back twice");
        *failed |= !ok;
        if *pending > 0 || *next < columns {
            return BatchEvent::Waits;
        }
        if *failed {
            self.phase = Phase::Waiting;
            self.failed = Some(self.number);
            return BatchEvent::Again;
        }
        self.phase = Phase::Idle;
        BatchEvent::Answered
    }

    /// Returns the next write of the batch that was answered.
    pub(super) fn next_answered(&mut self) -> Option<WriteId> {
        if !self.is_idle() {
            return None;
        }
        let next = self.writes.pop_front();
        next.map(|waiting| waiting.write.id)
    }

    /// Yields the staged blocks of a write, each with its block of memory.
    pub(super) fn blocks(waiting: &Waiting) -> impl Iterator<Item = (BlockIndex, u32)> {
        let Waiting { write, slot, .. } = *waiting;
        (0..write.run.blocks).map(move |at| (write.run.block.plus(at.into()), slot + at))
    }
}
