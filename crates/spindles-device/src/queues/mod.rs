//! Queues that carry transfers on files and devices to the kernel and back: `io_uring`, or a pool
//! of threads if that is forbidden.

mod queue;
mod threads;
mod uring;

pub use queue::{Queue, Wait};
pub use queue::{Readiness, Watch, WatchId};

use crate::buffers::Memory;
use crate::{IoChoice, OpenError};

/// A queue, and the reason if it is not `io_uring`.
#[derive(Debug)]
pub struct Chosen {
    /// The queue.
    pub queue: Box<dyn Queue>,
    /// The reason for threads.
    pub reason: Option<String>,
}

/// Opens the requested queue, or with `Auto` the best available one. `zeros` is memory with the
/// most zeros that one call writes.
pub fn open(choice: IoChoice, zeros: Memory) -> Result<Chosen, OpenError> {
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
