//! Runs a phase on a bare target, with files placed by a [`Layout`]. One thread plays all actors,
//! because one thread drives the target; each actor has one operation in flight.
//!
//! Unaligned reads fetch whole blocks. Unaligned writes first read the blocks at their ends,
//! because there is no cache.

use super::hands::{self, named};
use super::measured::{counted_of, moved, usage_of};
use crate::machine::clock::{self, Clocks, ThreadTime};
use crate::machine::evidence;
use crate::measure::execute;
use crate::measure::failure::Failure;
use crate::measure::measurement::{Measurement, Window};
use crate::measure::recorder::{Clock, Collector, Recorder};
use crate::measure::schedule::Draw;
use spindles_array::{Areas, Target};
use spindles_block::{BlockIndex, BufferSlice, Instant, Operation, Reply, Request};
use spindles_device::ThreadUsage;
use spindles_measure::Evidence;
use spindles_workload::file::{
    Access, Action, Answer, At, FileId, FileIssue, FileNext, FilePlan, FileWorkload, Layout, Slot,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open target and the files that the phases so far left on it.
pub(crate) struct Blocks<'t> {
    target: &'t mut dyn Target,
    layout: Layout,
}

impl<'t> Blocks<'t> {
    /// A target without files.
    pub(crate) fn new(target: &'t mut dyn Target) -> Self {
        let layout = Layout::new(target.facts().bytes());
        Self { target, layout }
    }

    /// Makes everything durable.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let taken = self.target.submit(flush());
        taken.expect("an idle target takes a request");
        let reply = self.target.poll(true).expect("the flush is in flight");
        reply.result.map_err(|error| {
            let facts = self.target.facts();
            let (name, why) = (&facts.name, execute::why(facts, error));
            Failure::Failed(format!("{name}: the flush failed: {why}"))
        })
    }

    /// Runs a phase of a plan; the phases before it have run.
    pub(crate) fn run(
        &mut self,
        plan: &FilePlan,
        phase: usize,
        interrupt: &AtomicBool,
    ) -> Result<Measurement, Failure> {
        let facts = &plan.phases()[phase];
        let duration_ns = facts.endless.then(|| plan.seconds() * 1_000_000_000);
        let block_bytes = self.target.facts().block_size.bytes();
        // One more block: an operation may begin within a block.
        let area_blocks = facts.buffer_bytes.div_ceil(block_bytes) + 1;
        let areas = Areas::new(self.target, facts.actors, area_blocks);
        let mut random = Draw::new(plan.seed, 4, 0);
        let time = self.target.clock();
        for actor in 0..index(facts.actors) {
            // Modelled devices store no payload: it is zeros.
            if !time.is_virtual() {
                random.fill(&mut self.target.buffer_mut(areas.buffer())[areas.bytes_of(actor)]);
            }
        }
        let members = execute::members_of(self.target);
        let collector = Collector::default();
        let usage = ThreadUsage::now();
        let (thread, before) = (ThreadTime::now(), Clocks::now());
        let clock = Clock::start(time.now(), duration_ns);
        let mut played = Play {
            block_bytes,
            request_blocks_max: self.target.facts().request_blocks_max,
            target: self.target,
            layout: &mut self.layout,
            workload: plan.start(phase),
            areas,
            actors: (0..facts.actors).map(|_| Actor::default()).collect(),
            ready: (0..facts.actors).collect(),
            stalled: VecDeque::new(),
            in_flight: 0,
            recorder: Recorder::new(clock, &collector),
            clock: time,
            computed_ns: 0,
        };
        let ended = played.play(interrupt);
        if ended.is_err() {
            while played.target.poll(true).is_some() {}
        }
        ended?;
        played.recorder.hand_over();
        let window = played.recorder.window.unwrap_or((clock.began, clock.began));
        let actor_ns = played.recorder.actor_ns();
        let workload_cpu_ns = played.computed_ns;
        let after = Clocks::now();
        let thread = ThreadTime::now().used_since(thread, "workload and engine".to_owned());
        let window = Window {
            began: window.0,
            ended: clock.until.unwrap_or(window.1),
            before,
            after,
        };
        let Measurement { mut run, window } =
            Measurement::new(collector.take_counted(&clock), window);
        run.counted = counted_of(facts.counted, &run);
        run.cpu_ns.workload = workload_cpu_ns;
        run.evidence = Some(Evidence {
            actor_ns,
            threads: vec![thread],
            members: evidence::members_since(&execute::members_of(self.target), &members),
            usage: Some(usage_of(&[(usage, ThreadUsage::now())])),
            ..Evidence::default()
        });
        Ok(Measurement { run, window })
    }
}

