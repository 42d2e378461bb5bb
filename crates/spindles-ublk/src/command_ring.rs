//! A ring of commands to a device that sends requests, as the kernel does over FUSE. Each command
//! carries the answer to the previous request, and completes when the next request arrives.
//!
//! ```text
//!  here: the entry's memory holds the request ──push──▶ away: the kernel has it ──next──▶ here
//! ```
//!
//! Each *entry* is one command at a time, with its own memory: a head, and room for payload. While
//! the entry is away, only the kernel reads and fills that memory.

#![expect(
    unsafe_code,
    reason = "the kernel reads and writes memory by its address"
)]

use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use spindles_device::buffers::Region;
use std::fmt::{self, Debug};
use std::io;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

/// Bytes of a command that the device interprets.
pub const COMMAND_BYTES: usize = 80;
/// Offset of the length field in a submission entry.
const LENGTH_AT: usize = 24;
/// User data of the poll on the device itself, which has no entry.
const DEVICE: u64 = u64::MAX;

const _: () = assert!(size_of::<Entry128>() == 128, "the kernel's layout");
const _: () = assert!(size_of::<[usize; 4]>() == 2 * size_of::<libc::iovec>());

/// Sizes of a command ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRingLimits {
    /// Commands in flight at once.
    pub entries: u16,
    /// The head of an entry, in bytes.
    pub head_bytes: usize,
    /// Room for the payload of an entry, in bytes.
    pub payload_bytes: usize,
}

/// A completion from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// The command of this entry completed with this result; negative is an error. The entry's
    /// memory is accessible again.
    Entry(u16, i32),
    /// The device is ready to read, or has ended. It is no longer polled.
    Device,
}

/// The ring. All calls come from one thread.
pub struct CommandRing {
    /// Dropped first: after the ring is closed the kernel no longer uses the memory. The kernel's
    /// deferred work for this thread runs only in `enter`.
    ring: IoUring<Entry128, cqueue::Entry>,
    device: OwnedFd,
    limits: CommandRingLimits,
    heads: Region,
    payloads: Region,
    /// Head and payload of each entry, as an array of two `iovec`: address and length.
    places: Vec<[usize; 4]>,
    is_away: Vec<bool>,
    /// Commands pushed but not yet submitted.
    waiting: u32,
}

impl Debug for CommandRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandRing({:?})", self.limits)
    }
}

impl CommandRing {
    /// Creates a ring on this device, for use by the calling thread only.
    ///
    /// # Errors
    ///
    /// The kernel has no such rings (Linux before 6.1), or memory is short.
    pub fn new(device: impl AsFd, limits: CommandRingLimits) -> io::Result<Self> {
        let entries = usize::from(limits.entries);
        let commands = u32::from(limits.entries) + 1;
        let mut builder = IoUring::<Entry128, cqueue::Entry>::builder();
        // Defer the kernel's work for this thread until the thread enters. One call then serves
        // many requests, and the kernel never writes into memory of an entry that is back here.
        builder
            .setup_cqsize(commands * 2)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag();
        let ring = builder.build(commands)?;
        Ok(Self {
            ring,
            device: device.as_fd().try_clone_to_owned()?,
            heads: Region::new(limits.head_bytes * entries)?,
            payloads: Region::new(limits.payload_bytes * entries)?,
            places: vec![[0; 4]; entries],
            is_away: vec![false; entries],
            waiting: 0,
            limits,
        })
    }

    /// Registers an `eventfd` that the kernel increments for each completion. Polling the ring
    /// itself is useless, because it becomes ready only when the thread enters it.
    ///
    /// # Errors
    ///
    /// The kernel refuses the counter.
    pub fn signal(&self, counter: impl AsFd) -> io::Result<()> {
        let counter = counter.as_fd().as_raw_fd();
        self.ring.submitter().register_eventfd(counter)
    }

    /// Returns the sizes that the ring was made with.
    #[must_use]
    pub fn limits(&self) -> CommandRingLimits {
        self.limits
    }

    /// Returns the head of an entry that the kernel does not have.
    #[must_use]
    pub fn head(&self, entry: u16) -> &[u8] {
        let range = self.range(entry, self.limits.head_bytes);
        &self.heads.bytes()[range]
    }

    /// Returns the head of an entry that is here, for writing.
    pub fn head_mut(&mut self, entry: u16) -> &mut [u8] {
        let range = self.range(entry, self.limits.head_bytes);
        &mut self.heads.bytes_mut()[range]
    }

    /// Returns the payload of an entry that the kernel does not have.
    #[must_use]
    pub fn payload(&self, entry: u16) -> &[u8] {
        let range = self.range(entry, self.limits.payload_bytes);
        &self.payloads.bytes()[range]
    }

    /// Returns the payload of an entry that is here, for writing.
    pub fn payload_mut(&mut self, entry: u16) -> &mut [u8] {
        let range = self.range(entry, self.limits.payload_bytes);
        &mut self.payloads.bytes_mut()[range]
    }

    /// Returns the range of an entry in a region with `bytes` for each entry.
    fn range(&self, entry: u16, bytes: usize) -> Range<usize> {
        let entry = usize::from(entry);
        assert!(!self.is_away[entry], "the kernel has it");
        entry * bytes..(entry + 1) * bytes
    }

