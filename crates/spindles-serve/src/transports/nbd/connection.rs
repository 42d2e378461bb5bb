//! A connection after its handshake.

use super::request::{RequestStage, Requests};
use super::socket::Socket;
use crate::client::{Budget, Client, MayTake, Moved, Turn};
use crate::numbers::Origin;
use spindles_array::export::{Access, Answer, Export, SlotId};
use spindles_block::Operation;
use spindles_nbd::handshake::Agreed;
use spindles_nbd::transmission::{Command, Extent, Failure, Headers, Replies, Request};
use spindles_nbd::{CommandFlags, TransmissionFlags};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};
use std::os::fd::RawFd;

/// Size of the input buffer, filled if no long payload is expected.
const AHEAD_BYTES: usize = 64 << 10;
/// Payload up to this length is received together with its neighbours, and copied into its slot: a
/// separate system call would take longer.
const COPIED_BYTES_MAX: u64 = 16 << 10;
/// Most requests taken in one turn, before other connections get theirs.
const TURN_REQUESTS: usize = 64;
/// Most bytes taken in one turn, so that the first request is answered, and its memory reused,
/// while that is still cached.
const TURN_BYTES: u64 = 256 << 10;
/// Most buffers sent in one call.
const PIECES_MAX: usize = 128;
/// Longest accepted payload, in bytes: the limit of clients that do not negotiate block sizes.
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 32 << 20;
/// Most extents in one reply to a block status request.
const EXTENTS_MAX: usize = 512;
/// Zeroing and discards go to the export in sequential steps of this many bytes.
const STEP_BYTES: u64 = 16 << 20;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Open,
    /// No more requests are taken; the ones taken are answered.
    Ended,
    /// The client disconnected or violated the protocol: nothing is received or sent any longer.
    Gone,
}

/// A connection and its requests.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Socket,
    /// Its address or process, in messages.
    peer: String,
    headers: Headers,
    allocation: Option<u32>,
    read_only: bool,
    /// Receive buffer; the bytes from `start` to `end` are not processed yet.
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// The write whose payload is being received.
    receiving: Option<Receiving>,
    /// Remaining payload bytes of a refused request, to be skipped.
    skip_bytes: u64,
    /// True if the last request had a long payload, so that the next one may, too.
    is_long: bool,
    requests: Requests,
    /// Bytes of the requests taken in this turn.
    turn_bytes: u64,
    /// Requests whose replies wait to be sent, in order, and the number of bytes of the first one
    /// already sent.
    replies: VecDeque<usize>,
    sent: usize,
    line: Line,
    moved: Moved,
    /// Bytes received or sent, now and at the previous check.
    bytes: u64,
    bytes_before: u64,
}

/// A write whose payload is being received. Each part is submitted as soon as it is complete, so
/// that a client that sends slowly holds one slot, however long its write is.
#[derive(Clone, Copy, Debug)]
struct Receiving {
    index: usize,
    /// Bytes received.
    there: u64,
    /// Slot of the current part; `None` until one is free.
    slot: Option<SlotId>,
}

impl Connection {
    /// Creates a connection after its handshake. `received` holds the first bytes of its requests.
    pub(crate) fn new(socket: Socket, agreed: &Agreed, received: &[u8]) -> Self {
        let mut input = vec![0; AHEAD_BYTES].into_boxed_slice();
        input[..received.len()].copy_from_slice(received);
        Self {
            peer: socket.peer(),
            socket,
            headers: agreed.headers,
            allocation: agreed.allocation,
            read_only: agreed.flags.contains(TransmissionFlags::READ_ONLY),
            input,
            start: 0,
            end: received.len(),
            receiving: None,
            skip_bytes: 0,
            is_long: true,
            requests: Requests::default(),
            turn_bytes: 0,
            replies: VecDeque::new(),
            sent: 0,
            line: Line::Open,
            moved: Moved::default(),
            bytes: 0,
            bytes_before: 0,
        }
    }

