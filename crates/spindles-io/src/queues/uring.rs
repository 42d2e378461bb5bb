//! `io_uring`: one ring per target, shared by all its members, with registered files
//! and buffers. Everything started between two turns goes to the kernel in one call.

#![expect(unsafe_code, reason = "the kernel works on memory by address")]

use super::queue::{Queue, Readiness, Wait, Watch, WatchId};
use crate::buffers::Memory;
use crate::positioned::RETRY_DELAY;
use crate::transfer::{Abilities, After, Call, FileIndex, OpenFile, Tag, Transfer};
use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use spindles_block::{BufferId, MemberError, MemberResult};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Operations handed over in one call at most; more are handed over in several.
const SUBMISSIONS: u32 = 512;
/// Operations in the kernel at most; more wait their turn here.
const SLOTS: u16 = 1024;
/// Files of a ring at most.
const FILES: u32 = 256;
/// Buffers with a number below this are registered where the kernel lets us.
const BUFFERS: u32 = 1024;

/// Set in the number of what is no transfer, but a watch.
const WATCH: u64 = 1 << 63;

/// A buffer that may be registered. The kernel takes and pins all of its memory then, so it is registered
/// when as many bytes went through it as it has: whoever reads a superblock and ends pays nothing.
#[derive(Clone, Copy, Debug)]
enum Registration {
    /// There is none of that number, it has no memory yet, or the kernel refused it.
    None,
    /// So many bytes are to go through it until then.
    After {
        start: NonNull<u8>,
        bytes: usize,
        left: usize,
    },
    Done,
}

/// A ring.
#[derive(Debug)]
pub(super) struct Uring {
    /// Goes first: with the ring closed and drained, nothing works on what follows.
    ring: Ring,
    slots: Vec<Option<Transfer>>,
    free: Vec<u16>,
    backlog: VecDeque<Transfer>,
    /// Slots whose calls were put off, and when they are to be made again.
    later: VecDeque<(Instant, u16)>,
    done: VecDeque<(Tag, MemberResult)>,
    /// `None` for those that were removed.
    files: Vec<Option<(OpenFile, Abilities)>>,
    registrations: Vec<Registration>,
    in_flight: usize,
    /// Descriptors that are looked out for, and those that were found ready.
    watched: usize,
    ready: VecDeque<WatchId>,
    zeros: Memory,
}

struct Ring(IoUring);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ring")
    }
}

impl Uring {
    pub(super) fn new(zeros: Memory) -> io::Result<Self> {
        let ring = build()?;
        ring.submitter().register_files_sparse(FILES)?;
        // Without the table no buffer is registered, and everything else works.
        let buffers = match ring.submitter().register_buffers_sparse(BUFFERS) {
            Ok(()) => usize::try_from(BUFFERS).expect("64 bits"),
            Err(_) => 0,
        };
        Ok(Self {
            ring: Ring(ring),
            slots: vec![None; usize::from(SLOTS)],
            free: (0..SLOTS).rev().collect(),
            backlog: VecDeque::with_capacity(usize::from(SLOTS)),
            later: VecDeque::with_capacity(usize::from(SLOTS)),
            done: VecDeque::with_capacity(usize::from(SLOTS)),
            files: Vec::new(),
            registrations: vec![Registration::None; buffers],
            in_flight: 0,
            watched: 0,
            ready: VecDeque::new(),
            zeros,
        })
    }

