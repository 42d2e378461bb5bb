//! An export in use: many requests are under way on one connection, and nothing waits.
//!
//! What holds when the connection is lost is decided here, and said in `backends/nbd.rs`.

#![expect(unsafe_code, reason = "memory that the driver lends by its address")]

use super::address::Address;
use super::link::{Link, Terms};
use super::reconnection::{Pages, Reconnection, Sought, pages};
use super::rest::Rest;
use super::socket::{ended, is_passing};
use crate::at_rest::AtRest;
use crate::buffers::Memory;
use crate::later::{Job, LOOKOUTS, Later};
use crate::options::Patience;
use crate::queues::Readiness;
use crate::transfer::{Tag, ZEROS_BYTES_MAX};
use crate::waiting;
use spindles_block::{MemberError, MemberResult, Operation};
use spindles_format::{SLOT_BYTES, SUPERBLOCK_BYTES};
use spindles_nbd::replies::{ARRIVAL_BYTES_MAX, Arrival, Asked, Awaited, Receiver};
use spindles_nbd::transmission::{Command, Failure, Headers, Request};
use spindles_nbd::{CommandFlags, TransmissionFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

/// Requests under way at once; more wait here.
const REQUESTS: usize = 128;
/// Room for as many operations is made at the start.
const ROOM: usize = 1024;
/// Places in memory that one call sends from, at most.
const PLACES: usize = 64;
/// What is received beyond the data that is due: heads of the replies that follow, and as much data as it costs little
/// to copy.
const AHEAD_BYTES: usize = 512;

/// The longest head of a request, in bytes.
const HEAD_BYTES: usize = Request::encoded_bytes(Headers::Extended);

/// The descriptors that are looked out for: the socket for what can be read, or that of a reconnection; and the socket
/// for what can be written.
const RECEIVES: usize = 0;
const SENDS: usize = 1;

/// An operation, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Operating {
    job: Job,
    /// So much of it was put into requests.
    asked_bytes: u64,
    /// Of its requests so many are not answered.
    open: u32,
    error: Option<MemberError>,
    /// Zeros are written, since the server does not make them.
    writes_zeros: bool,
    /// It is flushed at last, since the server has no FUA.
    then_flushes: bool,
}

/// A request.
#[derive(Clone, Copy, Debug)]
struct Asking {
    operation: usize,
    awaited: Awaited,
    cookie: u64,
    flags: CommandFlags,
    /// What follows the head, and where in the memory of the operation a read goes.
    payload: Option<Memory>,
    from_bytes: u64,
    head: [u8; HEAD_BYTES],
    /// A part of it was sent, or all.
    is_sent: bool,
    /// Changes answered when it was made; a flush makes these durable.
    covers: u64,
}

impl Asking {
    /// One without flags and payload, for so many bytes from there on.
    fn new(operation: usize, command: Command, (offset_bytes, bytes): (u64, u64)) -> Self {
        Self {
            operation,
            awaited: Awaited::new(command, offset_bytes, bytes),
            cookie: 0,
            flags: CommandFlags::default(),
            payload: None,
            from_bytes: 0,
            head: [0; HEAD_BYTES],
            is_sent: false,
            covers: 0,
        }
    }

    /// Whether it changes what the export holds, and does not make that durable.
    fn leaves_undurable(&self) -> bool {
        self.changes() && !self.flags.contains(CommandFlags::FUA)
    }

    fn changes(&self) -> bool {
        !matches!(self.awaited.command, Command::Read | Command::Flush)
    }
}