    /// Drops a write whose payload can't be received completely. The array still writes the parts
    /// already submitted.
    fn abandon(&mut self, receiving: Receiving, budget: &mut Budget<'_>) {
        let pending = self.requests.get_mut(receiving.index);
        assert_eq!(pending.stage, RequestStage::Receiving);
        pending.stage = RequestStage::Served;
        if let Some(slot) = receiving.slot {
            pending.parts.retain(|part| *part != slot);
            budget.export.abandon(slot);
        }
        if pending.unanswered == 0 {
            self.over(receiving.index, budget);
        }
    }

    fn over(&mut self, index: usize, budget: &mut Budget<'_>) {
        self.requests.remove(index, budget.export);
    }

    /// Takes a request from the buffer, or receives more.
    fn step(
        &mut self,
        may_take: MayTake,
        drained: &mut bool,
        budget: &mut Budget<'_>,
    ) -> io::Result<Option<Turn>> {
        self.skip();
        if let Some(receiving) = self.receiving {
            if receiving.slot.is_none() {
                if !may_take.fits(1, budget.export) {
                    return Ok(Some(Turn::Full));
                }
                self.take_part(receiving, budget);
            }
            if self.start < self.end {
                self.copy_ahead(budget);
                return Ok(None);
            }
        } else if self.skip_bytes == 0 {
            let bytes = &self.input[self.start..self.end];
            let request = Request::decode(self.headers, bytes).map_err(io::Error::other)?;
            if let Some(request) = request {
                return self.take(request, may_take, budget);
            }
        }
        if *drained {
            return Ok(Some(Turn::Drained));
        }
        // Fewer bytes than there was room for: nothing more to receive.
        *drained = !self.fill(budget)?;
        Ok(None)
    }

    /// Skips payload of a refused request.
    fn skip(&mut self) {
        let there = self.end - self.start;
        let skipped = usize::try_from(self.skip_bytes).map_or(there, |bytes| bytes.min(there));
        self.start += skipped;
        self.skip_bytes -= u64::try_from(skipped).expect("64 bits");
    }

    /// Receives bytes, payload directly into its slot. Returns true if they filled all of the room.
    fn fill(&mut self, budget: &mut Budget<'_>) -> io::Result<bool> {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let header = Request::encoded_bytes(self.headers);
        let payload = self
            .receiving
            .map(|receiving| rest_of_part(receiving, budget.export));
        let is_last = |payload: &[u8]| {
            let receiving = self.receiving.expect("there is a payload");
            let left = self.requests.get(receiving.index).request.bytes - receiving.there;
            u64::try_from(payload.len()).expect("64 bits") == left
        };
        let ahead = match &payload {
            Some(payload) if !is_last(payload) => 0,
            // Further bytes might be payload.
            _ if self.is_long && self.skip_bytes == 0 => header - self.end,
            _ => self.input.len() - self.end,
        };
        let (payload, payload_bytes) = match payload {
            Some(payload) => {
                let bytes = payload.len();
                (payload, bytes)
            }
            None => (&mut [][..], 0),
        };
        let ahead = &mut self.input[self.end..self.end + ahead];
        let room = payload_bytes + ahead.len();
        let mut places = [IoSliceMut::new(payload), IoSliceMut::new(ahead)];
        let places = if payload_bytes == 0 {
            &mut places[1..]
        } else {
            &mut places[..]
        };
        let count = match self.socket.read_vectored(places) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        self.bytes += u64::try_from(count).expect("64 bits");
        let of_payload = count.min(payload_bytes);
        self.end += count - of_payload;
        self.received(of_payload, budget);
        Ok(count == room)
    }