    /// Puts the slot's next call into the ring.
    fn push(&mut self, slot: u16) {
        let transfer = self.slots[usize::from(slot)]
            .as_ref()
            .expect("a slot in use");
        let entry = self.entry(transfer).user_data(u64::from(slot));
        self.push_entry(&entry);
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the memory of a call is the driver's, who leaves it to the transfer until
            // it ends, and unmaps it only after this queue is gone; `drop` waits for all calls. A watch
            // has no memory.
            if unsafe { self.ring.0.submission().push(entry) }.is_ok() {
                return;
            }
            enter(self.ring.0.submit());
        }
    }

    fn entry(&self, transfer: &Transfer) -> squeue::Entry {
        let file = Fixed(u32::from(transfer.file.0));
        let offset = transfer.offset();
        let length = u32::try_from(transfer.length()).expect("one call moves less than 4 GiB");
        let done = usize::try_from(transfer.done()).expect("64 bits");
        // The place is computed without `unsafe`: it is only an address until the kernel has it.
        let start = transfer.memory.start.as_ptr().wrapping_add(done);
        let registered = u16::try_from(transfer.memory.buffer.0)
            .ok()
            .filter(|buffer| {
                let registration = self.registrations.get(usize::from(*buffer));
                matches!(registration, Some(Registration::Done))
            });
        match (transfer.call(), registered) {
            (Call::Read, Some(buffer)) => opcode::ReadFixed::new(file, start, length, buffer)
                .offset(offset)
                .build(),
            (Call::Read, None) => opcode::Read::new(file, start, length)
                .offset(offset)
                .build(),
            (Call::Write { durable }, Some(buffer)) => {
                opcode::WriteFixed::new(file, start, length, buffer)
                    .offset(offset)
                    .rw_flags(write_flags(durable))
                    .build()
            }
            (Call::Write { durable }, None) => opcode::Write::new(file, start, length)
                .offset(offset)
                .rw_flags(write_flags(durable))
                .build(),
            (Call::WriteZeros, _) => opcode::Write::new(file, self.zeros.start.as_ptr(), length)
                .offset(offset)
                .build(),
            (Call::Fdatasync, _) => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            (Call::PunchHole, _) => allocate(file, libc::FALLOC_FL_PUNCH_HOLE, offset, length),
            (Call::ZeroRange, _) => allocate(file, libc::FALLOC_FL_ZERO_RANGE, offset, length),
        }
    }

    /// Takes what the kernel has finished.
    fn reap(&mut self) {
        while let Some(entry) = { self.ring.0.completion().next() } {
            if entry.user_data() & WATCH != 0 {
                let id = u32::try_from(entry.user_data() & !WATCH).expect("we named it");
                self.watched -= 1;
                self.ready.push_back(WatchId(id));
                continue;
            }
            let slot = u16::try_from(entry.user_data()).expect("we named it");
            let transfer = self.slots[usize::from(slot)]
                .as_mut()
                .expect("a slot in use");
            let result = u64::try_from(entry.result())
                .map_err(|_| Errno::from_raw_os_error(-entry.result()));
            let after = match &mut self.files[usize::from(transfer.file.0)] {
                Some((file, abilities)) => transfer.advance(result, file, abilities),
                None => After::Done(Err(MemberError::Gone)),
            };
            match after {
                After::Again => self.push(slot),
                After::Later => self.later.push_back((Instant::now() + RETRY_DELAY, slot)),
                After::Done(result) => {
                    self.done.push_back((transfer.tag, result));
                    if let Some(next) = self.backlog.pop_front() {
                        self.occupy(slot, next);
                    } else {
                        self.slots[usize::from(slot)] = None;
                        self.free.push(slot);
                    }
                }
            }
        }
    }

    fn occupy(&mut self, slot: u16, transfer: Transfer) {
        self.note_use(&transfer);
        let file = self.files[usize::from(transfer.file.0)].as_ref();
        // Of one that was removed the kernel says so.
        let abilities = file.map_or(Abilities::ALL, |(_, abilities)| *abilities);
        self.slots[usize::from(slot)] = Some(transfer.limited_to(abilities));
        self.push(slot);
    }

    /// A transfer goes through a buffer, which is worth registering when many have.
    fn note_use(&mut self, transfer: &Transfer) {
        let index = transfer.memory.buffer.0;
        let at = usize::try_from(index).expect("64 bits");
        let Some(Registration::After { start, bytes, left }) = self.registrations.get_mut(at)
        else {
            return;
        };
        let length = usize::try_from(transfer.length()).expect("64 bits");
        *left = left.saturating_sub(length);
        if *left > 0 {
            return;
        }
        let vector = libc::iovec {
            iov_base: start.as_ptr().cast(),
            iov_len: *bytes,
        };
        let submitter = self.ring.0.submitter();
        // SAFETY: the driver keeps the memory where it is until this queue is gone.
        let result = unsafe { submitter.register_buffers_update(index, &[vector], None) };
        // Refused where it is too long or more than the user may lock: then it goes by address.
        self.registrations[at] = match result {
            Ok(()) => Registration::Done,
            Err(_) => Registration::None,
        };
    }

    /// Makes the calls again whose time has come. How long the next one has to wait.
    fn push_later(&mut self) -> Option<Duration> {
        while let Some(&(at, slot)) = self.later.front() {
            let left = at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left);
            }
            self.later.pop_front();
            self.push(slot);
        }
        None
    }

    /// Whether anything is in the kernel or on its way.
    fn busy(&self) -> bool {
        self.free.len() < self.slots.len()
    }
}

/// A ring as fast as this kernel can make one.
fn build() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(u32::from(SLOTS) * 2);
    let mut single = builder.clone();
    single
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag();
    match single.build(SUBMISSIONS) {
        // Linux before 6.1 does not know these.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => builder.build(SUBMISSIONS),
        built => built,
    }
}