/// An open file of an actor.
struct Open {
    file: FileId,
    position: u64,
    /// True if each write is durable when answered.
    syncs: bool,
}

#[derive(Default)]
struct Actor {
    open: Vec<Option<Open>>,
    doing: Option<Doing>,
    /// Since when it waits for another actor.
    waits: Option<Instant>,
}

/// An operation under way.
struct Doing {
    issue: FileIssue,
    answer: Answer,
    began: Instant,
    /// Offset of its first byte in the actor's area.
    skew: usize,
    /// Parts that are yet to be carried out.
    parts: VecDeque<BlockAction>,
    /// Requests not yet answered.
    out: u32,
}

/// An action on blocks that is part of an action on a file.
enum BlockAction {
    /// A request; its position in the buffer counts from the start of the actor's area.
    Ask(Request),
    /// Waits until every earlier request is answered.
    Await,
    /// Generates the bytes to write.
    Fill,
}

fn flush() -> Request {
    Request {
        token: 0,
        operation: Operation::Flush,
        block: BlockIndex(0),
        blocks: 0,
        buffer: BufferSlice::NONE,
    }
}

/// A phase under way.
struct Play<'p> {
    target: &'p mut dyn Target,
    layout: &'p mut Layout,
    workload: Box<dyn FileWorkload>,
    block_bytes: u32,
    request_blocks_max: u32,
    areas: Areas,
    actors: Vec<Actor>,
    /// Actors that can continue.
    ready: VecDeque<u32>,
    /// Actors whose next request the target did not accept.
    stalled: VecDeque<u32>,
    in_flight: u32,
    recorder: Recorder<'p>,
    clock: spindles_device::Clock,
    /// CPU time of the actors' own computations.
    computed_ns: u64,
}

