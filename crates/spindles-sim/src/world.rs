//! The driver in virtual time: carries the engines' outputs to simulated disks and to each other,
//! and what comes back into the engines.

use crate::checkers::{CHECKERS, Check, Scene, Seen};
use crate::client::{Client, Flight, Token, Wish};
use crate::disk::{Landing, PowerLoss, WriteData};
use crate::disks::Work;
use crate::log::{Entry, Log};
use crate::options::Options;
use crate::queue::Queue;
use crate::random::Random;
use crate::stack::{Below, Stack};
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, Compute, ComputeResult, Instant, MemberError, MemberIo,
    MemberIoId, MemberResult, MemberSet, Operation, Reply, Request, RequestError, StepId,
};
use spindles_engine::{Command, Engine, Event, Output};
use spindles_format::SLOT_BYTES;
use std::collections::{BTreeMap, VecDeque};

/// What will happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// A disk is done with what is at this place of `World::ios`.
    Disk(usize),
    /// A computation is done.
    Computed { array: usize, step: StepId },
    /// An engine wanted to be woken.
    Timeout { array: usize },
}

/// What an engine is given.
#[derive(Clone, Copy, Debug)]
enum Input {
    Submit(usize, Request),
    Member(usize, MemberIoId, MemberResult),
    Computed(usize, StepId, ComputeResult),
    Timeout(usize),
    Command(usize, Command),
    /// The engine was just opened: only its outputs are to be carried out.
    Opened(usize),
}

/// An operation on a disk, in flight.
#[derive(Clone, Debug)]
struct DiskIo {
    array: usize,
    io: MemberIo,
    disk: usize,
    first_sector: u64,
    bytes: usize,
    /// What a write carried when it was submitted.
    data: Option<WriteData>,
    /// What a flush covers.
    covered: u64,
    lost: bool,
}

/// A checker's finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which checker.
    pub checker: &'static str,
    /// What it found.
    pub what: String,
    /// In which session.
    pub session: u32,
    /// When.
    pub at: Instant,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (checker, what, session) = (self.checker, &self.what, self.session);
        write!(f, "{checker}: {what} (session {session}, {} ns)", self.at.0)
    }
}

/// A run under way.
pub struct World {
    /// What it was meant to be.
    pub options: Options,
    /// What happened.
    pub log: Log,
    /// The disks, and the maps of the arrays on them.
    pub stack: Stack,
    /// The first finding.
    pub failure: Option<Failure>,
    /// How often each fault struck, and each ending came.
    pub struck: BTreeMap<&'static str, u64>,
    pub(crate) client: Client,
    pub(crate) queue: Queue<Happening>,
    pub(crate) engines: Vec<Option<Engine>>,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) session: u32,
    /// Arrays whose engine has answered `Closed`, and whether clean.
    pub(crate) closed: Vec<Option<bool>>,
    /// Whether errors may be answered: see `Scene`.
    pub(crate) errors_excused: bool,
    pub(crate) faults: Random,
    /// Answers to requests of the simulator itself.
    pub(crate) own_replies: Vec<Reply>,
    ios: Vec<Option<DiskIo>>,
    held: Vec<VecDeque<Request>>,
    /// What each array was asked by the one above it, by token.
    handed: Vec<BTreeMap<u64, Operation>>,
    inputs: VecDeque<Input>,
    gone: Vec<bool>,
    slow: Vec<bool>,
    lost_at: Vec<Option<Instant>>,
    latency: Random,
    watch: Vec<(&'static str, Box<dyn Check>)>,
    steps: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut world = f.debug_struct("World");
        world.field("seed", &self.options.seed);
        world.field("now", &self.queue.now());
        world.finish_non_exhaustive()
    }
}

/// Tokens from here on are the simulator's own.
pub(crate) const OWN_TOKEN: u64 = 1 << 62;

const STEPS_MAX: u64 = 3_000_000;

fn index(value: u32) -> usize {
    usize::try_from(value).expect("small")
}

