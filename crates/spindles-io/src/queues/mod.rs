//! What carries transfers on files and devices to the kernel and back: `io_uring`,
//! or a pool of threads where that is forbidden.

mod threads;
mod uring;

use crate::buffers::Memory;
use crate::transfer::{FileIndex, Tag, Transfer};
use crate::{IoChoice, OpenError};
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

    /// Hands over what was started and collects what has ended.
    fn turn(&mut self, wait: Wait);

    /// Transfers started and not yet given back by `next_done`.
    fn in_flight(&self) -> usize;
}

/// A queue, and why it is not `io_uring` where it is not.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) reason: Option<String>,
}

/// The queue that was asked for or, with `Auto`, the best to be had. `zeros` is memory from which
/// as many zeros can be read as one call writes.
pub(crate) fn open(choice: IoChoice, zeros: Memory) -> Result<Chosen, OpenError> {
    let (choice, asked_by) = match choice {
        IoChoice::Auto => (from_environment()?, "SPINDLES_IO"),
        choice => (choice, "the caller"),
    };
    let threads = |reason| Chosen {
        queue: Box::new(threads::Threads::new(zeros)),
        reason: Some(reason),
    };
    if choice == IoChoice::Threads {
        return Ok(threads(format!("{asked_by} asks for threads")));
    }
    match uring::Uring::new(zeros) {
        Ok(ring) => Ok(Chosen {
            queue: Box::new(ring),
            reason: None,
        }),
        Err(source) if choice == IoChoice::Uring => Err(OpenError::NoUring { source }),
        Err(source) => Ok(threads(format!("io_uring is not to be had: {source}"))),
    }
}

fn from_environment() -> Result<IoChoice, OpenError> {
    let Some(value) = std::env::var_os("SPINDLES_IO") else {
        return Ok(IoChoice::Auto);
    };
    match value.to_str() {
        Some("") => Ok(IoChoice::Auto),
        Some("io_uring") => Ok(IoChoice::Uring),
        Some("threads") => Ok(IoChoice::Threads),
        _ => Err(OpenError::Environment {
            value: value.to_string_lossy().into_owned(),
        }),
    }
}
