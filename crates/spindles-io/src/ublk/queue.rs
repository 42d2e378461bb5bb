//! Where the requests of a device come from and their answers go to.
//!
//! Each tag has one command in the ring at a time: it ends when a request of that tag has come, and the next command of
//! the tag answers it and waits for another. What is asked lies in memory that the driver writes and nobody else.

#![expect(unsafe_code, reason = "memory that the kernel writes")]

use super::messages::{ANSWER_BYTES, ASK_BYTES, Ask, answer, payload_position};
use super::operations;
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

/// Marks what is no tag.
const WOKEN: u64 = 1 << 63;

/// What has come of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A request, to be answered.
    Ask(Ask),
    /// No more will come of it: the device has ended.
    Ended,
}

/// The only queue of a device. Whoever fetched first is the only thread that may go on.
pub struct Queue {
    /// Goes first: then nothing works on what follows.
    ring: IoUring,
    asks: Asks,
    device: File,
    depth: u16,
    /// Commands wait in the ring that the kernel has not taken.
    has_unsent: bool,
}

impl Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:?})", self.device)
    }
}

impl Queue {
    /// The queue of a device that is made, or is to be taken over. Nobody else may have it.
    ///
    /// # Errors
    ///
    /// As the system says.
    pub fn open(number: u32, depth: u16) -> io::Result<Self> {
        let path = format!("/dev/ublkc{number}");
        let device = File::options().read(true).write(true).open(path)?;
        // One more, to wake.
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

    /// Ready to be read from when something has come.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// How many tags there are.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Waits for requests of all tags, from the next [`Queue::send`] on. Once.
    pub fn fetch_all(&mut self) {
        for tag in 0..self.depth {
            self.push(tag, operations::FETCH, Ok(0));
        }
    }

    /// What has come next, if anything has.
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

    /// Gets what a request writes.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn read_payload(&self, tag: u16, into: &mut [u8]) -> io::Result<()> {
        self.device.read_exact_at(into, payload_position(tag))
    }

    /// Gives what a request reads.
    ///
    /// # Errors
    ///
    /// As the driver says.
    pub fn write_payload(&self, tag: u16, from: &[u8]) -> io::Result<()> {
        self.device.write_all_at(from, payload_position(tag))
    }

    /// Answers a request, with the next [`Queue::send`]: so many bytes were moved, or why not.
    pub fn answer(&mut self, tag: u16, result: Result<u32, Errno>) {
        self.push(tag, operations::ANSWER_AND_FETCH, result);
    }

    /// Whether something waits to be sent.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.has_unsent
    }

    /// Sends what waits for that. Afterwards some of it may still wait.
    ///
    /// # Errors
    ///
    /// The ring is broken.
    pub fn send(&mut self) -> io::Result<()> {
        let sent = self.ring.submit();
        self.has_unsent = !{ self.ring.submission() }.is_empty();
        match sent {
            Err(error) if !passes(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whoever waits for the descriptor finds it ready.
    ///
    /// # Errors
    ///
    /// The ring is broken.
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
        // SAFETY: these commands have no memory: payload is copied by other calls.
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

/// What is asked, by tags.
struct Asks {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its mapping, as a box does.
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

    /// What the request of a tag asks, which has come and is not answered.
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
