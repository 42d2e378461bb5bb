//! Devices that answer later, by themselves: they have descriptors that are waited for where the kernel's queue is.

use crate::at_rest::AtRest;
use crate::buffers::Memory;
use crate::queues::Readiness;
use crate::transfer::Tag;
use spindles_block::{MemberResult, Operation};
use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

/// Descriptors that one device looks out for at once, at most.
pub(crate) const LOOKOUTS: usize = 2;

/// One operation of such a device, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) tag: Tag,
    pub(crate) operation: Operation,
    pub(crate) offset_bytes: u64,
    pub(crate) bytes: u64,
    /// Is the device's until the operation is done.
    pub(crate) memory: Memory,
}

/// A device that takes operations, and gives their results when it has them. No call waits for anything, but for
/// `prepare` and `at_rest`.
pub(crate) trait Later: Debug {
    /// It is about to be used. `zeros` is memory of as many zeros as one operation has.
    fn prepare(&mut self, zeros: Memory) -> io::Result<()>;

    /// Takes an operation.
    fn start(&mut self, job: Job);

    /// Goes as far as it can without waiting.
    fn advance(&mut self);

    /// A descriptor that is to be looked out for from now on, in that place, and for what. It stays open until `ready`
    /// is called for the place.
    fn next_watch(&mut self, place: usize) -> Option<(RawFd, Readiness)>;

    /// The descriptor in that place is ready.
    fn ready(&mut self, place: usize);

    /// The next operation that is done.
    fn next_done(&mut self) -> Option<(Tag, MemberResult)>;

    /// Whether there is one.
    fn has_done(&self) -> bool;

    /// When `advance` has something to do at the latest, whatever is ready.
    fn wake_at(&self) -> Option<Instant>;

    /// Operations taken and not yet given back by `next_done`.
    fn in_flight(&self) -> usize;

    /// Nothing more is asked of it. Its descriptors stay open until nobody looks out for them.
    fn end(&mut self);

    /// The same device for whoever waits.
    fn at_rest(self: Box<Self>) -> Box<dyn AtRest>;
}
