//! The stage: small writes that are answered after one append, and placed later.
//! `engine/staging/` carries out what this room decides.
//!
//! A write takes space, memory and entries of the cover, or is an ordinary write. Its contents are
//! copied to memory. Writes that wait together form a *batch*, which goes to its *holders* with
//! one write each: `batch.rs`. From its answer until its release the batch covers its blocks:
//! `cover.rs`. Ordinary writes place the newest contents. Batches whose blocks are all placed are
//! released from the first on: `ring.rs`. After a crash `judge.rs` says which batches count.
//!
//! The room touches no payload: the caller copies, computes and writes what the room returns. Each
//! rule of the contract has a number there; the methods of [`Stage`] name the rules that they
//! keep, and those that the caller keeps.
//!
//! ```text
//! write   take ─▶ copied ─▶ waits ─▶ in a batch ─▶ answered ─▶ covers its blocks
//! block   Released ─▶ Staged ─▶ Placing ─▶ Placed ─▶ Released, or Staged again
//! ```

pub mod batch;
pub mod columns;
pub mod cover;
pub mod judge;
pub mod ring;
#[cfg(test)]
mod tests;

use crate::index;
use alloc::{collections::VecDeque, vec, vec::Vec};
use batch::{Batch, Waiting};
pub use batch::{BatchEvent, ColumnWrite, Context, Next, Write, WriteId};
use columns::Sizes;
pub use cover::{Contents, Cover, Cut, Newest};
use judge::{Directory, Verdict};
use ring::Ring;
use spindles_block::{BlockIndex, BufferSlice, Computation, Instant, MemberIndex, MemberSet};
use spindles_format::{
    StageBatch, StageColumn, StageKind, StageLayout, StageShape, Uuid, encode_stage,
};

/// The sizes and the identity of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The array's identity.
    pub array: Uuid,
    /// The nonce of the descriptor.
    pub nonce: u64,
    /// The layout on each holder.
    pub layout: StageLayout,
    /// Positions of holders, missing ones included.
    pub holders: u8,
    /// The most holders that may be lost.
    pub parity_max: u8,
    /// The number before the first header: the generation of the opening times 2^32.
    pub number: u64,
    /// The driver's memory for staged contents.
    pub memory: BufferSlice,
    /// Its length, without `Stage::parity_blocks`.
    pub memory_blocks: u32,
    /// Staged blocks that are zeros, at most.
    pub zeros_max: u32,
    /// Writes that wait, at most.
    pub writes_max: u32,
    /// Batches that are not released, at most.
    pub batches_max: u32,
}

/// The stage of an array.
#[derive(Clone, Debug)]
pub struct Stage {
    setup: Setup,
    ring: Ring,
    cover: Cover,
    batch: Batch,
    waiting: VecDeque<Waiting>,
    /// The checksum of each block of memory, then of parity.
    checksums: Vec<u32>,
    /// The filled bytes of the header's buffer.
    filled: usize,
    /// Blocks that were staged again before they were placed.
    absorbed: u64,
}

