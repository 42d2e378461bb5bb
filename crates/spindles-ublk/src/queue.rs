//! The queue that delivers the requests of a device and takes their answers.
//!
//! Each tag has one command in the ring at a time. It completes when a request for the tag arrives;
//! the next command answers that request and waits for another. The requests themselves are in
//! memory that only the driver writes.

#![expect(unsafe_code, reason = "memory that the kernel writes")]

use crate::messages::{ANSWER_BYTES, ASK_BYTES, Ask, answer, payload_position};
use crate::operations;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::fs::FileExt as _;
use std::ptr::{self, NonNull};

/// Marks a wake-up instead of a tag.
const WOKEN: u64 = 1 << 63;

/// An arrival for a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A request that must be answered.
    Ask(Ask),
    /// The device has stopped; the tag gets no more requests.
    Ended,
}

/// The only queue of a device. Only the thread that fetched first may use it.
pub struct Queue {
    /// Dropped first, so that no command uses the fields below any longer.
    ring: IoUring,
    asks: Asks,
    device: File,
    depth: u16,
    /// True if the ring has commands that the kernel has not taken.
    has_unsent: bool,
}

impl Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:?})", self.device)
    }
}

impl Queue {
    /// Opens the queue of a new device, or of a device to take over. No other process may have the
    /// queue open.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn open(number: u32, depth: u16) -> io::Result<Self> {
        let path = format!("/dev/ublkc{number}");
        let device = File::options().read(true).write(true).open(path)?;
        // One more, for wake-ups.
        let ring = IoUring::new(u32::from(depth) + 1)?;
        let asks = Asks::map(&device, depth)?;
        Ok(Self {
            ring,
            asks,
            device,
            depth,
            has_unsent: false,
        })
    }

    /// Returns a descriptor that is readable once something has arrived.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Returns the number of tags.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Waits for requests of all tags, from the next [`Queue::send`] on. Call it once.
    pub fn fetch_all(&mut self) {
        for tag in 0..self.depth {
            self.push(tag, operations::FETCH, Ok(0));
        }
    }

    /// Returns the next arrival; `None` if there is none yet.
    pub fn next_arrived(&mut self) -> Option<Arrived> {
        loop {
            let entry = { self.ring.completion() }.next()?;
            if entry.user_data() == WOKEN {
                continue;
            }
            let tag = u16::try_from(entry.user_data()).expect("we named it");
            return Some(match entry.result() {
                0 => Arrived::Ask(Ask::decode(tag, &self.asks.read(tag))),
                _ => Arrived::Ended,
            });
        }
    }

    /// Reads the payload of a write request.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn read_payload(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(into, payload_position(tag))
    }

    /// Supplies the payload of a read request.
    ///
    /// # Errors
    ///
    /// The error of the driver.
    pub fn write_payload(&self, tag: u16, from: &[u8]) -> io::Result<()> {
        self.device.write_all_at(from, payload_position(tag))
    }

    /// Answers a request with the bytes moved or an error, at the next [`Queue::send`].
    pub fn answer(&mut self, tag: u16, result: Result<u32, Errno>) {
        self.push(tag, operations::ANSWER_AND_FETCH, result);
    }

    /// Returns true if commands are waiting to be sent.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.has_unsent
    }

    /// Sends waiting commands. Afterwards `has_unsent` returns true if the kernel did not take all
    /// commands.
    ///
    /// # Errors
    ///
    /// If the ring is broken.
    pub fn send(&mut self) -> io::Result<()> {
        let sent = self.ring.submit();
        self.has_unsent = !{ self.ring.submission() }.is_empty();
        match sent {
            Err(error) if !passes(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the descriptor readable, which wakes its waiter.
    ///
    /// # Errors
    ///
    /// If the ring is broken.
    pub fn wake(&mut self) -> io::Result<()> {
        self.push_entry(&opcode::Nop::new().build().user_data(WOKEN));
        self.send()
    }

    fn push(&mut self, tag: u16, operation: u32, result: Result<u32, Errno>) {
        let command: [u8; ANSWER_BYTES] = answer(tag, result);
        let entry = opcode::UringCmd16::new(Fd(self.device.as_raw_fd()), operation);
        let entry = entry.cmd(command).build();
        self.push_entry(&entry.user_data(tag.into()));
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        // SAFETY: these commands pass no memory to the kernel. Separate calls copy the payload.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("a tag has one command at a time");
        self.has_unsent = true;
    }
}

fn passes(error: &io::Error) -> bool {
    let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
    let passing = passing.map(Errno::raw_os_error).map(Some);
    passing.contains(&error.raw_os_error())
}

/// The requests, by tag.
struct Asks {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: `Asks` owns its mapping, like a `Box` its memory.
unsafe impl Send for Asks {}

impl Asks {
    fn map(device: &File, depth: u16) -> io::Result<Self> {
        let bytes = usize::from(depth) * ASK_BYTES;
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address, so no other memory is replaced.
        let start = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, flags, device, 0) }?;
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at zero");
        Ok(Self { start, bytes })
    }

    /// Reads the request of a tag that has arrived and is not answered.
    fn read(&self, tag: u16) -> [u8; ASK_BYTES] {
        let at = usize::from(tag) * ASK_BYTES;
        assert!(at + ASK_BYTES <= self.bytes, "there is no tag {tag}");
        // SAFETY: within the mapping, as just asserted, which can be read; bytes need no alignment.
        unsafe { ptr::read_volatile(self.start.as_ptr().add(at).cast()) }
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`, and nothing borrows it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
