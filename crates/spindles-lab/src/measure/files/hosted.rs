//! Runs a phase on a modelled host: its file system turns actions into requests for the target,
//! processor time and waits, in the virtual time of the target.

use super::hands::named;
use super::measured::{counted_of, moved};
use crate::experiment::systems::ModelledFileSystem;
use crate::machine::clock::Clocks;
use crate::machine::evidence;
use crate::measure::execute;
use crate::measure::failure::Failure;
use crate::measure::measurement::{Measurement, Window};
use crate::measure::recorder::{Clock, Collector, Recorder};
use spindles_array::{Areas, Target};
use spindles_block::{BlockIndex, Instant, Operation, Reply, Request};
use spindles_host::{Begun, Host, Machine, RequestId, RequestKind};
use spindles_measure::{Evidence, MemberUse, Run};
use spindles_workload::file::{Action, Answer, FileIssue, FileNext, FilePlan, FileWorkload};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

/// The machine and the file system of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) machine: Machine,
    pub(crate) fs: ModelledFileSystem,
}

/// A host with an empty file system on an open target, and what the phases so far left on it.
pub(crate) struct Hosted<'t> {
    target: &'t mut dyn Target,
    host: Host,
    areas: Areas,
    block_bytes: u64,
    /// Requests that the target did not take yet, in order.
    unsent: VecDeque<Request>,
    /// How many requests of the target each request of the host still waits for, by its number.
    parts: BTreeMap<u64, (RequestId, u32)>,
    next_number: u64,
    in_flight: u32,
}

/// Blocks of a request, at most.
const REQUEST_BLOCKS_MAX: u32 = 256;

impl<'t> Hosted<'t> {
    pub(crate) fn new(target: &'t mut dyn Target, plan: &HostPlan) -> Result<Self, Failure> {
        let facts = target.facts();
        let (bytes, is_array) = (facts.bytes(), facts.array.is_some());
        let block_bytes = u64::from(facts.block_size.bytes());
        let area_blocks = facts.request_blocks_max.min(REQUEST_BLOCKS_MAX);
        let name = facts.name.clone();
        let host = Host::new(
            plan.machine.clone(),
            plan.fs.row,
            &plan.fs.options,
            bytes,
            is_array,
        );
        let mut host = host.map_err(|error| Failure::Failed(format!("{name}: {error}")))?;
        host.resume(target.clock().now());
        Ok(Self {
            areas: Areas::new(target, 1, area_blocks),
            target,
            host,
            block_bytes,
            unsent: VecDeque::new(),
            parts: BTreeMap::new(),
            next_number: 0,
            in_flight: 0,
        })
    }

    /// Writes everything to the devices.
    pub(crate) fn settle(&mut self, interrupt: &AtomicBool) -> Result<(), Failure> {
        self.host.end_actors();
        self.host.resume(self.target.clock().now());
        self.perform(Begun::Action(Action::SyncAll, ""), interrupt)
            .map(drop)
    }

    /// Waits for the requests that the target has, and forgets the others.
    pub(crate) fn abandon(&mut self) {
        self.unsent.clear();
        while self.target.poll(true).is_some() {}
    }

    /// Drops everything from memory that was written.
    pub(crate) fn empty_cache(&mut self) {
        self.host.empty_cache();
    }

    /// Carries out a phase that only makes files, without requests and time. The memory stays
    /// empty.
    pub(crate) fn prepare(&mut self, plan: &FilePlan, phase: usize) -> Result<(), Failure> {
        let mut workload = plan.start(phase);
        let actors = 0..plan.phases()[phase].actors;
        let mut ready: VecDeque<(u32, Option<Answer>)> =
            actors.map(|actor| (actor, None)).collect();
        while let Some((actor, answer)) = ready.pop_front() {
            let next = workload.step(actor, answer);
            while let Some(woken) = workload.woken() {
                ready.push_back((woken, None));
            }
            if let FileNext::Do(issue) = next {
                let makes = matches!(issue.action, Action::Create(..) | Action::Mkdir(_));
                let path = named(issue.action).filter(|_| makes);
                let path = path.map(|file| workload.path(file));
                let path = path.as_deref().unwrap_or_default();
                let answer = spindles_host::prepare(&mut self.host, actor, issue.action, path);
                let answer = answer.map_err(|error| self.failed(&error.to_string()))?;
                ready.push_back((actor, Some(answer)));
            }
        }
        spindles_host::lay_out(&mut self.host);
        Ok(())
    }

