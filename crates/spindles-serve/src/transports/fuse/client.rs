//! The kernel as a client: it sends the requests of all users of the file.
//!
//! Each request is one read, and each reply one write of the descriptor; neither blocks. A request
//! is read once a slot of the export is free: its head to the stack, and the payload of a write
//! straight into the slot. So each request takes a slot before its kind is known; one that needs
//! none returns it at once.
//!
//! If the kernel supports it, messages go over a [`Ring`] instead. Payload then has its own buffer
//! in the ring, and is copied between that and the slot.

use super::descriptors::Descriptors;
use super::file::{ArrayFile, Asked, Decision};
use super::leaving::Leaving;
use super::message::{Ask, HEAD_BYTES, Message, Reply, features};
use super::ring::{EntryId, Ring};
use crate::client::{Budget, Client, MayTake, Moved, Turn};
use crate::numbers::Origin;
use rustix::io::Errno;
use spindles_array::export::{Access, Answer, SlotId};
use spindles_block::{Operation, RequestError};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Most requests taken in one turn, before other clients get theirs.
const TURN_REQUESTS: usize = 64;
/// Zeroing and discards go to the export in sequential steps of this many bytes.
const STEP_BYTES: u64 = 16 << 20;

/// The origin of a request, to which the reply goes.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Device,
    Ring(EntryId),
}

/// A request in progress in the export.
#[derive(Clone, Copy, Debug)]
struct Pending {
    from: Asker,
    unique: u64,
    operation: Operation,
    /// Length of the current step, and the remaining range.
    step_bytes: u32,
    offset_bytes: u64,
    bytes: u64,
}

impl Pending {
    fn new(from: Asker, message: &Message, access: Asked) -> Self {
        Self {
            from,
            unique: message.unique,
            operation: access.operation,
            step_bytes: 0,
            offset_bytes: access.offset_bytes,
            bytes: access.bytes,
        }
    }
}

/// The kernel's side of a mount.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Declared first, and so dropped before the device, which the ring uses too.
    ring: Option<Ring>,
    descriptors: Descriptors,
    file: ArrayFile,
    leaving: Arc<Leaving>,
    /// The request of each slot.
    pending: Vec<Option<Pending>>,
    pending_count: usize,
    is_gone: bool,
    moved: Moved,
}

impl Kernel {
    pub(super) fn new(descriptors: Descriptors, file: ArrayFile, leaving: Arc<Leaving>) -> Self {
        Self {
            ring: None,
            descriptors,
            file,
            leaving,
            pending: Vec::new(),
            pending_count: 0,
            is_gone: false,
            moved: Moved::default(),
        }
    }

