//! Operations, the requests that they consist of, and their places in memory.

use crate::buffers::{Memory, Pieces};
use crate::later::Job;
use spindles_block::MemberError;
use spindles_nbd::CommandFlags;
use spindles_nbd::replies::{Asked, Awaited};
use spindles_nbd::transmission::{Command, Headers, Request};
use std::ptr::NonNull;

/// The longest head of a request, in bytes.
pub(super) const HEAD_BYTES: usize = Request::encoded_bytes(Headers::Extended);

/// An operation and its progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operating {
    pub(super) job: Job,
    /// Bytes put into requests so far.
    pub(super) asked_bytes: u64,
    /// Unanswered requests.
    pub(super) open: u32,
    pub(super) error: Option<MemberError>,
    /// Set if zeros are written as data, because the server can't make them.
    pub(super) writes_zeros: bool,
    /// Set if a flush must follow, because the server has no FUA.
    pub(super) then_flushes: bool,
}

/// The data of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload {
    /// One piece of memory, which begins with the data.
    Memory(Memory),
    /// The pieces of the operation's memory, from `from_bytes` on.
    Pieces(Pieces),
}

impl Payload {
    /// Returns the data of a write from byte `from_bytes` on.
    pub(super) fn of(job: &Job, from_bytes: u64) -> Self {
        match job.pieces {
            None => Self::Memory(at_memory(job.memory, from_bytes)),
            Some(pieces) => Self::Pieces(pieces),
        }
    }

    /// Returns the places of the data of a request of `bytes` bytes without its first `skipped`.
    /// The request begins `from_bytes` within the pieces.
    pub(super) fn places(
        &self,
        from_bytes: u64,
        bytes: usize,
        skipped: usize,
    ) -> impl Iterator<Item = libc::iovec> {
        let left = bytes - skipped;
        let memory = match self {
            Self::Memory(memory) if left > 0 => Some(libc::iovec {
                iov_base: memory.start.as_ptr().wrapping_add(skipped).cast(),
                iov_len: left,
            }),
            _ => None,
        };
        let pieces = match self {
            Self::Memory(_) => None,
            Self::Pieces(pieces) => Some(pieces.places(index(from_bytes) + skipped, left)),
        };
        memory.into_iter().chain(pieces.into_iter().flatten())
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) operation: usize,
    pub(super) awaited: Awaited,
    pub(super) cookie: u64,
    pub(super) flags: CommandFlags,
    /// Data that follows the head. `from_bytes` is where the request starts in the operation's
    /// memory.
    pub(super) payload: Option<Payload>,
    pub(super) from_bytes: u64,
    pub(super) head: [u8; HEAD_BYTES],
    /// Set once the socket took any byte of the request.
    pub(super) is_sent: bool,
    /// Changes answered before this request was made; a flush makes these durable.
    pub(super) covers: u64,
}

impl Operating {
    /// Creates an operation without requests.
    pub(super) fn new(job: Job) -> Self {
        Self {
            job,
            asked_bytes: 0,
            open: 0,
            error: None,
            writes_zeros: false,
            then_flushes: false,
        }
    }
}

impl Asking {
    /// Creates a request without flags and payload, for `bytes` from `offset_bytes` on.
    pub(super) fn new(
        operation: usize,
        command: Command,
        (offset_bytes, bytes): (u64, u64),
    ) -> Self {
        Self {
            operation,
            awaited: Awaited::new(command, offset_bytes, bytes),
            cookie: 0,
            flags: CommandFlags::default(),
            payload: None,
            from_bytes: 0,
            head: [0; HEAD_BYTES],
            is_sent: false,
            covers: 0,
        }
    }

    /// Returns true if the request changes the export, but does not make the change durable.
    pub(super) fn leaves_undurable(&self) -> bool {
        self.changes() && !self.flags.contains(CommandFlags::FUA)
    }

    pub(super) fn changes(&self) -> bool {
        !matches!(self.awaited.command, Command::Read | Command::Flush)
    }
}

/// Slots that are reused after their release.
#[derive(Debug)]
pub(super) struct Slots<T> {
    pub(super) all: Vec<Option<T>>,
    pub(super) free: Vec<usize>,
}

impl<T> Slots<T> {
    pub(super) fn with_capacity(room: usize) -> Self {
        Self {
            all: Vec::with_capacity(room),
            free: Vec::with_capacity(room),
        }
    }

    pub(super) fn put(&mut self, it: T) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[at] = Some(it);
        at
    }

    pub(super) fn take(&mut self, at: usize) -> T {
        self.free.push(at);
        self.all[at].take().expect("it is in use")
    }

    pub(super) fn get(&self, at: usize) -> &T {
        self.all[at].as_ref().expect("it is in use")
    }

    pub(super) fn get_mut(&mut self, at: usize) -> &mut T {
        self.all[at].as_mut().expect("it is in use")
    }

    pub(super) fn in_use(&self) -> usize {
        self.all.len() - self.free.len()
    }
}

impl Asked for Slots<Asking> {
    fn awaited(&mut self, cookie: u64) -> Option<&mut Awaited> {
        let asking = self.all.get_mut(slot_of(cookie))?.as_mut()?;
        let is_asked = asking.cookie == cookie && asking.is_sent;
        is_asked.then_some(&mut asking.awaited)
    }
}

/// Returns the slot of the request with this cookie. A cookie also contains a serial number, so
/// that a late reply is not matched to another request in the slot.
pub(super) fn slot_of(cookie: u64) -> usize {
    usize::try_from(cookie & 0xFFFF).expect("16 bits")
}

/// Returns the place `bytes` further on in memory. It is only an address until it is accessed.
pub(super) fn at_memory(memory: Memory, bytes: u64) -> Memory {
    let start = memory.start.as_ptr().wrapping_add(index(bytes));
    Memory {
        start: NonNull::new(start).expect("memory does not wrap around"),
        buffer: memory.buffer,
    }
}

pub(super) fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("64 bits")
}

pub(super) fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("64 bits")
}