    /// Takes a request, if the export has enough free slots.
    fn take(
        &mut self,
        request: Request,
        may_take: MayTake,
        budget: &mut Budget<'_>,
    ) -> io::Result<Option<Turn>> {
        let header = Request::encoded_bytes(self.headers);
        let refusal = self.refusal(&request, budget.export);
        let slots = match request.command {
            _ if refusal.is_some() => 0,
            Command::Read => request.bytes.div_ceil(access_bytes(budget.export)),
            // For the first part; the others take theirs as the payload comes.
            Command::Write => u64::from(request.bytes > 0),
            Command::Flush | Command::Trim | Command::WriteZeroes => 1,
            Command::Disconnect | Command::Cache | Command::BlockStatus | Command::Unknown(_) => 0,
        };
        if !may_take.fits(slots, budget.export) {
            return Ok(Some(Turn::Full));
        }
        self.start += header;
        self.is_long = request.command == Command::Write && request.bytes > COPIED_BYTES_MAX;
        if request.command == Command::Disconnect {
            self.take_no_more();
            return Ok(Some(Turn::Drained));
        }
        let has_payload = self.has_payload(&request);
        if has_payload && request.bytes > PAYLOAD_BYTES_MAX {
            return Err(io::Error::other("a payload too long to skip"));
        }
        self.moved.requests += 1;
        let index = self.requests.add(request);
        if let Some((failure, why)) = refusal {
            if has_payload {
                self.skip_bytes = request.bytes;
            }
            self.requests.get_mut(index).failed = Some((failure, why));
            self.reply(index);
            return Ok(None);
        }
        match request.command {
            Command::Write if request.bytes > 0 => {
                self.requests.get_mut(index).stage = RequestStage::Receiving;
                self.receiving = Some(Receiving {
                    index,
                    there: 0,
                    slot: None,
                });
            }
            Command::Read | Command::Write => {
                self.take_parts(index, budget);
                self.submit(index, budget);
            }
            Command::Flush | Command::Trim | Command::WriteZeroes => {
                self.next_step(index, budget);
            }
            Command::Cache => self.reply(index),
            Command::BlockStatus => self.reply_with_status(index, budget.export),
            Command::Disconnect | Command::Unknown(_) => unreachable!("it was looked at before"),
        }
        Ok(None)
    }

    /// Takes the slots of a read.
    fn take_parts(&mut self, index: usize, budget: &mut Budget<'_>) {
        let request = self.requests.get(index).request;
        let access = access_bytes(budget.export);
        self.turn_bytes += request.bytes;
        let mut done = 0;
        while done < request.bytes {
            let bytes = access.min(request.bytes - done);
            let slot = budget.take(Access {
                operation: Operation::Read,
                offset_bytes: request.offset_bytes + done,
                bytes: u32::try_from(bytes).expect("a part is short"),
            });
            self.requests
                .add_part(index, slot.expect("enough were free"));
            done += bytes;
        }
    }

    /// Takes a slot for the next part of the write that is being received.
    fn take_part(&mut self, receiving: Receiving, budget: &mut Budget<'_>) {
        let request = self.requests.get(receiving.index).request;
        let fua = request.flags.contains(CommandFlags::FUA);
        let bytes = access_bytes(budget.export).min(request.bytes - receiving.there);
        let slot = budget.take(Access {
            operation: Operation::Write { fua },
            offset_bytes: request.offset_bytes + receiving.there,
            bytes: u32::try_from(bytes).expect("a part is short"),
        });
        let slot = slot.expect("one was free");
        self.requests.add_part(receiving.index, slot);
        self.turn_bytes += bytes;
        self.receiving = Some(Receiving {
            slot: Some(slot),
            ..receiving
        });
    }

    /// Returns true if the length of the request is that of a payload. Also for a command without
    /// one: it is refused, and its payload skipped.
    fn has_payload(&self, request: &Request) -> bool {
        let says_so = request.flags.contains(CommandFlags::PAYLOAD_LEN);
        request.command == Command::Write || self.headers == Headers::Extended && says_so
    }

