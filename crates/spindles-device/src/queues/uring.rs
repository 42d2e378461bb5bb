//! `io_uring`: one ring per target, shared by all its members, with registered files
//! and buffers. Everything started between two turns goes to the kernel in one call.

#![expect(unsafe_code, reason = "the kernel works on memory by address")]

use super::queue::{Queue, Readiness, Wait, Watch, WatchId};
use super::threads::Threads;
use crate::buffers::Memory;
use crate::positioned::RETRY_DELAY;
use crate::shared::duplicate;
use crate::transfer::{Abilities, After, Call, FileIndex, OpenFile, Tag, Transfer};
use crate::waiting;
use io_uring::types::{CancelBuilder, Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use spindles_block::{BufferId, MemberError, MemberResult};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

/// Most operations submitted in one call; more take several calls.
const SUBMISSIONS: u32 = 512;
/// Most operations in the kernel; more wait in the backlog.
const SLOTS: u16 = 1024;
/// Most files of a ring.
const FILES: u32 = 256;
/// Most registered pieces of buffers, if the kernel allows any; other memory goes by address.
const PIECES: u32 = 4096;
/// Bytes of a piece, the size of a large page. The kernel allocates and pins all registered memory.
/// For a whole buffer, of which a client often uses a small part, that took 0.4 s, in which no
/// request was answered.
const PIECE_BYTES: usize = 2 << 20;

/// A wait for transfers returns after this time at the latest. The next call then finds completions
/// whose wake-up the kernel lost, as was seen once (Linux 6.18, `IORING_SETUP_DEFER_TASKRUN`).
const WAIT_MAX: Duration = Duration::from_secs(1);

/// After this time without any completion, operations that the kernel has not begun are cancelled,
/// and threads carry them and all later ones. Linux 6.18 may stop starting worker threads for a
/// task: flushes and durable writes of all its rings then wait for ever.
const STALL_MAX: Duration = Duration::from_secs(3);

thread_local! {
    /// True once the kernel has stalled: its worker threads belong to the thread, not to the ring.
    static STALLED: Cell<bool> = const { Cell::new(false) };
}

/// The reason for threads after a stall.
pub(super) const STALL: &str = "the kernel no longer begins operations of io_uring here";

/// While threads carry operations, the longest time between two looks at what is left in the ring.
const RING_PAUSE: Duration = Duration::from_millis(1);

/// Marks the user data of a watch, as opposed to a transfer.
const WATCH: u64 = 1 << 63;

/// State of a piece of a buffer. A piece is registered once the bytes transferred through it reach
/// its size. So a command that only reads superblocks does not pay for registration.
#[derive(Clone, Copy, Debug)]
enum Registration {
    /// The kernel refused to register it.
    None,
    /// To be registered after `left` more bytes.
    After {
        start: NonNull<u8>,
        bytes: usize,
        left: usize,
    },
    Done,
}

/// Start of a buffer, and the index of its first piece.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    start: NonNull<u8>,
    first: usize,
}