    /// Reads a request; its payload goes to the memory of `slot`. `None` if there is no request.
    fn read(&self, slot: SlotId, budget: &mut Budget<'_>) -> Result<Option<Message>, Errno> {
        let device = self.descriptors.device().ok_or(Errno::NODEV)?;
        let mut head = [0; HEAD_BYTES];
        loop {
            let payload = budget.export.payload(slot);
            let mut places = [IoSliceMut::new(&mut head), IoSliceMut::new(payload)];
            match rustix::io::readv(device, &mut places) {
                Ok(bytes) => {
                    let message = Message::decode(&head[..bytes.min(HEAD_BYTES)], bytes);
                    return message.map(Some).map_err(|_| Errno::PROTO);
                }
                // NOENT: the caller was killed meanwhile.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the request read into `slot`, or replies to it.
    fn take(&mut self, slot: SlotId, message: &Message, budget: &mut Budget<'_>) {
        self.moved.requests += 1;
        if let Ask::Init { features, .. } = message.ask {
            self.prepare_ring(features);
        }
        match self.decide(message, budget) {
            Decision::Access(access) => {
                let pending = Pending::new(Asker::Device, message, access);
                return self.step(slot, pending, budget);
            }
            Decision::Reply(reply) => self.reply(Asker::Device, &reply, &[]),
            Decision::Silence => {}
            Decision::End => self.lose(),
        }
        budget.export.abandon(slot);
        if let Ask::Init { .. } = message.ask {
            self.begin_ring();
        }
    }

    fn decide(&mut self, message: &Message, budget: &Budget<'_>) -> Decision {
        self.file.attributes.bytes = budget.export.bytes();
        let extent = |offset_bytes, bytes_max| budget.export.extent(offset_bytes, bytes_max);
        let decision = self.file.decide(message, extent);
        if decision == Decision::Reply(Reply::opened(message.unique)) {
            self.leaving.note_opened();
        } else if message.ask == Ask::Release {
            self.leaving.note_released();
        }
        decision
    }

    /// Creates a ring if the kernel offers one. It must exist before the offer is accepted: from
    /// then on the kernel sends all requests over it.
    fn prepare_ring(&mut self, offered: u64) {
        let device = self.descriptors.device();
        let device = device.filter(|_| offered & features::OVER_IO_URING != 0);
        let (waker, bytes_max) = (self.descriptors.waker(), self.file.request_bytes_max);
        // If there is no memory for the ring, all requests go over the device.
        self.ring = device.and_then(|device| Ring::new(device, waker, bytes_max).ok());
        self.file.has_ring = self.ring.is_some();
    }

    /// Registers the ring, after the kernel was informed of it.
    fn begin_ring(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.register();
            self.descriptors.set_ring(true);
        }
    }

    /// Takes requests from the ring. `None` if the device must be read too.
    fn receive_from_ring(&mut self, may_take: MayTake, budget: &mut Budget<'_>) -> Option<Turn> {
        let ring = self.ring.as_mut()?;
        let Ok(looks_at_device) = ring.turn() else {
            self.lose();
            return Some(Turn::Drained);
        };
        if ring.is_refused() {
            // Unmounted, or the kernel refuses the ring: reading the device shows which.
            self.ring = None;
            self.descriptors.set_ring(false);
            return None;
        }
        for _ in 0..TURN_REQUESTS {
            let Some((entry, message)) = self.ring.as_ref()?.first() else {
                return if looks_at_device {
                    None
                } else {
                    Some(Turn::Drained)
                };
            };
            let from = Asker::Ring(entry);
            match self.decide(&message, budget) {
                Decision::Access(access) => {
                    if !may_take.fits(1, budget.export) {
                        return Some(Turn::Full);
                    }
                    self.take_from_ring(entry, Pending::new(from, &message, access), budget);
                }
                Decision::Reply(reply) => self.reply(from, &reply, &[]),
                // Every entry must be returned to the kernel.
                Decision::Silence => self.reply(from, &Reply::done(message.unique), &[]),
                Decision::End => {
                    self.reply(from, &Reply::done(message.unique), &[]);
                    self.lose();
                }
            }
            self.moved.requests += 1;
            self.ring.as_mut()?.take_first();
        }
        Some(Turn::More)
    }

    /// Submits a request, or its next step, to the export.
    fn step(&mut self, slot: SlotId, mut pending: Pending, budget: &mut Budget<'_>) {
        let bytes = u32::try_from(pending.bytes.min(STEP_BYTES)).expect("a step is short");
        pending.step_bytes = bytes;
        let copied_bytes = budget.export.change(
            slot,
            Access {
                operation: pending.operation,
                offset_bytes: pending.offset_bytes,
                bytes,
            },
        );
        if let Operation::Write { .. } = pending.operation {
            self.moved.payload_bytes += u64::from(bytes);
            self.moved.copied_bytes += u64::from(copied_bytes);
        }
        self.submit(slot, pending, budget);
    }

    /// Does the same for a request from the ring, and copies its payload into the slot.
    fn take_from_ring(&mut self, entry: EntryId, mut pending: Pending, budget: &mut Budget<'_>) {
        let bytes = u32::try_from(pending.bytes.min(STEP_BYTES)).expect("a step is short");
        pending.step_bytes = bytes;
        let slot = budget.take(Access {
            operation: pending.operation,
            offset_bytes: pending.offset_bytes,
            bytes,
        });
        let slot = slot.expect("it was looked");
        if let (Operation::Write { .. }, Some(ring)) = (pending.operation, &self.ring) {
            let place = budget.export.payload(slot);
            place.copy_from_slice(&ring.payload(entry)[..place.len()]);
            self.moved.payload_bytes += u64::from(bytes);
            self.moved.copied_bytes += u64::from(bytes);
        }
        self.submit(slot, pending, budget);
    }

    fn submit(&mut self, slot: SlotId, pending: Pending, budget: &mut Budget<'_>) {
        if self.pending.len() <= slot.index() {
            self.pending.resize(slot.index() + 1, None);
        }
        self.pending[slot.index()] = Some(pending);
        self.pending_count += 1;
        budget.export.submit(slot);
    }

    /// Sends a reply. The kernel takes it at once and as a whole.
    fn reply(&mut self, from: Asker, reply: &Reply, payload: &[u8]) {
        if let Asker::Ring(entry) = from {
            if let Some(ring) = &mut self.ring {
                ring.reply(entry, reply, payload);
            }
            return;
        }
        let Some(device) = self.descriptors.device() else {
            return;
        };
        let pieces = [IoSlice::new(reply.bytes()), IoSlice::new(payload)];
        match rustix::io::writev(device, &pieces) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {} // Caller gone.
            // Without this reply the caller would wait forever.
            Err(_) => self.lose(),
        }
    }

    fn lose(&mut self) {
        self.is_gone = true;
        self.leaving.lost();
    }
}

impl Client for Kernel {
    fn origin(&self) -> Origin {
        Origin::kernel("fuse")
    }