/// Slots of which some are in use.
#[derive(Debug)]
struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    fn with_capacity(room: usize) -> Self {
        Self {
            all: Vec::with_capacity(room),
            free: Vec::with_capacity(room),
        }
    }

    fn put(&mut self, it: T) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[at] = Some(it);
        at
    }

    fn take(&mut self, at: usize) -> T {
        self.free.push(at);
        self.all[at].take().expect("it is in use")
    }

    fn get(&self, at: usize) -> &T {
        self.all[at].as_ref().expect("it is in use")
    }

    fn get_mut(&mut self, at: usize) -> &mut T {
        self.all[at].as_mut().expect("it is in use")
    }

    fn in_use(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

impl Asked for Slots<Asking> {
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited> {
        let asking = self.all.get_mut(slot_of(cookie))?.as_mut()?;
        let is_it = asking.cookie == cookie && asking.is_sent;
        is_it.then_some(&mut asking.awaited)
    }
}

/// A cookie names the slot of a request and how many there were before, so that no late reply is taken for another's.
fn slot_of(cookie: u64) -> usize {
    usize::try_from(cookie & 0xFFFF).expect("16 bits")
}

/// Data of a read that is being received.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    slot: usize,
    /// Where the rest goes in the memory of the operation.
    at_bytes: u64,
    left_bytes: u64,
}

/// How the server is reached.
#[derive(Debug)]
enum State {
    Connected(Link),
    /// The connection was lost while nothing was asked: it is made again when something is.
    Idle,
    Reconnecting(Reconnection),
    /// It does not come back.
    Out,
}

/// An export in use.
#[derive(Debug)]
pub(crate) struct Connection {
    name: String,
    address: Address,
    terms: Terms,
    patience: Patience,
    state: State,
    /// Connections that were lost, until nobody looks out for them.
    closing: Vec<Link>,
    watched: [bool; LOOKOUTS],
    /// The socket took no more, or has to be looked at.
    blocked: bool,
    arrived: bool,
    zeros: Memory,
    can_zero: bool,
    operations: Slots<Operating>,
    /// Those of which not all is in requests.
    waiting: VecDeque<usize>,
    requests: Slots<Asking>,
    requests_before: u64,
    /// Requests that are to be sent; of the first so many bytes are.
    to_send: VecDeque<usize>,
    sent_bytes: usize,
    /// Room in which a head is made.
    head: Vec<u8>,
    receiver: Receiver,
    received: Vec<u8>,
    receiving: Option<Receiving>,
    done: VecDeque<(Tag, MemberResult)>,
    /// Changes that were answered and not durable then, and how many of these a flush made durable.
    changed: u64,
    flushed: u64,
    pages: Pages,
    /// When something last went over.
    moved_at: Instant,
    /// When the connection was lost, if nothing was answered since.
    lost_since: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(name: &str, address: Address, link: Link, patience: Patience) -> Self {
        Self {
            name: name.to_owned(),
            address,
            terms: link.terms,
            patience,
            receiver: Receiver::new(link.terms.headers),
            can_zero: link.terms.has(TransmissionFlags::SEND_WRITE_ZEROES),
            state: State::Connected(link),
            closing: Vec::new(),
            watched: [false; LOOKOUTS],
            blocked: false,
            arrived: false,
            zeros: Memory::NONE,
            operations: Slots::with_capacity(ROOM),
            waiting: VecDeque::with_capacity(ROOM),
            requests: Slots::with_capacity(REQUESTS),
            requests_before: 0,
            to_send: VecDeque::with_capacity(REQUESTS),
            sent_bytes: 0,
            head: Vec::with_capacity(HEAD_BYTES),
            received: Vec::with_capacity(2 * ARRIVAL_BYTES_MAX),
            receiving: None,
            done: VecDeque::with_capacity(ROOM),
            changed: 0,
            flushed: 0,
            pages: Pages::default(),
            moved_at: Instant::now(),
            lost_since: None,
        }
    }

