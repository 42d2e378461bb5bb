//! The interface of all queues.

use crate::transfer::{FileIndex, Tag, Transfer};
use spindles_block::{BufferId, MemberResult};
use std::fmt::Debug;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

/// How long a turn may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Don't wait.
    No,
    /// Until a transfer ends or a descriptor is ready, at most this long.
    AtMost(Duration),
    /// Until a transfer ends or a descriptor is ready.
    Forever,
}

/// A descriptor to poll, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Must stay open until `id` was returned: before closing a socket, shut it down.
    pub descriptor: RawFd,
    /// The readiness to wait for.
    pub readiness: Readiness,
    /// Identifies the watch once it is ready. No two watches have the same id at a time.
    pub id: WatchId,
}

/// What to poll a descriptor for. If the peer closed it, or it has an error, it is ready for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Reading does not block.
    Read,
    /// Writing does not block.
    Write,
}

/// Identifies a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchId(pub u32);

/// Accepts transfers and returns their results, in any order.
pub trait Queue: Debug {
    /// Returns the queue's name, for records.
    fn name(&self) -> &'static str;

    /// Adds a file; it stays open until it is removed or the queue ends.
    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex>;

    /// Closes a file. Transfers in flight on it end as the kernel ends them.
    fn remove_file(&mut self, file: FileIndex);

    /// Announces a buffer at this address. The buffer must stay there until the queue is dropped.
    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize);

    /// Accepts a transfer. The next turn submits it, if nothing does earlier.
    fn start(&mut self, transfer: Transfer);

    /// Polls a descriptor in the following turns, until it is ready.
    fn watch(&mut self, watch: Watch) -> io::Result<()>;

    /// Restarts the queue's threads, if any, so that they inherit the calling thread's
    /// restrictions.
    fn restart_threads(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the next descriptor that a turn found ready.
    fn next_ready(&mut self) -> Option<WatchId>;

    /// Returns true if a descriptor is polled or ready.
    fn watches(&self) -> bool;

    /// Returns the next result that a turn collected.
    fn next_done(&mut self) -> Option<(Tag, MemberResult)>;

    /// Submits started transfers.
    fn hand_over(&mut self);

    /// Submits started transfers, and collects completed ones.
    fn turn(&mut self, wait: Wait);

    /// Transfers started, but not yet returned by `next_done`.
    fn in_flight(&self) -> usize;
}
