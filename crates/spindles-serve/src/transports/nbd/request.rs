//! Requests of a connection, from the header to the last byte of the reply.

use crate::client::why;
use spindles_array::export::{Export, SlotId};
use spindles_block::RequestError;
use spindles_nbd::transmission::{Command, Failure, Request};

/// Progress of a request:
///
/// ```text
/// Receiving ──▶ Served ──▶ Replying ──▶ free
///     │           ▲            ▲
///     └───────────┴── (nothing to receive, or to serve)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestStage {
    /// The payload is being received.
    Receiving,
    /// The export executes it.
    Served,
    /// The reply is queued or being sent.
    Replying,
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) stage: RequestStage,
    pub(crate) request: Request,
    /// Slots of its parts, in order. All but the last have the maximum length of an access.
    pub(crate) parts: Vec<SlotId>,
    /// Number of parts in progress.
    pub(crate) unanswered: usize,
    /// Offset of the next step, for commands that are executed step by step.
    pub(crate) next_bytes: u64,
    pub(crate) failed: Option<(Failure, &'static str)>,
    /// The reply without its data.
    pub(crate) head: Vec<u8>,
}

impl Pending {
    /// Returns true if read data follows the head of the reply.
    pub(crate) fn replies_with_data(&self) -> bool {
        self.request.command == Command::Read && self.failed.is_none()
    }

    /// Returns the length of the reply in bytes.
    pub(crate) fn reply_bytes(&self) -> usize {
        let data = if self.replies_with_data() {
            self.request.bytes
        } else {
            0
        };
        self.head.len() + usize::try_from(data).expect("no more than an export has room for")
    }

    /// Records the result of a part.
    pub(crate) fn answered(&mut self, result: Result<(), RequestError>) {
        self.unanswered -= 1;
        if let Err(error) = result {
            self.failed.get_or_insert(failure(error));
        }
    }
}

/// Maps an error to the protocol's error and a message.
fn failure(error: RequestError) -> (Failure, &'static str) {
    let failure = match error {
        RequestError::OutOfRange => Failure::Invalid,
        RequestError::ReadOnly => Failure::Permission,
        RequestError::BeyondTolerance | RequestError::Corrupt | RequestError::InDoubt => {
            Failure::Io
        }
        RequestError::NoSpace => Failure::NoSpace,
    };
    (failure, why(error))
}

/// All requests of a connection.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Vec<Pending>,
    free: Vec<usize>,
    /// The request of each slot of the export.
    of_slots: Vec<usize>,
}

impl Requests {
    /// Adds a request without parts; returns its index.
    pub(crate) fn add(&mut self, request: Request) -> usize {
        if let Some(index) = self.free.pop() {
            let pending = &mut self.all[index];
            pending.stage = RequestStage::Replying;
            pending.request = request;
            pending.unanswered = 0;
            pending.next_bytes = 0;
            pending.failed = None;
            return index;
        }
        self.all.push(Pending {
            stage: RequestStage::Replying,
            request,
            parts: Vec::new(),
            unanswered: 0,
            next_bytes: 0,
            failed: None,
            head: Vec::new(),
        });
        self.all.len() - 1
    }

    pub(crate) fn get(&self, index: usize) -> &Pending {
        &self.all[index]
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> &mut Pending {
        &mut self.all[index]
    }

    /// Adds a slot to the parts of a request.
    pub(crate) fn add_part(&mut self, index: usize, slot: SlotId) {
        if self.of_slots.len() <= slot.index() {
            self.of_slots.resize(slot.index() + 1, usize::MAX);
        }
        self.of_slots[slot.index()] = index;
        self.all[index].parts.push(slot);
    }

    /// Returns the request of a slot.
    pub(crate) fn of_slot(&self, slot: SlotId) -> usize {
        self.of_slots[slot.index()]
    }

    /// Returns true if no request is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.all.len()
    }

    /// Removes a completed request, and frees its slots.
    pub(crate) fn remove(&mut self, index: usize, export: &mut Export) {
        let pending = &mut self.all[index];
        assert_eq!(pending.unanswered, 0, "the export still has it");
        for slot in pending.parts.drain(..) {
            export.give_back(slot);
        }
        pending.head.clear();
        self.free.push(index);
    }
}
