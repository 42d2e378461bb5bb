//! Access by bytes: turns what is not whole blocks into whole blocks under range
//! locks, so that two users of one target never undo each other's bytes.
//!
//! A user takes a slot, finds its payload in it (already where it is to be written
//! from: whole blocks are never copied), submits it, and gives it back after the
//! answer. Everything is reserved when the export is made.

use crate::{Areas, Busy, CloseError, Latencies, OpenError, Target, Watch, WatchId};
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, Instant, Operation, Request, RequestError,
};
use std::collections::VecDeque;
use std::ops::Range;

/// Room of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportLimits {
    /// Accesses at once at most.
    pub slots: u16,
    /// Bytes of one access at most.
    pub access_bytes_max: u32,
}

/// Names an access from `take` to `give_back`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(u16);

impl SlotId {
    /// Which of an export's slots it is.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// What a user asks, in bytes. A flush has neither place nor length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What to do.
    pub operation: Operation,
    /// The first byte.
    pub offset_bytes: u64,
    /// How many.
    pub bytes: u32,
}

/// The answer to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which.
    pub slot: SlotId,
    /// Done, or why not.
    pub result: Result<(), RequestError>,
}

/// A target with access by bytes.
pub struct Export {
    target: Box<dyn Target>,
    block_bytes: u32,
    /// For the payload of each slot.
    areas: Areas,
    limits: ExportLimits,
    /// Two blocks a slot: what lies around a payload that does not begin or end with a block.
    edges: BufferId,
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    /// Submitted, and waiting for an earlier one on the same blocks.
    waiting: VecDeque<SlotId>,
    /// Writes of parts of blocks that are submitted and not answered: without any, none waits.
    partial_writes: usize,
    /// Pieces that the target has not taken yet.
    pieces: VecDeque<Request>,
    answers: VecDeque<Answer>,
    latencies: ExportLatencies,
}

/// How long the accesses of an export took, from being submitted to being answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportLatencies {
    /// Reads.
    pub reads: Latencies,
    /// Writes, with and without FUA.
    pub writes: Latencies,
}

/// Where an access stands:
///
/// ```text
/// Idle -> Taken -> Waiting -> Edges -> Main -> Answered -> Idle
///                     |_________________^
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Taken,
    /// For an access on the same blocks.
    Waiting,
    /// The blocks at the edges are being read.
    Edges,
    /// Everything else is being done.
    Main,
    Answered,
}

#[derive(Debug)]
struct Slot {
    phase: Phase,
    user: usize,
    access: Access,
    /// Requests to the target that are not answered.
    pending: u32,
    result: Result<(), RequestError>,
    /// When it was submitted.
    since: Instant,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Export of {}", self.target.facts().name)
    }
}

impl Access {
    fn end(&self) -> u64 {
        self.offset_bytes + u64::from(self.bytes)
    }

    /// The blocks it touches.
    fn blocks(&self, block_bytes: u32) -> Range<u64> {
        let block_bytes = u64::from(block_bytes);
        if self.bytes == 0 {
            return 0..0;
        }
        self.offset_bytes / block_bytes..self.end().div_ceil(block_bytes)
    }

    /// Bytes before the first one in its block, and after the last one in its block.
    fn margins(&self, block_bytes: u32) -> (u32, u32) {
        let block_bytes = u64::from(block_bytes);
        let before = self.offset_bytes % block_bytes;
        let after = (block_bytes - self.end() % block_bytes) % block_bytes;
        let narrow = |bytes| u32::try_from(bytes).expect("less than a block");
        (narrow(before), narrow(after))
    }

    /// Whether it writes a part of a block, the rest of which must stay as it is.
    fn is_partial_write(&self, block_bytes: u32) -> bool {
        self.operation.is_write() && self.bytes > 0 && self.margins(block_bytes) != (0, 0)
    }
}

/// Which of a slot's edge blocks holds the last block.
fn last_edge(before: usize, blocks: &Range<u64>) -> u32 {
    u32::from(!(before > 0 && blocks.end - blocks.start == 1))
}

fn size(bytes: u32) -> usize {
    usize::try_from(bytes).expect("64 bits")
}

