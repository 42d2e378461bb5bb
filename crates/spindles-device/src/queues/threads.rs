//! `pread` and `pwrite` in a pool of threads, for systems that forbid `io_uring`.

#![expect(
    unsafe_code,
    reason = "system calls on memory that is shared with other threads"
)]

use super::queue::{Queue, Readiness, Wait, Watch, WatchId};
use crate::buffers::{Memory, Pieces};
use crate::positioned::RETRY_DELAY;
use crate::transfer::{Abilities, After, Call, FileIndex, OpenFile, Tag, Transfer};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::Errno;
use spindles_block::{BufferId, MemberError, MemberResult};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use std::{io, mem, thread};

/// Threads of a pool: this many operations run at once.
const THREADS: usize = 16;
/// Initial capacity for transfers.
const ROOM: usize = 4096;

/// Data shared by the owner and the threads.
#[derive(Debug)]
struct Shared {
    state: Mutex<PoolQueues>,
    /// Signaled when there is work, or when the threads are to end.
    work: Condvar,
    /// Signaled when a transfer ended or a descriptor is ready.
    done: Condvar,
    zeros: Memory,
    /// Written to when watches are added or the threads are to end; created with the first watch.
    wake: OnceLock<OwnedFd>,
}

// SAFETY: `zeros` is only an address of memory that is never written; the other fields can be
// shared.
unsafe impl Sync for Shared {}

#[derive(Debug)]
struct PoolQueues {
    /// `None` for removed files.
    files: Vec<Option<(Arc<OpenFile>, Abilities)>>,
    todo: VecDeque<Transfer>,
    done: VecDeque<(Tag, MemberResult)>,
    /// Polled descriptors. `ready` holds those found ready.
    watched: Vec<Watch>,
    ready: VecDeque<WatchId>,
    closing: bool,
}

/// A pool of threads.
#[derive(Debug)]
pub(super) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<thread::JoinHandle<()>>,
    /// Started transfers, for the next turn to submit.
    started: Vec<Transfer>,
    /// Results collected, but not yet returned.
    collected: VecDeque<(Tag, MemberResult)>,
    files: usize,
    in_flight: usize,
    /// Number of polled descriptors. `ready` holds those that a turn found ready.
    watched: usize,
    ready: VecDeque<WatchId>,
}

impl Threads {
    pub(super) fn new(zeros: Memory) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(PoolQueues {
                    files: Vec::new(),
                    todo: VecDeque::with_capacity(ROOM),
                    done: VecDeque::with_capacity(ROOM),
                    watched: Vec::new(),
                    ready: VecDeque::new(),
                    closing: false,
                }),
                work: Condvar::new(),
                done: Condvar::new(),
                zeros,
                wake: OnceLock::new(),
            }),
            workers: Vec::new(),
            started: Vec::with_capacity(ROOM),
            collected: VecDeque::with_capacity(ROOM),
            files: 0,
            in_flight: 0,
            watched: 0,
            ready: VecDeque::new(),
        }
    }

    /// Adds a file, or the place of one that was removed.
    pub(super) fn add(&mut self, file: Option<OwnedFd>) -> io::Result<FileIndex> {
        let index = u16::try_from(self.files).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if self.files == 0 {
            self.begin_work()?;
        }
        let file = file.map(|file| (Arc::new(OpenFile::new(file)), Abilities::ALL));
        self.shared.state().files.push(file);
        self.files += 1;
        Ok(FileIndex(index))
    }

    fn begin_work(&mut self) -> io::Result<()> {
        for _ in 0..THREADS {
            self.begin("spindles-io", Shared::work)?;
        }
        Ok(())
    }

    fn begin_to_look_out(&mut self) -> io::Result<()> {
        self.begin("spindles-watch", Shared::look_out)
    }

    fn begin(&mut self, name: &str, what: fn(&Shared)) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .stack_size(128 << 10)
            .spawn(move || what(&shared))?;
        self.workers.push(thread);
        Ok(())
    }

    /// Ends the threads, after they have done all submitted transfers.
    fn end_threads(&mut self) {
        self.shared.state().closing = true;
        self.shared.work.notify_all();
        self.shared.wake();
        for thread in mem::take(&mut self.workers) {
            // A thread that panicked has reported it.
            drop(thread.join());
        }
    }
}