    /// Returns the reason to refuse a request; `None` if it is valid.
    fn refusal(&self, request: &Request, export: &Export) -> Option<(Failure, &'static str)> {
        let end = request.offset_bytes.checked_add(request.bytes);
        let is_outside = end.is_none_or(|end| end > export.bytes());
        let writes = matches!(
            request.command,
            Command::Write | Command::Trim | Command::WriteZeroes
        );
        let known = match request.command {
            Command::Read => CommandFlags::DF.with(CommandFlags::FUA),
            Command::Write if self.headers == Headers::Extended => {
                CommandFlags::FUA.with(CommandFlags::PAYLOAD_LEN)
            }
            Command::WriteZeroes => CommandFlags::FUA
                .with(CommandFlags::NO_HOLE)
                .with(CommandFlags::FAST_ZERO),
            Command::BlockStatus => CommandFlags::REQ_ONE.with(CommandFlags::FUA),
            _ => CommandFlags::FUA,
        };
        match request.command {
            Command::Disconnect => None,
            Command::Unknown(_) => Some((Failure::Invalid, "there is no such command")),
            _ if !known.contains(request.flags) => {
                Some((Failure::Invalid, "the command has no such flag"))
            }
            Command::Flush => None,
            _ if writes && self.read_only => Some((Failure::Permission, "the export is read-only")),
            Command::Write | Command::WriteZeroes if is_outside => {
                Some((Failure::NoSpace, "it ends beyond the export"))
            }
            _ if is_outside => Some((Failure::Invalid, "it ends beyond the export")),
            Command::Read | Command::Write if request.bytes > PAYLOAD_BYTES_MAX => {
                Some((Failure::Overflow, "it is longer than 32 MiB"))
            }
            Command::WriteZeroes
                if request.flags.contains(CommandFlags::FAST_ZERO) && !is_zero(export, request) =>
            {
                Some((Failure::NotSupported, "it may be as slow as a write"))
            }
            Command::BlockStatus if self.allocation.is_none() => {
                Some((Failure::Invalid, "no context was chosen"))
            }
            Command::BlockStatus if request.bytes == 0 => {
                Some((Failure::Invalid, "it has no length"))
            }
            _ => None,
        }
    }

    /// Copies received payload from the input buffer to the slot of the current part.
    fn copy_ahead(&mut self, budget: &mut Budget<'_>) {
        let receiving = self.receiving.expect("a payload is being received");
        let payload = rest_of_part(receiving, budget.export);
        let bytes = payload.len().min(self.end - self.start);
        payload[..bytes].copy_from_slice(&self.input[self.start..self.start + bytes]);
        self.start += bytes;
        self.moved.copied_bytes += u64::try_from(bytes).expect("64 bits");
        self.received(bytes, budget);
    }

    /// Counts payload that has arrived in the slot of the current part, and submits the part if it
    /// is complete.
    fn received(&mut self, bytes: usize, budget: &mut Budget<'_>) {
        let Some(receiving) = &mut self.receiving else {
            return;
        };
        let bytes = u64::try_from(bytes).expect("64 bits");
        receiving.there += bytes;
        self.moved.payload_bytes += bytes;
        let pending = self.requests.get_mut(receiving.index);
        let is_whole = receiving.there == pending.request.bytes;
        if bytes == 0 || !is_whole && receiving.there % access_bytes(budget.export) > 0 {
            return;
        }
        let slot = receiving.slot.take().expect("its payload arrived there");
        budget.export.submit(slot);
        pending.unanswered += 1;
        if is_whole {
            pending.stage = RequestStage::Served;
            self.receiving = None;
        }
    }

    /// Submits all parts of a request to the export.
    fn submit(&mut self, index: usize, budget: &mut Budget<'_>) {
        let pending = self.requests.get_mut(index);
        pending.stage = RequestStage::Served;
        pending.unanswered = pending.parts.len();
        if pending.parts.is_empty() {
            return self.reply(index);
        }
        for &slot in &pending.parts {
            budget.export.submit(slot);
        }
    }