impl Export {
    /// Takes over the target.
    #[must_use]
    pub fn new(mut target: Box<dyn Target>, limits: ExportLimits) -> Self {
        let block_bytes = target.facts().block_size.bytes();
        // One more for a payload that begins in the middle of a block.
        let area_blocks = limits.access_bytes_max.div_ceil(block_bytes) + 1;
        let areas = Areas::new(&mut *target, limits.slots.into(), area_blocks);
        let edges = target.allocate(2 * u32::from(limits.slots));
        let pieces_max = area_blocks.div_ceil(target.facts().request_blocks_max) + 2;
        let count = usize::from(limits.slots);
        let slot = |_| Slot {
            phase: Phase::Idle,
            user: 0,
            access: Access {
                operation: Operation::Flush,
                offset_bytes: 0,
                bytes: 0,
            },
            pending: 0,
            result: Ok(()),
            since: Instant(0),
        };
        Self {
            target,
            block_bytes,
            areas,
            limits,
            edges,
            slots: (0..limits.slots).map(slot).collect(),
            free: (0..limits.slots).rev().map(SlotId).collect(),
            waiting: VecDeque::with_capacity(count),
            partial_writes: 0,
            pieces: VecDeque::with_capacity(count * size(pieces_max)),
            answers: VecDeque::with_capacity(count),
            latencies: ExportLatencies::default(),
        }
    }

    /// The target's size.
    pub fn bytes(&self) -> u64 {
        self.target.facts().bytes()
    }

    /// Whether the byte there is known to be zero without being read, and of how many bytes from it on, at most so many,
    /// the same can be said. What is being written is not taken for zeros once it is answered.
    pub fn extent(&self, offset_bytes: u64, bytes_max: u64) -> (bool, u64) {
        if bytes_max == 0 {
            return (true, 0); // There may be no block.
        }
        let block_bytes = u64::from(self.block_bytes);
        let end = offset_bytes + bytes_max;
        let first = BlockIndex(offset_bytes / block_bytes);
        let last = BlockIndex(end.div_ceil(block_bytes));
        let (zeros, until) = self.target.reads_zeros(first, last);
        (zeros, (until.0 * block_bytes).min(end) - offset_bytes)
    }

    /// The target underneath.
    pub fn target_mut(&mut self) -> &mut dyn Target {
        &mut *self.target
    }

    /// The target itself, once nothing is in flight.
    #[cfg(test)]
    pub(crate) fn into_target(self) -> Box<dyn Target> {
        self.target
    }

    /// What is underneath.
    pub fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// Exchanges the target while no slot is taken: `exchange` gets it, and gives another one of the same blocks,
    /// that may be longer. What was looked out for with the old one is not with the new one.
    ///
    /// # Errors
    ///
    /// As `exchange`: then there is no target any more.
    pub fn exchange<E>(
        self,
        exchange: impl FnOnce(Box<dyn Target>) -> Result<Box<dyn Target>, E>,
    ) -> Result<Self, E> {
        assert_eq!(self.free.len(), self.slots.len(), "a slot is taken");
        let (limits, block_bytes) = (self.limits, self.block_bytes);
        let latencies = self.latencies;
        let target = exchange(self.target)?;
        assert_eq!(target.facts().block_size.bytes(), block_bytes);
        Ok(Self {
            latencies,
            ..Self::new(target, limits)
        })
    }

    /// A slot for that access.
    ///
    /// # Errors
    ///
    /// `Busy` when all are taken.
    pub fn take(&mut self, access: Access) -> Result<SlotId, Busy> {
        self.take_for(0, access)
    }

    /// The same for one of several users: [`Export::user`] says of an answer whose it is.
    ///
    /// # Errors
    ///
    /// As `take`.
    pub fn take_for(&mut self, user: usize, access: Access) -> Result<SlotId, Busy> {
        let id = self.free.pop().ok_or(Busy)?;
        let slot = &mut self.slots[usize::from(id.0)];
        assert_eq!(slot.phase, Phase::Idle);
        *slot = Slot {
            phase: Phase::Taken,
            user,
            access,
            pending: 0,
            result: Ok(()),
            since: Instant(0),
        };
        Ok(id)
    }

    /// Who took a slot.
    #[must_use]
    pub fn user(&self, id: SlotId) -> usize {
        self.slots[usize::from(id.0)].user
    }