impl World {
    /// Disks and maps before anything was opened.
    pub(crate) fn new(options: Options, stack: Stack, story: bool) -> Self {
        let arrays = stack.arrays.len();
        let disks = stack.disks.len();
        // Two buffers for each array, one of the simulator's own, then the clients'.
        let client_buffer = 2 * arrays + 1;
        let buffers = client_buffer + index(options.depth);
        let first = u32::try_from(client_buffer).expect("few");
        Self {
            log: Log::new(story),
            failure: None,
            struck: BTreeMap::new(),
            client: Client::new(&options, stack.geometry().blocks(), first),
            queue: Queue::new(),
            engines: (0..arrays).map(|_| None).collect(),
            buffers: vec![Vec::new(); buffers],
            session: 0,
            closed: vec![None; arrays],
            errors_excused: false,
            faults: Random::new(options.seed, "faults"),
            own_replies: Vec::new(),
            ios: Vec::new(),
            held: vec![VecDeque::new(); arrays],
            handed: vec![BTreeMap::new(); arrays],
            inputs: VecDeque::new(),
            gone: vec![false; disks],
            slow: vec![false; disks],
            lost_at: vec![None; disks],
            latency: Random::new(options.seed, "latency"),
            watch: (CHECKERS.iter())
                .map(|checker| (checker.name, (checker.start)()))
                .collect(),
            steps: 0,
            options,
            stack,
        }
    }

    pub(crate) fn scratch_of(array: usize) -> BufferId {
        BufferId(u32::try_from(2 * array).expect("few"))
    }

    pub(crate) fn metadata_of(array: usize) -> BufferId {
        BufferId(u32::try_from(2 * array + 1).expect("few"))
    }

    pub(crate) fn own_buffer(&self) -> BufferId {
        BufferId(u32::try_from(2 * self.stack.arrays.len()).expect("few"))
    }

    /// The moment it is.
    pub fn now(&self) -> Instant {
        self.queue.now()
    }

    /// Something rare happened.
    pub(crate) fn note(&mut self, text: &str) {
        self.log.note(self.queue.now(), text);
    }

    /// Shows all checkers what happened.
    pub(crate) fn show(&mut self, seen: &Seen<'_>) {
        if self.failure.is_some() {
            return;
        }
        let mut scene = Scene {
            now: self.queue.now(),
            options: &self.options,
            stack: &self.stack,
            history: &mut self.client.history,
            lost_at: &self.lost_at,
            errors_excused: self.errors_excused,
        };
        for (checker, check) in &mut self.watch {
            if let Err(what) = check.see(&mut scene, seen) {
                let (session, at) = (self.session, self.queue.now());
                let failure = Failure {
                    checker,
                    what,
                    session,
                    at,
                };
                self.log.note(at, &format!("FOUND by {failure}"));
                self.failure = Some(failure);
                return;
            }
        }
    }

    pub(crate) fn stalled(&mut self, what: &str) {
        self.show(&Seen::Stalled { what });
    }