    /// Submits the next step of a request without payload.
    fn next_step(&mut self, index: usize, budget: &mut Budget<'_>) {
        let pending = self.requests.get_mut(index);
        let request = pending.request;
        let fua = request.flags.contains(CommandFlags::FUA);
        let operation = match request.command {
            Command::Flush => Operation::Flush,
            // Discards have no FUA: with FUA, a trim writes zeros instead.
            Command::Trim if !fua => Operation::Discard,
            // Deallocate, unless the client wants to keep the space.
            Command::WriteZeroes if !fua && !request.flags.contains(CommandFlags::NO_HOLE) => {
                Operation::Discard
            }
            _ => Operation::WriteZeroes { fua },
        };
        let bytes = STEP_BYTES.min(request.bytes - pending.next_bytes);
        let is_flush = operation == Operation::Flush;
        let access = Access {
            operation,
            offset_bytes: if is_flush {
                0
            } else {
                request.offset_bytes + pending.next_bytes
            },
            bytes: if is_flush {
                0
            } else {
                u32::try_from(bytes).expect("a step is short")
            },
        };
        pending.next_bytes += bytes;
        if is_flush {
            pending.next_bytes = request.bytes;
        }
        for slot in pending.parts.drain(..) {
            budget.export.give_back(slot);
        }
        let slot = budget.take(access).expect("one was free");
        self.requests.add_part(index, slot);
        self.submit(index, budget);
    }

    /// Queues the reply of a completed request.
    fn reply(&mut self, index: usize) {
        let pending = self.requests.get_mut(index);
        pending.stage = RequestStage::Replying;
        let replies = Replies {
            headers: self.headers,
        };
        let (request, head) = (pending.request, &mut pending.head);
        match (pending.failed, request.command) {
            (Some((failure, why)), _) => replies.failed(&request, failure, why, head),
            (None, Command::Read) => {
                self.moved.read_bytes += request.bytes;
                replies.data(&request, head);
            }
            (None, _) => replies.done(&request, head),
        }
        self.replies.push_back(index);
    }

    /// Queues the reply to a block status request. The reply may cover less than the requested
    /// range.
    fn reply_with_status(&mut self, index: usize, export: &Export) {
        let pending = self.requests.get_mut(index);
        pending.stage = RequestStage::Replying;
        let request = pending.request;
        let most = if request.flags.contains(CommandFlags::REQ_ONE) {
            1
        } else {
            EXTENTS_MAX
        };
        let mut extents: Vec<Extent> = Vec::new();
        let mut done = 0;
        while done < request.bytes && extents.len() < most {
            let from = request.offset_bytes + done;
            let (zero, bytes) = export.extent(from, request.bytes - done);
            if extents.last().is_some_and(|last| last.zero == zero) {
                break; // The limit for one answer.
            }
            extents.push(Extent {
                bytes,
                hole: zero,
                zero,
            });
            done += bytes;
        }
        let context = self.allocation.expect("it was looked");
        let replies = Replies {
            headers: self.headers,
        };
        replies.status(&request, context, &extents, &mut pending.head);
        self.replies.push_back(index);
    }

    /// Sends the head of the reply queue. Returns the number of bytes sent, and the number offered.
    fn send_some(&mut self, export: &Export) -> io::Result<(usize, usize)> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let (mut count, mut offered, mut skip) = (0, 0, self.sent);
        let mut add = |piece| -> bool {
            let piece: &[u8] = piece;
            let passed = skip.min(piece.len());
            skip -= passed;
            if passed < piece.len() {
                pieces[count] = IoSlice::new(&piece[passed..]);
                offered += piece.len() - passed;
                count += 1;
            }
            count < PIECES_MAX
        };
        'all: for &index in &self.replies {
            let pending = self.requests.get(index);
            if !add(&pending.head) {
                break;
            }
            if pending.replies_with_data() {
                for &slot in &pending.parts {
                    if !add(export.read_payload(slot)) {
                        break 'all;
                    }
                }
            }
        }
        let sent = self.socket.write_vectored(&pieces[..count])?;
        Ok((sent, offered))
    }
}

impl Client for Connection {
    fn origin(&self) -> Origin {
        Origin {
            transport: "nbd",
            peer: Some(self.peer.clone()),
            subject: self.socket.subject().map(str::to_owned),
        }
    }

    fn descriptor(&self) -> RawFd {
        self.socket.descriptor()
    }

