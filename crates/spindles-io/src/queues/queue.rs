//! What every queue does.

use crate::transfer::{FileIndex, Tag, Transfer};
use spindles_block::{BufferId, MemberResult};
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::time::Duration;

/// How long a turn may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No longer than it takes.
    No,
    /// Until a transfer ends, or so long.
    AtMost(Duration),
    /// Until a transfer ends.
    Forever,
}

/// Takes transfers and gives results, in any order.
pub(crate) trait Queue: Debug {
    /// For records.
    fn name(&self) -> &'static str;

    /// Takes a file; it stays open as long as the queue.
    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex>;

    /// A buffer was made at this place; it stays there as long as the queue.
    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize);

    /// Takes the operation; it goes to the kernel with the next turn, if not before.
    fn start(&mut self, transfer: Transfer);

    /// The next result that a turn has collected.
    fn next_done(&mut self) -> Option<(Tag, MemberResult)>;

    /// Hands over what was started.
    fn hand_over(&mut self);

    /// Hands over what was started and collects what has ended.
    fn turn(&mut self, wait: Wait);

    /// Transfers started and not yet given back by `next_done`.
    fn in_flight(&self) -> usize;
}
