//! The host: actors with actions under way, processors, the page cache and requests to the device.

use crate::block::{Block, Request, RequestId, RequestKind};
use crate::cache::{Cache, Presence};
use crate::cpus::Cpus;
use crate::effect::{Effect, Effects};
use crate::error::HostError;
use crate::file_systems::{FileSystem, Options, Piece, Row};
use crate::intent_log::{IntentLog, Next};
use crate::machine::{Machine, ReadAhead};
use crate::stream::Stream;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use spindles_block::Instant;
use spindles_workload::file::{Access, Action, Answer, At, FileId, Slot};

/// What an actor begins.
#[derive(Clone, Copy, Debug)]
pub enum Begun<'a> {
    /// An action, with the path of the file that it names.
    Action(Action, &'a str),
    /// Makes the empty file system.
    Newfs,
}

/// A file that an actor has open.
#[derive(Clone, Copy, Debug)]
struct Open {
    file: FileId,
    position: u64,
    is_sync: bool,
}

/// A part of an action.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes a processor for some nanoseconds.
    Compute(u64),
    /// Takes a processor and the memory for some nanoseconds.
    Copy(u64),
    Effect(Effect),
    /// Waits until no other actor has the file.
    Lock(FileId),
    /// Lets the next actor have the file.
    Unlock(FileId),
    /// Reads a range of a file, block by block.
    Read(Range),
    /// Writes a range of a file, block by block.
    Write(Range),
    /// Waits while too many bytes are being written.
    Throttle,
    /// Writes the changed blocks of a file.
    WriteFile(FileId),
    /// Writes all changed blocks.
    WriteAll,
    /// Waits until a block is not under way.
    Await(Block),
    /// Writes the inode of a file, after its data.
    SyncInode(FileId),
    /// Waits until the changes of a file are in the intent log, or for a commit of the journal.
    Log(Option<FileId>),
    /// Waits until all writes so far are answered.
    AwaitWrites,
}

/// A range of a file that is read or written, and what a KiB of it costs.
#[derive(Clone, Copy, Debug)]
struct Range {
    file: FileId,
    at: u64,
    end: u64,
    ns_per_kib: u64,
    is_sync: bool,
}

/// An actor: its open files, and the parts of its action that are yet to be done.
#[derive(Debug, Default)]
struct Actor {
    open: Vec<Option<Open>>,
    steps: VecDeque<Step>,
    answer: Answer,
    /// True from `begin` until the action is done.
    acts: bool,
}

/// A request under way.
#[derive(Debug)]
struct UnderWay {
    /// Empty for the intent log.
    blocks: Vec<Block>,
    is_write: bool,
    /// Requests to the device that are not answered.
    left: u32,
}

/// A modelled host with one file system on one device.
#[derive(Debug)]
pub struct Host {
    machine: Machine,
    is_array: bool,
    file_system: Box<dyn FileSystem>,
    cache: Cache,
    cpus: Cpus,
    actors: Vec<Actor>,
    streams: BTreeMap<FileId, Stream>,
    /// Moments at which actors continue.
    timers: BTreeSet<(u64, u32)>,
    next_write_back_ns: u64,
    /// The moment of the next commit of a journal.
    next_commit_ns: Option<u64>,
    requests: VecDeque<Request>,
    under_way: BTreeMap<RequestId, UnderWay>,
    next_request: u64,
    writing_bytes: u64,
    /// Actors that wait for a block, by its place.
    waiting: BTreeMap<u64, Vec<u32>>,
    throttled: VecDeque<u32>,
    /// Actors that have a file or wait for it, in order.
    locks: BTreeMap<FileId, VecDeque<u32>>,
    log: IntentLog,
    /// Bytes of each file that changed and are not in the intent log.
    unlogged: BTreeMap<FileId, u64>,
    /// The rest of the transaction being written.
    batches: VecDeque<Vec<Block>>,
    batches_under_way: u32,
    prepared: Prepared,
    ready: VecDeque<u32>,
    done: VecDeque<(u32, Answer)>,
    error: Option<(u32, HostError)>,
}

/// Blocks that changed before a measurement, without places.
#[derive(Debug, Default)]
struct Prepared {
    blocks: Vec<Block>,
    bytes: u64,
}

impl Prepared {
    fn take(&mut self, effect: Effect) {
        if let Effect::Change(block) | Effect::WriteNow(block) = effect
            && self.blocks.last() != Some(&block)
        {
            self.bytes += u64::from(block.bytes);
            self.blocks.push(block);
        }
    }

    /// Returns the blocks in order of place, each with its last size.
    fn end(&mut self) -> Vec<Block> {
        self.bytes = 0;
        let mut blocks = core::mem::take(&mut self.blocks);
        blocks.sort_by_key(|block| block.place_bytes);
        blocks.reverse();
        blocks.dedup_by_key(|block| block.place_bytes);
        blocks.reverse();
        blocks
    }
}

/// Parts of a transaction under way at once, at most.
const BATCHES_MAX: u32 = 32;

/// The first window of a file's read-ahead, if it grows.
const FIRST_WINDOW_BYTES: u64 = 16 << 10;

/// Changed blocks that one search for old ones writes, at most.
const WRITE_BACK_BLOCKS_MAX: usize = 1 << 16;

