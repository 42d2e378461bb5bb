//! The kernel as a client: it sends the requests of all users of the device.
//!
//! A request is known before its payload moves. So it gets a fitting slot of the export, and the
//! kernel copies the payload once, between the caller's memory and the slot.

use super::leaving::Leaving;
use crate::client::{Budget, Client, MayTake, Moved, Turn};
use crate::numbers::Origin;
use rustix::io::Errno;
use spindles_array::export::{Access, Answer};
use spindles_block::{Operation, RequestError};
use spindles_ublk::{Arrived, Ask, Queue};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Most requests taken in one turn, before other clients get theirs.
const TURN_REQUESTS: usize = 64;

/// A request in progress in the export.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tag: u16,
    operation: Operation,
    bytes: u32,
}

/// The kernel's side of a device.
#[derive(Debug)]
pub(super) struct Kernel {
    queue: Queue,
    leaving: Arc<Leaving>,
    /// Notified once requests can arrive; then `None`.
    fetched: Option<Sender<()>>,
    /// Number of tags that the kernel has ended.
    ended: u16,
    /// A request that waits for a slot.
    next: Option<Ask>,
    /// The request of each slot.
    pending: Vec<Option<Pending>>,
    pending_count: usize,
    is_gone: bool,
    moved: Moved,
}

impl Kernel {
    pub(super) fn new(queue: Queue, leaving: Arc<Leaving>, fetched: Sender<()>) -> Self {
        Self {
            queue,
            leaving,
            fetched: Some(fetched),
            ended: 0,
            next: None,
            pending: Vec::new(),
            pending_count: 0,
            is_gone: false,
            moved: Moved::default(),
        }
    }

    /// Fetches requests. Must run in the serving thread, and so not in `new`.
    fn fetch(&mut self) {
        if let Some(fetched) = self.fetched.take() {
            self.queue.fetch_all();
            self.flush_out();
            // The receiver may be gone.
            fetched.send(()).ok();
        }
    }

    /// Returns the next request, if there is one.
    fn next(&mut self) -> Option<Ask> {
        if let Some(ask) = self.next.take() {
            return Some(ask);
        }
        loop {
            match self.queue.next_arrived()? {
                Arrived::Ask(ask) => return Some(ask),
                Arrived::Ended => {
                    self.ended += 1;
                    if self.ended == self.queue.depth() {
                        self.lose();
                    }
                }
            }
        }
    }

    /// Submits a request to the export.
    fn take(&mut self, ask: Ask, budget: &mut Budget<'_>) {
        self.moved.requests += 1;
        let Some(operation) = ask.operation else {
            return self.queue.answer(ask.tag, Err(Errno::OPNOTSUPP));
        };
        let slot = budget.take(Access {
            operation,
            offset_bytes: ask.offset_bytes,
            bytes: ask.bytes,
        });
        let slot = slot.expect("it was looked");
        if let Operation::Write { .. } = operation {
            let payload = budget.export.payload(slot);
            if self.queue.read_payload(ask.tag, payload).is_err() {
                budget.export.abandon(slot);
                return self.queue.answer(ask.tag, Err(Errno::IO));
            }
            self.moved.payload_bytes += u64::from(ask.bytes);
        }
        if self.pending.len() <= slot.index() {
            self.pending.resize(slot.index() + 1, None);
        }
        self.pending[slot.index()] = Some(Pending {
            tag: ask.tag,
            operation,
            bytes: ask.bytes,
        });
        self.pending_count += 1;
        budget.export.submit(slot);
    }

    /// Returns the number of bytes moved by a completed request, or its error.
    fn result(
        &mut self,
        pending: Pending,
        answer: Answer,
        budget: &mut Budget<'_>,
    ) -> Result<u32, Errno> {
        answer.result.map_err(failure)?;
        match pending.operation {
            Operation::Read => {
                let payload = budget.export.read_payload(answer.slot);
                let given = self.queue.write_payload(pending.tag, payload);
                given.map_err(|_| Errno::IO)?;
                self.moved.read_bytes += u64::from(pending.bytes);
                Ok(pending.bytes)
            }
            Operation::Write { .. } => Ok(pending.bytes),
            Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => Ok(0),
        }
    }

    fn flush_out(&mut self) {
        // Without answers the callers would wait forever.
        if self.queue.send().is_err() {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.is_gone = true;
        self.leaving.lost();
    }
}

impl Client for Kernel {
    fn origin(&self) -> Origin {
        Origin::kernel("ublk")
    }

    fn descriptor(&self) -> RawFd {
        self.queue.descriptor()
    }

    fn receive(&mut self, may_take: MayTake, budget: &mut Budget<'_>) -> Turn {
        self.fetch();
        for _ in 0..TURN_REQUESTS {
            if self.is_gone || self.leaving.stays() {
                return Turn::Drained;
            }
            let Some(ask) = self.next() else {
                return Turn::Drained;
            };
            if !may_take.fits(1, budget.export) {
                self.next = Some(ask);
                return Turn::Full;
            }
            self.take(ask, budget);
        }
        Turn::More
    }

    fn answered(&mut self, answer: Answer, budget: &mut Budget<'_>) {
        let pending = self.pending[answer.slot.index()].take();
        let pending = pending.expect("the slot has a request");
        self.pending_count -= 1;
        let result = self.result(pending, answer, budget);
        self.queue.answer(pending.tag, result);
        budget.export.give_back(answer.slot);
    }

    fn has_replies(&self) -> bool {
        !self.is_gone && self.queue.has_unsent()
    }

    fn send(&mut self, _: &mut Budget<'_>) -> bool {
        self.flush_out();
        !self.has_replies()
    }

    /// Requests are taken until the device has ended: only then no more come.
    fn take_no_more(&mut self) {
        if self.leaving.begin().is_err() {
            self.is_gone = true;
        }
    }

    fn end(&mut self, _: &mut Budget<'_>) {
        self.is_gone = true;
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn is_over(&self) -> bool {
        let no_more = self.is_gone || self.leaving.stays() && !self.queue.has_unsent();
        no_more && self.pending_count == 0
    }

    fn shut_down(&mut self) {
        // A broken ring is ready too.
        self.queue.wake().ok();
    }

    /// Never waits for the kernel.
    fn is_stuck(&mut self) -> bool {
        false
    }

    fn moved(&self) -> Moved {
        self.moved
    }
}

fn failure(error: RequestError) -> Errno {
    match error {
        RequestError::NoSpace => Errno::NOSPC,
        // The kernel reports no more detail to programs.
        RequestError::OutOfRange
        | RequestError::ReadOnly
        | RequestError::BeyondTolerance
        | RequestError::Corrupt
        | RequestError::InDoubt => Errno::IO,
    }
}