    /// Where the payload of a slot is: to be filled before a write is submitted, to be used after
    /// a read is answered.
    pub fn payload(&mut self, id: SlotId) -> &mut [u8] {
        let range = self.payload_range(id);
        &mut self.target.buffer_mut(self.areas.buffer())[range]
    }

    fn payload_range(&self, id: SlotId) -> Range<usize> {
        let access = &self.slots[usize::from(id.0)].access;
        let (before, _) = access.margins(self.block_bytes);
        let area = self.areas.bytes_of(usize::from(id.0));
        let start = area.start + size(before);
        let end = start + size(access.bytes);
        assert!(end <= area.end, "an access is too long");
        start..end
    }

    /// A slot that is taken gets another access: for those who know what is asked only when its payload is there
    /// already. That is where it would be for the access until now, and is moved where it must be elsewhere. How many
    /// bytes were moved.
    pub fn change(&mut self, id: SlotId, access: Access) -> u32 {
        let from = self.payload_range(id).start;
        let slot = &mut self.slots[usize::from(id.0)];
        assert_eq!(slot.phase, Phase::Taken);
        slot.access = access;
        if !matches!(access.operation, Operation::Write { .. }) {
            return 0;
        }
        let to = self.payload_range(id);
        if to.start == from {
            return 0;
        }
        let area = self.target.buffer_mut(self.areas.buffer());
        area.copy_within(from..from + to.len(), to.start);
        access.bytes
    }

    /// Starts the access. Each is answered once by `poll`.
    pub fn submit(&mut self, id: SlotId) {
        let bytes = self.bytes();
        let read_only = self.target.facts().read_only;
        let slot = &mut self.slots[usize::from(id.0)];
        assert_eq!(slot.phase, Phase::Taken);
        let end = slot
            .access
            .offset_bytes
            .checked_add(u64::from(slot.access.bytes));
        if end.is_none_or(|end| end > bytes) {
            return self.answer(id, Err(RequestError::OutOfRange));
        }
        if slot.access.operation.is_write() && read_only {
            return self.answer(id, Err(RequestError::ReadOnly));
        }
        if slot.access.bytes == 0 && slot.access.operation != Operation::Flush {
            return self.answer(id, Ok(()));
        }
        slot.phase = Phase::Waiting;
        slot.since = self.target.now();
        self.partial_writes += usize::from(slot.access.is_partial_write(self.block_bytes));
        if self.must_wait(id) {
            self.waiting.push_back(id);
        } else {
            self.begin(id);
        }
    }

    /// Does what is to be done and gives the next answer. With `wait` it returns `None` only when
    /// nothing is in flight.
    pub fn poll(&mut self, wait: bool) -> Option<Answer> {
        loop {
            self.push_pieces();
            if let Some(answer) = self.answers.pop_front() {
                return Some(answer);
            }
            let reply = self.target.poll(wait)?;
            let id = SlotId(u16::try_from(reply.token).expect("we named it"));
            self.areas.take_over(usize::from(id.0), &reply);
            self.reply(id, reply.result);
        }
    }

    /// Looks out for a descriptor, until `next_ready` gives its id.
    ///
    /// # Errors
    ///
    /// The target can't look out for any.
    pub fn watch(&mut self, watch: Watch) -> Result<(), OpenError> {
        self.target.watch(watch)
    }

    /// The next descriptor that was found ready.
    pub fn next_ready(&mut self) -> Option<WatchId> {
        self.target.next_ready()
    }

    /// Waits until something that is in flight has come a step further, or a descriptor is ready.
    pub fn wait(&mut self) {
        self.push_pieces();
        if self.answers.is_empty() {
            self.target.wait();
        }
    }

    /// How long its accesses took.
    #[must_use]
    pub fn latencies(&self) -> ExportLatencies {
        self.latencies
    }

    /// Its room.
    pub fn limits(&self) -> ExportLimits {
        self.limits
    }

    /// Slots that `take` would give.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// What an access that is answered has read.
    pub fn read_payload(&self, id: SlotId) -> &[u8] {
        &self.target.buffer(self.areas.buffer())[self.payload_range(id)]
    }