/// Clusters that a system writes together if writers do not write themselves: 500 blocks of 4 KiB
/// in Linux 2.2.
const CLUSTERS_AT_ONCE: u64 = 16;

impl Host {
    /// Builds a host with an empty file system on a device.
    ///
    /// # Errors
    ///
    /// The device is too small or too large.
    pub fn new(
        machine: Machine,
        row: &Row,
        options: &Options,
        device_bytes: u64,
        is_array: bool,
    ) -> Result<Self, HostError> {
        let file_system = (row.make)(device_bytes, options, machine.spreads_directories)?;
        Ok(Self {
            cache: Cache::new(machine.cache_bytes, machine.keeps_written),
            cpus: Cpus::new(machine.cpus, machine.shares_memory()),
            next_write_back_ns: machine.write_back_period_ns,
            next_commit_ns: file_system.journal(),
            machine,
            is_array,
            file_system,
            actors: Vec::new(),
            streams: BTreeMap::new(),
            timers: BTreeSet::new(),
            requests: VecDeque::new(),
            under_way: BTreeMap::new(),
            next_request: 0,
            writing_bytes: 0,
            waiting: BTreeMap::new(),
            throttled: VecDeque::new(),
            locks: BTreeMap::new(),
            log: IntentLog::default(),
            unlogged: BTreeMap::new(),
            batches: VecDeque::new(),
            batches_under_way: 0,
            prepared: Prepared::default(),
            ready: VecDeque::new(),
            done: VecDeque::new(),
            error: None,
        })
    }

    /// Begins an action of an actor whose last one is done.
    ///
    /// # Errors
    ///
    /// The action is not possible.
    pub fn begin(&mut self, now: Instant, actor: u32, begun: Begun<'_>) -> Result<(), HostError> {
        let at = index(actor);
        if self.actors.len() <= at {
            self.actors.resize_with(at + 1, Actor::default);
        }
        assert!(!self.actors[at].acts, "one action at a time");
        // Empty, with memory that was used before.
        let mut steps = core::mem::take(&mut self.actors[at].steps);
        let answer = match begun {
            Begun::Action(action, path) => self.steps(actor, action, path, &mut steps)?,
            Begun::Newfs => {
                steps.extend(self.file_system.make().into_iter().map(Step::Effect));
                Answer::default()
            }
        };
        let one = &mut self.actors[at];
        (one.steps, one.answer, one.acts) = (steps, answer, true);
        self.ready.push_back(actor);
        self.run(now);
        Ok(())
    }

    /// Takes the answer to a request.
    pub fn answered(&mut self, now: Instant, id: RequestId) {
        let request = self.under_way.get_mut(&id).expect("it was sent");
        request.left -= 1;
        if request.left > 0 {
            return;
        }
        let request = self.under_way.remove(&id).expect("just found");
        if request.blocks.is_empty() || self.log.answered(id) {
            let next = self.log.next();
            self.go_on(now, next);
        }
        for block in &request.blocks {
            self.cache.end(*block);
            if request.is_write {
                self.writing_bytes -= u64::from(block.bytes);
            }
            let woken = self.waiting.remove(&block.place_bytes);
            self.ready.extend(woken.into_iter().flatten());
        }
        if request.is_write && self.file_system.transactions().is_some() {
            self.batches_under_way -= 1;
            self.send_batches();
        }
        if !self.file_system.writes_clusters() {
            self.write_beyond_share();
        }
        if !self.is_throttled() {
            self.ready.extend(self.throttled.drain(..));
        }
        self.run(now);
    }

    /// Continues what waits for this moment.
    pub fn wake(&mut self, now: Instant) {
        while let Some((at_ns, actor)) = self.timers.first().copied()
            && at_ns <= now.0
        {
            self.timers.pop_first();
            self.ready.push_back(actor);
        }
        if self.next_write_back_ns <= now.0 {
            let period_ns = self.machine.write_back_period_ns;
            self.next_write_back_ns = (now.0 / period_ns + 1) * period_ns;
            let before = |age_ns: u64| now.0.saturating_sub(age_ns);
            let ages = self.machine.ages;
            self.write_back(before(ages.data_ns()), WRITE_BACK_BLOCKS_MAX);
            if let Some(age_ns) = ages.metadata_ns() {
                let blocks = self.cache.metadata_until(before(age_ns));
                self.write_blocks(&blocks, false);
            }
        }
        if let Some(period_ns) = self.file_system.journal()
            && self.next_commit_ns.is_some_and(|at_ns| at_ns <= now.0)
        {
            self.next_commit_ns = Some((now.0 / period_ns + 1) * period_ns);
            self.log.ask();
            self.begin_log(now);
        }
        self.run(now);
    }

    /// Returns the next moment at which to call `wake`. While no actor acts, old blocks wait.
    pub fn next_wake(&self) -> Option<Instant> {
        let acts = self.actors.iter().any(|actor| actor.acts);
        let timer = self.timers.first().map(|(at_ns, _)| *at_ns);
        let write_back = Some(self.next_write_back_ns);
        let due = [write_back, self.next_commit_ns].into_iter().flatten();
        let due = due.min().filter(|_| acts);
        timer.into_iter().chain(due).min().map(Instant)
    }