/// A ring.
#[derive(Debug)]
pub(super) struct Uring {
    /// Dropped first: once the ring is closed and drained, the kernel no longer uses what follows.
    ring: Ring,
    slots: Vec<Option<Transfer>>,
    free: Vec<u16>,
    backlog: VecDeque<Transfer>,
    /// Slots whose calls are delayed, and when to repeat them.
    later: VecDeque<(Instant, u16)>,
    done: VecDeque<(Tag, MemberResult)>,
    /// `None` for removed files.
    files: Vec<Option<(OpenFile, Abilities)>>,
    /// Indexed by buffer number; `None` if there was no room for its pieces.
    buffers: Vec<Option<Pieces>>,
    registrations: Vec<Registration>,
    registrations_max: usize,
    in_flight: usize,
    /// When the first wait since the last completion or cancellation ended without another; `None`
    /// if none did.
    quiet_since: Option<Instant>,
    stall_max: Duration,
    /// Carries all operations that begin after a stall.
    threads: Option<Box<Threads>>,
    /// Number of polled descriptors. `ready` holds those found ready.
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
        // Without the table no buffer is registered; everything else works.
        let registrations_max = match ring.submitter().register_buffers_sparse(PIECES) {
            Ok(()) => usize::try_from(PIECES).expect("64 bits"),
            Err(_) => 0,
        };
        let stalled = STALLED.get().then(|| Box::new(Threads::new(zeros)));
        Ok(Self {
            ring: Ring(ring),
            slots: vec![None; usize::from(SLOTS)],
            free: (0..SLOTS).rev().collect(),
            backlog: VecDeque::with_capacity(usize::from(SLOTS)),
            later: VecDeque::with_capacity(usize::from(SLOTS)),
            done: VecDeque::with_capacity(usize::from(SLOTS)),
            files: Vec::new(),
            buffers: Vec::new(),
            registrations: Vec::new(),
            registrations_max,
            in_flight: 0,
            quiet_since: None,
            stall_max: STALL_MAX,
            threads: stalled,
            watched: 0,
            ready: VecDeque::new(),
            zeros,
        })
    }

    /// Returns true if threads carry the operations, after a stall.
    pub(super) fn has_threads(&self) -> bool {
        self.threads.is_some()
    }

    /// Pushes the slot's next call to the ring.
    fn push(&mut self, slot: u16) {
        let transfer = self.slots[usize::from(slot)]
            .as_ref()
            .expect("a slot in use");
        let entry = self.entry(transfer).user_data(u64::from(slot));
        self.push_entry(&entry);
    }

    fn push_entry(&mut self, entry: &squeue::Entry) {
        loop {
            // SAFETY: the driver lends the memory of a call until its transfer ends, and unmaps it
            // only after this queue is gone; `drop` waits for all calls. A watch has no memory.
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
        if let (Call::Write { durable }, Some(pieces)) = (transfer.call(), transfer.pieces()) {
            let list = pieces.list();
            let count = u32::try_from(list.len()).expect("few");
            return opcode::Writev::new(file, list.as_ptr(), count)
                .offset(offset)
                .rw_flags(write_flags(durable))
                .build();
        }
        let start = transfer.start().as_ptr();
        let is_registered =
            |piece: &usize| matches!(self.registrations[*piece], Registration::Done);
        let registered = self.piece(transfer).filter(is_registered);
        let registered = registered.map(|piece| u16::try_from(piece).expect("few pieces"));
        match (transfer.call(), registered) {
            (Call::Read, Some(piece)) => opcode::ReadFixed::new(file, start, length, piece)
                .offset(offset)
                .build(),
            (Call::Read, None) => opcode::Read::new(file, start, length)
                .offset(offset)
                .build(),
            (Call::Write { durable }, Some(piece)) => {
                opcode::WriteFixed::new(file, start, length, piece)
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

    /// Collects completed operations. Returns true if any had completed.
    fn reap(&mut self) -> bool {
        let mut any = false;
        while let Some(entry) = { self.ring.0.completion().next() } {
            any = true;
            if entry.user_data() & WATCH != 0 {
                let id = u32::try_from(entry.user_data() & !WATCH).expect("we named it");
                self.watched -= 1;
                self.ready.push_back(WatchId(id));
                continue;
            }
            let slot = u16::try_from(entry.user_data()).expect("we named it");
            if entry.result() == -libc::ECANCELED {
                self.give_to_threads(slot);
                continue;
            }
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
        any
    }

    /// Lets threads carry an operation that the kernel has not begun, and all later ones.
    fn give_to_threads(&mut self, slot: u16) {
        if self.threads.is_none() {
            match self.begin_threads() {
                Ok(threads) => {
                    waiting::tell(&format!("{STALL}: threads carry them from now on"));
                    STALLED.set(true);
                    self.threads = Some(threads);
                }
                Err(_) => return self.push(slot),
            }
        }
        let threads = self.threads.as_mut().expect("just begun");
        let place = &mut self.slots[usize::from(slot)];
        threads.start(place.take().expect("a slot in use"));
        self.free.push(slot);
        for transfer in self.backlog.drain(..) {
            threads.start(transfer);
        }
    }

    fn begin_threads(&self) -> io::Result<Box<Threads>> {
        let mut threads = Threads::new(self.zeros);
        for file in &self.files {
            let file = file.as_ref().map(|(file, _)| duplicate(&file.descriptor));
            threads.add(file.transpose()?)?;
        }
        Ok(Box::new(threads))
    }

    fn occupy(&mut self, slot: u16, transfer: Transfer) {
        self.note_use(&transfer);
        let file = self.files[usize::from(transfer.file.0)].as_ref();
        // For a removed file, the kernel returns an error.
        let abilities = file.map_or(Abilities::ALL, |(_, abilities)| *abilities);
        self.slots[usize::from(slot)] = Some(transfer.limited_to(abilities));
        self.push(slot);
    }

    /// Returns the piece that a transfer's memory lies in; `None` if it is not within one.
    fn piece(&self, transfer: &Transfer) -> Option<usize> {
        let buffer = usize::try_from(transfer.memory.buffer.0).expect("64 bits");
        let pieces = (*self.buffers.get(buffer)?)?;
        let done = usize::try_from(transfer.done()).expect("64 bits");
        let length = usize::try_from(transfer.length()).expect("64 bits");
        let offset = transfer.memory.start.as_ptr().addr() - pieces.start.as_ptr().addr() + done;
        let of = |offset: usize| offset / PIECE_BYTES;
        let is_within_one = of(offset) == of(offset + length.max(1) - 1);
        is_within_one.then(|| pieces.first + of(offset))
    }

    /// Counts the bytes of a transfer through its piece, and registers the piece after enough of
    /// them.
    fn note_use(&mut self, transfer: &Transfer) {
        let Some(piece) = self.piece(transfer) else {
            return;
        };
        let Registration::After { start, bytes, left } = &mut self.registrations[piece] else {
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
        let index = u32::try_from(piece).expect("few pieces");
        // SAFETY: the driver keeps the memory in place until this queue is gone.
        let result = unsafe { submitter.register_buffers_update(index, &[vector], None) };
        // Refused if the user may not lock this much memory: transfers then go by address.
        self.registrations[piece] = match result {
            Ok(()) => Registration::Done,
            Err(_) => Registration::None,
        };
    }

    /// Repeats the delayed calls that are due. Returns how long the next one has to wait.
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

    /// Cancels the operations that the kernel has not begun, if it completes none for too long.
    /// Operations under way on a device continue. `reap` gives the cancelled ones to threads.
    fn cancel_stalled(&mut self) {
        let since = *self.quiet_since.get_or_insert_with(Instant::now);
        if !self.busy() || since.elapsed() < self.stall_max {
            return;
        }
        self.quiet_since = None;
        for (slot, _) in (0_u64..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.is_some())
        {
            let now = Timespec::new();
            let operation = CancelBuilder::user_data(slot);
            // An error means that it has begun, or waits in `later`, or that the kernel is older
            // than 6.0.
            let _begun = self
                .ring
                .0
                .submitter()
                .register_sync_cancel(Some(now), operation);
        }
    }

    /// Returns true if any transfer is in the kernel or delayed.
    fn busy(&self) -> bool {
        self.free.len() < self.slots.len()
    }
}

/// Builds the fastest ring that this kernel offers.
fn build() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(u32::from(SLOTS) * 2);
    let mut single = builder.clone();
    single
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag();
    match single.build(SUBMISSIONS) {
        // Linux before 6.1 does not know these flags.
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

/// Accepts the errors that a working ring may return. Panics on others: the ring is broken, and
/// with it every guarantee about memory in flight.
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
        match &self.threads {
            Some(threads) => threads.name(),
            None => "io_uring",
        }
    }

    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex> {
        let index = u16::try_from(self.files.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let registered = self
            .ring
            .0
            .submitter()
            .register_files_update(u32::from(index), &[file.as_raw_fd()])?;
        assert_eq!(registered, 1, "one file was given");
        if let Some(threads) = &mut self.threads {
            threads.add(Some(duplicate(&file)?))?;
        }
        self.files.push(Some((OpenFile::new(file), Abilities::ALL)));
        Ok(FileIndex(index))
    }

    fn remove_file(&mut self, file: FileIndex) {
        const NONE: i32 = -1;
        let submitter = self.ring.0.submitter();
        let removed = submitter.register_files_update(u32::from(file.0), &[NONE]);
        assert_eq!(removed.ok(), Some(1), "a file that is registered");
        self.files[usize::from(file.0)] = None;
        if let Some(threads) = &mut self.threads {
            threads.remove_file(file);
        }
    }

    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize) {
        let index = usize::try_from(buffer.0).expect("64 bits");
        if self.buffers.len() <= index {
            self.buffers.resize(index + 1, None);
        }
        let first = self.registrations.len();
        let fits = first + bytes.div_ceil(PIECE_BYTES) <= self.registrations_max;
        self.buffers[index] = fits.then_some(Pieces { start, first });
        if !fits {
            return;
        }
        for offset in (0..bytes).step_by(PIECE_BYTES) {
            let at = start.as_ptr().wrapping_add(offset);
            let bytes = (bytes - offset).min(PIECE_BYTES);
            self.registrations.push(Registration::After {
                start: NonNull::new(at).expect("inside a buffer"),
                bytes,
                left: bytes,
            });
        }
    }

    fn start(&mut self, transfer: Transfer) {
        self.in_flight += 1;
        match (&mut self.threads, self.free.pop()) {
            (Some(threads), slot) => {
                self.free.extend(slot);
                threads.start(transfer);
            }
            (None, Some(slot)) => self.occupy(slot, transfer),
            (None, None) => self.backlog.push_back(transfer),
        }
    }

    fn hand_over(&mut self) {
        if let Some(threads) = &mut self.threads {
            threads.hand_over();
        }
        if !{ self.ring.0.submission() }.is_empty() {
            enter(self.ring.0.submit());
        }
    }

    fn watch(&mut self, watch: Watch) -> io::Result<()> {
        if let Some(threads) = &mut self.threads {
            return threads.watch(watch);
        }
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

    fn restart_threads(&mut self) -> io::Result<()> {
        let threads = self.threads.as_mut();
        threads.map_or(Ok(()), |threads| threads.restart_threads())
    }

    fn next_ready(&mut self) -> Option<WatchId> {
        let threads = self.threads.as_mut();
        let ready = self.ready.pop_front();
        ready.or_else(|| threads.and_then(|threads| threads.next_ready()))
    }

    fn watches(&self) -> bool {
        let threads = self.threads.as_ref();
        self.watched > 0
            || !self.ready.is_empty()
            || threads.is_some_and(|threads| threads.watches())
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        let threads = self.threads.as_mut();
        let done = self.done.pop_front();
        let done = done.or_else(|| threads.and_then(|threads| threads.next_done()))?;
        self.in_flight -= 1;
        Some(done)
    }

    fn turn(&mut self, wait: Wait) {
        let uses_ring = self.busy() || self.watched > 0;
        let has_results = !self.done.is_empty() || !self.ready.is_empty();
        let Some(threads) = &mut self.threads else {
            return self.turn_ring(wait);
        };
        threads.turn(match wait {
            _ if has_results => Wait::No,
            Wait::AtMost(time) if uses_ring => Wait::AtMost(time.min(RING_PAUSE)),
            Wait::Forever if uses_ring => Wait::AtMost(RING_PAUSE),
            wait => wait,
        });
        if uses_ring {
            self.turn_ring(Wait::No);
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Uring {
    /// Submits the entries of the ring, and collects completed ones.
    fn turn_ring(&mut self, wait: Wait) {
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
            (Wait::Forever, None) if self.busy() => Wait::AtMost(WAIT_MAX),
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
        if self.reap() {
            self.quiet_since = None;
        } else {
            self.cancel_stalled();
        }
    }
}

impl Drop for Uring {
    /// Waits for all operations in the kernel before the buffers and files go.
    fn drop(&mut self) {
        self.in_flight -= self.backlog.len();
        self.backlog.clear();
        while self.busy() {
            self.turn(Wait::Forever);
            self.done.clear();
        }
        // The kernel takes a ring down some time after it is closed. Release the files now, so that
        // the next open does not find them in use.
        drop(self.ring.0.submitter().unregister_files());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Region;
    use spindles_block::Operation;
    use std::io::Write as _;

    /// A read of an empty pipe never begins. Threads can't carry it: they read at an offset.
    #[test]
    fn threads_carry_on_if_the_kernel_begins_nothing() {
        let Ok(mut queue) = Uring::new(Memory::NONE) else {
            return println!("SKIPPED: threads_carry_on_if_the_kernel_begins_nothing: no io_uring");
        };
        let file = || {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[7; 1024]).unwrap();
            OwnedFd::from(file)
        };
        let removed = queue.add_file(file()).unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let pipe = queue.add_file(reader.into()).unwrap();
        let before = queue.add_file(file()).unwrap();
        queue.remove_file(removed);
        let region = Region::new(4096).unwrap();
        let start = NonNull::from(region.bytes()).cast();
        let buffer = BufferId(1);
        let memory = Memory { start, buffer };
        let read = |file| Transfer::new(Tag(7), file, Operation::Read, 512, 512, memory);
        let done = |queue: &mut Uring| loop {
            queue.turn(Wait::Forever);
            if let Some((Tag(7), result)) = queue.next_done() {
                break result;
            }
        };
        queue.stall_max = Duration::ZERO;
        queue.start(read(pipe));
        queue.turn(Wait::AtMost(Duration::from_millis(1)));
        assert!(done(&mut queue).is_err(), "a pipe has no offsets");
        assert!(queue.threads.is_some());
        let after = queue.add_file(file()).unwrap();
        for file in [before, after] {
            queue.start(read(file));
            assert_eq!(done(&mut queue), Ok(()));
        }
        assert_eq!(region.bytes()[..512], [7; 512]);
        queue.remove_file(before);
        queue.start(read(before));
        assert_eq!(done(&mut queue), Err(MemberError::Gone));
        assert_eq!((queue.in_flight(), queue.busy()), (0, false));
        // The next queue of this thread does not wait for a stall.
        let mut next = Uring::new(Memory::NONE).unwrap();
        assert_eq!(next.name(), "threads");
        let file = next.add_file(file()).unwrap();
        next.start(read(file));
        assert_eq!(done(&mut next), Ok(()));
        STALLED.set(false);
    }

    /// The kernel pins only the pieces that are used.
    #[test]
    fn buffer_pieces_are_registered_on_first_use() {
        let region = Region::new(4 * PIECE_BYTES).unwrap();
        let start = NonNull::from(region.bytes()).cast();
        let zeros = Memory::NONE;
        let Ok(mut queue) = Uring::new(zeros) else {
            return println!("SKIPPED: buffer_pieces_are_registered_on_first_use: no io_uring");
        };
        let file = tempfile::tempfile().unwrap();
        file.set_len(u64::try_from(PIECE_BYTES).unwrap()).unwrap();
        let file = queue.add_file(file.into()).unwrap();
        let buffer = BufferId(1);
        queue.add_buffer(buffer, start, 4 * PIECE_BYTES);
        let mut read = |offset: usize, bytes: usize| {
            let at = start.as_ptr().wrapping_add(offset);
            let memory = Memory {
                start: NonNull::new(at).unwrap(),
                buffer,
            };
            let bytes = u64::try_from(bytes).unwrap();
            let transfer = Transfer::new(Tag(7), file, Operation::Read, 0, bytes, memory);
            queue.start(transfer);
            while queue.next_done().is_none() {
                queue.turn(Wait::Forever);
            }
            let is_done = |registration: &Registration| matches!(registration, Registration::Done);
            queue.registrations.iter().map(is_done).collect::<Vec<_>>()
        };
        let half = PIECE_BYTES / 2;
        assert_eq!(read(PIECE_BYTES, half), [false; 4]);
        assert_eq!(read(PIECE_BYTES, half), [false, true, false, false]);
        // A transfer across two pieces goes by address, and counts for neither.
        for _ in 0..4 {
            read(2 * PIECE_BYTES + half, PIECE_BYTES);
        }
        assert_eq!(read(PIECE_BYTES + half, half), [false, true, false, false]);
    }
}
