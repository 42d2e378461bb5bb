//! The kernel, which asks for everybody who uses the file.
//!
//! Each request is one read and each reply one write of the descriptor, and neither waits. A request is read when a slot
//! of the export is free: its head to the stack, and what follows, if it is a write, straight to the slot's memory. So
//! each request has its slot before it is known what it asks, and those that need none give it back at once.

use super::descriptors::Descriptors;
use super::file::{ArrayFile, Decision};
use super::leaving::Leaving;
use super::message::{HEAD_BYTES, Message, Reply};
use crate::client::{Client, Desk, Moved, Turn};
use rustix::io::Errno;
use spindles_block::{Operation, RequestError};
use spindles_io::export::{Access, Answer, SlotId};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::sync::Arc;

/// So many requests are taken at once, before others have their turn.
const TURN_REQUESTS: usize = 64;
/// Zeros and discards go to the export in steps of so many bytes, one after the other.
const STEP_BYTES: u64 = 16 << 20;

/// A request that the export has.
#[derive(Clone, Copy, Debug)]
struct Pending {
    unique: u64,
    operation: Operation,
    /// What it does at a time, and all that it does: from here, so many bytes.
    step_bytes: u32,
    offset_bytes: u64,
    bytes: u64,
}

/// The kernel's side of a mount.
#[derive(Debug)]
pub(super) struct Kernel {
    descriptors: Descriptors,
    file: ArrayFile,
    leaving: Arc<Leaving>,
    /// For each slot its request.
    pending: Vec<Option<Pending>>,
    pending_count: usize,
    is_gone: bool,
    moved: Moved,
}

impl Kernel {
    pub(super) fn new(descriptors: Descriptors, file: ArrayFile, leaving: Arc<Leaving>) -> Self {
        Self {
            descriptors,
            file,
            leaving,
            pending: Vec::new(),
            pending_count: 0,
            is_gone: false,
            moved: Moved::default(),
        }
    }