    /// Returns the next request for the device.
    pub fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Returns an actor whose action is done, and its answer.
    pub fn next_done(&mut self) -> Option<(u32, Answer)> {
        self.done.pop_front()
    }

    /// Takes the error of an action that failed under way.
    pub fn take_error(&mut self) -> Option<(u32, HostError)> {
        self.error.take()
    }

    /// Returns the time that the processors worked.
    pub fn cpu_ns(&self) -> u64 {
        self.cpus.used_ns()
    }

    /// Drops the actions and open files of all actors. Requests under way end as usual.
    pub fn end_actors(&mut self) {
        self.actors.clear();
        self.timers.clear();
        self.waiting.clear();
        self.throttled.clear();
        self.locks.clear();
        self.log.end_actors();
        self.ready.clear();
        self.done.clear();
        self.streams.clear();
    }

    /// Drops all clean blocks from memory.
    pub fn empty_cache(&mut self) {
        self.cache.empty();
    }

    /// Moves the times of write-back on after a wait in which no actor acted.
    pub fn resume(&mut self, now: Instant) {
        let period_ns = self.machine.write_back_period_ns;
        if self.next_write_back_ns <= now.0 {
            self.next_write_back_ns = (now.0 / period_ns + 1) * period_ns;
        }
        let next_ns = |period_ns: u64| (now.0 / period_ns + 1) * period_ns;
        self.next_commit_ns = self.file_system.journal().map(next_ns);
    }

    /// Returns the parts of an action, and the answer that it will have.
    fn steps(
        &mut self,
        actor: u32,
        action: Action,
        path: &str,
        steps: &mut VecDeque<Step>,
    ) -> Result<Answer, HostError> {
        let machine = &self.machine;
        let (syscall_ns, set_times_ns) = (machine.syscall_ns, machine.set_times_ns);
        let mut effects = Effects::new();
        let cpu_ns = match action {
            Action::Mkdir(_) => {
                self.file_system.mkdir(path, &mut effects)?;
                self.machine.create_ns
            }
            Action::Create(file, slot, access) => {
                self.file_system.create(file, path, &mut effects)?;
                self.streams.remove(&file);
                self.keep(actor, slot, file, access);
                self.machine.create_ns
            }
            Action::Open(file, slot, access) => {
                self.file_system.look_up(file, &mut effects)?;
                self.keep(actor, slot, file, access);
                syscall_ns
            }
            Action::Stat(file) => {
                self.file_system.look_up(file, &mut effects)?;
                syscall_ns
            }
            Action::SetTimes(file) => {
                self.file_system.set(file, false, &mut effects)?;
                set_times_ns
            }
            Action::SetMode(file) => {
                self.file_system.set(file, true, &mut effects)?;
                set_times_ns
            }
            Action::Unlink(file) => {
                self.file_system.remove(file, &mut effects)?;
                self.streams.remove(&file);
                self.machine.remove_ns
            }
            Action::Think(rounds) => u64::from(rounds) * self.machine.loop_ps / 1000,
            Action::Nothing => 0,
            other => return Ok(self.steps_of_open(actor, other, steps)),
        };
        steps.push_back(Step::Compute(cpu_ns));
        steps.extend(effects.into_iter().map(Step::Effect));
        Ok(Answer::default())
    }

    /// Returns the parts of an action on an open file.
    fn steps_of_open(&mut self, actor: u32, action: Action, steps: &mut VecDeque<Step>) -> Answer {
        let machine = &self.machine;
        let syscall = Step::Compute(machine.syscall_ns);
        let (read_ns, getc_ns) = (machine.read_ns_per_kib, machine.getc_ns_per_kib);
        match action {
            Action::Read(slot, at, bytes) => {
                return self.read(actor, slot, at, bytes.into(), read_ns, steps);
            }
            Action::GetBytes(slot, bytes) => {
                return self.read(actor, slot, At::Position, bytes.into(), getc_ns, steps);
            }
            Action::ReadWhole(slot, _) => {
                self.open(actor, slot).position = 0;
                steps.push_back(syscall);
                return self.read(actor, slot, At::Position, u64::MAX, read_ns, steps);
            }
            Action::Write(slot, at, bytes) => {
                return self.write(actor, slot, at, bytes.into(), None, steps);
            }
            Action::PutBytes(slot, bytes) => {
                let cost = Some(self.machine.putc_ns_per_kib);
                return self.write(actor, slot, At::Position, bytes.into(), cost, steps);
            }
            Action::Append(slot, bytes) => {
                let file = self.open(actor, slot).file;
                self.open(actor, slot).position = self.file_system.bytes(file);
                return self.write(actor, slot, At::Position, bytes.into(), None, steps);
            }
            Action::Seek(slot, to) => self.open(actor, slot).position = to,
            Action::SeekBack(slot, by) => {
                let open = self.open(actor, slot);
                open.position = open.position.saturating_sub(by.into());
            }
            Action::Close(slot) => {
                let open = self.actors[index(actor)].open[index(slot.0)].take();
                steps.push_back(syscall);
                if let Some(open) = open {
                    let mut effects = Effects::new();
                    self.file_system.closed(open.file, &mut effects);
                    steps.extend(effects.into_iter().map(Step::Effect));
                }
            }
            Action::Fsync(slot) => {
                let file = self.open(actor, slot).file;
                if self.file_system.transactions().is_some() {
                    steps.extend([syscall, Step::Log(Some(file))]);
                } else if self.file_system.journal().is_some() {
                    steps.extend([syscall, Step::WriteFile(file), Step::Log(None)]);
                } else {
                    steps.extend([syscall, Step::WriteFile(file), Step::SyncInode(file)]);
                }
            }
            Action::SyncAll => {
                steps.extend([syscall, Step::WriteAll, Step::AwaitWrites]);
                if self.file_system.journal().is_some() {
                    // Committed blocks go to their places, too.
                    steps.extend([Step::Log(None), Step::WriteAll, Step::AwaitWrites]);
                }
            }
            _ => {}
        }
        Answer::default()
    }