    /// One thing happens. False when nothing is left to happen.
    pub(crate) fn step(&mut self) -> bool {
        if self.failure.is_some() {
            return false;
        }
        let Some(happening) = self.queue.advance() else {
            return false;
        };
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.stalled("it does not come to an end");
            return false;
        }
        match happening {
            Happening::Disk(place) => self.disk_done(place),
            Happening::Computed { array, step } => {
                let result = self.compute(array, step);
                let now = self.queue.now();
                self.log.entry(now, Entry::Computed { array });
                self.give(Input::Computed(array, step, result));
            }
            Happening::Timeout { array } => self.give(Input::Timeout(array)),
        }
        true
    }

    pub(crate) fn engine(&self, array: usize) -> &Engine {
        self.engines[array].as_ref().expect("the array is open")
    }

    /// Whether the array is open.
    pub(crate) fn is_open(&self, array: usize) -> bool {
        self.engines[array].is_some()
    }

    pub(crate) fn opened(&mut self, array: usize) {
        self.give(Input::Opened(array));
    }

    pub(crate) fn command(&mut self, array: usize, command: Command) {
        self.give(Input::Command(array, command));
    }

    /// A request of the simulator itself, over whole blocks. Whether it was done.
    fn ask_own(&mut self, array: usize, operation: Operation, block: BlockIndex) -> bool {
        let buffer = self.own_buffer();
        let bytes = self.buffers[index(buffer.0)].len();
        let request = Request {
            token: OWN_TOKEN,
            operation,
            block,
            blocks: u32::try_from(bytes / self.stack.block_bytes).expect("small"),
            buffer: BufferSlice {
                buffer,
                first_block: 0,
            },
        };
        self.give(Input::Submit(array, request));
        while self.own_replies.is_empty() && self.step() {}
        self.own_replies
            .pop()
            .is_some_and(|reply| reply.result.is_ok())
    }

    /// Reads from an array that is open.
    pub(crate) fn read_own(
        &mut self,
        array: usize,
        block: BlockIndex,
        bytes: usize,
    ) -> Option<Vec<u8>> {
        let buffer = index(self.own_buffer().0);
        self.buffers[buffer] = vec![0; bytes];
        let done = self.ask_own(array, Operation::Read, block);
        done.then(|| self.buffers[buffer].clone())
    }

    /// Writes durably to an array that is open.
    pub(crate) fn write_own(&mut self, array: usize, block: BlockIndex, bytes: &[u8]) -> bool {
        let buffer = index(self.own_buffer().0);
        self.buffers[buffer] = bytes.to_vec();
        self.ask_own(array, Operation::Write { fua: true }, block)
    }

    fn give(&mut self, input: Input) {
        self.inputs.push_back(input);
        while let Some(input) = self.inputs.pop_front() {
            let now = self.queue.now();
            let array = match input {
                Input::Submit(array, _)
                | Input::Member(array, ..)
                | Input::Computed(array, ..)
                | Input::Timeout(array)
                | Input::Command(array, _)
                | Input::Opened(array) => array,
            };
            let Some(engine) = self.engines[array].as_mut() else {
                continue; // It crashed.
            };
            match input {
                Input::Submit(_, request) => {
                    if engine.submit(now, request).is_err() {
                        self.busy(array, request);
                    }
                }
                Input::Member(_, id, result) => engine.complete_member(now, id, result),
                Input::Computed(_, step, result) => engine.complete_compute(now, step, result),
                Input::Timeout(_) => engine.handle_timeout(now),
                Input::Command(_, command) => {
                    if let Err(error) = engine.command(now, command) {
                        self.note(&format!("{command:?} was not taken: {error:?}"));
                    }
                }
                Input::Opened(_) => {}
            }
            self.carry_out(array);
        }
    }

    fn busy(&mut self, array: usize, request: Request) {
        if array == self.stack.top() && request.token < OWN_TOKEN {
            self.client.held = Some(request);
        } else if array == self.stack.top() {
            self.stalled("an idle array is busy");
        } else {
            self.stalled("an array below another was busy: its pools are too small");
            self.held[array].push_back(request);
        }
    }

    /// Carries out the outputs of one engine.
    fn carry_out(&mut self, array: usize) {
        while let Some(output) = self.engines[array].as_mut().and_then(Engine::poll_output) {
            match output {
                Output::Member(io) => {
                    match self.stack.arrays[array].members[usize::from(io.member.0)] {
                        Below::Disk(disk) => self.start_io(array, disk, io),
                        Below::Array(below) => self.hand_down(below, io),
                    }
                }
                Output::Compute(step) => {
                    let takes_ns = self.latency.between(500, 20_000);
                    self.queue
                        .after(takes_ns, Happening::Computed { array, step });
                }
                Output::Reply(reply) => self.replied(array, reply),
                Output::Event(event) => self.event(array, event),
            }
        }
        if let Some(at) = self.engine_timeout(array) {
            self.queue.at(at, Happening::Timeout { array });
        }
    }

    /// A member I/O of one array becomes a request to the array that the member is.
    fn hand_down(&mut self, below: usize, io: MemberIo) {
        let request = Request {
            token: u64::from(io.id.0),
            operation: io.operation,
            block: io.block,
            blocks: io.blocks,
            buffer: io.buffer,
        };
        self.handed[below].insert(request.token, io.operation);
        self.inputs.push_back(Input::Submit(below, request));
    }

    fn engine_timeout(&self, array: usize) -> Option<Instant> {
        self.engines[array].as_ref().and_then(Engine::poll_timeout)
    }

    fn event(&mut self, array: usize, event: Event) {
        self.note(&format!("array {array}: {event:?}"));
        let geometry = &self.stack.arrays[array].geometry;
        let has_parity = geometry.parity_chunks() > 0;
        match event {
            Event::ResyncStarted => self.stack.arrays[array].unsettled = has_parity,
            Event::ResyncDone { .. } => self.stack.arrays[array].unsettled = false,
            Event::Closed { clean } => self.closed[array] = Some(clean),
            _ => {}
        }
    }

    fn replied(&mut self, array: usize, reply: Reply) {
        if reply.token >= OWN_TOKEN {
            self.own_replies.push(reply);
        } else if let Some((above, _)) = self.stack.arrays[array].above {
            let id = MemberIoId(u32::try_from(reply.token).expect("it was made of one"));
            let operation = self.handed[array].remove(&reply.token);
            let is_read = operation == Some(Operation::Read);
            let result = reply.result.map_err(|error| match error {
                RequestError::Corrupt => MemberError::Corrupt,
                _ if is_read => MemberError::Medium,
                _ => MemberError::Gone,
            });
            self.inputs.push_back(Input::Member(above, id, result));
            if let Some(request) = self.held[array].pop_front() {
                self.inputs.push_back(Input::Submit(array, request));
            }
        } else {
            self.answered(reply);
        }
    }

    // ---- disks -------------------------------------------------------------------------------

    fn start_io(&mut self, array: usize, disk: usize, io: MemberIo) {
        let now = self.queue.now();
        let MemberIo {
            operation, blocks, ..
        } = io;
        let block = io.block.0;
        self.log.entry(
            now,
            Entry::Disk {
                disk,
                operation,
                block,
                blocks,
            },
        );
        let bytes = index(blocks) * self.stack.block_bytes;
        let first_sector = self.stack.sectors(disk, io.block).start;
        let data = match operation {
            Operation::Write { .. } => Some(self.bytes(array, io.buffer, bytes)),
            Operation::Discard | Operation::WriteZeroes { .. } => Some(vec![0; bytes]),
            Operation::Read | Operation::Flush => None,
        };
        let length = u64::from(blocks) * u64::try_from(self.stack.block_bytes).expect("small");
        let work = match operation {
            Operation::Read => Work::Read(length),
            Operation::Flush => Work::Flush,
            _ => Work::Write(length),
        };
        let mut takes_ns = (self.stack.disks[disk].model().service_ns)(&mut self.latency, work);
        if self.slow[disk] {
            takes_ns *= 20;
        }
        let io = DiskIo {
            array,
            io,
            disk,
            first_sector,
            bytes,
            data: data.map(|bytes| WriteData {
                first: first_sector,
                bytes,
            }),
            covered: self.stack.disks[disk].flush_begins(),
            lost: self.gone[disk],
        };
        let place = self.ios.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.ios.push(None);
            self.ios.len() - 1
        });
        self.ios[place] = Some(io);
        self.queue.after(takes_ns, Happening::Disk(place));
    }

    fn disk_done(&mut self, place: usize) {
        let io = self.ios[place].take().expect("it was in flight");
        let DiskIo {
            array,
            disk,
            first_sector,
            bytes,
            ..
        } = io;
        let operation = io.io.operation;
        let result = if io.lost {
            Err(MemberError::Gone)
        } else {
            match operation {
                Operation::Read => {
                    let mut read = vec![0; bytes];
                    let result = self.stack.disks[disk].read(first_sector, &mut read);
                    if result.is_ok() {
                        self.bytes_mut(io.io.buffer, bytes).copy_from_slice(&read);
                    }
                    result
                }
                Operation::Flush => {
                    self.stack.disks[disk].flush_ends(io.covered);
                    Ok(())
                }
                Operation::Write { fua } | Operation::WriteZeroes { fua } => {
                    let data = io.data.as_ref().expect("a write has data");
                    self.stack.disks[disk].write(data.first, &data.bytes, fua);
                    Ok(())
                }
                Operation::Discard => {
                    let data = io.data.as_ref().expect("a discard has zeros");
                    self.stack.disks[disk].write(data.first, &data.bytes, false);
                    Ok(())
                }
            }
        };
        if operation == Operation::Read && result.is_err() {
            // Nothing of a failed read may be used.
            self.bytes_mut(io.io.buffer, bytes).fill(0xee);
        }
        let now = self.queue.now();
        self.log.entry(
            now,
            Entry::DiskDone {
                disk,
                operation,
                block: io.io.block.0,
                done: result.is_ok(),
            },
        );
        if let (Operation::Write { .. }, Some(data)) = (operation, &io.data) {
            let buffer_changed = self.bytes(array, io.io.buffer, bytes) != data.bytes;
            self.show(&Seen::DiskWrote {
                disk,
                buffer_changed,
            });
        }
        self.give(Input::Member(array, io.io.id, result));
    }

    // ---- buffers and computation -------------------------------------------------------------

    /// The bytes at a place in a buffer.
    fn bytes(&self, array: usize, slice: BufferSlice, bytes: usize) -> Vec<u8> {
        if slice.buffer == BufferId::ZEROS {
            return vec![0; bytes];
        }
        let at = index(slice.first_block) * self.stack.block_bytes;
        let number = index(slice.buffer.0);
        // The metadata of this array, or of one above whose I/O was handed down.
        if number < 2 * self.stack.arrays.len() && number % 2 == 1 {
            let owner = number / 2;
            assert!(owner >= array, "metadata goes down only");
            return self.engine(owner).metadata()[at..at + bytes].to_vec();
        }
        self.buffers[number][at..at + bytes].to_vec()
    }

    fn bytes_mut(&mut self, slice: BufferSlice, bytes: usize) -> &mut [u8] {
        let at = index(slice.first_block) * self.stack.block_bytes;
        &mut self.buffers[index(slice.buffer.0)][at..at + bytes]
    }

    fn compute(&mut self, array: usize, id: StepId) -> ComputeResult {
        let step = self.engine(array).step(id);
        let (data_chunks, compute) = (step.data_chunks, step.compute);
        let code = spindles_parity::by_parity_chunks(step.parity_chunks);
        let bytes = index(step.blocks) * self.stack.block_bytes;
        let load = |operand: &spindles_block::Operand| {
            (operand.index, self.bytes(array, operand.slice, bytes))
        };
        let sources: Vec<(u8, Vec<u8>)> = step.sources.iter().map(load).collect();
        let places: Vec<BufferSlice> = step.targets.iter().map(|target| target.slice).collect();
        let mut targets: Vec<(u8, Vec<u8>)> = step.targets.iter().map(load).collect();
        let mut out: Vec<(u8, &mut [u8])> = targets
            .iter_mut()
            .map(|(index, bytes)| (*index, &mut bytes[..]))
            .collect();
        let mut result = ComputeResult::Done;
        match compute {
            Compute::Solve => {
                let sources: Vec<(u8, &[u8])> =
                    sources.iter().map(|(i, bytes)| (*i, &bytes[..])).collect();
                spindles_parity::solve(code, data_chunks, &sources, &mut out);
            }
            Compute::Update => {
                let pairs: Vec<(u8, &[u8], &[u8])> = sources
                    .chunks_exact(2)
                    .map(|pair| (pair[0].0, &pair[0].1[..], &pair[1].1[..]))
                    .collect();
                spindles_parity::update(code, data_chunks, &pairs, &mut out);
            }
            Compute::Compare => {
                if !sources.chunks_exact(2).all(|pair| pair[0].1 == pair[1].1) {
                    result = ComputeResult::Mismatch;
                }
            }
            Compute::Copy => {
                for ((_, target), (_, source)) in out.iter_mut().zip(&sources) {
                    target.copy_from_slice(source);
                }
            }
        }
        for (slice, (_, computed)) in places.into_iter().zip(targets) {
            self.bytes_mut(slice, bytes).copy_from_slice(&computed);
        }
        result
    }

    // ---- clients -----------------------------------------------------------------------------

    /// Asks what the clients wish, as long as there is room. `left` counts down.
    pub(crate) fn ask(&mut self, left: &mut u32) {
        while *left > 0 && self.client.has_room() && self.failure.is_none() {
            *left -= 1;
            let wish = self.client.wish();
            self.ask_for(wish);
        }
    }

    /// One request of a client.
    pub(crate) fn ask_for(&mut self, wish: Wish) {
        let now = self.queue.now();
        let request = self.client.request(now, wish, &mut self.buffers);
        self.log.entry(
            now,
            Entry::Request {
                token: request.token,
                operation: request.operation,
                block: request.block.0,
                blocks: request.blocks,
            },
        );
        let top = self.stack.top();
        self.give(Input::Submit(top, request));
    }

    fn answered(&mut self, reply: Reply) {
        let now = self.queue.now();
        let done = reply.result.is_ok();
        let token = reply.token;
        self.log.entry(now, Entry::Reply { token, done });
        let Some(flight) = self.client.take(token) else {
            return self.stalled(&format!("request {token} was answered twice"));
        };
        self.judge(&flight, done);
        if let Some(request) = self.client.held.take() {
            let top = self.stack.top();
            self.inputs.push_back(Input::Submit(top, request));
        }
    }

    fn judge(&mut self, flight: &Flight, done: bool) {
        let Request {
            operation,
            block,
            blocks,
            buffer,
            ..
        } = flight.request;
        if !done {
            match flight.token {
                Token::Read(token) => self.client.history.read_failed(token),
                Token::Write { token, fua } => {
                    self.client.history.write_answered(token, false, fua);
                }
                Token::Flush(_) => {}
            }
            let what = format!("{operation:?} of {blocks} blocks at {block}");
            return self.show(&Seen::Failed { what: &what });
        }
        match flight.token {
            Token::Read(token) => {
                let length = index(blocks) * self.stack.block_bytes;
                let bytes = self.bytes(0, buffer, length);
                self.show(&Seen::Read {
                    token,
                    bytes: &bytes,
                });
            }
            Token::Write { token, fua } => {
                let durable = self.client.history.write_answered(token, true, fua);
                self.show(&Seen::Written {
                    block,
                    blocks,
                    submitted: flight.submitted,
                    durable: &durable,
                });
            }
            Token::Flush(token) => {
                let durable = self.client.history.flush_answered(token);
                self.show(&Seen::Flushed { durable: &durable });
            }
        }
    }

    // ---- faults ------------------------------------------------------------------------------

    /// Any disk.
    pub fn random_disk(&mut self) -> usize {
        let disks = u64::try_from(self.stack.disks.len()).expect("few");
        usize::try_from(self.faults.below(disks)).expect("few")
    }

    /// A few sectors of a disk, near each other or not.
    pub fn random_sectors(&mut self, disk: usize) -> Vec<u64> {
        let bytes = self.stack.disks[disk].bytes().len();
        let sectors = u64::try_from(bytes / self.stack.disks[disk].sector_bytes()).expect("fits");
        if self.faults.percent(8) {
            let slot = self.faults.choose(&SLOT_BYTES);
            let bytes = u64::try_from(self.stack.disks[disk].sector_bytes()).expect("fits");
            return vec![slot / bytes];
        }
        let first = self.faults.below(sectors);
        let count = self.faults.between(1, 6);
        let near = self.faults.percent(50);
        let mut sector = |i| {
            if near {
                (first + i) % sectors
            } else {
                self.faults.below(sectors)
            }
        };
        (0..count).map(&mut sector).collect()
    }

    /// Whether the disk does not answer.
    pub fn is_gone(&self, disk: usize) -> bool {
        self.gone[disk]
    }

    /// The disk does not answer from now on; what is in flight on it lands or does not.
    pub fn drop_disk(&mut self, disk: usize) {
        self.note(&format!("disk {disk} drops out"));
        self.gone[disk] = true;
        self.lose(disk);
        for place in 0..self.ios.len() {
            let Some(io) = self.ios[place].as_mut().filter(|io| io.disk == disk) else {
                continue;
            };
            io.lost = true;
            if let Some(data) = io.data.clone() {
                let landing = Landing::random(&mut self.faults);
                self.stack.disks[disk].land(&mut self.faults, &data, landing);
            }
        }
    }

    fn lose(&mut self, disk: usize) {
        self.stack.lose_disk(disk);
        self.lost_at[disk].get_or_insert(self.queue.now());
    }

    /// The disk turned out to be up to date.
    pub(crate) fn found_again(&mut self, array: usize, members: MemberSet) {
        let this = &mut self.stack.arrays[array];
        this.lost = this.lost.difference(members);
        for member in members.iter() {
            if let Below::Disk(disk) = this.members[usize::from(member.0)] {
                self.lost_at[disk] = None;
            }
        }
    }

    /// The disk answers again. What is on it is out of date.
    pub(crate) fn bring_back(&mut self, disk: usize) {
        self.note(&format!("disk {disk} is back"));
        self.gone[disk] = false;
    }

    /// The sector can't be read until it is written.
    pub fn spoil_sector(&mut self, disk: usize, sector: u64) {
        self.note(&format!("sector {sector} of disk {disk} can't be read"));
        self.stack.disks[disk].make_unreadable(sector);
        self.stack.spoiled.insert((disk, sector));
    }

    /// The disk takes longer.
    pub fn slow_down(&mut self, disk: usize) {
        self.note(&format!("disk {disk} is slow"));
        self.slow[disk] = true;
    }

    /// The administrator puts the member out that the disk is.
    pub fn put_out(&mut self, disk: usize) -> bool {
        let (array, member) = self.stack.position(disk);
        let this = &self.stack.arrays[array];
        if !self.is_open(array) || !this.geometry.survives(this.lost.with(member)) {
            return false;
        }
        self.note(&format!("disk {disk} is put out"));
        self.lose(disk);
        self.command(array, Command::Fail(member));
        true
    }

    /// The process ends, and with it what is in flight.
    pub(crate) fn crash(&mut self, power: bool) {
        let ios: Vec<DiskIo> = self.ios.drain(..).flatten().collect();
        for disk in 0..self.stack.disks.len() {
            let of_disk = ios.iter().filter(|io| io.disk == disk && !io.lost);
            let writes: Vec<&WriteData> = of_disk.filter_map(|io| io.data.as_ref()).collect();
            if power {
                let how = PowerLoss::random(&mut self.faults);
                self.note(&format!("disk {disk}: {how:?}"));
                self.stack.disks[disk].lose_power(&mut self.faults, how, &writes);
            } else if !self.gone[disk] {
                for write in writes {
                    let landing = Landing::random(&mut self.faults);
                    self.stack.disks[disk].land(&mut self.faults, write, landing);
                }
            }
        }
        self.stop();
        if power {
            self.client.history.power_lost();
        } else {
            self.client.history.process_crashed();
        }
    }

    /// Nothing runs any more.
    pub(crate) fn stop(&mut self) {
        self.queue.clear();
        self.inputs.clear();
        self.ios.clear();
        self.own_replies.clear();
        self.engines.fill_with(|| None);
        self.held.fill_with(VecDeque::new);
        self.handed.fill_with(BTreeMap::new);
        self.slow.fill(false);
        self.stack.spoiled.clear();
        self.client.forget_flights();
    }
}
