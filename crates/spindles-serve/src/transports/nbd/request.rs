//! Requests of a connection, from their header to the last byte of their reply.

use crate::client::why;
use spindles_block::RequestError;
use spindles_io::export::{Export, SlotId};
use spindles_nbd::transmission::{Command, Failure, Request};

/// Where a request stands:
///
/// ```text
/// Receiving ──▶ Served ──▶ Replying ──▶ free
///     │           ▲            ▲
///     └───────────┴── (nothing to receive, or to serve)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its payload comes.
    Receiving,
    /// The export has it.
    Served,
    /// Its reply waits, or is being sent.
    Replying,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) stage: Stage,
    pub(crate) request: Request,
    /// Its parts, in order. Each holds as much of the payload as an access may have, but for the last.
    pub(crate) parts: Vec<SlotId>,
    /// Parts that are not answered.
    pub(crate) unanswered: usize,
    /// Where the next part begins, of what is done one part after the other.
    pub(crate) next_bytes: u64,
    pub(crate) failed: Option<(Failure, &'static str)>,
    /// The reply but for its payload.
    pub(crate) head: Vec<u8>,
}

impl Pending {
    /// Whether what was read follows the head of its reply.
    pub(crate) fn replies_with_data(&self) -> bool {
        self.request.command == Command::Read && self.failed.is_none()
    }

    /// How long its reply is.
    pub(crate) fn reply_bytes(&self) -> usize {
        let data = if self.replies_with_data() {
            self.request.bytes
        } else {
            0
        };
        self.head.len() + usize::try_from(data).expect("no more than an export has room for")
    }

    /// A part was answered.
    pub(crate) fn answered(&mut self, result: Result<(), RequestError>) {
        self.unanswered -= 1;
        if let Err(error) = result {
            self.failed.get_or_insert(failure(error));
        }
    }
}

/// The error, and the words for people, that a client gets for what failed.
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

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: Vec<Pending>,
    free: Vec<usize>,
    /// For each slot of the export its request.
    of_slots: Vec<usize>,
}

impl Requests {
    /// A new one; it has no parts.
    pub(crate) fn add(&mut self, request: Request) -> usize {
        if let Some(index) = self.free.pop() {
            let pending = &mut self.all[index];
            pending.stage = Stage::Replying;
            pending.request = request;
            pending.unanswered = 0;
            pending.next_bytes = 0;
            pending.failed = None;
            return index;
        }
        self.all.push(Pending {
            stage: Stage::Replying,
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

    /// The slot is a part of the request.
    pub(crate) fn add_part(&mut self, index: usize, slot: SlotId) {
        if self.of_slots.len() <= slot.index() {
            self.of_slots.resize(slot.index() + 1, usize::MAX);
        }
        self.of_slots[slot.index()] = index;
        self.all[index].parts.push(slot);
    }

    /// The request that a slot is a part of.
    pub(crate) fn of_slot(&self, slot: SlotId) -> usize {
        self.of_slots[slot.index()]
    }

    /// Whether all are over.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.all.len()
    }

    /// It is over: its slots are free.
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