    fn keep(&mut self, actor: u32, slot: Slot, file: FileId, access: Access) {
        let open = &mut self.actors[index(actor)].open;
        let at = index(slot.0);
        if open.len() <= at {
            open.resize(at + 1, None);
        }
        open[at] = Some(Open {
            file,
            position: 0,
            is_sync: access == Access::ReadWriteSync || self.file_system.is_sync(),
        });
    }

    fn open(&mut self, actor: u32, slot: Slot) -> &mut Open {
        let open = self.actors[index(actor)].open[index(slot.0)].as_mut();
        open.expect("a workload uses what it opened")
    }

    /// Returns the offset of an operation. An operation at the position advances it.
    fn offset(&mut self, actor: u32, slot: Slot, at: At, bytes: u64) -> u64 {
        match at {
            At::Offset(offset) => offset,
            At::Position => {
                let open = self.open(actor, slot);
                open.position += bytes;
                open.position - bytes
            }
        }
    }

    fn read(
        &mut self,
        actor: u32,
        slot: Slot,
        at: At,
        bytes: u64,
        ns_per_kib: u64,
        steps: &mut VecDeque<Step>,
    ) -> Answer {
        let open = *self.open(actor, slot);
        let begin = match at {
            At::Offset(offset) => offset,
            At::Position => open.position,
        };
        let there = self.file_system.bytes(open.file).saturating_sub(begin);
        let bytes = bytes.min(there);
        let begin = self.offset(actor, slot, at, bytes);
        let array_ns = u64::from(self.is_array) * self.machine.array_read_ns_per_kib;
        if bytes == 0 {
            steps.push_back(Step::Compute(self.machine.syscall_ns));
            return Answer { bytes };
        }
        let range = Range {
            file: open.file,
            at: begin,
            end: begin + bytes,
            ns_per_kib: ns_per_kib + array_ns,
            is_sync: false,
        };
        self.push_locked(open.file, Step::Read(range), steps);
        Answer { bytes }
    }

    fn write(
        &mut self,
        actor: u32,
        slot: Slot,
        at: At,
        bytes: u64,
        ns_per_kib: Option<u64>,
        steps: &mut VecDeque<Step>,
    ) -> Answer {
        let offset = self.offset(actor, slot, at, bytes);
        let open = *self.open(actor, slot);
        let is_new = offset >= self.file_system.bytes(open.file);
        let plain_ns = if is_new {
            self.machine.write_ns_per_kib
        } else {
            self.machine.overwrite_ns_per_kib
        };
        let array_ns = u64::from(self.is_array) * self.machine.array_write_ns_per_kib;
        if bytes > 0 {
            let range = Range {
                file: open.file,
                at: offset,
                end: offset + bytes,
                ns_per_kib: ns_per_kib.unwrap_or(plain_ns) + array_ns,
                is_sync: open.is_sync,
            };
            self.push_locked(open.file, Step::Write(range), steps);
        }
        Answer { bytes }
    }

    /// Adds a part that one actor at a time carries out on a file, if the system locks files.
    fn push_locked(&self, file: FileId, step: Step, steps: &mut VecDeque<Step>) {
        if self.machine.locks_files {
            steps.extend([Step::Lock(file), step, Step::Unlock(file)]);
        } else {
            steps.push_back(step);
        }
    }

    /// Runs all actors that can continue.
    fn run(&mut self, now: Instant) {
        while let Some(actor) = self.ready.pop_front() {
            let is_done = loop {
                let Some(step) = self.actors[index(actor)].steps.pop_front() else {
                    break true;
                };
                match self.step(now, actor, step) {
                    Ok(true) => {}
                    Ok(false) => break false,
                    Err(error) => {
                        self.error.get_or_insert((actor, error));
                        break false;
                    }
                }
            };
            if is_done {
                let one = &mut self.actors[index(actor)];
                one.acts = false;
                let answer = core::mem::take(&mut one.answer);
                self.done.push_back((actor, answer));
            }
        }
    }