    /// Reads a request; what follows its head comes to the memory of that slot. `None` where there is no request.
    fn read(&self, slot: SlotId, desk: &mut Desk<'_>) -> Result<Option<Message>, Errno> {
        let device = self.descriptors.device().ok_or(Errno::NODEV)?;
        let mut head = [0; HEAD_BYTES];
        loop {
            let payload = desk.export.payload(slot);
            let mut places = [IoSliceMut::new(&mut head), IoSliceMut::new(payload)];
            match rustix::io::readv(device, &mut places) {
                Ok(bytes) => {
                    let message = Message::decode(&head[..bytes.min(HEAD_BYTES)], bytes);
                    return message.map(Some).map_err(|_| Errno::PROTO);
                }
                // The second: whoever asked was killed meanwhile.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Begins what is asked for, or answers it.
    fn take(&mut self, slot: SlotId, message: &Message, desk: &mut Desk<'_>) {
        self.moved.requests += 1;
        self.file.attributes.bytes = desk.export.bytes();
        match self.file.decide(message) {
            Decision::Access {
                operation,
                offset_bytes,
                bytes,
            } => {
                let pending = Pending {
                    unique: message.unique,
                    operation,
                    step_bytes: 0,
                    offset_bytes,
                    bytes,
                };
                return self.step(slot, pending, desk);
            }
            Decision::Reply(reply) => self.reply(&reply, &[]),
            Decision::Silence => {}
            Decision::End => self.lose(),
        }
        desk.export.abandon(slot);
    }

    /// The export gets a request, or its next step.
    fn step(&mut self, slot: SlotId, mut pending: Pending, desk: &mut Desk<'_>) {
        let bytes = u32::try_from(pending.bytes.min(STEP_BYTES)).expect("a step is short");
        pending.step_bytes = bytes;
        let copied_bytes = desk.export.change(
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
        if self.pending.len() <= slot.index() {
            self.pending.resize(slot.index() + 1, None);
        }
        self.pending[slot.index()] = Some(pending);
        self.pending_count += 1;
        desk.export.submit(slot);
    }

    /// The kernel takes replies at once, and as a whole.
    fn reply(&mut self, reply: &Reply, payload: &[u8]) {
        let Some(device) = self.descriptors.device() else {
            return;
        };
        let pieces = [IoSlice::new(reply.bytes()), IoSlice::new(payload)];
        match rustix::io::writev(device, &pieces) {
            Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {} // Or nobody waits for it any more.
            // Whoever waits for it would wait for ever.
            Err(_) => self.lose(),
        }
    }

    fn lose(&mut self) {
        self.is_gone = true;
        self.leaving.lost();
    }
}

impl Client for Kernel {
    fn descriptor(&self) -> RawFd {
        self.descriptors.watched()
    }

    fn receive(&mut self, may_take: bool, desk: &mut Desk<'_>) -> Turn {
        for _ in 0..TURN_REQUESTS {
            if self.is_gone || self.leaving.has_left() {
                return Turn::Drained;
            }
            if !may_take || desk.export.free_slots() == 0 {
                return Turn::Full;
            }
            let slot = desk.take(Access {
                operation: Operation::Write { fua: false },
                offset_bytes: 0,
                bytes: desk.export.limits().access_bytes_max,
            });
            let slot = slot.expect("it was looked");
            match self.read(slot, desk) {
                Ok(Some(message)) => self.take(slot, &message, desk),
                Ok(None) => {
                    desk.export.abandon(slot);
                    return Turn::Drained;
                }
                Err(_) => {
                    desk.export.abandon(slot);
                    self.lose();
                }
            }
        }
        Turn::More
    }

    fn answered(&mut self, answer: Answer, desk: &mut Desk<'_>) {
        let slot = answer.slot;
        let pending = self.pending[slot.index()].take();
        let mut pending = pending.expect("the slot has a request");
        self.pending_count -= 1;
        pending.offset_bytes += u64::from(pending.step_bytes);
        pending.bytes -= u64::from(pending.step_bytes);
        if answer.result.is_ok() && pending.bytes > 0 {
            desk.export.give_back(slot);
            let slot = desk.take(Access {
                operation: Operation::Flush,
                offset_bytes: 0,
                bytes: 0,
            });
            return self.step(slot.expect("one was given back"), pending, desk);
        }
        let unique = pending.unique;
        match (answer.result, pending.operation) {
            (Err(error), _) => self.reply(&Reply::failed(unique, failure(error)), &[]),
            (Ok(()), Operation::Read) => {
                self.moved.read_bytes += u64::from(pending.step_bytes);
                let reply = Reply::read(unique, pending.step_bytes);
                self.reply(&reply, desk.export.read_payload(slot));
            }
            (Ok(()), Operation::Write { .. }) => {
                self.reply(&Reply::written(unique, pending.step_bytes), &[]);
            }
            (Ok(()), _) => self.reply(&Reply::done(unique), &[]),
        }
        desk.export.give_back(slot);
    }

    fn has_replies(&self) -> bool {
        false
    }

    fn send(&mut self, _: &mut Desk<'_>) -> bool {
        true
    }

    /// It goes on until it is unmounted: only then nobody asks any more.
    fn take_no_more(&mut self) {
        if self.leaving.begin().is_err() {
            self.is_gone = true;
        }
    }

    fn end(&mut self, _: &mut Desk<'_>) {
        self.is_gone = true;
        self.descriptors.end();
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn is_over(&self) -> bool {
        (self.is_gone || self.leaving.has_left()) && self.pending_count == 0
    }

    fn shut_down(&mut self) {
        self.descriptors.end();
    }

    /// Nothing ever waits for the kernel.
    fn is_stuck(&mut self) -> bool {
        false
    }

    fn moved(&self) -> Moved {
        self.moved
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
