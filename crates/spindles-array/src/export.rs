//! Byte access to a target. Accesses to parts of blocks become accesses to whole blocks under range
//! locks, so that two users never undo each other's bytes.
//!
//! A user takes a slot and puts its payload there, already at its final place: whole blocks are
//! never copied. It submits the slot, and gives it back after the answer. All memory is reserved
//! when the export is created.

pub use crate::access::Access;
use crate::tap::{Recorded, Tap, TapEnd};
use crate::{Areas, Busy, Target};
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, Instant, Operation, Request, RequestError,
};
use spindles_device::{CloseError, Latencies, OpenError, Watch, WatchId};
use std::collections::VecDeque;
use std::ops::Range;

/// Limits of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportLimits {
    /// Most accesses at once.
    pub slots: u16,
    /// Most bytes of one access.
    pub access_bytes_max: u32,
}

/// Names an access from `take` to `give_back`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(u16);

impl SlotId {
    /// Returns the index of the slot in its export.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The answer to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The slot of the access.
    pub slot: SlotId,
    /// Success, or the error.
    pub result: Result<(), RequestError>,
}

/// A target with byte access.
pub struct Export {
    target: Box<dyn Target>,
    block_bytes: u32,
    /// The payload area of each slot.
    areas: Areas,
    limits: ExportLimits,
    /// Two blocks per slot, for the surroundings of a payload that does not begin or end at a block
    /// boundary.
    edges: BufferId,
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    /// Submitted accesses that wait for an earlier one on the same blocks.
    waiting: VecDeque<SlotId>,
    /// Submitted and unanswered writes to parts of blocks. While this is 0, no access waits.
    partial_writes: usize,
    /// Requests that the target has not taken yet.
    pieces: VecDeque<Request>,
    answers: VecDeque<Answer>,
    latencies: ExportLatencies,
    tap: TapEnd,
}

/// Durations of the accesses to an export, from submission to answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportLatencies {
    /// Reads.
    pub reads: Latencies,
    /// Writes, with and without FUA.
    pub writes: Latencies,
}

/// The phases of an access:
///
/// ```text
/// Idle -> Taken -> Waiting -> Edges -> Main -> Answered -> Idle
///                     |_________________^
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Taken,
    /// Waits for an access to the same blocks.
    Waiting,
    /// Reads the blocks at the edges.
    Edges,
    /// Performs the rest.
    Main,
    Answered,
}

#[derive(Debug)]
struct Slot {
    phase: Phase,
    user: usize,
    access: Access,
    /// Unanswered requests to the target.
    pending: u32,
    result: Result<(), RequestError>,
    /// Time of submission.
    since: Instant,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Export of {}", self.target.facts().name)
    }
}

/// Returns the index of the slot's edge block that holds the last block.
fn last_edge(before: usize, blocks: &Range<u64>) -> u32 {
    u32::from(!(before > 0 && blocks.end - blocks.start == 1))
}

/// Returns the place at which a recording of an export's accesses attaches.
#[must_use]
pub fn tap_of(export: &Export) -> Tap {
    export.tap.tap()
}

/// Hands an answered access to the recording.
fn record(tap: &mut TapEnd, slots: &[Slot], answered: usize, now: Instant) {
    let slot = &slots[answered];
    let recorded = Recorded {
        since: slot.since,
        took_ns: now.ns_since(slot.since),
        user: slot.user,
        access: slot.access,
    };
    tap.note(recorded, || {
        let in_flight =
            |slot: &&Slot| matches!(slot.phase, Phase::Waiting | Phase::Edges | Phase::Main);
        let in_flight = slots.iter().filter(in_flight).map(|slot| slot.since);
        in_flight.min().unwrap_or(now)
    });
}

fn size(bytes: u32) -> usize {
    usize::try_from(bytes).expect("64 bits")
}