    /// Carries out a part of an action. Returns false if the actor waits.
    fn step(&mut self, now: Instant, actor: u32, step: Step) -> Result<bool, HostError> {
        match step {
            Step::Compute(0) | Step::Copy(0) => Ok(true),
            Step::Compute(ns) => {
                let ends_ns = self.cpus.take(now.0, ns);
                self.timers.insert((ends_ns, actor));
                Ok(false)
            }
            Step::Copy(ns) => {
                let ends_ns = self.cpus.copy(now.0, ns);
                self.timers.insert((ends_ns, actor));
                Ok(false)
            }
            Step::Effect(effect) => Ok(self.effect(now, actor, effect)),
            Step::Lock(file) => {
                let queue = self.locks.entry(file).or_default();
                queue.push_back(actor);
                Ok(queue.len() == 1)
            }
            Step::Unlock(file) => {
                let queue = self.locks.entry(file).or_default();
                queue.pop_front();
                self.ready.extend(queue.front());
                Ok(true)
            }
            Step::Read(range) => Ok(self.read_block(actor, range)),
            Step::Write(range) => self.write_block(now, actor, range),
            Step::Throttle => {
                let waits = self.is_throttled();
                if waits {
                    self.first(actor, [Step::Throttle]);
                    self.throttled.push_back(actor);
                }
                Ok(!waits)
            }
            Step::WriteFile(file) => {
                let blocks = self.changed_of(file);
                self.write_blocks(&blocks, true);
                let awaits: Vec<Step> = blocks.into_iter().map(Step::Await).collect();
                self.first(actor, awaits);
                Ok(true)
            }
            Step::WriteAll => {
                self.write_back(u64::MAX - 1, usize::MAX);
                Ok(true)
            }
            Step::Await(block) => {
                let waits = self.cache.is_under_way(block);
                if waits {
                    self.await_block(actor, block);
                }
                Ok(!waits)
            }
            Step::SyncInode(file) => {
                let mut effects = Effects::new();
                self.file_system.sync(file, &mut effects);
                let steps: Vec<Step> = effects.into_iter().map(Step::Effect).collect();
                self.first(actor, steps);
                Ok(true)
            }
            Step::Log(file) => {
                let bytes = file.and_then(|file| self.unlogged.remove(&file));
                self.log.add(actor, bytes.unwrap_or(0));
                self.begin_log(now);
                Ok(false)
            }
            Step::AwaitWrites => Ok(self.await_writes(actor)),
        }
    }

    /// Waits for the writes under way. Returns false if the actor waits.
    fn await_writes(&mut self, actor: u32) -> bool {
        self.end_transaction();
        let under_way = self.under_way.values();
        let block = under_way
            .filter(|one| one.is_write)
            .find_map(|one| one.blocks.first());
        let Some(block) = block.copied() else {
            return true;
        };
        self.first(actor, [Step::AwaitWrites]);
        self.await_block(actor, block);
        false
    }

    /// Puts parts before the others of an actor, in order.
    fn first<S: IntoIterator<Item = Step>>(&mut self, actor: u32, steps: S)
    where
        S::IntoIter: DoubleEndedIterator,
    {
        let queue = &mut self.actors[index(actor)].steps;
        for step in steps.into_iter().rev() {
            queue.push_front(step);
        }
    }

    fn await_block(&mut self, actor: u32, block: Block) {
        let waiting = self.waiting.entry(block.place_bytes).or_default();
        waiting.push(actor);
    }

    /// Carries out a step of a file system. Returns false if the actor waits.
    fn effect(&mut self, now: Instant, actor: u32, effect: Effect) -> bool {
        match effect {
            Effect::Search(entries) => {
                let ns = entries * self.machine.entry_scan_ns;
                self.first(actor, [Step::Compute(ns)]);
                true
            }
            Effect::Need(block) => match self.cache.find(block) {
                Presence::Present => true,
                Presence::UnderWay => {
                    self.await_block(actor, block);
                    false
                }
                Presence::Absent => {
                    self.cache.begin_read(block, false);
                    self.send(RequestKind::Read, vec![block]);
                    self.await_block(actor, block);
                    false
                }
            },
            Effect::Change(block) => {
                self.cache.change(block, false, now.0);
                true
            }
            Effect::WriteNow(block) => {
                if self.cache.is_under_way(block) {
                    self.first(actor, [Step::Effect(effect)]);
                } else {
                    self.cache.begin_write(block, false);
                    self.send(RequestKind::Write, vec![block]);
                }
                self.await_block(actor, block);
                false
            }
            Effect::Forget(block) => {
                self.cache.forget(block);
                true
            }
        }
    }