impl Stage {
    /// Reserves everything. The stage is empty.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let parity = Self::parity_blocks(&setup);
        let sizes = Sizes {
            header_blocks: setup.layout.header_blocks(),
            column_blocks_max: setup.layout.column_blocks_max(),
        };
        let (memory, memory_blocks) = (setup.memory, setup.memory_blocks);
        Self {
            ring: Ring::new(
                setup.layout,
                setup.holders,
                setup.number,
                memory_blocks,
                setup.batches_max,
            ),
            cover: Cover::new(memory_blocks + setup.zeros_max),
            batch: Batch::new(sizes, memory, memory_blocks, setup.writes_max),
            waiting: VecDeque::with_capacity(index(setup.writes_max)),
            checksums: vec![0; index(memory_blocks + parity)],
            filled: 0,
            absorbed: 0,
            setup,
        }
    }

    /// The blocks of the driver's memory behind `memory_blocks`: the parity of one batch.
    #[must_use]
    pub fn parity_blocks(setup: &Setup) -> u32 {
        u32::from(setup.parity_max) * setup.layout.column_blocks_max()
    }

    /// The index of staged blocks.
    #[inline]
    #[must_use]
    pub const fn cover(&self) -> &Cover {
        &self.cover
    }

    /// Returns a block of the memory.
    #[must_use]
    pub fn memory(&self, slot: u32) -> BufferSlice {
        self.setup.memory.plus(slot)
    }

    /// The length of the memory, with that of parity.
    #[must_use]
    pub fn memory_blocks(&self) -> u32 {
        self.setup.memory_blocks + Self::parity_blocks(&self.setup)
    }

    /// Returns true if no release is under way.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.ring.rests()
    }

    /// The share of the memory that is taken, in 256ths.
    #[must_use]
    pub fn fill(&self) -> u32 {
        self.ring.fill()
    }

    /// The length of the memory for contents.
    #[must_use]
    pub fn capacity_blocks(&self) -> u32 {
        self.setup.memory_blocks
    }

    /// The blocks of this memory in use.
    #[must_use]
    pub fn used_blocks(&self) -> u32 {
        self.ring.memory_used()
    }

    /// Blocks that were staged again before they were placed, since opening.
    #[must_use]
    pub fn absorbed_blocks(&self) -> u64 {
        self.absorbed
    }

    /// The blocks of the last batch.
    #[must_use]
    pub fn batch_blocks(&self) -> u32 {
        self.batch.shape().blocks
    }

    /// Returns when the first batch was answered that is not released.
    #[must_use]
    pub fn oldest(&self) -> Option<Instant> {
        self.ring.oldest()
    }

    /// Returns when the first batch was answered that is not durable.
    #[must_use]
    pub fn oldest_volatile(&self) -> Option<Instant> {
        self.ring.oldest_volatile()
    }

    /// Returns true if a write of any of these blocks waits, or is in the batch under way.
    #[must_use]
    pub fn takes(&self, first: BlockIndex, blocks: u32) -> bool {
        let end = first.plus(blocks.into());
        let meets = |waiting: &Waiting| {
            let run = waiting.write.run;
            run.block < end && first < run.block.plus(run.blocks.into())
        };
        self.waiting.iter().any(meets) || self.batch.writes().any(meets)
    }

    /// Returns true if no write waits, and none is in a batch under way.
    #[must_use]
    pub fn has_no_writes(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_idle()
    }

    /// Returns true if a computation or a write of the batch is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.batch.is_under_way()
    }

    /// Gives up a write that will never be in a batch. Its contents must be in memory. The stage
    /// takes no further write.
    pub fn abandon_next(&mut self) -> Option<WriteId> {
        let of_batch = self.batch.abandon_next();
        let filled = |waiting: &mut Waiting| waiting.filled;
        let mut waiting = || self.waiting.pop_front_if(filled);
        of_batch.or_else(|| waiting().map(|waiting| waiting.write.id))
    }

    /// Returns true if an abandoned batch has one of these blocks. Neither its contents nor older
    /// ones are an answer: the next opening may find either.
    #[must_use]
    pub fn leaves_open(&self, first: BlockIndex, blocks: u32) -> bool {
        self.batch.leaves_open(first, blocks)
    }

    /// Empties the stage before it is loaded, perhaps again. Numbers go on.
    pub fn reset(&mut self) {
        let setup = Setup {
            number: self.ring.number(),
            ..self.setup
        };
        *self = Self::new(setup);
    }

    /// Sets the nonce that the descriptors have.
    pub fn set_nonce(&mut self, nonce: u64) {
        self.setup.nonce = nonce;
    }

    /// Begins again, with another nonce: what the holders have no longer counts. The stage is
    /// empty; `tail_header` follows.
    pub fn restart(&mut self, nonce: u64) {
        assert!(self.is_empty(), "all is placed and released");
        self.setup.nonce = nonce;
        self.ring.void();
    }

    /// Returns true if no write waits, none is under way, and no batch is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.batch.is_idle() && self.ring.is_empty()
    }

    // ---- writes -------------------------------------------------------------------------------

    /// Takes a write of at most one column's length (rule 9). `None` if there is no room for it: it
    /// is an ordinary write, or waits if it `touches` the cover. Contents go to the memory that is
    /// returned; `filled` follows. Zeros need none.
    pub fn take(&mut self, write: Write) -> Option<BufferSlice> {
        if self.waiting.len() == index(self.setup.writes_max) {
            return None;
        }
        let StageKind::Contents = write.run.kind else {
            return self.take_zeros(write);
        };
        if !self.cover.reserve(write.run.blocks) {
            return None;
        }
        let Some(room) = self.ring.reserve(write.run.blocks) else {
            self.cover.unreserve(write.run.blocks);
            return None;
        };
        self.waiting.push_back(Waiting {
            write,
            slot: room.slot,
            takes: room.takes,
            filled: false,
        });
        Some(self.setup.memory.plus(room.slot))
    }

    fn take_zeros(&mut self, write: Write) -> Option<BufferSlice> {
        if !self.cover.reserve(write.run.blocks) {
            return None;
        }
        if self.ring.reserve(0).is_none() {
            self.cover.unreserve(write.run.blocks);
            return None;
        }
        self.waiting.push_back(Waiting {
            write,
            slot: 0,
            takes: 0,
            filled: true,
        });
        Some(BufferSlice::NONE)
    }

    /// The checksums of a write's blocks, to be filled with its contents.
    pub fn checksums_of(&mut self, slice: BufferSlice, blocks: u32) -> &mut [u32] {
        let first = index(slice.first_block - self.setup.memory.first_block);
        &mut self.checksums[first..first + index(blocks)]
    }

    /// Notes that the contents of a write and their checksums are in memory.
    pub fn filled(&mut self, id: WriteId) {
        let mut waiting = self.waiting.iter_mut();
        let write = waiting.find(|waiting| waiting.write.id == id && !waiting.filled);
        write.expect("it was taken").filled = true;
    }

    // ---- batches ------------------------------------------------------------------------------

    /// Forms a batch of the writes that wait, or writes the last batch again without the failed
    /// holder. Superblocks durably record that loss before (rule 7). `header` is the buffer of the
    /// header, of `STAGE_HEADER_BYTES`.
    pub fn append(&mut self, context: &Context, header: &mut [u8]) -> Next {
        assert!(
            context.parity <= self.setup.parity_max,
            "memory is reserved"
        );
        if !self.batch.waits() {
            if !self.batch.is_idle() {
                return Next::Nothing;
            }
            if let Err(next) = self.batch.take(&mut self.waiting, context) {
                return next;
            }
        }
        if !self.batch.choose(context) {
            return Next::TooFew;
        }
        let (shape, chosen) = (self.batch.shape(), self.batch.chosen());
        if !self.ring.has_room(chosen.holders(), shape.column_blocks()) {
            // A batch that was written again took space beyond its reservation.
            return Next::Full;
        }
        let next = self.batch.begin();
        self.go_on(next, header)
    }

    /// The computation under way.
    #[must_use]
    pub fn computation(&self) -> Computation<'_> {
        self.batch.computation()
    }

    /// The checksums that a computation fills.
    pub fn checksums_mut(&mut self) -> &mut [u32] {
        &mut self.checksums[self.batch.parity_slots()]
    }

    /// Handles the end of the computation.
    pub fn computed(&mut self, header: &mut [u8]) -> Next {
        let next = self.batch.computed();
        self.go_on(next, header)
    }

    fn go_on(&mut self, next: Next, header: &mut [u8]) -> Next {
        if next == Next::Write {
            self.begin_writes(header);
        }
        next
    }

    /// Takes the places of the columns, and encodes the header.
    fn begin_writes(&mut self, header: &mut [u8]) {
        let (shape, chosen) = (self.batch.shape(), self.batch.chosen());
        let slots = index(self.batch.slot())..index(self.batch.slot() + shape.blocks);
        if shape.data == 1 {
            for copy in self.batch.parity_slots().step_by(slots.len().max(1)) {
                self.checksums.copy_within(slots.clone(), copy);
            }
        }
        let retried = self.batch.failed();
        let memory = retried.map_or_else(|| self.batch.memory_takes(), |_| 0);
        let length = |column| shape.blocks_of(column);
        let columns = self.batch.columns_mut();
        let number = self.ring.append(chosen.holders(), length, memory, columns);
        match retried {
            Some(before) => self.ring.moved(before, number),
            None => {
                for waiting in self.batch.writes() {
                    self.ring.unreserve(waiting.contents());
                }
            }
        }
        let batch = self.header(number, self.ring.tail(), shape);
        let checksums = [
            &self.checksums[slots],
            &self.checksums[self.batch.parity_slots()],
        ];
        self.filled = encode_stage(
            &batch,
            self.batch.columns(),
            self.batch.runs(),
            checksums,
            header,
            self.filled,
        );
        self.batch.write(number);
    }

    fn header(&self, number: u64, tail: u64, shape: StageShape) -> StageBatch {
        StageBatch {
            array: self.setup.array,
            nonce: self.setup.nonce,
            number,
            tail,
            durable: self.ring.durable(),
            shape,
        }
    }

    /// Returns the write of the next column; `None` after the last. All columns have the encoded
    /// header (rule 1).
    pub fn next_column(&mut self) -> Option<ColumnWrite> {
        self.batch.next_column()
    }

    /// Returns the write of the column on a holder; `None` if it has none.
    #[must_use]
    pub fn column_on(&self, holder: MemberIndex) -> Option<ColumnWrite> {
        self.batch.column_on(holder)
    }

    /// Handles the end of a column's write. After the last the batch covers its blocks (rule 2).
    pub fn column_done(&mut self, ok: bool, now: Instant) -> BatchEvent {
        let event = self.batch.column_done(ok);
        if event == BatchEvent::Answered {
            let number = self.batch.number();
            self.ring.answered(number, self.batch.fua(), now);
            for waiting in self.batch.writes() {
                for (block, slot) in Batch::blocks(waiting) {
                    let contents = match waiting.write.run.kind {
                        StageKind::Contents => Contents::Slot(slot),
                        StageKind::Zeros => Contents::Zeros,
                    };
                    let newest = Newest { number, contents };
                    let is_absorbed = cover_block(&mut self.cover, &mut self.ring, block, newest);
                    self.absorbed += u64::from(is_absorbed);
                }
            }
        }
        event
    }

    /// Returns the next write of the batch that was answered.
    pub fn next_answered(&mut self) -> Option<WriteId> {
        self.batch.next_answered()
    }

    /// Returns the holders to flush for a client's flush, and a mark for `flushed` (rule 1).
    #[must_use]
    pub fn flush(&self) -> (MemberSet, u64) {
        self.ring.flush()
    }

    /// Handles the end of such a flush.
    pub fn flushed(&mut self, mark: u64) {
        self.ring.flushed(mark);
    }

    // ---- placing ------------------------------------------------------------------------------

    /// Fills `out` with staged blocks from `from` on, up to `most`.
    pub fn staged_from(&mut self, from: BlockIndex, most: usize, out: &mut Vec<BlockIndex>) {
        self.cover.staged_from(from, most, out);
    }

    /// Takes the newest contents of a block, to be placed by an ordinary write (rule 4).
    pub fn take_to_place(&mut self, block: BlockIndex) -> Option<Newest> {
        self.cover.take(block)
    }

    /// Returns true if a batch is durable. Rows go unlogged only from such batches (rule 4).
    #[must_use]
    pub fn is_durable(&self, number: u64) -> bool {
        number <= self.ring.durable()
    }

    /// Handles the end of placing a block that was taken. If the write failed, the block stays
    /// staged.
    pub fn place_ended(&mut self, block: BlockIndex, ok: bool) {
        let number = self.cover.taken(block);
        self.placed(block, number, ok);
    }

    /// Handles the end of placing the contents of batch `number`. If the write failed, the block
    /// stays staged.
    pub fn placed(&mut self, block: BlockIndex, number: u64, ok: bool) {
        if self.cover.ended(block, number, ok) {
            self.ring.unclaim(number);
        }
    }

    // ---- release ------------------------------------------------------------------------------

    /// Begins to release batches whose blocks are placed: if that frees a segment, or `all` that
    /// can go. Returns the holders to flush, together with all places and their entries (rule 5).
    pub fn begin_release(&mut self, all: bool) -> Option<MemberSet> {
        self.ring.begin_release(all)
    }

    /// Handles the end of that flush; `with_holders` if it covered the holders. Returns true if a
    /// tail is to be written: `tail_header` follows.
    pub fn release_flushed(&mut self, with_holders: bool) -> bool {
        self.ring.release_flushed(with_holders)
    }

    /// Lets nothing that was ever staged count again (rule 7): before a member becomes active, a
    /// growth, or another set of holders. The stage is empty; `tail_header` follows.
    pub fn void(&mut self) {
        assert!(self.waiting.is_empty() && self.batch.is_idle());
        self.ring.void();
    }

    /// Begins to write the tail that was found at opening once more (rule 6).
    pub fn renew_tail(&mut self) {
        self.ring.renew_tail();
    }

    /// Encodes the header that records the tail, for `holders`, and fills `columns` with its place
    /// on each. It must be durable on all of them, then `recorded` follows.
    pub fn tail_header(
        &mut self,
        holders: MemberSet,
        columns: &mut [StageColumn],
        header: &mut [u8],
    ) -> u64 {
        assert_eq!(columns.len(), index(holders.count()), "a place for each");
        let written = self.ring.tail_header(holders, columns);
        let shape = StageShape {
            parity: u8::try_from(columns.len()).expect("at most 64"),
            ..StageShape::default()
        };
        let batch = self.header(written.number, written.tail, shape);
        let filled = header.len();
        encode_stage(&batch, columns, &[], [&[], &[]], header, filled);
        written.tail
    }

    /// Removes what the tail excludes from the cover. The tail is durable on all holders (rule 5).
    pub fn uncover(&mut self) {
        self.cover.release(self.ring.recording());
    }

    /// Frees what the tail excludes, which is durable on all holders (rule 5). Nothing reads the
    /// contents any longer.
    pub fn recorded(&mut self) {
        self.uncover();
        self.ring.recorded();
    }

    // ---- opening ------------------------------------------------------------------------------

    /// Continues with the tail and the slots found at opening.
    pub fn resume(&mut self, verdict: &Verdict) {
        self.ring.resume(verdict.tail, verdict.slots);
    }

    /// Takes a batch that counts, in the order of their numbers. Returns the memory for its
    /// contents, in the order of its columns; `None` if there is no room for it. A batch that is
    /// superseded has a place on the holders only: the memory may be too short for both.
    pub fn load(
        &mut self,
        directory: &Directory,
        is_superseded: bool,
        now: Instant,
    ) -> Option<BufferSlice> {
        let (shape, number) = (directory.batch.shape, directory.batch.number);
        if is_superseded {
            let columns = columns_of(directory);
            let room = self.ring.load(number, columns, 0, now)?;
            return Some(self.setup.memory.plus(room.slot));
        }
        let blocks: u32 = directory.runs.iter().map(|run| run.blocks).sum();
        if !self.cover.reserve(blocks) {
            return None;
        }
        let columns = columns_of(directory);
        let room = self.ring.load(number, columns, shape.blocks, now)?;
        let first = index(room.slot);
        let checksums = &directory.checksums[..index(shape.blocks)];
        self.checksums[first..first + checksums.len()].copy_from_slice(checksums);
        let mut slot = room.slot;
        for run in &directory.runs {
            for at in 0..run.blocks {
                let contents = match run.kind {
                    StageKind::Contents => Contents::Slot(slot),
                    StageKind::Zeros => Contents::Zeros,
                };
                if run.kind == StageKind::Contents {
                    slot += 1;
                }
                cover_block(
                    &mut self.cover,
                    &mut self.ring,
                    run.block.plus(at.into()),
                    Newest { number, contents },
                );
            }
        }
        Some(self.setup.memory.plus(room.slot))
    }

    /// Takes a batch that is lost, in the order of their numbers: older contents of its blocks do
    /// not count. Blocks that no later batch has are listed as lost. Before the array serves, all
    /// that is staged is placed and released: otherwise the next opening would lose them again.
    pub fn lose(&mut self, directory: &Directory) {
        for run in &directory.runs {
            for at in 0..run.blocks {
                if let Some(number) = self.cover.forget(run.block.plus(at.into())) {
                    self.ring.unclaim(number);
                }
            }
        }
    }
}

/// Yields the columns of a batch, each with its length without the header.
fn columns_of(directory: &Directory) -> impl Iterator<Item = (StageColumn, u32)> {
    let shape = directory.batch.shape;
    let columns = (0..).zip(&directory.columns);
    columns.map(move |(at, column)| (*column, shape.blocks_of(at)))
}

/// Covers a block with newer contents, and keeps account of the batches that have it. Returns true
/// if it was not placed before.
fn cover_block(cover: &mut Cover, ring: &mut Ring, block: BlockIndex, newest: Newest) -> bool {
    ring.claim(newest.number);
    let Some(before) = cover.stage(block, newest) else {
        return false;
    };
    if before.unplaced && before.number != newest.number {
        ring.superseded(before.number, newest.number);
    }
    if before.unclaims {
        ring.unclaim(before.number);
    }
    before.unplaced
}