    fn receive(&mut self, may_take: MayTake, budget: &mut Budget<'_>) -> Turn {
        let mut drained = false;
        self.turn_bytes = 0;
        for _ in 0..TURN_REQUESTS {
            if self.turn_bytes >= TURN_BYTES && self.receiving.is_none() {
                return Turn::More;
            }
            if self.is_gone() || self.line == Line::Ended && self.receiving.is_none() {
                return Turn::Drained;
            }
            match self.step(may_take, &mut drained, budget) {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(_) => {
                    self.end(budget);
                    return Turn::Drained;
                }
            }
        }
        Turn::More
    }

    fn answered(&mut self, answer: Answer, budget: &mut Budget<'_>) {
        let index = self.requests.of_slot(answer.slot);
        let pending = self.requests.get_mut(index);
        pending.answered(answer.result);
        let request = pending.request;
        if request.command == Command::Write {
            pending.parts.retain(|part| *part != answer.slot);
            budget.export.give_back(answer.slot);
        }
        if pending.unanswered > 0 || pending.stage == RequestStage::Receiving {
            return;
        }
        let has_steps = matches!(request.command, Command::Trim | Command::WriteZeroes);
        let goes_on = has_steps && pending.failed.is_none() && pending.next_bytes < request.bytes;
        if self.is_gone() {
            self.over(index, budget);
        } else if goes_on {
            self.next_step(index, budget);
        } else {
            self.reply(index);
        }
    }

    fn has_replies(&self) -> bool {
        !self.replies.is_empty() && !self.is_gone()
    }

    fn send(&mut self, budget: &mut Budget<'_>) -> bool {
        while !self.replies.is_empty() {
            let (sent, offered) = match self.send_some(budget.export) {
                Ok(both) => both,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.end(budget);
                    return true;
                }
            };
            self.sent += sent;
            let bytes = u64::try_from(sent).expect("64 bits");
            self.bytes += bytes;
            self.moved.sent_bytes += bytes;
            while let Some(&first) = self.replies.front() {
                let bytes = self.requests.get(first).reply_bytes();
                if self.sent < bytes {
                    break;
                }
                self.sent -= bytes;
                self.replies.pop_front();
                self.over(first, budget);
            }
            if sent < offered {
                return false;
            }
        }
        true
    }

    fn take_no_more(&mut self) {
        self.line = self.line.max(Line::Ended);
    }

    fn end(&mut self, budget: &mut Budget<'_>) {
        self.line = Line::Gone;
        self.socket.shutdown();
        if let Some(receiving) = self.receiving.take() {
            self.abandon(receiving, budget);
        }
        for index in std::mem::take(&mut self.replies) {
            self.over(index, budget);
        }
        self.sent = 0;
    }

    fn is_gone(&self) -> bool {
        self.line == Line::Gone
    }

    fn is_over(&self) -> bool {
        self.line >= Line::Ended && self.requests.is_empty()
    }

    fn shut_down(&mut self) {
        self.socket.shutdown();
    }

    fn is_stuck(&mut self) -> bool {
        // Without a slot it is the client that waits.
        let receives = self
            .receiving
            .is_some_and(|receiving| receiving.slot.is_some());
        let waits = self.has_replies() || receives;
        let moved = std::mem::replace(&mut self.bytes_before, self.bytes) != self.bytes;
        waits && !moved
    }

    fn moved(&self) -> Moved {
        self.moved
    }
}

/// Returns true if the whole range is known to be zero.
fn is_zero(export: &Export, request: &Request) -> bool {
    let (zeros, bytes) = export.extent(request.offset_bytes, request.bytes);
    zeros && bytes == request.bytes
}

/// Returns the longest access, in bytes.
fn access_bytes(export: &Export) -> u64 {
    export.limits().access_bytes_max.into()
}

/// Returns the memory for the payload that the current part still lacks.
fn rest_of_part(receiving: Receiving, export: &mut Export) -> &mut [u8] {
    let done = receiving.there % access_bytes(export);
    let done = usize::try_from(done).expect("a part is short");
    let slot = receiving.slot.expect("the part has a slot");
    &mut export.payload(slot)[done..]
}