    /// Reads the first block of a range: waits for it, or takes it from memory.
    fn read_block(&mut self, actor: u32, range: Range) -> bool {
        let block_bytes = u64::from(self.file_system.block_bytes());
        let number = range.at / block_bytes;
        let Some(block) = self.file_system.place(range.file, number) else {
            return true;
        };
        let continues = self.streams.entry(range.file).or_default().reads(number);
        match self.cache.find(block) {
            Presence::Present => {
                if continues && let Some(missing) = self.read_ahead(range.file, number) {
                    self.first(actor, [Step::Effect(missing), Step::Read(range)]);
                    return true;
                }
                let next = range.end.min((number + 1) * block_bytes);
                let cost = Step::Copy((next - range.at) * range.ns_per_kib / 1024);
                let rest = Range { at: next, ..range };
                let rest = (next < range.end).then_some(Step::Read(rest));
                self.first(actor, [cost]);
                if let Some(rest) = rest {
                    self.actors[index(actor)].steps.insert(1, rest);
                }
                return true;
            }
            Presence::UnderWay => {}
            Presence::Absent => {
                if let Some(missing) =
                    missing(&*self.file_system, &mut self.cache, range.file, number)
                {
                    self.first(actor, [Step::Effect(missing), Step::Read(range)]);
                    return true;
                }
                let blocks = match self.machine.read_ahead {
                    _ if !continues => 1,
                    ReadAhead::Fixed(_) => self.machine.cluster_bytes / block_bytes,
                    ReadAhead::Growing(_) => FIRST_WINDOW_BYTES / block_bytes,
                };
                let end = self.read_cluster(range.file, number, blocks.max(1));
                let stream = self.streams.entry(range.file).or_default();
                stream.ahead = stream.ahead.max(end);
                stream.sent(number..end);
                if continues && let Some(missing) = self.read_ahead(range.file, number) {
                    self.first(actor, [Step::Effect(missing), Step::Read(range)]);
                    return true;
                }
            }
        }
        self.first(actor, [Step::Read(range)]);
        self.await_block(actor, block);
        false
    }

    /// Sends the reads that lie ahead of a block, cluster by cluster. Returns what must be read
    /// first to find them, if growing windows wait for that.
    fn read_ahead(&mut self, file: FileId, number: u64) -> Option<Effect> {
        let block_bytes = u64::from(self.file_system.block_bytes());
        let cluster = (self.machine.cluster_bytes / block_bytes).max(1);
        match self.machine.read_ahead {
            ReadAhead::Fixed(bytes) => loop {
                let window = bytes / block_bytes;
                let ahead = self.streams.entry(file).or_default().ahead.max(number + 1);
                if window == 0 || ahead + cluster > number + 1 + window {
                    return None;
                }
                let end = self.read_cluster(file, ahead, cluster);
                if end == ahead {
                    return None;
                }
                self.streams.entry(file).or_default().ahead = end;
            },
            ReadAhead::Growing(bytes) => {
                let stream = self.streams.entry(file).or_default();
                let window = stream.next_window(number, bytes / block_bytes)?;
                let mut at = window.start;
                while at < window.end {
                    let missing = missing(&*self.file_system, &mut self.cache, file, at);
                    if missing.is_some() {
                        return missing;
                    }
                    let end = self.read_cluster(file, at, cluster.min(window.end - at));
                    if end == at {
                        break;
                    }
                    at = end;
                }
                let stream = self.streams.entry(file).or_default();
                stream.sent(window.start..at);
                None
            }
        }
    }

    /// Reads neighbouring blocks that are not in memory, from one on. Returns the block after them.
    fn read_cluster(&mut self, file: FileId, first: u64, most: u64) -> u64 {
        let mut blocks: Vec<Block> = Vec::new();
        let mut number = first;
        while number < first + most {
            let Some(block) = self.file_system.place(file, number) else {
                break;
            };
            let continues = blocks
                .last()
                .is_none_or(|last| last.end_bytes() == block.place_bytes);
            if self.cache.knows(block) {
                if blocks.is_empty() {
                    number += 1;
                    continue;
                }
                break;
            }
            if !continues {
                break;
            }
            self.cache.begin_read(block, true);
            blocks.push(block);
            number += 1;
        }
        if !blocks.is_empty() {
            self.send(RequestKind::Read, blocks);
        }
        number
    }

    /// Writes the first block of a range into memory, and what that completes to the device.
    fn write_block(&mut self, now: Instant, actor: u32, range: Range) -> Result<bool, HostError> {
        let block_bytes = u64::from(self.file_system.block_bytes());
        let number = range.at / block_bytes;
        let next = range.end.min((number + 1) * block_bytes);
        let old_bytes = self.file_system.bytes(range.file);
        let old_end = old_bytes.min((number + 1) * block_bytes);
        let is_whole = range.at.is_multiple_of(block_bytes) && next >= old_end;
        if let Some(block) = self.file_system.place(range.file, number)
            && !is_whole
            && self.cache.find(block) != Presence::Present
        {
            // The rest of the block comes from the device.
            if !self.cache.is_under_way(block) {
                self.cache.begin_read(block, true);
                self.send(RequestKind::Read, vec![block]);
            }
            self.first(actor, [Step::Write(range)]);
            self.await_block(actor, block);
            return Ok(false);
        }
        let mut effects = Effects::new();
        // With a journal, the date of the file changes its inode.
        let is_dated = self.file_system.journal().is_some()
            && self.streams.entry(range.file).or_default().dates(now.0);
        if next > old_bytes || is_dated {
            self.file_system.grow(range.file, next, &mut effects)?;
        }
        let block = self.file_system.place(range.file, number);
        let block = block.expect("just allocated");
        self.cache.change(block, true, now.0);
        let mut steps: Vec<Step> = effects.into_iter().map(Step::Effect).collect();
        steps.push(Step::Copy((next - range.at) * range.ns_per_kib / 1024));
        if self.file_system.transactions().is_some() {
            *self.unlogged.entry(range.file).or_default() += next - range.at;
            steps.extend(range.is_sync.then_some(Step::Log(Some(range.file))));
        } else if range.is_sync {
            self.write_blocks(&[block], true);
            steps.push(Step::Await(block));
            steps.push(match self.file_system.journal() {
                Some(_) => Step::Log(None),
                None => Step::SyncInode(range.file),
            });
        } else if next == (number + 1) * block_bytes && self.file_system.writes_clusters() {
            let cluster = (self.machine.cluster_bytes / block_bytes).max(1);
            let stream = self.streams.entry(range.file).or_default();
            let clusters = stream.writes(number, cluster);
            for (begin, end) in clusters.into_iter().flatten() {
                self.write_cluster(range.file, begin, end);
            }
        }
        self.write_beyond_share();
        steps.push(Step::Throttle);
        if next < range.end {
            steps.push(Step::Write(Range { at: next, ..range }));
        }
        self.first(actor, steps);
        Ok(true)
    }