    /// Makes the empty file system. Returns the time that it takes.
    pub(crate) fn newfs(&mut self, interrupt: &AtomicBool) -> Result<Measurement, Failure> {
        let span = self.begin(None);
        self.perform(Begun::Newfs, interrupt)?;
        let ended = self.target.clock().now();
        let window = (span.clock.began, ended);
        Ok(self.end(&span, Run::default(), window))
    }

    /// Runs a phase of a plan; the phases before it have run.
    pub(crate) fn run(
        &mut self,
        plan: &FilePlan,
        phase: usize,
        interrupt: &AtomicBool,
    ) -> Result<Measurement, Failure> {
        let facts = &plan.phases()[phase];
        let collector = Collector::default();
        let span = self.begin(facts.endless.then(|| plan.seconds() * 1_000_000_000));
        let clock = span.clock;
        self.host.end_actors();
        self.host.resume(clock.began);
        let mut played = Play {
            workload: plan.start(phase),
            actors: (0..facts.actors).map(|_| Doing::default()).collect(),
            ready: (0..facts.actors).collect(),
            recorder: Recorder::new(clock, &collector),
            hosted: self,
        };
        let ended = played.play(interrupt);
        played.recorder.hand_over();
        let window = played.recorder.window;
        let actor_ns = played.recorder.actor_ns();
        if ended.is_err() {
            while self.target.poll(true).is_some() {}
        }
        ended?;
        let (began, ended) = window.unwrap_or((clock.began, clock.began));
        let mut run = collector.take_counted(&clock);
        run.counted = counted_of(facts.counted, &run);
        let window = (began, clock.until.unwrap_or(ended));
        let mut measured = self.end(&span, run, window);
        measured.run.evidence.get_or_insert_default().actor_ns = actor_ns;
        Ok(measured)
    }

    fn begin(&self, duration_ns: Option<u64>) -> Span {
        Span {
            clock: Clock::start(self.target.clock().now(), duration_ns),
            cpu_ns: self.host.cpu_ns(),
            before: Clocks::now(),
            members: execute::members_of(self.target),
        }
    }

    /// Adds to the figures of a phase what the host and the members did.
    fn end(&self, span: &Span, run: Run, (began, ended): (Instant, Instant)) -> Measurement {
        let window = Window {
            began,
            ended,
            before: span.before,
            after: Clocks::now(),
        };
        let Measurement { mut run, window } = Measurement::new(run, window);
        run.cpu_ns.workload = self.host.cpu_ns() - span.cpu_ns;
        run.evidence = Some(Evidence {
            members: evidence::members_since(&execute::members_of(self.target), &span.members),
            ..Evidence::default()
        });
        Measurement { run, window }
    }

    /// Carries out one action of an actor, and waits for all requests.
    fn perform(&mut self, begun: Begun<'_>, interrupt: &AtomicBool) -> Result<(), Failure> {
        let now = self.target.clock().now();
        let begun = self.host.begin(now, 0, begun);
        begun.map_err(|error| self.failed(&error.to_string()))?;
        let mut is_done = false;
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            self.send();
            is_done |= self.host.next_done().is_some();
            if is_done && self.in_flight == 0 && self.unsent.is_empty() {
                return Ok(());
            }
            self.advance()?;
        }
    }

    /// Hands the host's requests to the target, in order, as far as it takes them.
    fn send(&mut self) {
        while let Some(request) = self.host.next_request() {
            let begin = request.offset_bytes / self.block_bytes;
            let end = (request.offset_bytes + request.bytes).div_ceil(self.block_bytes);
            let operation = match request.kind {
                RequestKind::Read => Operation::Read,
                RequestKind::Write => Operation::Write { fua: false },
                RequestKind::Flush => Operation::Flush,
            };
            let token = self.next_number;
            self.next_number += 1;
            let mut parts = 0;
            let mut from = begin;
            while from < end || parts == 0 {
                let blocks = (end - from).min(self.areas.area_blocks().into());
                self.unsent.push_back(Request {
                    token,
                    operation,
                    block: BlockIndex(from),
                    blocks: u32::try_from(blocks).expect("at most an area"),
                    buffer: self.areas.of(0),
                });
                from += blocks;
                parts += 1;
            }
            self.parts.insert(token, (request.id, parts));
        }
        while let Some(request) = self.unsent.front() {
            if self.target.submit(*request).is_err() {
                assert!(self.in_flight > 0, "an idle target takes a request");
                return;
            }
            self.in_flight += 1;
            self.unsent.pop_front();
        }
    }

    /// Waits for the next answer of the target, or until the host goes on by itself. Returns false
    /// if there is nothing to wait for.
    fn advance(&mut self) -> Result<bool, Failure> {
        if let Some(wake) = self.host.next_wake()
            && self.target.skip_to(wake)
        {
            self.host.wake(self.target.now());
            return Ok(true);
        }
        if let Some(reply) = self.target.poll(false) {
            return self.replied(&reply);
        }
        let Some(wake) = self.host.next_wake() else {
            return match self.target.poll(true) {
                Some(reply) => self.replied(&reply),
                None => Ok(false),
            };
        };
        let clock = self.target.clock();
        if clock.now() < wake {
            self.target.wait_until(wake);
        }
        if clock.now() >= wake {
            self.host.wake(clock.now());
        }
        Ok(true)
    }

    fn replied(&mut self, reply: &Reply) -> Result<bool, Failure> {
        self.in_flight -= 1;
        if let Err(error) = reply.result {
            let why = execute::why(self.target.facts(), error);
            return Err(self.failed(&why));
        }
        let (id, left) = self.parts.get_mut(&reply.token).expect("it was sent");
        let id = *id;
        *left -= 1;
        if *left == 0 {
            self.parts.remove(&reply.token);
            self.host.answered(self.target.clock().now(), id);
        }
        Ok(true)
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::Failed(format!("{}: {why}", self.target.facts().name))
    }
}