impl Shared {
    /// Locks the state. A thread that panicked either took the whole process with it or left the
    /// state intact.
    fn state(&self) -> MutexGuard<'_, PoolQueues> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(mut transfer) = state.todo.pop_front() {
                let file = usize::from(transfer.file.0);
                let Some((open, before)) = state.files[file].clone() else {
                    let gone = Err(MemberError::Gone);
                    state.done.push_back((transfer.tag, gone));
                    self.done.notify_one();
                    continue;
                };
                drop(state);
                let mut abilities = before;
                let result = self.run(&mut transfer, &open, &mut abilities);
                state = self.state();
                if abilities != before
                    && let Some((_, known)) = &mut state.files[file]
                {
                    *known = abilities;
                }
                state.done.push_back((transfer.tag, result));
                self.done.notify_one();
            } else if state.closing {
                return;
            } else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Polls descriptors until the threads are to end.
    fn look_out(&self) {
        let wake = self.wake.get().expect("it begins with that");
        loop {
            let watched = {
                let state = self.state();
                if state.closing {
                    return;
                }
                state.watched.clone()
            };
            let descriptors = watched.iter().map(|watch| {
                let events = match watch.readiness {
                    Readiness::Read => PollFlags::IN,
                    Readiness::Write => PollFlags::OUT,
                };
                // SAFETY: the owner of a watch keeps its descriptor open until it is ready.
                // Otherwise another descriptor with that number would be found ready, and `poll`
                // does nothing else to it.
                let descriptor = unsafe { BorrowedFd::borrow_raw(watch.descriptor) };
                PollFd::from_borrowed_fd(descriptor, events)
            });
            let mut descriptors: Vec<PollFd<'_>> = descriptors.collect();
            descriptors.push(PollFd::new(wake, PollFlags::IN));
            match poll(&mut descriptors, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("can't poll the descriptors: {error}"),
            }
            let is_ready = |at: &usize| !descriptors[*at].revents().is_empty();
            let ready = (0..watched.len()).filter(is_ready);
            let ready: Vec<WatchId> = ready.map(|at| watched[at].id).collect();
            if !descriptors[watched.len()].revents().is_empty() {
                // The descriptor only wakes; its count does not matter.
                passes(rustix::io::read(wake, &mut [0; 8]));
            }
            let mut state = self.state();
            state.watched.retain(|watch| !ready.contains(&watch.id));
            state.ready.extend(ready);
            self.done.notify_one();
        }
    }

    fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            // Any number wakes. If the counter is full, the descriptor is ready anyway.
            passes(rustix::io::write(wake, &[1; 8]));
        }
    }

    fn run(
        &self,
        transfer: &mut Transfer,
        file: &OpenFile,
        abilities: &mut Abilities,
    ) -> MemberResult {
        loop {
            let result = self.call(transfer, &file.descriptor);
            match transfer.advance(result, file, abilities) {
                After::Done(result) => return result,
                After::Again => {}
                After::Later => thread::sleep(RETRY_DELAY),
            }
        }
    }

    /// Makes the transfer's next call.
    fn call(&self, transfer: &Transfer, file: &OwnedFd) -> Result<u64, Errno> {
        let descriptor = file.as_raw_fd();
        let offset = i64::try_from(transfer.offset()).expect("devices end before 2^63");
        let length = usize::try_from(transfer.length()).expect("64 bits");
        let vector = |start: NonNull<u8>| libc::iovec {
            iov_base: start.as_ptr().cast(),
            iov_len: length,
        };
        match transfer.call() {
            Call::Read => {
                let start = transfer.start().as_ptr();
                // SAFETY: the driver lends the memory until the transfer ends; `length` bytes of it
                // are still to be read.
                let moved = unsafe { libc::pread(descriptor, start.cast(), length, offset) };
                moved_or_errno(moved)
            }
            Call::Write { durable } => {
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                let pieces = transfer.pieces();
                let one = [vector(transfer.start())];
                let list = pieces.as_ref().map_or(&one[..], Pieces::list);
                let count = i32::try_from(list.len()).expect("few");
                // SAFETY: as above; the memory is only read.
                let moved =
                    unsafe { libc::pwritev2(descriptor, list.as_ptr(), count, offset, flags) };
                moved_or_errno(moved)
            }
            Call::WriteZeros => {
                let vector = vector(self.zeros.start);
                // SAFETY: `zeros` has as many zeros as one call writes, and outlives the threads.
                let moved = unsafe { libc::pwritev(descriptor, &raw const vector, 1, offset) };
                moved_or_errno(moved)
            }
            Call::Fdatasync => fdatasync(file).map(|()| 0),
            Call::PunchHole | Call::ZeroRange => {
                let flags = match transfer.call() {
                    Call::PunchHole => FallocateFlags::PUNCH_HOLE,
                    _ => FallocateFlags::ZERO_RANGE,
                };
                let flags = flags | FallocateFlags::KEEP_SIZE;
                fallocate(file, flags, transfer.offset(), transfer.length()).map(|()| 0)
            }
        }
    }
}