    /// Writes blocks of a file that are changed.
    fn write_cluster(&mut self, file: FileId, begin: u64, end: u64) {
        let places = (begin..end).filter_map(|number| self.file_system.place(file, number));
        let blocks: Vec<Block> = places.collect();
        self.write_blocks(&blocks, true);
    }

    /// Returns the changed blocks of a file.
    fn changed_of(&mut self, file: FileId) -> Vec<Block> {
        self.streams.entry(file).or_default().cluster = None;
        let all = self.cache.changed_until(u64::MAX - 1, usize::MAX);
        let changed: BTreeSet<Block> = all.into_iter().map(|(block, _)| block).collect();
        let block_bytes = u64::from(self.file_system.block_bytes());
        let count = self.file_system.bytes(file).div_ceil(block_bytes);
        let places = (0..count).filter_map(|number| self.file_system.place(file, number));
        let matters = |block: &Block| changed.contains(block) || self.cache.is_under_way(*block);
        let mut blocks: Vec<Block> = places.filter(matters).collect();
        let pointers = self.file_system.pointers(file);
        if !pointers.is_empty() {
            blocks.extend(pointers.into_iter().filter(matters));
            blocks.sort_unstable();
        }
        blocks
    }

    /// Returns true if writers wait for the device.
    fn is_throttled(&self) -> bool {
        if self.file_system.transactions().is_some() {
            let is_full = self.cache.changed_bytes() > self.machine.shares.written();
            return is_full && !self.batches.is_empty();
        }
        let is_full = self.writing_bytes > self.machine.write_behind_bytes_max;
        // Where writers do not write themselves, they wait only if they changed too much.
        let bytes = self.cache.changed_bytes() + self.writing_bytes;
        is_full && (self.file_system.writes_clusters() || bytes > self.machine.shares.most())
    }

    /// Writes the oldest blocks if too many are changed. A system that writes for its actors keeps
    /// some bytes under way.
    fn write_beyond_share(&mut self) {
        let clusters = if self.file_system.writes_clusters() {
            1
        } else if self.writing_bytes > self.machine.write_behind_bytes_max {
            return;
        } else {
            CLUSTERS_AT_ONCE
        };
        if self.cache.changed_bytes() > self.machine.shares.written() {
            let blocks = self.machine.cluster_bytes / u64::from(self.file_system.block_bytes());
            let most = usize::try_from(blocks * clusters).expect("64 bits");
            self.write_back(u64::MAX - 1, most.max(1));
        }
    }

    /// Begins a transaction of all changed blocks, unless one is being written.
    fn begin_transaction(&mut self, batch_bytes: u64) {
        if self.batches_under_way > 0 {
            return;
        }
        self.unlogged.clear();
        let mut batch = Vec::new();
        let mut bytes = 0;
        for (block, _) in self.cache.changed_until(u64::MAX - 1, usize::MAX) {
            bytes += u64::from(block.bytes);
            batch.push(block);
            if bytes >= batch_bytes {
                bytes = 0;
                self.batches.push_back(core::mem::take(&mut batch));
            }
        }
        self.batches.extend((!batch.is_empty()).then_some(batch));
        self.send_batches();
    }

    /// Begins another transaction if blocks changed after the last one began.
    fn end_transaction(&mut self) {
        if let Some(bytes) = self.file_system.transactions()
            && self.cache.changed_bytes() > 0
        {
            self.begin_transaction(bytes);
        }
    }

    /// Sends parts of the transaction. Blocks that were freed meanwhile are left out.
    fn send_batches(&mut self) {
        while self.batches_under_way < BATCHES_MAX
            && let Some(mut batch) = self.batches.pop_front()
        {
            batch.retain(|block| self.cache.is_changed(*block));
            if batch.is_empty() {
                continue;
            }
            for block in &batch {
                self.cache.begin_write(*block, true);
            }
            self.batches_under_way += 1;
            self.send(RequestKind::Write, batch);
        }
    }

    /// Begins a write of the log, if one is due and none is under way. The data under way comes
    /// before the commit of a journal.
    fn begin_log(&mut self, now: Instant) {
        if let Some(bytes) = self.log.begin() {
            let groups = self.file_system.log(bytes);
            let is_ordered = self.file_system.journal().is_some() && !groups.is_empty();
            let writes = self.under_way.iter();
            let writes = writes.filter(|(_, one)| is_ordered && one.is_write);
            let before = writes.map(|(id, _)| *id).collect();
            let next = self.log.start(groups, before);
            self.go_on(now, next);
        }
    }