    /// Makes requests of what waits, as far as there is room.
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
            (Command::Write, Operation::Write { .. }) => Some(at_memory(job.memory, from_bytes)),
            (Command::Write, _) => {
                most = most.min(ZEROS_BYTES_MAX / block * block);
                Some(self.zeros)
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
            flags: match durable && has_fua {
                true => flags.with(CommandFlags::FUA),
                false => flags,
            },
            payload,
            from_bytes,
            ..Asking::new(at, command, place)
        });
        self.name_request(slot);
    }

    /// Gives a request its cookie, and puts it last of those to be sent.
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

    /// Sends what is to be sent, as far as the socket takes it.
    fn send(&mut self) -> io::Result<()> {
        while !self.to_send.is_empty() {
            let State::Connected(link) = &self.state else {
                return Ok(());
            };
            let head_bytes = Request::encoded_bytes(self.terms.headers);
            let mut places = [const { NO_PLACE }; PLACES];
            let mut count = 0;
            let mut skipped = self.sent_bytes;
            for &slot in self.to_send.iter().take(PLACES / 2) {
                let asking = self.requests.get(slot);
                let head = &asking.head[skipped.min(head_bytes)..head_bytes];
                skipped = skipped.saturating_sub(head_bytes);
                if !head.is_empty() {
                    places[count] = libc::iovec {
                        iov_base: head.as_ptr().cast_mut().cast(),
                        iov_len: head.len(),
                    };
                    count += 1;
                }
                if let Some(memory) = asking.payload {
                    places[count] = libc::iovec {
                        iov_base: memory.start.as_ptr().wrapping_add(skipped).cast(),
                        iov_len: index(asking.awaited.bytes) - skipped,
                    };
                    count += 1;
                }
                skipped = 0;
            }
            // SAFETY: heads are ours and stay where they are until this returns; payloads are memory that the driver
            // lends until the operation is done, or the zeros, which live as long as the target. All is only read.
            let moved = match unsafe { link.socket.send(&mut places[..count]) } {
                Ok(moved) => moved,
                Err(error) if is_passing(&error) => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.moved_at = Instant::now();
            self.note_sent(moved, head_bytes);
        }
        Ok(())
    }

    /// So many bytes of the requests to be sent are.
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

    /// Receives what is there.
    fn receive(&mut self) -> io::Result<()> {
        loop {
            self.hear()?;
            let State::Connected(link) = &self.state else {
                return Ok(());
            };
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
            // SAFETY: the first place is memory that the driver lends until the operation is done, the second ours.
            let moved = unsafe { link.socket.receive(&mut [data, ahead]) };
            let into_data = moved.as_ref().map_or(0, |moved| bytes.min(*moved));
            let into_ahead = moved.as_ref().map_or(0, |moved| moved - into_data);
            self.received.truncate(before + into_ahead);
            match moved {
                Ok(0) => return Err(ended()),
                Ok(moved) => {
                    self.moved_at = Instant::now();
                    self.note_data(count(into_data));
                    if moved < room {
                        // There is nothing more.
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

    /// Takes what was received apart.
    fn hear(&mut self) -> io::Result<()> {
        let mut heard = 0;
        while self.receiving.is_none() {
            let rest = &self.received[heard..];
            let next = self.receiver.next(rest, &mut self.requests);
            let (used, arrival) = next.map_err(io::Error::other)?;
            heard += used;
            match arrival {
                None if self.received.len() - heard > ARRIVAL_BYTES_MAX => return Err(ended()),
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
                    // SAFETY: the driver lends the memory of a read until that is done, and the part lies within it:
                    // the receiver has compared it with what was asked for.
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

    /// The memory of a request's operation, and where in it a place of the request is.
    fn memory_of(&self, slot: usize, from_bytes: u64) -> (Memory, u64) {
        let asking = self.requests.get(slot);
        let memory = self.operations.get(asking.operation).job.memory;
        (memory, asking.from_bytes + from_bytes)
    }

    /// A request is over.
    fn answered(&mut self, slot: usize, result: Result<(), Failure>) -> io::Result<()> {
        if result == Err(Failure::Shutdown) {
            return Err(io::Error::other("it is about to end"));
        }
        self.lost_since = None;
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
                // What was written of it nobody knows.
                self.changed += 1;
                let error = match failure {
                    Failure::NoSpace => MemberError::NoSpace,
                    _ => MemberError::Gone,
                };
                let worst = operating.error.filter(|it| *it == MemberError::Gone);
                operating.error = Some(worst.unwrap_or(error));
            }
        }
        if operating.open == 0 && operating.asked_bytes >= operating.job.bytes {
            self.settle(at);
        }
        Ok(())
    }

    /// All requests of an operation are answered: it is done, or there is more to be asked for it.
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

    /// Keeps in mind what lies in the superblock slots.
    fn note_pages(&mut self, operating: &Operating) {
        let job = operating.job;
        let end = job.offset_bytes + job.bytes;
        for (page, slot) in self.pages.iter_mut().zip(SLOT_BYTES) {
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
                    let memory = at_memory(job.memory, from - job.offset_bytes);
                    // SAFETY: the driver lends the memory of the operation until it hears that it is done.
                    unsafe {
                        part.as_mut_ptr()
                            .copy_from(memory.start.as_ptr(), part.len())
                    }
                }
                _ => part.fill(0),
            }
        }
    }

    /// The connection is lost, or the server is not to be trusted any more.
    fn lose(&mut self, why: &io::Error) {
        let State::Connected(link) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        link.socket.shutdown();
        if self.watched != [false; LOOKOUTS] {
            self.closing.push(link);
        }
        self.received.clear();
        self.receiving = None;
        self.receiver = Receiver::new(self.terms.headers);
        self.blocked = false;
        self.arrived = false;
        let mut requests = self.requests.all.iter().flatten();
        let in_doubt = if self.changed > self.flushed {
            Some("what was written last may be lost there")
        } else if requests.any(|asking| asking.is_sent && asking.changes()) {
            Some("a write was under way, and may still be done")
        } else {
            None
        };
        if let Some(what) = in_doubt {
            self.go_out(&format!("the connection is lost ({why}), and {what}"));
            return;
        }
        // In the order in which they were sent, as far as they were.
        let mut requests: Vec<usize> = (0..self.requests.all.len()).collect();
        requests.retain(|slot| self.requests.all[*slot].is_some());
        requests.sort_unstable_by_key(|slot| self.requests.get(*slot).cookie);
        self.to_send.clear();
        self.sent_bytes = 0;
        for slot in requests {
            self.name_request(slot);
        }
        if self.operations.in_use() > 0 {
            self.reconnect(&why.to_string());
        }
    }

    /// Begins to connect again. What is asked meanwhile waits.
    fn reconnect(&mut self, why: &str) {
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        let patience = self.patience.reconnect.saturating_sub(since.elapsed());
        if patience.is_zero() {
            self.go_out(&format!("the connection is lost again and again ({why})"));
            return;
        }
        waiting::tell(&format!(
            "{}: the connection is lost ({why}): trying again for {} s",
            self.name,
            self.patience.reconnect.as_secs()
        ));
        let begun = Reconnection::begin(Sought {
            address: self.address.clone(),
            terms: self.terms,
            pages: self.pages.clone(),
            patience,
        });
        match begun {
            Ok(reconnection) => self.state = State::Reconnecting(reconnection),
            Err(error) => self.go_out(&format!("it can't be connected to again: {error}")),
        }
    }

    /// Something came of connecting again.
    fn look_at_reconnection(&mut self) {
        // Nothing is looked out for that is not of this connection.
        if self.watched != [false; LOOKOUTS] {
            return;
        }
        let State::Reconnecting(reconnection) = &self.state else {
            return;
        };
        match reconnection.outcome() {
            None => {}
            Some(Ok(link)) if link.terms.headers == self.terms.headers => {
                self.terms = link.terms;
                self.moved_at = Instant::now();
                self.state = State::Connected(link);
                waiting::tell(&format!("{}: it is connected again", self.name));
            }
            Some(Ok(_)) => self.go_out("its server speaks otherwise than before"),
            Some(Err(why)) => self.go_out(&why),
        }
    }

    /// Everything that is under way fails, and all that follows.
    fn go_out(&mut self, why: &str) {
        waiting::tell(&format!("{}: it is given up: {why}", self.name));
        self.state = State::Out;
        self.to_send.clear();
        self.waiting.clear();
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

    /// Whether an answer is waited for.
    fn awaits(&self) -> bool {
        matches!(self.state, State::Connected(_)) && self.requests.in_use() > 0
    }

    fn go_on(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.arrived) {
            self.receive()?;
        }
        self.ask();
        if !self.blocked {
            self.send()?;
        }
        if self.awaits() && self.moved_at.elapsed() >= self.patience.silence {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its server does not answer",
            ));
        }
        Ok(())
    }
}

const NO_PLACE: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// A place in memory, so many bytes on. It is only an address until something is done with it.
fn at_memory(memory: Memory, bytes: u64) -> Memory {
    let start = memory.start.as_ptr().wrapping_add(index(bytes));
    Memory {
        start: std::ptr::NonNull::new(start).expect("memory does not wrap around"),
        buffer: memory.buffer,
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("64 bits")
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("64 bits")
}

impl Later for Connection {
    fn prepare(&mut self, zeros: Memory) -> io::Result<()> {
        self.zeros = zeros;
        if let State::Connected(link) = std::mem::replace(&mut self.state, State::Out) {
            let (link, pages) = pages(link, self.patience.silence)?;
            self.pages = pages;
            self.state = State::Connected(link);
        }
        Ok(())
    }

    fn start(&mut self, job: Job) {
        if matches!(self.state, State::Out) {
            self.done.push_back((job.tag, Err(MemberError::Gone)));
            return;
        }
        if self.in_flight() == 0 {
            self.moved_at = Instant::now();
        }
        let at = self.operations.put(Operating {
            job,
            asked_bytes: 0,
            open: 0,
            error: None,
            writes_zeros: false,
            then_flushes: false,
        });
        self.waiting.push_back(at);
        if matches!(self.state, State::Idle) {
            self.reconnect("its server ended it");
        }
    }

    fn advance(&mut self) {
        self.look_at_reconnection();
        if matches!(self.state, State::Connected(_))
            && let Err(error) = self.go_on()
        {
            self.lose(&error);
        }
    }

    fn next_watch(&mut self, place: usize) -> Option<(RawFd, Readiness)> {
        if self.watched[place] {
            return None;
        }
        let watch = match (&self.state, place) {
            (State::Connected(link), RECEIVES) => (link.socket.descriptor(), Readiness::Read),
            (State::Connected(link), SENDS) if self.blocked => {
                (link.socket.descriptor(), Readiness::Write)
            }
            (State::Reconnecting(reconnection), RECEIVES) => {
                (reconnection.descriptor(), Readiness::Read)
            }
            _ => return None,
        };
        self.watched[place] = true;
        Some(watch)
    }

    fn ready(&mut self, place: usize) {
        self.watched[place] = false;
        if self.watched == [false; LOOKOUTS] {
            self.closing.clear();
        }
        if place == SENDS {
            self.blocked = false;
        } else {
            self.arrived = true;
        }
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        self.done.pop_front()
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn wake_at(&self) -> Option<Instant> {
        self.awaits().then(|| self.moved_at + self.patience.silence)
    }

    fn in_flight(&self) -> usize {
        self.operations.in_use() + self.done.len()
    }

    fn at_rest(self: Box<Self>) -> Box<dyn AtRest> {
        match self.state {
            State::Connected(link) => Box::new(Rest::new(link, self.patience.silence)),
            _ => unreachable!("it was just opened"),
        }
    }
}
