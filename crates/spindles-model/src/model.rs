//! The interface of a modelled device: requests in, answers out.

use crate::account::Account;
use spindles_block::Operation;
use std::fmt::Debug;

/// The caller's own name for a request; the answer returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// A request as a device sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    pub(crate) tag: Tag,
    pub(crate) operation: Operation,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    /// The moment at which the command is at the device: now or later.
    pub(crate) arrived: u64,
    /// The moment from which the data of a write can flow without a stop.
    pub(crate) data_from: u64,
}

/// The answers that a device gives.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) answers: Vec<(Tag, u64, u64)>,
}

impl Outbox {
    /// Answers a request at a moment; `bytes` go to the host and end at that moment.
    pub(crate) fn answer(&mut self, tag: Tag, at: u64, bytes: u64) {
        self.answers.push((tag, at, bytes));
    }
}

/// A device of some kind.
pub(crate) trait Model: Debug + Send {
    fn capacity_bytes(&self) -> u64;
    /// The slowest link between the device and the host; called once, before any request.
    fn attach(&mut self, slowest_ps_per_byte: u64);
    fn submit(&mut self, io: &Io, out: &mut Outbox);
    /// An answer left the device: the device may begin the next request.
    fn finished(&mut self, now: u64, out: &mut Outbox);
    /// Returns true if the device takes a request before the answer to the one before it.
    fn queues(&self) -> bool {
        true
    }
    fn account(&self) -> Account;
}