    fn descriptor(&self) -> RawFd {
        self.descriptors.watched()
    }

    fn receive(&mut self, may_take: MayTake, budget: &mut Budget<'_>) -> Turn {
        if let Some(turn) = self.receive_from_ring(may_take, budget) {
            return turn;
        }
        for _ in 0..TURN_REQUESTS {
            if self.is_gone || self.leaving.has_left() {
                return Turn::Drained;
            }
            if !may_take.fits(1, budget.export) {
                return Turn::Full;
            }
            let slot = budget.take(Access {
                operation: Operation::Write { fua: false },
                offset_bytes: 0,
                bytes: budget.export.limits().access_bytes_max,
            });
            let slot = slot.expect("it was looked");
            match self.read(slot, budget) {
                Ok(Some(message)) => self.take(slot, &message, budget),
                Ok(None) => {
                    budget.export.abandon(slot);
                    if let Some(ring) = &mut self.ring {
                        ring.look_out();
                    }
                    return Turn::Drained;
                }
                Err(_) => {
                    budget.export.abandon(slot);
                    self.lose();
                }
            }
        }
        Turn::More
    }

    fn answered(&mut self, answer: Answer, budget: &mut Budget<'_>) {
        let slot = answer.slot;
        let pending = self.pending[slot.index()].take();
        let mut pending = pending.expect("the slot has a request");
        self.pending_count -= 1;
        pending.offset_bytes += u64::from(pending.step_bytes);
        pending.bytes -= u64::from(pending.step_bytes);
        if answer.result.is_ok() && pending.bytes > 0 {
            budget.export.give_back(slot);
            let slot = budget.take(Access {
                operation: Operation::Flush,
                offset_bytes: 0,
                bytes: 0,
            });
            return self.step(slot.expect("one was given back"), pending, budget);
        }
        let unique = pending.unique;
        let from = pending.from;
        match (answer.result, pending.operation) {
            (Err(error), _) => self.reply(from, &Reply::failed(unique, failure(error)), &[]),
            (Ok(()), Operation::Read) => {
                self.moved.read_bytes += u64::from(pending.step_bytes);
                let reply = Reply::read(unique, pending.step_bytes);
                self.reply(from, &reply, budget.export.read_payload(slot));
            }
            (Ok(()), Operation::Write { .. }) => {
                self.reply(from, &Reply::written(unique, pending.step_bytes), &[]);
            }
            (Ok(()), _) => self.reply(from, &Reply::done(unique), &[]),
        }
        budget.export.give_back(slot);
    }

    fn has_replies(&self) -> bool {
        self.ring.as_ref().is_some_and(Ring::has_replies)
    }

    fn send(&mut self, _: &mut Budget<'_>) -> bool {
        let sent = self.ring.as_mut().map_or(Ok(()), Ring::send);
        if sent.is_err() {
            self.lose();
        }
        true
    }

    /// Requests are taken until the unmount: only then no more come.
    fn take_no_more(&mut self) {
        if self.leaving.begin().is_err() {
            self.is_gone = true;
        }
    }

    fn end(&mut self, _: &mut Budget<'_>) {
        self.is_gone = true;
        self.shut_down();
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn is_over(&self) -> bool {
        (self.is_gone || self.leaving.has_left()) && self.pending_count == 0
    }

    fn shut_down(&mut self) {
        self.ring = None;
        self.descriptors.end();
    }

    /// Never waits for the kernel.
    fn is_stuck(&mut self) -> bool {
        false
    }

    fn moved(&self) -> Moved {
        self.moved
    }

    fn is_over_ring(&self) -> bool {
        self.ring.is_some()
    }
}

fn failure(error: RequestError) -> Errno {
    match error {
        RequestError::OutOfRange => Errno::INVAL,
        RequestError::ReadOnly => Errno::ROFS,
        RequestError::BeyondTolerance | RequestError::Corrupt | RequestError::InDoubt => Errno::IO,
        RequestError::NoSpace => Errno::NOSPC,
    }
}