fn write_flags(durable: bool) -> i32 {
    if durable { libc::RWF_DSYNC } else { 0 }
}

fn allocate(file: Fixed, mode: i32, offset: u64, length: u32) -> squeue::Entry {
    opcode::Fallocate::new(file, u64::from(length))
        .offset(offset)
        .mode(mode | libc::FALLOC_FL_KEEP_SIZE)
        .build()
}

/// What entering the kernel may answer. Anything else means that the ring is broken, and with it
/// every promise about memory in flight: there is nothing to go on with.
fn enter(result: io::Result<usize>) {
    if let Err(error) = result {
        let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::ETIME];
        assert!(
            error
                .raw_os_error()
                .is_some_and(|code| passing.contains(&code)),
            "io_uring broke: {error}"
        );
    }
}

impl Queue for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex> {
        let index = u16::try_from(self.files.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let registered = self
            .ring
            .0
            .submitter()
            .register_files_update(u32::from(index), &[file.as_raw_fd()])?;
        assert_eq!(registered, 1, "one file was given");
        self.files.push(Some((OpenFile::new(file), Abilities::ALL)));
        Ok(FileIndex(index))
    }

    fn remove_file(&mut self, file: FileIndex) {
        const NONE: i32 = -1;
        let submitter = self.ring.0.submitter();
        let removed = submitter.register_files_update(u32::from(file.0), &[NONE]);
        assert_eq!(removed.ok(), Some(1), "a file that is registered");
        self.files[usize::from(file.0)] = None;
    }

    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize) {
        let index = usize::try_from(buffer.0).expect("64 bits");
        if let Some(registration) = self.registrations.get_mut(index) {
            *registration = Registration::After {
                start,
                bytes,
                left: bytes,
            };
        }
    }

    fn start(&mut self, transfer: Transfer) {
        self.in_flight += 1;
        match self.free.pop() {
            Some(slot) => self.occupy(slot, transfer),
            None => self.backlog.push_back(transfer),
        }
    }

    fn hand_over(&mut self) {
        if !{ self.ring.0.submission() }.is_empty() {
            enter(self.ring.0.submit());
        }
    }

    fn watch(&mut self, watch: Watch) -> io::Result<()> {
        let events = match watch.readiness {
            Readiness::Read => libc::POLLIN,
            Readiness::Write => libc::POLLOUT,
        };
        let events = u32::try_from(events).expect("a bit");
        let entry = opcode::PollAdd::new(Fd(watch.descriptor), events).build();
        self.push_entry(&entry.user_data(WATCH | u64::from(watch.id.0)));
        self.watched += 1;
        Ok(())
    }

    fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_front()
    }

    fn watches(&self) -> bool {
        self.watched > 0 || !self.ready.is_empty()
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        let done = self.done.pop_front()?;
        self.in_flight -= 1;
        Some(done)
    }

    fn turn(&mut self, wait: Wait) {
        if !self.busy() && !self.watches() {
            if let Wait::AtMost(time) = wait
                && self.done.is_empty()
            {
                std::thread::sleep(time);
            }
            return;
        }
        let wait = match (wait, self.push_later()) {
            (Wait::Forever, Some(left)) => Wait::AtMost(left),
            (Wait::AtMost(time), Some(left)) => Wait::AtMost(time.min(left)),
            (wait, _) => wait,
        };
        // With results at hand there is nothing to wait for.
        let nothing = self.done.is_empty() && self.ready.is_empty() && {
            let arrived = self.ring.0.completion();
            arrived.is_empty()
        };
        let wait = if nothing { wait } else { Wait::No };
        match wait {
            Wait::No => enter(self.ring.0.submit()),
            Wait::Forever => enter(self.ring.0.submit_and_wait(1)),
            Wait::AtMost(time) => {
                let time = Timespec::from(time);
                let arguments = SubmitArgs::new().timespec(&time);
                enter(self.ring.0.submitter().submit_with_args(1, &arguments));
            }
        }
        self.reap();
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for Uring {
    /// Whatever is in the kernel ends before the buffers and files go.
    fn drop(&mut self) {
        self.in_flight -= self.backlog.len();
        self.backlog.clear();
        while self.busy() {
            self.turn(Wait::Forever);
            self.done.clear();
        }
        // The kernel takes a ring down some time after it is closed. The files go now, so that
        // whoever opens them next does not find them in use.
        drop(self.ring.0.submitter().unregister_files());
    }
}