    /// Frees a slot that was taken and is not submitted.
    pub fn abandon(&mut self, id: SlotId) {
        let slot = &mut self.slots[usize::from(id.0)];
        assert_eq!(slot.phase, Phase::Taken);
        slot.phase = Phase::Idle;
        self.free.push(id);
    }

    /// Frees a slot whose answer has been used.
    pub fn give_back(&mut self, id: SlotId) {
        let slot = &mut self.slots[usize::from(id.0)];
        assert_eq!(slot.phase, Phase::Answered);
        slot.phase = Phase::Idle;
        self.free.push(id);
    }

    /// Reads and waits for it. For use without other accesses in flight.
    ///
    /// # Errors
    ///
    /// As the target answers.
    pub fn read(&mut self, offset_bytes: u64, into: &mut [u8]) -> Result<(), RequestError> {
        self.in_parts(
            Operation::Read,
            offset_bytes,
            into.len(),
            |part, payload| {
                into[part].copy_from_slice(payload);
            },
        )
    }

    /// Writes and waits for it. For use without other accesses in flight.
    ///
    /// # Errors
    ///
    /// As the target answers.
    pub fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), RequestError> {
        let write = Operation::Write { fua: false };
        self.in_parts(write, offset_bytes, from.len(), |part, payload| {
            payload.copy_from_slice(&from[part]);
        })
    }

    /// Makes everything written durable. For use without other accesses in flight.
    ///
    /// # Errors
    ///
    /// As the target answers.
    pub fn flush(&mut self) -> Result<(), RequestError> {
        let flush = Access {
            operation: Operation::Flush,
            offset_bytes: 0,
            bytes: 0,
        };
        let slot = self.take(flush).expect("nothing else is in flight");
        self.finish(slot)
    }

    /// Does a long access in parts that fit a slot.
    fn in_parts(
        &mut self,
        operation: Operation,
        offset_bytes: u64,
        bytes: usize,
        mut copy: impl FnMut(Range<usize>, &mut [u8]),
    ) -> Result<(), RequestError> {
        let part_bytes = size((self.areas.area_blocks() - 1) * self.block_bytes);
        let mut start = 0;
        while start < bytes {
            let end = bytes.min(start + part_bytes);
            let access = Access {
                operation,
                offset_bytes: offset_bytes + u64::try_from(start).expect("64 bits"),
                bytes: u32::try_from(end - start).expect("fits a slot"),
            };
            let slot = self.take(access).expect("nothing else is in flight");
            let writes = operation.is_write();
            if writes {
                copy(start..end, self.payload(slot));
            }
            self.submit(slot);
            let answer = self.poll(true).expect("one is in flight");
            assert_eq!(answer.slot, slot, "another access is in flight");
            if answer.result.is_ok() && !writes {
                copy(start..end, self.payload(slot));
            }
            self.give_back(slot);
            answer.result?;
            start = end;
        }
        Ok(())
    }

    fn finish(&mut self, slot: SlotId) -> Result<(), RequestError> {
        self.submit(slot);
        let answer = self.poll(true).expect("one is in flight");
        assert_eq!(answer.slot, slot, "another access is in flight");
        self.give_back(slot);
        answer.result
    }

    /// Waits for everything and closes the target.
    ///
    /// # Errors
    ///
    /// When not everything became durable.
    pub fn close(mut self) -> Result<(), CloseError> {
        while self.poll(true).is_some() {}
        self.target.close()
    }

    /// Whether the access has blocks in common with an earlier write that is not done, and one of
    /// the two changes only part of a block.
    fn must_wait(&self, id: SlotId) -> bool {
        let access = &self.slots[usize::from(id.0)].access;
        if self.partial_writes == 0 || !access.operation.is_write() {
            return false;
        }
        let blocks = access.blocks(self.block_bytes);
        let partial = access.is_partial_write(self.block_bytes);
        let waits_already = self.waiting.contains(&id);
        let earlier = |other: SlotId| match self.slots[usize::from(other.0)].phase {
            Phase::Edges | Phase::Main => true,
            // In the queue all before it are earlier; a new one comes after all of them.
            Phase::Waiting if waits_already => self
                .waiting
                .iter()
                .take_while(|waiting| **waiting != id)
                .any(|waiting| *waiting == other),
            Phase::Waiting => other != id,
            Phase::Idle | Phase::Taken | Phase::Answered => false,
        };
        self.slots.iter().zip(0..).any(|(slot, index)| {
            let theirs = slot.access.blocks(self.block_bytes);
            slot.access.operation.is_write()
                && theirs.start < blocks.end
                && blocks.start < theirs.end
                && (partial || slot.access.is_partial_write(self.block_bytes))
                && earlier(SlotId(index))
        })
    }

    /// Starts those that need not wait any longer.
    fn wake(&mut self) {
        let mut index = 0;
        while let Some(id) = self.waiting.get(index).copied() {
            if self.must_wait(id) {
                index += 1;
            } else {
                self.waiting.remove(index);
                self.begin(id);
            }
        }
    }

    fn begin(&mut self, id: SlotId) {
        let access = self.slots[usize::from(id.0)].access;
        if !access.is_partial_write(self.block_bytes) {
            return self.main(id);
        }
        self.slots[usize::from(id.0)].phase = Phase::Edges;
        let blocks = access.blocks(self.block_bytes);
        let (before, after) = access.margins(self.block_bytes);
        let last = blocks.end - 1;
        if before > 0 {
            self.piece(id, Operation::Read, blocks.start, 1, self.edge(id, 0));
        }
        if after > 0 && (before == 0 || last != blocks.start) {
            self.piece(id, Operation::Read, last, 1, self.edge(id, 1));
        }
        self.push_pieces();
    }

    /// A slot's block for the first (0) or last (1) block of its access.
    fn edge(&self, id: SlotId, which: u32) -> BufferSlice {
        BufferSlice {
            buffer: self.edges,
            first_block: 2 * u32::from(id.0) + which,
        }
    }

    /// Everything but the reading of edges.
    fn main(&mut self, id: SlotId) {
        let access = self.slots[usize::from(id.0)].access;
        let partial = access.is_partial_write(self.block_bytes);
        self.slots[usize::from(id.0)].phase = Phase::Main;
        let blocks = access.blocks(self.block_bytes);
        let area = self.areas.of(usize::from(id.0));
        match access.operation {
            Operation::Flush => self.piece(id, Operation::Flush, 0, 0, BufferSlice::NONE),
            Operation::Read => self.stretch(id, access.operation, blocks, area),
            Operation::Write { .. } => {
                if partial {
                    self.surround(id);
                }
                self.stretch(id, access.operation, blocks, area);
            }
            Operation::Discard | Operation::WriteZeroes { .. } => {
                let inner = if partial { self.zero_edges(id) } else { blocks };
                self.stretch(id, access.operation, inner, BufferSlice::NONE);
            }
        }
        self.push_pieces();
    }

    /// Puts what was read at the edges around the payload.
    fn surround(&mut self, id: SlotId) {
        let access = self.slots[usize::from(id.0)].access;
        let (before, after) = access.margins(self.block_bytes);
        let (before, after) = (size(before), size(after));
        let block_bytes = size(self.block_bytes);
        let payload = self.payload_range(id);
        let blocks = access.blocks(self.block_bytes);
        let last_edge = last_edge(before, &blocks);
        for (edge, from, to) in [
            (0, 0..before, payload.start - before),
            (last_edge, block_bytes - after..block_bytes, payload.end),
        ] {
            let start = size(self.edge(id, edge).first_block) * block_bytes;
            let from = start + from.start..start + from.end;
            self.copy_edge(from, to);
        }
    }

    fn copy_edge(&mut self, from: Range<usize>, to: usize) {
        // The two are different buffers of the target, which lends one at a time.
        let mut step = [0; 512];
        let mut done = from.start;
        while done < from.end {
            let bytes = (from.end - done).min(step.len());
            step[..bytes].copy_from_slice(&self.target.buffer(self.edges)[done..done + bytes]);
            let at = to + (done - from.start);
            self.target.buffer_mut(self.areas.buffer())[at..at + bytes]
                .copy_from_slice(&step[..bytes]);
            done += bytes;
        }
    }

    /// Writes the blocks at the edges with zeros in their part of them, and says which blocks
    /// remain.
    fn zero_edges(&mut self, id: SlotId) -> Range<u64> {
        let access = self.slots[usize::from(id.0)].access;
        let (before, after) = access.margins(self.block_bytes);
        let (before, after) = (size(before), size(after));
        let block_bytes = size(self.block_bytes);
        let blocks = access.blocks(self.block_bytes);
        let last_edge = last_edge(before, &blocks);
        let fua = matches!(access.operation, Operation::WriteZeroes { fua: true });
        let mut inner = blocks.clone();
        let single = blocks.end - blocks.start == 1;
        if before > 0 {
            let end = if single {
                block_bytes - after
            } else {
                block_bytes
            };
            self.zero_edge(id, 0, before..end);
            let edge = self.edge(id, 0);
            self.piece(id, Operation::Write { fua }, blocks.start, 1, edge);
            inner.start += 1;
        }
        if after > 0 && !(single && before > 0) {
            self.zero_edge(id, last_edge, 0..block_bytes - after);
            let edge = self.edge(id, last_edge);
            self.piece(id, Operation::Write { fua }, blocks.end - 1, 1, edge);
            inner.end -= 1;
        }
        inner
    }

    fn zero_edge(&mut self, id: SlotId, which: u32, range: Range<usize>) {
        let start = size(self.edge(id, which).first_block) * size(self.block_bytes);
        self.target.buffer_mut(self.edges)[start + range.start..start + range.end].fill(0);
    }

    /// Asks for blocks in pieces that the target takes.
    fn stretch(
        &mut self,
        id: SlotId,
        operation: Operation,
        blocks: Range<u64>,
        buffer: BufferSlice,
    ) {
        let piece_max = u64::from(self.target.facts().request_blocks_max);
        let mut start = blocks.start;
        while start < blocks.end {
            let count = (blocks.end - start).min(piece_max);
            let count = u32::try_from(count).expect("within an access");
            let done = u32::try_from(start - blocks.start).expect("within an access");
            self.piece(id, operation, start, count, buffer.plus(done));
            start += u64::from(count);
        }
    }

    fn piece(
        &mut self,
        id: SlotId,
        operation: Operation,
        block: u64,
        blocks: u32,
        buffer: BufferSlice,
    ) {
        self.slots[usize::from(id.0)].pending += 1;
        self.pieces.push_back(Request {
            token: u64::from(id.0),
            operation,
            block: BlockIndex(block),
            blocks,
            buffer,
        });
    }

    fn push_pieces(&mut self) {
        while let Some(piece) = self.pieces.front() {
            let id = usize::try_from(piece.token).expect("we named it");
            let slot = &self.slots[id];
            let blocks = slot.access.blocks(self.block_bytes);
            let whole = u64::from(piece.blocks) == blocks.end - blocks.start;
            // A payload that is read in one piece may come in another area.
            let taken = if whole && slot.access.operation == Operation::Read {
                self.target.submit_exchangeable(*piece)
            } else {
                self.target.submit(*piece)
            };
            if taken.is_err() {
                return;
            }
            self.pieces.pop_front();
        }
    }

    fn reply(&mut self, id: SlotId, result: Result<(), RequestError>) {
        let slot = &mut self.slots[usize::from(id.0)];
        slot.pending -= 1;
        slot.result = slot.result.and(result);
        if slot.pending > 0 {
            return;
        }
        let result = slot.result;
        match slot.phase {
            Phase::Edges if result.is_ok() => self.main(id),
            _ => self.answer(id, result),
        }
    }

    fn answer(&mut self, id: SlotId, result: Result<(), RequestError>) {
        let slot = &mut self.slots[usize::from(id.0)];
        let was_begun = slot.phase != Phase::Taken;
        if was_begun && slot.access.is_partial_write(self.block_bytes) {
            self.partial_writes -= 1;
        }
        if was_begun {
            let took_ns = self.target.now().ns_since(slot.since);
            match slot.access.operation {
                Operation::Read => self.latencies.reads.add(took_ns),
                Operation::Write { .. } => self.latencies.writes.add(took_ns),
                _ => {}
            }
        }
        slot.phase = Phase::Answered;
        self.answers.push_back(Answer { slot: id, result });
        if !self.waiting.is_empty() {
            self.wake();
        }
    }
}