impl Export {
    /// Wraps a target.
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
            tap: TapEnd::default(),
        }
    }

    /// Returns the target's size.
    pub fn bytes(&self) -> u64 {
        self.target.facts().bytes()
    }

    /// Returns true if the byte at this offset is known to be zero without a read. Also returns for
    /// how many bytes the same holds, at most `bytes_max`. A block whose write was answered is
    /// never reported as zero.
    pub fn extent(&self, offset_bytes: u64, bytes_max: u64) -> (bool, u64) {
        if bytes_max == 0 {
            return (true, 0); // The range may start at the end of the target.
        }
        let block_bytes = u64::from(self.block_bytes);
        let end = offset_bytes + bytes_max;
        let first = BlockIndex(offset_bytes / block_bytes);
        let last = BlockIndex(end.div_ceil(block_bytes));
        let (zeros, until) = self.target.reads_zeros(first, last);
        (zeros, (until.0 * block_bytes).min(end) - offset_bytes)
    }

    /// Returns the target.
    pub fn target_mut(&mut self) -> &mut dyn Target {
        &mut *self.target
    }

    /// Returns the target itself. No access may be in flight.
    #[cfg(test)]
    pub(crate) fn into_target(self) -> Box<dyn Target> {
        self.target
    }

    /// Returns the target.
    pub fn target(&self) -> &dyn Target {
        self.target.as_ref()
    }

    /// Replaces the target while no slot is taken. `exchange` gets the old one and returns another
    /// with the same block size, which may be longer. Watches of the old target are lost.
    ///
    /// # Errors
    ///
    /// As for `exchange`; the export and its target are lost then.
    pub fn exchange<E>(
        self,
        exchange: impl FnOnce(Box<dyn Target>) -> Result<Box<dyn Target>, E>,
    ) -> Result<Self, E> {
        assert_eq!(self.free.len(), self.slots.len(), "a slot is taken");
        let (limits, block_bytes) = (self.limits, self.block_bytes);
        let (latencies, tap) = (self.latencies, self.tap);
        let target = exchange(self.target)?;
        assert_eq!(target.facts().block_size.bytes(), block_bytes);
        Ok(Self {
            latencies,
            tap,
            ..Self::new(target, limits)
        })
    }

    /// Takes a slot for an access.
    ///
    /// # Errors
    ///
    /// `Busy` if all slots are taken.
    pub fn take(&mut self, access: Access) -> Result<SlotId, Busy> {
        self.take_for(0, access)
    }

    /// Takes a slot for one of several users. [`Export::user`] returns the user of an answer.
    ///
    /// # Errors
    ///
    /// As for `take`.
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

    /// Returns the user that took a slot.
    #[must_use]
    pub fn user(&self, id: SlotId) -> usize {
        self.slots[usize::from(id.0)].user
    }

    /// Returns the payload of a slot. Fill it before submitting a write, and use it after a read is
    /// answered.
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

    /// Changes the access of a taken slot, for users that know the access only after its payload
    /// has arrived. Moves the payload if the new access needs it elsewhere. Returns the number of
    /// bytes moved.
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

    /// Starts the access. `poll` answers each exactly once.
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

    /// Makes progress and returns the next answer. With `wait` it returns `None` only if no access
    /// is in flight.
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

    /// Watches a descriptor until `next_ready` returns its id.
    ///
    /// # Errors
    ///
    /// If the target can't watch descriptors.
    pub fn watch(&mut self, watch: Watch) -> Result<(), OpenError> {
        self.target.watch(watch)
    }

    /// Returns the next descriptor found ready.
    pub fn next_ready(&mut self) -> Option<WatchId> {
        self.target.next_ready()
    }

    /// Waits until an access makes progress, or a descriptor is ready.
    pub fn wait(&mut self) {
        self.push_pieces();
        if self.answers.is_empty() {
            self.target.wait();
        }
    }

    /// Returns the latencies of its accesses.
    #[must_use]
    pub fn latencies(&self) -> ExportLatencies {
        self.latencies
    }

    /// Returns its limits.
    pub fn limits(&self) -> ExportLimits {
        self.limits
    }

    /// Returns the number of free slots.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Returns the payload of an answered read.
    pub fn read_payload(&self, id: SlotId) -> &[u8] {
        &self.target.buffer(self.areas.buffer())[self.payload_range(id)]
    }

    /// Frees a taken slot that was not submitted.
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

    /// Reads synchronously. No other access may be in flight.
    ///
    /// # Errors
    ///
    /// The error of the target.
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

    /// Writes synchronously. No other access may be in flight.
    ///
    /// # Errors
    ///
    /// The error of the target.
    pub fn write(&mut self, offset_bytes: u64, from: &[u8]) -> Result<(), RequestError> {
        let write = Operation::Write { fua: false };
        self.in_parts(write, offset_bytes, from.len(), |part, payload| {
            payload.copy_from_slice(&from[part]);
        })
    }

    /// Makes all written data durable. No other access may be in flight.
    ///
    /// # Errors
    ///
    /// The error of the target.
    pub fn flush(&mut self) -> Result<(), RequestError> {
        let flush = Access {
            operation: Operation::Flush,
            offset_bytes: 0,
            bytes: 0,
        };
        let slot = self.take(flush).expect("nothing else is in flight");
        self.finish(slot)
    }

    /// Splits a long access into parts that fit a slot.
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

    /// Waits for all accesses and closes the target.
    ///
    /// # Errors
    ///
    /// If not all data became durable.
    pub fn close(mut self) -> Result<(), CloseError> {
        while self.poll(true).is_some() {}
        self.target.close()
    }

    /// Returns true if the access shares blocks with an earlier unfinished write, and one of the
    /// two writes only part of a block.
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
            // In the queue, all accesses before it are earlier; a new one comes after all of them.
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

    /// Starts the accesses that no longer need to wait.
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

    /// Returns a slot's edge block for the first (0) or last (1) block of its access.
    fn edge(&self, id: SlotId, which: u32) -> BufferSlice {
        BufferSlice {
            buffer: self.edges,
            first_block: 2 * u32::from(id.0) + which,
        }
    }

    /// Performs the access, after its edges were read.
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

    /// Copies the edges that were read to both sides of the payload.
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

    /// Writes the edge blocks with zeros in the accessed part. Returns the remaining blocks.
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

    /// Splits blocks into requests that the target accepts.
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
            // The target may return a payload read in one piece in another area.
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
        if was_begun && self.tap.is_on() {
            let now = self.target.now();
            record(&mut self.tap, &self.slots, usize::from(id.0), now);
        }
        self.answers.push_back(Answer { slot: id, result });
        if !self.waiting.is_empty() {
            self.wake();
        }
    }
}
