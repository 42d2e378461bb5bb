//! The traffic of a connection: turns operations into requests, sends them, and receives the
//! replies.

#![expect(unsafe_code, reason = "memory that the driver lends by its address")]

use super::link::Terms;
use super::reconnection::Pages;
use super::requests::{
    Asking, HEAD_BYTES, Operating, Payload, Slots, at_memory, count, index, slot_of,
};
use super::socket::{Socket, ended, endless, is_passing};
use crate::buffers::Memory;
use crate::later::Job;
use crate::transfer::{Tag, ZEROS_BYTES_MAX};
use spindles_block::{MemberError, MemberResult, Operation};
use spindles_format::{SLOT_BYTES, SUPERBLOCK_BYTES};
use spindles_nbd::replies::{ARRIVAL_BYTES_MAX, Arrival, Awaited, Receiver};
use spindles_nbd::transmission::{Command, Failure, Request};
use spindles_nbd::{CommandFlags, TransmissionFlags};
use std::collections::VecDeque;
use std::io;
use std::time::Instant;

/// Requests in flight at once; more wait here.
const REQUESTS: usize = 128;
/// Initial capacity for operations.
const ROOM: usize = 1024;
/// Most memory ranges that one call sends from.
const PLACES: usize = 64;
/// Bytes to receive beyond the data that is due: heads of the following replies, and only as much
/// data as is cheap to copy.
const AHEAD_BYTES: usize = 512;

/// A read whose data is being received.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    slot: usize,
    /// Offset of the rest in the operation's memory.
    at_bytes: u64,
    left_bytes: u64,
}

/// Operations and requests in progress. Outlives connections.
#[derive(Debug)]
pub(super) struct Traffic {
    terms: Terms,
    pub(super) zeros: Memory,
    can_zero: bool,
    pub(super) operations: Slots<Operating>,
    /// Operations that are not fully turned into requests yet.
    waiting: VecDeque<usize>,
    requests: Slots<Asking>,
    requests_before: u64,
    /// Requests to send. `sent_bytes` of the first are sent.
    to_send: VecDeque<usize>,
    sent_bytes: usize,
    /// Scratch space for encoding a request's head.
    head: Vec<u8>,
    receiver: Receiver,
    received: Vec<u8>,
    receiving: Option<Receiving>,
    pub(super) done: VecDeque<(Tag, MemberResult)>,
    /// Counts changes answered before they were durable. A later flush made the first `flushed` of
    /// them durable.
    changed: u64,
    flushed: u64,
    /// Where the part of the export begins that the superblocks are on.
    pub(super) start_bytes: u64,
    /// Contents of the superblock slots.
    pub(super) pages: Pages,
    /// When bytes were last sent or received.
    pub(super) moved_at: Instant,
    /// Requests answered so far.
    pub(super) answers: u64,
}