impl Play<'_> {
    fn play(&mut self, interrupt: &AtomicBool) -> Result<(), Failure> {
        loop {
            let until = self.recorder.until();
            while let Some(actor) = self.ready.pop_front() {
                if interrupt.load(Ordering::Relaxed) {
                    return Err(Failure::Interrupted);
                }
                if until.is_none_or(|until| self.clock.now() < until) {
                    self.go_on(actor, None)?;
                }
            }
            let Some(reply) = self.target.poll(true) else {
                assert_eq!(self.in_flight, 0, "the target answers all requests");
                return Ok(());
            };
            self.replied(&reply)?;
            for actor in std::mem::take(&mut self.stalled) {
                self.submit(actor)?;
            }
        }
    }

    /// Steps an actor until it has something in flight, waits, or is done.
    fn go_on(&mut self, actor: u32, mut answer: Option<Answer>) -> Result<(), Failure> {
        if let Some(since) = self.actors[index(actor)].waits.take() {
            self.recorder.waited(since, self.clock.now());
        }
        loop {
            let next = self.workload.step(actor, answer.take());
            while let Some(woken) = self.workload.woken() {
                self.ready.push_back(woken);
            }
            match next {
                FileNext::Done => return Ok(()),
                FileNext::Wait => {
                    self.actors[index(actor)].waits = Some(self.clock.now());
                    return Ok(());
                }
                FileNext::Do(issue) => {
                    self.begin(actor, issue)?;
                    answer = self.ended(actor);
                    if answer.is_none() {
                        return self.submit(actor);
                    }
                }
            }
        }
    }

    /// Carries out at once what needs no target; queues the rest in the actor's parts.
    fn begin(&mut self, actor: u32, issue: FileIssue) -> Result<(), Failure> {
        let mut doing = Doing {
            issue,
            answer: Answer::default(),
            began: self.clock.now(),
            skew: 0,
            parts: VecDeque::new(),
            out: 0,
        };
        match issue.action {
            Action::Create(file, slot, access) => {
                self.layout.create(file);
                self.keep(actor, slot, file, access);
            }
            Action::Open(file, slot, access) => {
                if self.layout.bytes(file).is_none() {
                    return Err(self.failed(&issue, "the file is not there"));
                }
                self.keep(actor, slot, file, access);
            }
            Action::Close(slot) => self.actors[index(actor)].open[index(slot.0)] = None,
            Action::Seek(slot, to) => self.open(actor, slot).position = to,
            Action::SeekBack(slot, by) => {
                let open = self.open(actor, slot);
                open.position = open.position.saturating_sub(by.into());
            }
            Action::Read(slot, at, bytes) => self.read(actor, slot, at, bytes, &mut doing),
            Action::GetBytes(slot, bytes) => {
                self.read(actor, slot, At::Position, bytes, &mut doing);
            }
            Action::Write(slot, at, bytes) => self.write(actor, slot, at, bytes, &mut doing)?,
            Action::PutBytes(slot, bytes) => {
                self.write(actor, slot, At::Position, bytes, &mut doing)?;
            }
            Action::Fsync(_) | Action::SyncAll => doing.parts.push_back(BlockAction::Ask(flush())),
            Action::Unlink(file) => {
                if !self.layout.remove(file) {
                    return Err(self.failed(&issue, "the file is not there"));
                }
            }
            Action::Think(rounds) => self.compute(actor, 0, |memory| hands::think(memory, rounds)),
            Action::Nothing => {}
            Action::Append(..)
            | Action::ReadWhole(..)
            | Action::Mkdir(_)
            | Action::SetTimes(_)
            | Action::SetMode(_)
            | Action::Stat(_) => {
                return Err(self.failed(&issue, "it needs a file system"));
            }
        }
        self.actors[index(actor)].doing = Some(doing);
        Ok(())
    }

    fn keep(&mut self, actor: u32, slot: Slot, file: FileId, access: Access) {
        let open = &mut self.actors[index(actor)].open;
        let at = index(slot.0);
        if open.len() <= at {
            open.resize_with(at + 1, || None);
        }
        open[at] = Some(Open {
            file,
            position: 0,
            syncs: access == Access::ReadWriteSync,
        });
    }

    fn open(&mut self, actor: u32, slot: Slot) -> &mut Open {
        let open = self.actors[index(actor)].open[index(slot.0)].as_mut();
        open.expect("a workload uses what it opened")
    }

    /// Returns the offset of an operation. An operation at the position advances it by `bytes`.
    fn place(&mut self, actor: u32, slot: Slot, at: At, bytes: u64) -> u64 {
        match at {
            At::Offset(offset) => offset,
            At::Position => {
                let open = self.open(actor, slot);
                let offset = open.position;
                open.position += bytes;
                offset
            }
        }
    }

    fn read(&mut self, actor: u32, slot: Slot, at: At, bytes: u32, doing: &mut Doing) {
        let open = self.open(actor, slot);
        let (file, position) = (open.file, open.position);
        let begin = match at {
            At::Offset(offset) => offset,
            At::Position => position,
        };
        let there = self.layout.bytes(file).unwrap_or(0);
        let bytes = u64::from(bytes).min(there.saturating_sub(begin));
        let offset = self.place(actor, slot, at, bytes);
        doing.answer.bytes = bytes;
        if bytes > 0 {
            doing.skew = self.skew(offset);
            self.ask(Operation::Read, file, offset, bytes, 0, &mut doing.parts);
        }
    }

    fn write(
        &mut self,
        actor: u32,
        slot: Slot,
        at: At,
        bytes: u32,
        doing: &mut Doing,
    ) -> Result<(), Failure> {
        let block = u64::from(self.block_bytes);
        let offset = self.place(actor, slot, at, bytes.into());
        let open = self.open(actor, slot);
        let (file, syncs) = (open.file, open.syncs);
        let end = offset + u64::from(bytes);
        let there = self.layout.bytes(file).unwrap_or(0);
        if self.layout.grow(file, end).is_err() {
            return Err(self.failed(
                &doing.issue,
                "the files do not fit: choose a smaller size, or a larger target",
            ));
        }
        doing.answer.bytes = bytes.into();
        doing.skew = self.skew(offset);
        // Read the parts of the first and last block that are not overwritten.
        let first = offset / block * block;
        let last = end / block * block;
        if offset > first && first < there {
            self.ask(Operation::Read, file, first, 1, 0, &mut doing.parts);
        }
        if end > last && end < there && (last > first || offset == first) {
            let at = u32::try_from((last - first) / block).expect("within the area");
            self.ask(Operation::Read, file, last, 1, at, &mut doing.parts);
        }
        doing.parts.extend([BlockAction::Await, BlockAction::Fill]);
        let write = Operation::Write { fua: syncs };
        self.ask(write, file, offset, bytes.into(), 0, &mut doing.parts);
        Ok(())
    }

    /// Returns the offset of an operation in its first block.
    fn skew(&self, offset: u64) -> usize {
        usize::try_from(offset % u64::from(self.block_bytes)).expect("less than a block")
    }

    /// Queues the requests for the whole blocks that hold a part of a file. The first goes
    /// `area_block` blocks after the start of the area.
    fn ask(
        &self,
        operation: Operation,
        file: FileId,
        offset: u64,
        bytes: u64,
        area_block: u32,
        parts: &mut VecDeque<BlockAction>,
    ) {
        let block = u64::from(self.block_bytes);
        let first = offset / block * block;
        let whole = (offset + bytes).next_multiple_of(block) - first;
        let mut at = area_block;
        for piece in self.layout.pieces(file, first, whole) {
            let mut from = piece.target_bytes / block;
            let mut left = u32::try_from(piece.bytes / block).expect("an operation is bounded");
            while left > 0 {
                let blocks = left.min(self.request_blocks_max);
                parts.push_back(BlockAction::Ask(Request {
                    token: 0,
                    operation,
                    block: BlockIndex(from),
                    blocks,
                    buffer: BufferSlice {
                        buffer: self.areas.buffer(),
                        first_block: at,
                    },
                }));
                from += u64::from(blocks);
                at += blocks;
                left -= blocks;
            }
        }
    }

    /// Submits the next parts of an actor's operation, as far as possible.
    fn submit(&mut self, actor: u32) -> Result<(), Failure> {
        let area = self.areas.of(index(actor));
        loop {
            let doing = self.actors[index(actor)].doing.as_mut();
            let doing = doing.expect("it is under way");
            match doing.parts.front() {
                None => return Ok(()),
                Some(BlockAction::Await) if doing.out > 0 => return Ok(()),
                Some(BlockAction::Await) => {}
                Some(BlockAction::Fill) => {
                    let (issue, skew) = (doing.issue, doing.skew);
                    if !self.clock.is_virtual() {
                        self.fill(actor, &issue, skew);
                    }
                }
                Some(BlockAction::Ask(request)) => {
                    let mut request = *request;
                    request.token = actor.into();
                    if request.operation != Operation::Flush {
                        request.buffer = area.plus(request.buffer.first_block);
                    }
                    if self.target.submit(request).is_err() {
                        assert!(self.in_flight > 0, "an idle target takes a request");
                        self.stalled.push_back(actor);
                        return Ok(());
                    }
                    self.in_flight += 1;
                    doing.out += 1;
                }
            }
            let doing = self.actors[index(actor)].doing.as_mut();
            doing.expect("it is under way").parts.pop_front();
        }
    }

    /// Generates the bytes that an operation writes.
    fn fill(&mut self, actor: u32, issue: &FileIssue, skew: usize) {
        match (issue.action, issue.touch) {
            (Action::PutBytes(_, bytes), _) => self.compute(actor, skew, |memory| {
                hands::put_bytes(&mut memory[..index(bytes)]);
            }),
            (_, Some(integer)) => {
                let memory = self.target.buffer_mut(self.areas.buffer());
                let memory = &mut memory[self.areas.bytes_of(index(actor))];
                execute::touch(&mut memory[skew..], integer);
            }
            _ => {}
        }
    }

    /// Runs an actor's computation on its area, from byte `skew` on, and counts the CPU time as the
    /// actor's.
    fn compute(&mut self, actor: u32, skew: usize, compute: impl FnOnce(&mut [u8])) {
        let before = clock::thread_cpu_ns();
        let memory = self.target.buffer_mut(self.areas.buffer());
        compute(&mut memory[self.areas.bytes_of(index(actor))][skew..]);
        self.computed_ns += clock::thread_cpu_ns() - before;
    }

    fn replied(&mut self, reply: &Reply) -> Result<(), Failure> {
        self.in_flight -= 1;
        let actor = u32::try_from(reply.token).expect("an actor of ours");
        let doing = self.actors[index(actor)].doing.as_mut();
        let doing = doing.expect("what is answered was asked");
        doing.out -= 1;
        if let Err(error) = reply.result {
            let issue = doing.issue;
            return Err(self.failed(&issue, &execute::why(self.target.facts(), error)));
        }
        if doing.out == 0 {
            self.submit(actor)?;
            if let Some(answer) = self.ended(actor) {
                let until = self.recorder.until();
                if until.is_none_or(|until| self.clock.now() < until) {
                    self.go_on(actor, Some(answer))?;
                }
            }
        }
        Ok(())
    }

    /// Counts an actor's operation if it is complete, and returns its answer.
    fn ended(&mut self, actor: u32) -> Option<Answer> {
        let over = |doing: &mut Doing| doing.out == 0 && doing.parts.is_empty();
        let doing = self.actors[index(actor)].doing.take_if(over)?;
        let (issue, answer) = (doing.issue, doing.answer);
        match (issue.action, issue.touch) {
            (Action::GetBytes(..), _) => {
                let got = usize::try_from(answer.bytes).expect("at most the area");
                self.compute(actor, doing.skew, |memory| hands::get_bytes(&memory[..got]));
            }
            (Action::Read(..), Some(integer)) => {
                let at = self.areas.bytes_of(index(actor)).start + doing.skew + index(integer) * 4;
                std::hint::black_box(self.target.buffer(self.areas.buffer())[at]);
            }
            _ => {}
        }
        if issue.timed {
            let bytes = moved(&issue, answer);
            self.recorder
                .count(issue.class, doing.began, self.clock.now(), bytes);
        }
        Some(answer)
    }

    fn failed(&self, issue: &FileIssue, why: &str) -> Failure {
        let file = named(issue.action).map(|file| self.workload.path(file));
        let file = file.map_or_else(String::new, |file| format!(" of {file}"));
        let (name, what) = (&self.target.facts().name, issue.class.name());
        Failure::Failed(format!("{name}: {what}{file} failed: {why}"))
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_array::open_device;
    use spindles_device::OpenOptions;
    use spindles_workload::file::Class;

    const FILE: FileId = FileId(0);
    const OTHER: FileId = FileId(1);
    const SLOT: Slot = Slot(0);

    /// A workload that plays a list.
    struct Listed(VecDeque<Action>);

    impl FileWorkload for Listed {
        fn step(&mut self, _actor: u32, _answer: Option<Answer>) -> FileNext {
            self.0.pop_front().map_or(FileNext::Done, |action| {
                FileNext::Do(FileIssue {
                    action,
                    class: Class::Write,
                    timed: true,
                    touch: None,
                })
            })
        }

        fn path(&self, _file: FileId) -> String {
            "file".to_owned()
        }
    }

    fn play(target: &mut dyn Target, actions: Vec<Action>) -> (Result<(), Failure>, Layout) {
        let mut layout = Layout::new(target.facts().bytes());
        let collector = Collector::default();
        let block_bytes = target.facts().block_size.bytes();
        let areas = Areas::new(target, 1, (3 << 20) / block_bytes + 1);
        let mut play = Play {
            block_bytes,
            request_blocks_max: target.facts().request_blocks_max,
            target,
            layout: &mut layout,
            workload: Box::new(Listed(actions.into())),
            areas,
            actors: vec![Actor::default()],
            ready: [0].into(),
            stalled: VecDeque::new(),
            in_flight: 0,
            recorder: Recorder::new(Clock::start(clock::now(), None), &collector),
            clock: spindles_device::Clock::Real,
            computed_ns: 0,
        };
        (play.play(&AtomicBool::new(false)), layout)
    }

    /// Writes of all lengths at all offsets, across the ends of blocks and extents, change exactly
    /// the bytes they write.
    #[test]
    fn writes_change_only_their_own_blocks() {
        let mut target = open_device("mem:16M", &OpenOptions::default()).unwrap();
        let mut random = Draw::new(1, 9, 9);
        let mut actions = vec![
            Action::Create(FILE, SLOT, Access::ReadWrite),
            Action::Create(OTHER, Slot(1), Access::ReadWriteSync),
        ];
        let mut model = vec![0_u8; 4 << 20];
        let mut end = 0;
        for round in 0..400 {
            // No holes: each write begins at or before the end of the file.
            let at = usize::try_from(random.number() % (end + 1)).unwrap();
            let most = if round % 10 == 0 { 2 << 20 } else { 9000 };
            let bytes = usize::try_from(random.number() % most + 1).unwrap();
            let bytes = bytes.min(model.len() - at);
            actions.push(Action::Seek(SLOT, at.try_into().unwrap()));
            actions.push(Action::PutBytes(SLOT, bytes.try_into().unwrap()));
            hands::put_bytes(&mut model[at..at + bytes]);
            end = end.max(u64::try_from(at + bytes).unwrap());
            actions.push(Action::PutBytes(Slot(1), 5000));
        }
        let (ended, layout) = play(target.as_mut(), actions);
        ended.unwrap();
        assert_eq!(layout.bytes(FILE), Some(end));
        assert_eq!(layout.bytes(OTHER), Some(400 * 5000));
        let buffer = target.allocate((4 << 20) / 4096);
        let mut found = Vec::new();
        for piece in layout.pieces(FILE, 0, end.next_multiple_of(4096)) {
            let request = Request {
                token: 0,
                operation: Operation::Read,
                block: BlockIndex(piece.target_bytes / 4096),
                blocks: (piece.bytes / 4096).try_into().unwrap(),
                buffer: BufferSlice {
                    buffer,
                    first_block: 0,
                },
            };
            target.submit(request).unwrap();
            target.poll(true).unwrap().result.unwrap();
            let bytes = usize::try_from(piece.bytes).unwrap();
            found.extend_from_slice(&target.buffer(buffer)[..bytes]);
        }
        let end = usize::try_from(end).unwrap();
        assert!(end > 3 << 20 && found[..end] == model[..end]);
    }

    #[test]
    fn full_targets_and_file_system_operations_are_errors() {
        let mut target = open_device("mem:1M", &OpenOptions::default()).unwrap();
        let create = Action::Create(FILE, SLOT, Access::ReadWrite);
        let write = Action::Write(SLOT, At::Position, 1 << 20);
        let (ended, _) = play(target.as_mut(), vec![create, write, write]);
        let why = ended.unwrap_err().to_string();
        assert!(why.contains("the files do not fit: choose"), "{why}");
        let (ended, _) = play(target.as_mut(), vec![Action::Stat(FILE)]);
        let why = ended.unwrap_err().to_string();
        assert!(
            why.contains("of file failed: it needs a file system"),
            "{why}"
        );
    }
}