/// Panics unless the call on the descriptor that wakes succeeded, would block or was interrupted.
fn passes(result: Result<usize, Errno>) {
    let passing = [Errno::AGAIN, Errno::INTR];
    let is_fine = result.map_or_else(|error| passing.contains(&error), |_| true);
    assert!(is_fine, "a descriptor that wakes broke: {result:?}");
}

fn moved_or_errno(moved: isize) -> Result<u64, Errno> {
    u64::try_from(moved).map_err(|_| {
        Errno::from_io_error(&io::Error::last_os_error()).expect("the call has just failed")
    })
}

impl Queue for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex> {
        self.add(Some(file))
    }

    fn remove_file(&mut self, file: FileIndex) {
        self.shared.state().files[usize::from(file.0)] = None;
    }

    fn add_buffer(&mut self, _buffer: BufferId, _start: NonNull<u8>, _bytes: usize) {}

    fn start(&mut self, transfer: Transfer) {
        self.started.push(transfer);
        self.in_flight += 1;
    }

    fn hand_over(&mut self) {
        let mut state = self.shared.state();
        for transfer in self.started.drain(..) {
            let file = state.files[usize::from(transfer.file.0)].as_ref();
            let abilities = file.map_or(Abilities::ALL, |(_, abilities)| *abilities);
            state.todo.push_back(transfer.limited_to(abilities));
            self.shared.work.notify_one();
        }
    }

    fn watch(&mut self, watch: Watch) -> io::Result<()> {
        if self.shared.wake.get().is_none() {
            let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            self.shared.wake.set(wake).expect("it was looked");
            self.begin_to_look_out()?;
        }
        self.shared.state().watched.push(watch);
        self.watched += 1;
        self.shared.wake();
        Ok(())
    }

    fn restart_threads(&mut self) -> io::Result<()> {
        self.end_threads();
        self.shared.state().closing = false;
        if self.files > 0 {
            self.begin_work()?;
        }
        if self.shared.wake.get().is_some() {
            self.begin_to_look_out()?;
        }
        Ok(())
    }

    fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_front()
    }

    fn watches(&self) -> bool {
        self.watched > 0 || !self.ready.is_empty()
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        let done = self.collected.pop_front()?;
        self.in_flight -= 1;
        Some(done)
    }

    fn turn(&mut self, wait: Wait) {
        if self.in_flight == 0 && !self.watches() {
            if let Wait::AtMost(time) = wait {
                thread::sleep(time);
            }
            return;
        }
        let deadline = match wait {
            Wait::AtMost(time) => Some(Instant::now() + time),
            Wait::No | Wait::Forever => None,
        };
        self.hand_over();
        let mut state = self.shared.state();
        let nothing = |state: &PoolQueues| state.done.is_empty() && state.ready.is_empty();
        while nothing(&state) && self.collected.is_empty() && self.ready.is_empty() {
            let time = match (wait, deadline) {
                (Wait::No, _) => break,
                (_, None) => None,
                (_, Some(deadline)) => match deadline.checked_duration_since(Instant::now()) {
                    Some(time) => Some(time),
                    None => break,
                },
            };
            state = match time {
                None => self
                    .shared
                    .done
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let waited = self.shared.done.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        self.collected.extend(state.done.drain(..));
        self.watched -= state.ready.len();
        self.ready.extend(state.ready.drain(..));
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for Threads {
    /// Finishes all submitted transfers before the buffers and files go.
    fn drop(&mut self) {
        self.end_threads();
    }
}