    /// Goes on with the log.
    fn go_on(&mut self, now: Instant, next: Next) {
        match next {
            Next::Wait => {}
            Next::Send(pieces) => self.send_pieces(&pieces, Vec::new(), false),
            Next::Done(actors) => {
                for block in self.file_system.committed() {
                    // Neighbours are written together, as data is.
                    self.cache.change(block, true, now.0);
                }
                let overdue = self.file_system.overdue();
                self.write_blocks(&overdue, true);
                self.ready.extend(actors);
                self.begin_log(now);
            }
        }
    }

    /// Writes blocks that changed until a moment.
    fn write_back(&mut self, until_ns: u64, most: usize) {
        if let Some(bytes) = self.file_system.transactions() {
            self.begin_transaction(bytes);
            return;
        }
        let changed = self.cache.changed_until(until_ns, most);
        for run in changed.chunk_by(|(_, before), (_, after)| *before && *after) {
            let blocks: Vec<Block> = run.iter().map(|(block, _)| *block).collect();
            self.write_blocks(&blocks, run[0].1);
        }
    }

    /// Writes blocks, neighbours in one request up to a cluster.
    fn write_blocks(&mut self, blocks: &[Block], is_data: bool) {
        let mut run: Vec<Block> = Vec::new();
        let mut run_bytes = 0;
        for block in blocks.iter().copied() {
            if self.cache.is_under_way(block) {
                continue;
            }
            let follows = run
                .last()
                .is_none_or(|last| last.end_bytes() == block.place_bytes);
            let fits = run_bytes + u64::from(block.bytes) <= self.machine.cluster_bytes;
            // The file system places blocks now, and joins neighbours.
            let joins = is_data && follows || self.file_system.journal().is_some();
            if !(run.is_empty() || joins && fits) {
                run_bytes = 0;
                self.send(RequestKind::Write, core::mem::take(&mut run));
            }
            self.cache.begin_write(block, is_data);
            run_bytes += u64::from(block.bytes);
            run.push(block);
        }
        if !run.is_empty() {
            self.send(RequestKind::Write, run);
        }
    }

    /// Sends requests for blocks.
    fn send(&mut self, kind: RequestKind, blocks: Vec<Block>) {
        let is_write = kind == RequestKind::Write;
        if is_write {
            let bytes: u64 = blocks.iter().map(|block| u64::from(block.bytes)).sum();
            self.writing_bytes += bytes;
        }
        let pieces = self.file_system.requests(kind, &blocks);
        self.send_pieces(&pieces, blocks, is_write);
    }

    /// Sends requests that are answered together.
    fn send_pieces(&mut self, pieces: &[Piece], blocks: Vec<Block>, is_write: bool) {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.requests.extend(pieces.iter().map(|piece| Request {
            id,
            kind: piece.kind,
            offset_bytes: piece.offset_bytes,
            bytes: piece.bytes,
        }));
        let left = u32::try_from(pieces.len()).expect("few requests");
        let under_way = UnderWay {
            blocks,
            is_write,
            left,
        };
        self.under_way.insert(id, under_way);
    }
}

/// Returns the step that reads what is missing to find a block of a file.
fn missing(fs: &dyn FileSystem, cache: &mut Cache, file: FileId, number: u64) -> Option<Effect> {
    let mut effects = Effects::new();
    fs.find(file, number, &mut effects);
    effects.into_iter().find(|effect| match effect {
        Effect::Need(block) => cache.find(*block) != Presence::Present,
        _ => false,
    })
}

/// Carries out an action of an actor without requests and time, for files that are there before a
/// measurement begins. End with `lay_out`; the memory holds none of their blocks.
///
/// # Errors
///
/// The action is not possible.
pub fn prepare(
    host: &mut Host,
    actor: u32,
    action: Action,
    path: &str,
) -> Result<Answer, HostError> {
    let at = index(actor);
    if host.actors.len() <= at {
        host.actors.resize_with(at + 1, Actor::default);
    }
    let mut steps = VecDeque::new();
    let answer = host.steps(actor, action, path, &mut steps)?;
    for step in steps {
        match step {
            Step::Effect(effect) => host.prepared.take(effect),
            Step::Write(range) => prepare_range(host, range)?,
            _ => {}
        }
        if host.prepared.bytes > host.machine.shares.written() {
            lay_out(host);
        }
    }
    Ok(answer)
}

fn prepare_range(host: &mut Host, range: Range) -> Result<(), HostError> {
    let mut effects = Effects::new();
    if range.end > host.file_system.bytes(range.file) {
        host.file_system.grow(range.file, range.end, &mut effects)?;
    }
    let block_bytes = u64::from(host.file_system.block_bytes());
    let blocks = range.at / block_bytes..range.end.div_ceil(block_bytes);
    let places = blocks.filter_map(|number| host.file_system.place(range.file, number));
    let places = places.map(Effect::Change);
    for effect in effects.into_iter().chain(places) {
        host.prepared.take(effect);
    }
    Ok(())
}

/// Gives what `prepare` changed its places, as a transaction would.
pub fn lay_out(host: &mut Host) {
    let blocks = host.prepared.end();
    host.file_system.lay_out(&blocks);
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

#[cfg(test)]
mod tests;