    /// Pushes an entry's first command, which gives the kernel the addresses of its head and
    /// payload. The next `enter` submits it.
    pub fn introduce(&mut self, entry: u16, command: u32, data: &[u8; COMMAND_BYTES]) {
        let (head, payload) = (self.head(entry), self.payload(entry));
        let place = |memory: &[u8]| (memory.as_ptr().expose_provenance(), memory.len());
        let ((head, head_bytes), (payload, payload_bytes)) = (place(head), place(payload));
        let places = &mut self.places[usize::from(entry)];
        *places = [head, head_bytes, payload, payload_bytes];
        let address = places.as_ptr().expose_provenance();
        let address = u64::try_from(address).expect("64 bits");
        let built = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), command);
        let mut built = built.cmd(*data).addr(Some(address)).build();
        let length: u32 = 2;
        // The `io_uring` crate has no setter for this field.
        // SAFETY: all 128 bytes of the entry are plain numbers, and these four lie within them.
        unsafe {
            let bytes = std::ptr::from_mut(&mut built).cast::<u8>();
            bytes.add(LENGTH_AT).cast::<u32>().write_unaligned(length);
        }
        self.send(entry, built);
    }

    /// Pushes the next command of an entry. The next `enter` submits it.
    pub fn push(&mut self, entry: u16, command: u32, data: &[u8; COMMAND_BYTES]) {
        let built = opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), command);
        self.send(entry, built.cmd(*data).build());
    }

    fn send(&mut self, entry: u16, built: Entry128) {
        let is_away = &mut self.is_away[usize::from(entry)];
        assert!(!std::mem::replace(is_away, true), "the kernel has it");
        self.submit(&built.user_data(entry.into()));
    }

    /// Polls the device itself, until `next_arrived` returns `Arrived::Device`.
    pub fn watch_device(&mut self) {
        let events = u32::try_from(libc::POLLIN).expect("a bit");
        let watch = opcode::PollAdd::new(Fd(self.device.as_raw_fd()), events).build();
        self.submit(&Entry128::from(watch.user_data(DEVICE)));
    }

    fn submit(&mut self, built: &Entry128) {
        // SAFETY: the memory of the entry lives as long as the ring, and is not accessed until the
        // entry is here again. A poll has no memory.
        let pushed = unsafe { self.ring.submission().push(built) };
        pushed.expect("there is room for all entries and a watch");
        self.waiting += 1;
    }

    /// Returns true if commands wait for the next `enter`.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        self.waiting > 0
    }

    /// Submits the pushed commands, and runs the kernel's deferred work for this thread.
    ///
    /// # Errors
    ///
    /// The ring is broken.
    pub fn enter(&mut self) -> io::Result<()> {
        let flags = EnterFlags::GETEVENTS.bits();
        // SAFETY: the call passes no argument.
        let entered = unsafe {
            let submitter = self.ring.submitter();
            submitter.enter::<libc::sigset_t>(self.waiting, 0, flags, None)
        };
        match entered {
            Ok(taken) => self.waiting -= u32::try_from(taken).expect("no more than there were"),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns true if `enter` or `next_arrived` would bring something. Costs no system call.
    pub fn has_news(&mut self) -> bool {
        let is_due = {
            let submission = self.ring.submission();
            submission.taskrun() || submission.cq_overflow()
        };
        is_due || !{ self.ring.completion() }.is_empty()
    }

    /// Returns the next completion, `None` if there is none.
    pub fn next_arrived(&mut self) -> Option<Arrived> {
        let arrived = { self.ring.completion().next() }?;
        if arrived.user_data() == DEVICE {
            return Some(Arrived::Device);
        }
        let entry = u16::try_from(arrived.user_data()).expect("we named it");
        self.is_away[usize::from(entry)] = false;
        Some(Arrived::Entry(entry, arrived.result()))
    }
}

/// Returns true for errors of `enter` that pass: call it again later.
fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
    error
        .raw_os_error()
        .is_some_and(|code| passing.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::fs::File;
    use std::time::{Duration, Instant};

    const LIMITS: CommandRingLimits = CommandRingLimits {
        entries: 3,
        head_bytes: 288,
        payload_bytes: 8192,
    };

    fn arrived(ring: &mut CommandRing) -> Arrived {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            ring.enter().unwrap();
            if let Some(arrived) = ring.next_arrived() {
                return arrived;
            }
        }
        panic!("nothing comes back");
    }

    /// `/dev/null` completes each command at once, with success or an error.
    #[test]
    fn submitted_commands_complete() {
        let null = File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap();
        let mut ring = match CommandRing::new(&null, LIMITS) {
            Ok(ring) => ring,
            Err(error) => return println!("SKIPPED: submitted_commands_complete: {error}"),
        };
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        ring.signal(&counter).unwrap();
        assert!(!ring.has_commands() && !ring.has_news());
        assert_eq!((ring.head(2).len(), ring.payload(2).len()), (288, 8192));
        for round in 0..3_u8 {
            ring.payload_mut(2).fill(round);
            if round == 0 {
                ring.introduce(2, 1, &[0; COMMAND_BYTES]);
            } else {
                ring.push(2, 2, &[0; COMMAND_BYTES]);
            }
            assert!(ring.has_commands());
            let Arrived::Entry(2, result) = arrived(&mut ring) else {
                panic!("another came");
            };
            assert!(result <= 0 && !ring.has_commands());
            assert!(ring.payload(2).iter().all(|byte| *byte == round));
            let mut count = [0; 8];
            assert_eq!(rustix::io::read(&counter, &mut count), Ok(8));
        }
        // `/dev/null` is always ready to read and write.
        ring.watch_device();
        assert_eq!(arrived(&mut ring), Arrived::Device);
    }

    #[test]
    #[should_panic(expected = "the kernel has it")]
    fn the_payload_of_a_command_in_flight_is_inaccessible() {
        let null = File::open("/dev/null").unwrap();
        // On kernels without such rings the test panics here, and so passes.
        let mut ring =
            CommandRing::new(&null, LIMITS).unwrap_or_else(|_| panic!("the kernel has it not"));
        ring.push(0, 2, &[0; COMMAND_BYTES]);
        assert!(ring.payload(0).is_empty());
    }
}
