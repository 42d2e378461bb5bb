//! What every queue does.

use crate::transfer::{FileIndex, Tag, Transfer};
use spindles_block::{BufferId, MemberResult};
use std::fmt::Debug;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

/// How long a turn may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No longer than it takes.
    No,
    /// Until a transfer ends or a descriptor is ready, or so long.
    AtMost(Duration),
    /// Until a transfer ends or a descriptor is ready.
    Forever,
}

/// A descriptor that is looked out for, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Stays open until its id was given back: a socket that is to be closed is shut down before.
    pub descriptor: RawFd,
    /// What it is waited for.
    pub readiness: Readiness,
    /// Names it when it is ready. Of each there is one at a time.
    pub id: WatchId,
}

/// What a descriptor is waited for. Where it was closed by the other side, or has an error, it is ready for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Something can be read.
    Read,
    /// Something can be written.
    Write,
}

/// Names a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchId(pub u32);

/// Takes transfers and gives results, in any order.
pub(crate) trait Queue: Debug {
    /// For records.
    fn name(&self) -> &'static str;

    /// Takes a file; it stays open as long as the queue, or until it is removed.
    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex>;

    /// Closes a file. What is still under way on it ends as the kernel ends it.
    fn remove_file(&mut self, file: FileIndex);

    /// A buffer was made at this place; it stays there as long as the queue.
    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize);

    /// Takes the operation; it goes to the kernel with the next turn, if not before.
    fn start(&mut self, transfer: Transfer);

    /// Looks out for a descriptor with the turns that follow, until it is ready.
    fn watch(&mut self, watch: Watch) -> io::Result<()>;

    /// Its threads, where it has some, begin anew: with what the calling thread may.
    fn restart_threads(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The next descriptor that a turn has found ready.
    fn next_ready(&mut self) -> Option<WatchId>;

    /// Whether a descriptor is looked out for, or one is ready.
    fn watches(&self) -> bool;

    /// The next result that a turn has collected.
    fn next_done(&mut self) -> Option<(Tag, MemberResult)>;

    /// Hands over what was started.
    fn hand_over(&mut self);

    /// Hands over what was started and collects what has ended.
    fn turn(&mut self, wait: Wait);

    /// Transfers started and not yet given back by `next_done`.
    fn in_flight(&self) -> usize;
}