impl Traffic {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            zeros: Memory::NONE,
            can_zero: terms.has(TransmissionFlags::SEND_WRITE_ZEROES),
            operations: Slots::with_capacity(ROOM),
            waiting: VecDeque::with_capacity(ROOM),
            requests: Slots::with_capacity(REQUESTS),
            requests_before: 0,
            to_send: VecDeque::with_capacity(REQUESTS),
            sent_bytes: 0,
            head: Vec::with_capacity(HEAD_BYTES),
            receiver: Receiver::new(terms.headers),
            received: Vec::with_capacity(2 * ARRIVAL_BYTES_MAX),
            receiving: None,
            done: VecDeque::with_capacity(ROOM),
            changed: 0,
            flushed: 0,
            start_bytes: 0,
            pages: Pages::default(),
            moved_at: Instant::now(),
            answers: 0,
        }
    }

    /// Accepts an operation.
    pub(super) fn take(&mut self, job: Job) {
        if self.operations.in_use() == 0 {
            self.moved_at = Instant::now();
        }
        let at = self.operations.put(Operating::new(job));
        self.waiting.push_back(at);
    }

    /// Returns true if requests await replies.
    pub(super) fn awaits(&self) -> bool {
        self.requests.in_use() > 0
    }

    /// Describes what is in doubt if the connection is lost now: changes that may be lost, or a
    /// write that may still happen. `None` if no change is in doubt.
    pub(super) fn in_doubt(&self) -> Option<&'static str> {
        let mut requests = self.requests.all.iter().flatten();
        if self.changed > self.flushed {
            Some("the last writes may be lost there")
        } else if requests.any(|asking| asking.is_sent && asking.changes()) {
            Some("a write was under way, and may still be done")
        } else {
            None
        }
    }

    /// Starts over on another connection: queues the unanswered requests again, in their original
    /// order.
    pub(super) fn begin_again(&mut self) {
        self.received.clear();
        self.receiving = None;
        self.receiver = Receiver::new(self.terms.headers);
        let mut requests: Vec<usize> = (0..self.requests.all.len()).collect();
        requests.retain(|slot| self.requests.all[*slot].is_some());
        requests.sort_unstable_by_key(|slot| self.requests.get(*slot).cookie);
        self.to_send.clear();
        self.sent_bytes = 0;
        for slot in requests {
            self.name_request(slot);
        }
    }

    /// Fails everything in progress.
    pub(super) fn give_up(&mut self) {
        self.to_send.clear();
        self.waiting.clear();
        self.receiving = None;
        for slot in 0..self.requests.all.len() {
            if self.requests.all[slot].is_some() {
                self.requests.take(slot);
            }
        }
        for at in 0..self.operations.all.len() {
            if self.operations.all[at].is_some() {
                let operating = self.operations.take(at);
                let gone = Err(MemberError::Gone);
                self.done.push_back((operating.job.tag, gone));
            }
        }
    }

    /// Turns waiting operations into requests, up to `REQUESTS` in flight.
    fn ask(&mut self) {
        while self.requests.in_use() < REQUESTS
            && let Some(&at) = self.waiting.front()
        {
            self.ask_next(at);
            let operating = self.operations.get(at);
            if operating.asked_bytes >= operating.job.bytes {
                self.waiting.pop_front();
            }
        }
    }

    /// Makes the next request of an operation.
    fn ask_next(&mut self, at: usize) {
        let operating = self.operations.get_mut(at);
        let job = operating.job;
        if operating.asked_bytes == 0 {
            operating.writes_zeros = !self.can_zero;
        }
        let writes_zeros = operating.writes_zeros;
        let none = CommandFlags::default();
        let (command, flags, durable) = match job.operation {
            Operation::Read => (Command::Read, none, false),
            Operation::Flush => (Command::Flush, none, false),
            Operation::Write { fua } => (Command::Write, none, fua),
            Operation::Discard if writes_zeros => (Command::Write, none, false),
            Operation::Discard => (Command::WriteZeroes, none, false),
            Operation::WriteZeroes { fua } if writes_zeros => (Command::Write, none, fua),
            Operation::WriteZeroes { fua } => (Command::WriteZeroes, CommandFlags::NO_HOLE, fua),
        };
        let has_fua = self.terms.has(TransmissionFlags::SEND_FUA);
        operating.then_flushes |= durable && !has_fua;
        let from_bytes = operating.asked_bytes;
        let block = u64::from(self.terms.min_bytes);
        let mut most = self.terms.bytes_max(command);
        let payload = match (command, job.operation) {
            (Command::Write, Operation::Write { .. }) => Some(Payload::of(&job, from_bytes)),
            (Command::Write, _) => {
                most = most.min(ZEROS_BYTES_MAX / block * block);
                Some(Payload::Memory(self.zeros))
            }
            _ => None,
        };
        let bytes = (job.bytes - from_bytes).min(most);
        operating.asked_bytes += bytes;
        operating.open += 1;
        let place = match command {
            Command::Flush => (0, 0),
            _ => (job.offset_bytes + from_bytes, bytes),
        };
        let slot = self.requests.put(Asking {
            flags: if durable && has_fua {
                flags.with(CommandFlags::FUA)
            } else {
                flags
            },
            payload,
            from_bytes,
            ..Asking::new(at, command, place)
        });
        self.name_request(slot);
    }

    /// Gives a request its cookie, and queues it for sending.
    fn name_request(&mut self, slot: usize) {
        self.requests_before += 1;
        let asking = self.requests.get_mut(slot);
        let Awaited {
            command,
            offset_bytes,
            bytes,
            ..
        } = asking.awaited;
        asking.awaited = Awaited::new(command, offset_bytes, bytes);
        asking.cookie = self.requests_before << 16 | count(slot);
        asking.covers = self.changed;
        asking.is_sent = false;
        let request = Request {
            flags: asking.flags,
            command,
            cookie: asking.cookie,
            offset_bytes,
            bytes,
        };
        self.head.clear();
        request.encode(self.terms.headers, &mut self.head);
        asking.head[..self.head.len()].copy_from_slice(&self.head);
        self.to_send.push_back(slot);
    }

    /// Sends queued requests until the socket takes no more. Returns true if all are sent.
    pub(super) fn send(&mut self, socket: &Socket) -> io::Result<bool> {
        self.ask();
        while socket.flush()? {
            if self.to_send.is_empty() {
                return Ok(true);
            }
            let head_bytes = Request::encoded_bytes(self.terms.headers);
            let mut places = [const { NO_PLACE }; PLACES];
            let (requests, sent_bytes) = (&self.requests, self.sent_bytes);
            let count =
                places_to_send(requests, &self.to_send, sent_bytes, head_bytes, &mut places);
            // SAFETY: the heads are ours and don't move until this returns. Payloads are memory
            // that the driver lends until the operation is done, or the zeros, which live as long
            // as the target. The kernel only reads this memory.
            let moved = match unsafe { socket.send(&mut places[..count]) } {
                Ok(moved) => moved,
                Err(error) if is_passing(&error) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            self.moved_at = Instant::now();
            self.note_sent(moved, head_bytes);
        }
        Ok(false)
    }

    /// Counts `moved` more bytes of the queued requests as sent.
    fn note_sent(&mut self, moved: usize, head_bytes: usize) {
        let mut left = self.sent_bytes + moved;
        while let Some(&slot) = self.to_send.front() {
            let asking = self.requests.get_mut(slot);
            let payload = asking.payload.map_or(0, |_| index(asking.awaited.bytes));
            asking.is_sent |= left > 0;
            if left < head_bytes + payload {
                break;
            }
            left -= head_bytes + payload;
            self.to_send.pop_front();
        }
        self.sent_bytes = left;
    }

    /// Receives all available bytes.
    pub(super) fn receive(&mut self, socket: &Socket) -> io::Result<()> {
        loop {
            self.hear()?;
            let before = self.received.len();
            let ahead = if before < AHEAD_BYTES / 2 {
                AHEAD_BYTES
            } else {
                2 * ARRIVAL_BYTES_MAX
            };
            self.received.resize(ahead, 0);
            let (data, bytes) = match self.receiving {
                None => (NO_PLACE, 0),
                Some(Receiving {
                    slot,
                    at_bytes,
                    left_bytes,
                }) => {
                    let operation = self.requests.get(slot).operation;
                    let memory = self.operations.get(operation).job.memory;
                    let place = libc::iovec {
                        iov_base: at_memory(memory, at_bytes).start.as_ptr().cast(),
                        iov_len: index(left_bytes),
                    };
                    (place, index(left_bytes))
                }
            };
            let ahead = &mut self.received[before..];
            let room = bytes + ahead.len();
            let ahead = libc::iovec {
                iov_base: ahead.as_mut_ptr().cast(),
                iov_len: ahead.len(),
            };
            // SAFETY: the first place is memory that the driver lends until the operation is done;
            // the second is ours.
            let moved = unsafe { socket.receive(&mut [data, ahead]) };
            let into_data = moved.as_ref().map_or(0, |moved| bytes.min(*moved));
            let into_ahead = moved.as_ref().map_or(0, |moved| moved - into_data);
            self.received.truncate(before + into_ahead);
            match moved {
                Ok(0) => return Err(ended()),
                Ok(moved) => {
                    self.moved_at = Instant::now();
                    self.note_data(count(into_data));
                    if moved < room {
                        // The socket has no more bytes.
                        return self.hear();
                    }
                }
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn note_data(&mut self, bytes: u64) {
        if let Some(receiving) = &mut self.receiving {
            receiving.at_bytes += bytes;
            receiving.left_bytes -= bytes;
            if receiving.left_bytes == 0 {
                self.receiving = None;
            }
        }
    }

    /// Parses the received bytes.
    fn hear(&mut self) -> io::Result<()> {
        let mut heard = 0;
        while self.receiving.is_none() {
            let rest = &self.received[heard..];
            let next = self.receiver.next(rest, &mut self.requests);
            let (used, arrival) = next.map_err(io::Error::other)?;
            heard += used;
            match arrival {
                None if self.received.len() - heard > ARRIVAL_BYTES_MAX => return Err(endless()),
                None => break,
                Some(Arrival::Data {
                    cookie,
                    from_bytes,
                    bytes,
                }) => {
                    let slot = slot_of(cookie);
                    let there = count(self.received.len() - heard).min(bytes);
                    let (memory, at_bytes) = self.memory_of(slot, from_bytes);
                    let part = &self.received[heard..heard + index(there)];
                    // SAFETY: the driver lends a read's memory until the read is done. The part
                    // lies within that memory: the receiver has checked it against the request.
                    unsafe {
                        let start = at_memory(memory, at_bytes).start.as_ptr();
                        start.copy_from(part.as_ptr(), part.len());
                    }
                    heard += part.len();
                    self.receiving = Some(Receiving {
                        slot,
                        at_bytes,
                        left_bytes: bytes,
                    });
                    self.note_data(there);
                }
                Some(Arrival::Zeros {
                    cookie,
                    from_bytes,
                    bytes,
                }) => {
                    let (memory, at_bytes) = self.memory_of(slot_of(cookie), from_bytes);
                    // SAFETY: as above.
                    unsafe {
                        let start = at_memory(memory, at_bytes).start.as_ptr();
                        start.write_bytes(0, index(bytes));
                    }
                }
                Some(Arrival::Over { cookie, result }) => self.answered(slot_of(cookie), result)?,
            }
        }
        self.received.drain(..heard);
        Ok(())
    }

    /// Returns the memory of a request's operation, and where in it the request's byte `from_bytes`
    /// lies.
    fn memory_of(&self, slot: usize, from_bytes: u64) -> (Memory, u64) {
        let asking = self.requests.get(slot);
        let memory = self.operations.get(asking.operation).job.memory;
        (memory, asking.from_bytes + from_bytes)
    }

    /// Handles the result of a request.
    fn answered(&mut self, slot: usize, result: Result<(), Failure>) -> io::Result<()> {
        if result == Err(Failure::Shutdown) {
            return Err(io::Error::other("it is about to end"));
        }
        if self.to_send.front() == Some(&slot) {
            return Err(io::Error::other("it answers before all is asked"));
        }
        self.answers += 1;
        let asking = self.requests.take(slot);
        let at = asking.operation;
        let operating = self.operations.get_mut(at);
        operating.open -= 1;
        match (asking.awaited.command, result) {
            (Command::Read, Ok(())) => {}
            (Command::Read, Err(_)) => operating.error = Some(MemberError::Medium),
            (Command::Flush, Ok(())) => self.flushed = self.flushed.max(asking.covers),
            (Command::WriteZeroes, Err(Failure::NotSupported | Failure::Invalid)) => {
                self.can_zero = false;
            }
            (_, Ok(())) => self.changed += u64::from(asking.leaves_undurable()),
            (_, Err(failure)) => {
                // An unknown part of the change reached the export.
                self.changed += 1;
                let error = match failure {
                    Failure::NoSpace => MemberError::NoSpace,
                    _ => MemberError::Gone,
                };
                let worst = operating.error.filter(|error| *error == MemberError::Gone);
                operating.error = Some(worst.unwrap_or(error));
            }
        }
        if operating.open == 0 && operating.asked_bytes >= operating.job.bytes {
            self.settle(at);
        }
        Ok(())
    }

    /// Completes an operation whose requests are all answered, or makes the further requests that
    /// it needs.
    fn settle(&mut self, at: usize) {
        let operating = self.operations.get_mut(at);
        let operation = operating.job.operation;
        let zeroes = matches!(
            operation,
            Operation::Discard | Operation::WriteZeroes { .. }
        );
        if operating.error.is_none() {
            if zeroes && !self.can_zero && !operating.writes_zeros {
                operating.asked_bytes = 0;
                self.waiting.push_back(at);
                return;
            }
            if std::mem::take(&mut operating.then_flushes) {
                operating.open = 1;
                let slot = self.requests.put(Asking::new(at, Command::Flush, (0, 0)));
                self.name_request(slot);
                return;
            }
        }
        let operating = self.operations.take(at);
        if operation.is_write() {
            self.note_pages(&operating);
        }
        let result = operating.error.map_or(Ok(()), Err);
        self.done.push_back((operating.job.tag, result));
    }

    /// Records in `pages` what a write put into the superblock slots.
    fn note_pages(&mut self, operating: &Operating) {
        let job = operating.job;
        let end = job.offset_bytes + job.bytes;
        for (page, slot) in self.pages.iter_mut().zip(SLOT_BYTES) {
            let slot = self.start_bytes + slot;
            let (from, to) = (
                job.offset_bytes.max(slot),
                end.min(slot + count(SUPERBLOCK_BYTES)),
            );
            let Some(bytes) = page.as_mut().filter(|_| from < to) else {
                continue;
            };
            if operating.error.is_some() {
                *page = None;
                continue;
            }
            let part = &mut bytes[index(from - slot)..index(to - slot)];
            match job.operation {
                Operation::Write { .. } => {
                    let before = from - job.offset_bytes;
                    let mut at = 0;
                    for place in Payload::of(&job, before).places(before, part.len(), 0) {
                        let part = &mut part[at..at + place.iov_len];
                        // SAFETY: the driver lends the memory of the operation until it learns that
                        // the operation is done.
                        unsafe {
                            let from = place.iov_base.cast_const().cast();
                            part.as_mut_ptr().copy_from(from, part.len());
                        }
                        at += place.iov_len;
                    }
                }
                _ => part.fill(0),
            }
        }
    }
}

const NO_PLACE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Fills in the places of the bytes of requests `to_send` after the first `sent_bytes`, as many
/// as there is room for. Returns their number.
fn places_to_send(
    requests: &Slots<Asking>,
    to_send: &VecDeque<usize>,
    sent_bytes: usize,
    head_bytes: usize,
    places: &mut [libc::iovec; PLACES],
) -> usize {
    let mut skipped = sent_bytes;
    let of_request = |&slot: &usize| {
        let asking = requests.get(slot);
        let head = &asking.head[skipped.min(head_bytes)..head_bytes];
        let head = (!head.is_empty()).then(|| libc::iovec {
            iov_base: head.as_ptr().cast_mut().cast(),
            iov_len: head.len(),
        });
        let skipped = std::mem::take(&mut skipped).saturating_sub(head_bytes);
        let data = asking
            .payload
            .as_ref()
            .map(|payload| payload.places(asking.from_bytes, index(asking.awaited.bytes), skipped));
        head.into_iter().chain(data.into_iter().flatten())
    };
    let all = to_send.iter().flat_map(of_request);
    let mut count = 0;
    for (place, bytes) in places.iter_mut().zip(all) {
        *place = bytes;
        count += 1;
    }
    count
}