/// The begin of a phase.
struct Span {
    clock: Clock,
    cpu_ns: u64,
    before: Clocks,
    members: Vec<MemberUse>,
}

/// The operation of an actor under way.
#[derive(Default)]
struct Doing {
    issue: Option<(FileIssue, Instant)>,
    /// Since when it waits for another actor.
    waits: Option<Instant>,
}

/// A phase under way.
struct Play<'p, 't> {
    hosted: &'p mut Hosted<'t>,
    workload: Box<dyn FileWorkload>,
    actors: Vec<Doing>,
    /// Actors that can continue.
    ready: VecDeque<u32>,
    recorder: Recorder<'p>,
}

impl Play<'_, '_> {
    /// Plays until all actors are done, or the time is over.
    fn play(&mut self, interrupt: &AtomicBool) -> Result<(), Failure> {
        let until = self.recorder.until();
        loop {
            if interrupt.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            let goes_on = until.is_none_or(|until| self.now() < until);
            if !goes_on {
                return Ok(());
            }
            while let Some(actor) = self.ready.pop_front() {
                self.step(actor, None)?;
            }
            while let Some((actor, answer)) = self.hosted.host.next_done() {
                self.ended(actor, answer);
                self.step(actor, Some(answer))?;
            }
            if let Some((actor, error)) = self.hosted.host.take_error() {
                return Err(self.failed(actor, &error.to_string()));
            }
            if !self.ready.is_empty() {
                continue;
            }
            if self.actors.iter().all(|actor| actor.issue.is_none()) {
                return Ok(());
            }
            self.hosted.send();
            self.hosted.advance()?;
        }
    }

    fn now(&self) -> Instant {
        self.hosted.target.clock().now()
    }

    /// Begins the next operation of an actor.
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> Result<(), Failure> {
        let now = self.now();
        if let Some(since) = self.actors[index(actor)].waits.take() {
            self.recorder.waited(since, now);
        }
        let next = self.workload.step(actor, answer);
        while let Some(woken) = self.workload.woken() {
            self.ready.push_back(woken);
        }
        match next {
            FileNext::Done => Ok(()),
            FileNext::Wait => {
                self.actors[index(actor)].waits = Some(now);
                Ok(())
            }
            FileNext::Do(issue) => {
                let makes = matches!(issue.action, Action::Create(..) | Action::Mkdir(_));
                let path = named(issue.action).filter(|_| makes);
                let path = path.map(|file| self.workload.path(file));
                let begun = Begun::Action(issue.action, path.as_deref().unwrap_or_default());
                self.actors[index(actor)].issue = Some((issue, now));
                let begun = self.hosted.host.begin(now, actor, begun);
                begun.map_err(|error| self.failed(actor, &error.to_string()))
            }
        }
    }

    /// Counts a completed operation.
    fn ended(&mut self, actor: u32, answer: Answer) {
        let now = self.now();
        let issue = self.actors[index(actor)].issue.take();
        let (issue, began) = issue.expect("what is done was begun");
        if issue.timed {
            let bytes = moved(&issue, answer);
            self.recorder.count(issue.class, began, now, bytes);
        }
    }

    fn failed(&self, actor: u32, why: &str) -> Failure {
        let issue = self.actors[index(actor)].issue.map(|(issue, _)| issue);
        let what = issue.map_or("", |issue| issue.class.name());
        let file = issue.and_then(|issue| named(issue.action));
        let file = file.map_or_else(String::new, |file| {
            format!(" of {}", self.workload.path(file))
        });
        self.hosted.failed(&format!("{what}{file} failed: {why}"))
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}
