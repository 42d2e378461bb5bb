//! Runs one workload on an open target and measures it. Knows nothing of arrays, files or
//! experiments.
//!
//! The timed window begins with the first operation. It ends with the reply to the last, or, if
//! anything was written, with the flush after it: counted bytes are durable. Before the window,
//! buffers are filled with incompressible bytes, the warm-up runs, and the target is flushed.

use crate::machine::clock::{self, Clocks, ThreadTime};
use crate::machine::evidence::{self, Watched};
use crate::measure::arrivals::Arrivals;
use crate::measure::failure::Failure;
use crate::measure::late::Watch;
use crate::measure::measurement::{self, Measurement, Window};
use crate::measure::recorder::{Clock, Collector, Recorder};
use crate::measure::schedule::Draw;
use crate::measure::staged;
use spindles_array::{Areas, Target};
use spindles_block::{BlockIndex, BufferSlice, Instant, Operation, Reply, Request, RequestError};
use spindles_device::TargetFacts;
use spindles_device::modelled::account_of;
use spindles_measure::{MemberTime, MemberUse, Phase, Requests, Run, Staging, Traffic};
use spindles_model::Account;
use spindles_workload::file::Class;
use spindles_workload::{BlockWorkload, Counted, Issue, Next, Plan};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How to run a plan.
pub(crate) struct Orders<'a> {
    /// Operations before the timed window.
    pub warmup_operations: u32,
    /// Set when the run is to end early.
    pub interrupt: &'a AtomicBool,
    /// Called when the timed window is about to start: the start barrier of several streams.
    pub ready: &'a dyn Fn(),
    /// Polled regularly; the workload stops when it returns false.
    pub goes_on: &'a dyn Fn(&dyn Target) -> bool,
    /// How long the workload runs, unless it ends by itself.
    pub duration: Option<Duration>,
    /// Operations that arrive per second, whether or not earlier ones were answered.
    pub arrivals_per_s: Option<u64>,
    /// Begins the window with a full stage, through which twice its capacity was placed.
    pub steady: bool,
    /// Counters that belong to the target, if it does not count for itself: a file on a file system
    /// of the lab's.
    pub watched: Option<&'a Watched>,
}

impl<'a> Orders<'a> {
    /// Runs the plan to its end, at once, as often as actors get replies.
    pub(crate) fn new(interrupt: &'a AtomicBool) -> Self {
        Self {
            warmup_operations: 0,
            interrupt,
            ready: &|| {},
            goes_on: &|_| true,
            duration: None,
            arrivals_per_s: None,
            steady: false,
            watched: None,
        }
    }
}

/// Runs the plan's workload on one target.
pub(crate) fn run(
    target: &mut dyn Target,
    plan: &Plan,
    orders: &Orders<'_>,
) -> Result<Measurement, Failure> {
    let mut executor = Executor::ready(target, plan, orders)?;
    let of_target = watched(executor.target.facts());
    let watched = orders.watched.unwrap_or(&of_target);
    let members = members_of(executor.target);
    let (stage, watch) = (executor.staged(), Watch::begin(executor.target));
    (orders.ready)();
    let (seen, thread) = (watched.now(), ThreadTime::now());
    let before = Clocks::now();
    let time = executor.target.clock();
    let began = time.now();
    let collector = Collector::default();
    let clock = Clock::start(began, orders.duration.map(clock::duration_ns));
    executor.recorder = Some(Recorder::new(clock, &collector));
    executor.arrivals = (orders.arrivals_per_s).map(|per_s| Arrivals::new(plan.seed, per_s, began));
    let carried_out = executor.carry_out(&mut *plan.start(), None, 0, orders.goes_on);
    if executor.arrivals.take().is_some() {
        executor.drain();
    }
    carried_out?;
    let mut recorder = executor.recorder.take().expect("set above");
    recorder.hand_over();
    let stopped = clock.until.unwrap_or_else(|| time.now());
    let flush_ns = if plan.kind.writes {
        Some(executor.flush()?)
    } else {
        None
    };
    // A timed run counts what finished in its time; any other run counts until everything is
    // durable.
    let ended = match clock.until {
        Some(_) => stopped,
        None => time.now(),
    };
    let window = Window {
        began,
        ended,
        before,
        after: Clocks::now(),
    };
    let own = ThreadTime::now().used_since(thread, "workload and engine".to_owned());
    let mut evidence = watched.now().since(&seen, vec![own]);
    evidence.actors = plan.actors();
    evidence.actor_ns = recorder.actor_ns();
    evidence.cache.file_bytes = plan.size_bytes;
    if orders.watched.is_none() {
        evidence.members = evidence::members_since(&members_of(executor.target), &members);
    }
    let Measurement { mut run, window } = Measurement::new(collector.take_counted(&clock), window);
    run.io = measurement::io(target.facts());
    run.doubts = measurement::target_doubts(target.facts());
    run.phases = phases(&run, flush_ns, clock.until.is_some());
    if let Some(flush_ns) = flush_ns {
        run.latency
            .entry("flush".to_owned())
            .or_default()
            .record(flush_ns);
    }
    run.evidence = Some(evidence);
    (run.late_members, run.staging) = (watch.end(target), staged::since(stage, target));
    run.counted = counted(plan, &run);
    if !time.is_virtual() {
        run.cpu_ns.workload = replay(plan, run.operations);
    }
    Ok(Measurement { run, window })
}

/// Returns the parts of the timed window. The flush is its last part, unless the run is timed.
fn phases(run: &Run, flush_ns: Option<u64>, is_timed: bool) -> Vec<Phase> {
    let within_ns = flush_ns.filter(|_| !is_timed).unwrap_or(0);
    let work_ns = run.elapsed_ns - within_ns;
    let mut phases = vec![measurement::operations(run, work_ns)];
    phases.extend(flush_ns.map(|elapsed_ns| Phase {
        name: "flush".to_owned(),
        begin_ns: work_ns,
        elapsed_ns,
        ..Phase::default()
    }));
    phases
}

/// Returns the counters of each device of a target since it was opened.
pub(crate) fn members_of(target: &dyn Target) -> Vec<MemberUse> {
    let counters = target.counters();
    let devices = target.facts().devices.iter().zip(counters.devices);
    let members = devices.map(|(facts, counters)| MemberUse {
        name: facts.name.clone(),
        busy_ns: counters.busy_ns,
        in_flight_ns: counters.read_latencies.sum_ns + counters.write_latencies.sum_ns,
        requests: Requests {
            read: counters.reads,
            written: counters.writes,
            flushed: counters.flushes,
        },
        bytes: Traffic {
            read: counters.bytes_read,
            written: counters.bytes_written,
        },
        errors: counters.errors,
        late: counters.late,
        time: account_of(&facts.name).map(time_of),
    });
    members.collect()
}

fn time_of(account: Account) -> MemberTime {
    MemberTime {
        requests: account.requests,
        response_ns: account.response_ns,
        busy_ns: account.busy_ns,
        queue_ns: account.queue_ns,
        seek_ns: account.seek_ns,
        rotation_ns: account.rotation_ns,
        transfer_ns: account.transfer_ns,
        link_ns: account.link_ns,
        overhead_ns: account.overhead_ns,
    }
}

/// Returns the devices and processes to watch for a target: the physical devices beneath it, and
/// this process, which runs the engine.
pub(crate) fn watched(facts: &TargetFacts) -> Watched {
    let devices = facts.devices.iter();
    let physical = devices.filter_map(|device| device.physical_device.clone());
    Watched {
        devices: physical
            .filter(|name| name != evidence::MEMORY)
            .map(|name| (name, true))
            .collect(),
        processes: vec![std::process::id()],
        own: None,
    }
}

/// Describes why a request failed. A target that is no array survives no errors, and its error
/// numbers only reach the kernel's log.
pub(crate) fn why(facts: &TargetFacts, error: RequestError) -> String {
    match (error, &facts.array) {
        (RequestError::BeyondTolerance, None) => {
            "the file or device reports an error: dmesg may say more".to_owned()
        }
        (error, _) => error.to_string(),
    }
}

fn counted(plan: &Plan, run: &Run) -> u64 {
    match plan.kind.counted {
        Counted::ReadBytes => run.application.read,
        Counted::WrittenBytes => run.application.written,
        Counted::Reads => run.application.read / u64::from(plan.chunk_bytes),
        Counted::Writes => run.application.written / u64::from(plan.chunk_bytes),
        Counted::Operations => run.operations,
    }
}

/// Measures the CPU time of the workload by itself. Repeats the same operations, each answered at
/// once without I/O, with the clock readings, the touched integers and the histograms. Subtracting
/// this from the total leaves the cost of engine and I/O. Reading the CPU clock around each call
/// would cost more than most of the calls.
fn replay(plan: &Plan, operations: u64) -> u64 {
    let mut workload = plan.start();
    let mut buffer = vec![0; usize::try_from(plan.chunk_bytes).expect("a chunk fits memory")];
    let mut sent = vec![clock::now(); index(plan.actors())];
    let mut in_flight: VecDeque<Issue> = VecDeque::with_capacity(index(plan.actors()));
    let collector = Collector::default();
    let mut recorder = Recorder::new(Clock::start(clock::now(), None), &collector);
    let mut done = 0;
    let cpu = clock::thread_cpu_ns();
    while done < operations {
        match workload.next() {
            Next::Issue(issue) => {
                if let Some(integer) = issue.touch {
                    touch(&mut buffer, integer);
                }
                sent[index(issue.actor)] = clock::now();
                in_flight.push_back(issue);
            }
            Next::Wait => {
                let issue = in_flight.pop_front().expect("it waits for one of those");
                count(
                    &mut recorder,
                    &issue,
                    sent[index(issue.actor)],
                    clock::now(),
                );
                done += 1;
                workload.complete(issue.id);
            }
            Next::Done => break,
        }
    }
    std::hint::black_box(&buffer);
    clock::thread_cpu_ns() - cpu
}

/// Counts an operation in its class.
fn count(recorder: &mut Recorder<'_>, issue: &Issue, sent: Instant, ended: Instant) -> Class {
    let bytes = u64::from(issue.bytes);
    let (class, bytes) = if issue.operation.is_write() {
        (Class::Write, Traffic::of_writes(bytes))
    } else {
        (Class::Read, Traffic::of_reads(bytes))
    };
    recorder.count(class, sent, ended, bytes);
    class
}

/// Increments the 32-bit integer at that index.
pub(crate) fn touch(buffer: &mut [u8], integer: u32) {
    let at = index(integer) * 4;
    let bytes: &mut [u8; 4] = buffer[at..]
        .first_chunk_mut()
        .expect("the integer lies in the chunk");
    *bytes = u32::from_le_bytes(*bytes).wrapping_add(1).to_le_bytes();
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

/// The operation that an actor has in flight.
struct Actor {
    issue: Option<Issue>,
    sent: Instant,
    /// When the operation was due, if operations arrive at a rate.
    due: Option<Instant>,
    /// Blocks of the issue that are not yet submitted, and requests not yet answered.
    blocks_left: u32,
    requests_out: u32,
}

struct Executor<'a> {
    target: &'a mut dyn Target,
    interrupt: &'a AtomicBool,
    block_bytes: u32,
    request_blocks_max: u32,
    size_bytes: u64,
    actors: Vec<Actor>,
    /// The buffer areas of the actors.
    areas: Areas,
    /// Actors whose issue is not wholly submitted because the target was busy.
    stalled: Vec<usize>,
    in_flight: u32,
    /// Set during the timed window.
    recorder: Option<Recorder<'a>>,
    arrivals: Option<Arrivals>,
    /// How long the stage was emptied before the workload.
    drained_ns: u64,
    clock: spindles_device::Clock,
}

/// Replies between two calls of `goes_on`.
const GOES_ON_EVERY: u32 = 32;

/// The token of flushes; the token of other requests is the actor's index.
const FLUSH: u64 = u64::MAX;

impl<'a> Executor<'a> {
    fn new(
        target: &'a mut dyn Target,
        plan: &Plan,
        interrupt: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let facts = target.facts();
        let block_bytes = facts.block_size.bytes();
        let request_blocks_max = facts.request_blocks_max;
        let (name, chunk_bytes) = (&facts.name, plan.chunk_bytes);
        if !chunk_bytes.is_multiple_of(block_bytes) {
            return Err(Failure::Failed(format!(
                "{name} has blocks of {block_bytes} bytes, so operations of {chunk_bytes} bytes \
                 are not possible: choose a chunk that is a multiple of {block_bytes}"
            )));
        }
        if facts.bytes() < plan.size_bytes {
            return Err(Failure::Failed(format!(
                "{name} holds {} bytes, less than the {} that {} needs: choose a smaller size",
                facts.bytes(),
                plan.size_bytes,
                plan.kind.name
            )));
        }
        let blocks = chunk_bytes / block_bytes;
        let mut random = Draw::new(plan.seed, 1, 0);
        let clock = target.clock();
        let now = clock.now();
        let areas = Areas::new(target, plan.actors_per_stream, blocks);
        let actors = (0..index(plan.actors_per_stream))
            .map(|number| {
                // Modelled devices store no payload: it is zeros.
                if !clock.is_virtual() {
                    random.fill(&mut target.buffer_mut(areas.buffer())[areas.bytes_of(number)]);
                }
                Actor {
                    issue: None,
                    sent: now,
                    due: None,
                    blocks_left: 0,
                    requests_out: 0,
                }
            })
            .collect();
        Ok(Self {
            target,
            interrupt,
            block_bytes,
            request_blocks_max,
            size_bytes: plan.size_bytes,
            actors,
            areas,
            stalled: Vec::new(),
            in_flight: 0,
            recorder: None,
            arrivals: None,
            drained_ns: 0,
            clock,
        })
    }

    /// Returns an executor that is warmed up, with the target flushed and nothing measured yet.
    fn ready(
        target: &'a mut dyn Target,
        plan: &Plan,
        orders: &Orders<'a>,
    ) -> Result<Self, Failure> {
        let drained_ns = staged::drain(target, orders.interrupt);
        let mut executor = Self::new(target, plan, orders.interrupt)?;
        executor.drained_ns = drained_ns;
        if orders.warmup_operations > 0 {
            executor.warm_up(plan, orders.warmup_operations)?;
        }
        if orders.steady {
            executor.fill_stage(plan)?;
        }
        executor.flush()?;
        Ok(executor)
    }

    /// Runs the first operations of the same kind with another seed, shifted by half the size.
    fn warm_up(&mut self, plan: &Plan, operations: u32) -> Result<(), Failure> {
        let other = Plan {
            seed: plan.seed ^ 0x5bd1_e995,
            ..*plan
        };
        let half = plan.chunks() / 2 * u64::from(plan.chunk_bytes);
        self.carry_out(&mut *other.start(), Some(operations), half, &|_| true)
    }

    fn staged(&self) -> Option<Staging> {
        staged::now(self.target, self.drained_ns)
    }

    /// Runs workloads of the same kind, with other seeds, until the target's stage is in its steady
    /// state. Returns at once if it has no stage.
    fn fill_stage(&mut self, plan: &Plan) -> Result<(), Failure> {
        let steady = staged::Steady::default();
        for round in 1_u64.. {
            if steady.is_reached(self.target) {
                break;
            }
            let other = Plan {
                seed: plan.seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                ..*plan
            };
            self.carry_out(&mut *other.start(), None, 0, &|target| {
                !steady.is_reached(target)
            })?;
            steady.ends_round();
        }
        Ok(())
    }

    /// Runs all operations of a workload, or the first `operations`, or until `goes_on` returns
    /// false. Offsets are shifted by `shift` bytes.
    fn carry_out(
        &mut self,
        workload: &mut dyn BlockWorkload,
        operations: Option<u32>,
        shift: u64,
        goes_on: &dyn Fn(&dyn Target) -> bool,
    ) -> Result<(), Failure> {
        let mut left = operations.unwrap_or(u32::MAX);
        let mut answers = 0_u32;
        loop {
            let mut is_full = false;
            let until = self.recorder.as_ref().and_then(Recorder::until);
            if until.is_some_and(|until| self.clock.now() >= until) {
                left = 0;
            }
            while self.stalled.is_empty() && left > 0 && self.has_arrived() {
                match workload.next() {
                    Next::Issue(mut issue) => {
                        issue.offset_bytes = (issue.offset_bytes + shift) % self.size_bytes;
                        self.issue(issue);
                        if operations.is_some() {
                            left -= 1;
                        }
                    }
                    Next::Wait => {
                        is_full = true;
                        break;
                    }
                    Next::Done => {
                        assert_eq!(self.in_flight, 0);
                        return Ok(());
                    }
                }
            }
            if left == 0 && self.in_flight == 0 {
                return Ok(());
            }
            if self.interrupt.load(Ordering::Relaxed) {
                self.drain();
                return Err(Failure::Interrupted);
            }
            // If nothing more may be submitted, only replies are awaited.
            let is_blocked = is_full || left == 0 || !self.stalled.is_empty();
            let mut reply = self.await_reply(is_blocked);
            while let Some(one) = reply {
                if let Some(id) = self.replied(one)? {
                    workload.complete(id);
                }
                answers += 1;
                if answers.is_multiple_of(GOES_ON_EVERY) && !goes_on(self.target) {
                    left = 0;
                }
                reply = self.target.poll(false);
            }
            for actor in std::mem::take(&mut self.stalled) {
                self.submit(actor);
            }
        }
    }

    /// Returns true if the next operation is due.
    fn has_arrived(&self) -> bool {
        self.arrivals
            .as_ref()
            .is_none_or(|arrivals| arrivals.has_come(self.clock.now()))
    }

    /// Returns the next reply; `None` if another operation may be submitted first.
    fn await_reply(&mut self, is_blocked: bool) -> Option<Reply> {
        let arrivals = self.arrivals.as_ref().filter(|_| !is_blocked);
        let Some(arrivals) = arrivals else {
            return self.target.poll(true);
        };
        if let Some(reply) = self.target.poll(false) {
            return Some(reply);
        }
        arrivals.wait(self.target);
        self.target.poll(false)
    }

    fn issue(&mut self, issue: Issue) {
        let due = self.arrivals.as_mut().map(Arrivals::pass);
        let number = index(issue.actor) % self.actors.len();
        let actor = &mut self.actors[number];
        assert!(actor.issue.is_none());
        if let Some(integer) = issue.touch
            && issue.operation.is_write()
        {
            let memory = self.target.buffer_mut(self.areas.buffer());
            touch(&mut memory[self.areas.bytes_of(number)], integer);
        }
        actor.issue = Some(issue);
        actor.blocks_left = issue.bytes / self.block_bytes;
        actor.sent = self.clock.now();
        actor.due = due;
        self.submit(number);
    }

    /// Submits the rest of the actor's issue, in requests as large as the target accepts.
    fn submit(&mut self, number: usize) {
        let actor = &mut self.actors[number];
        let issue = actor.issue.expect("it has one");
        let blocks_all = issue.bytes / self.block_bytes;
        let first = issue.offset_bytes / u64::from(self.block_bytes);
        let area = self.areas.of(number);
        while actor.blocks_left > 0 {
            let done = blocks_all - actor.blocks_left;
            let blocks = actor.blocks_left.min(self.request_blocks_max);
            let request = Request {
                token: u64::try_from(number).expect("a small number"),
                operation: issue.operation,
                block: BlockIndex(first).plus(u64::from(done)),
                blocks,
                buffer: area.plus(done),
            };
            // A read in one request may be answered in another buffer, as for served clients.
            let taken = if blocks == blocks_all {
                self.target.submit_exchangeable(request)
            } else {
                self.target.submit(request)
            };
            if taken.is_err() {
                assert!(self.in_flight > 0, "an idle target takes a request");
                self.stalled.push(number);
                return;
            }
            actor.blocks_left -= blocks;
            actor.requests_out += 1;
            self.in_flight += 1;
        }
    }

    /// Records a reply. Returns the id of the issue if this was its last reply.
    fn replied(&mut self, reply: Reply) -> Result<Option<u32>, Failure> {
        self.in_flight -= 1;
        let number = usize::try_from(reply.token).expect("an actor of ours");
        self.areas.take_over(number, &reply);
        let actor = &mut self.actors[number];
        actor.requests_out -= 1;
        let issue = actor.issue.expect("what is answered was issued");
        if let Err(error) = reply.result {
            self.drain();
            let why = why(self.target.facts(), error);
            return Err(Failure::Failed(format!(
                "{}: {} of {} bytes at {} failed: {why}",
                self.target.facts().name,
                if issue.operation.is_write() {
                    "a write"
                } else {
                    "a read"
                },
                issue.bytes,
                issue.offset_bytes,
            )));
        }
        if actor.requests_out > 0 || actor.blocks_left > 0 {
            return Ok(None);
        }
        actor.issue = None;
        let (sent, due, ended) = (actor.sent, actor.due, self.clock.now());
        if let (Some(integer), Operation::Read) = (issue.touch, issue.operation) {
            let at = self.areas.bytes_of(number).start + index(integer) * 4;
            std::hint::black_box(self.target.buffer(self.areas.buffer())[at]);
        }
        if let Some(recorder) = &mut self.recorder {
            let class = count(recorder, &issue, sent, ended);
            if let Some(due) = due {
                recorder.was_due(class, due, ended);
            }
        }
        Ok(Some(issue.id))
    }

    /// Waits until nothing is in flight.
    fn drain(&mut self) {
        while self.target.poll(true).is_some() {}
        self.in_flight = 0;
    }

    /// Makes everything durable. Returns how long it took, in nanoseconds.
    fn flush(&mut self) -> Result<u64, Failure> {
        assert_eq!(self.in_flight, 0);
        let request = Request {
            token: FLUSH,
            operation: Operation::Flush,
            block: BlockIndex(0),
            blocks: 0,
            buffer: BufferSlice::NONE,
        };
        let sent = self.clock.now();
        self.target
            .submit(request)
            .expect("an idle target takes a request");
        let reply = self.target.poll(true).expect("the flush is in flight");
        assert_eq!(reply.token, FLUSH);
        if let Err(error) = reply.result {
            let facts = self.target.facts();
            let (name, why) = (&facts.name, why(facts, error));
            return Err(Failure::Failed(format!("{name}: the flush failed: {why}")));
        }
        Ok(self.clock.now().ns_since(sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_array::{Busy, Managed, open_device};
    use spindles_block::{BufferId, MemberSet, Reply};
    use spindles_device::ArrayFacts;
    use spindles_device::{CloseError, Counters, OpenOptions};
    use spindles_workload::{KINDS, Params};
    use std::collections::BTreeMap;

    /// Memory that answers reads in lent buffers whenever it may.
    struct Exchanging {
        target: Box<dyn Target>,
        facts: TargetFacts,
        lent: Vec<BufferSlice>,
        /// The buffers exchanged for it, by the token of the request.
        given: BTreeMap<u64, (BufferSlice, BufferSlice)>,
        exchanged: u32,
    }

    impl Target for Exchanging {
        fn facts(&self) -> &TargetFacts {
            &self.facts
        }
        fn allocate(&mut self, blocks: u32) -> BufferId {
            self.target.allocate(blocks)
        }
        fn buffer(&self, buffer: BufferId) -> &[u8] {
            self.target.buffer(buffer)
        }
        fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
            self.target.buffer_mut(buffer)
        }
        fn wait_until(&mut self, until: spindles_block::Instant) {
            self.target.wait_until(until);
        }
        fn clock(&self) -> spindles_device::Clock {
            self.target.clock()
        }
        fn now(&self) -> Instant {
            self.target.now()
        }
        fn submit(&mut self, request: Request) -> Result<(), Busy> {
            assert!(!self.lent.contains(&request.buffer), "it was lent");
            self.target.submit(request)
        }
        fn submit_exchangeable(&mut self, request: Request) -> Result<(), Busy> {
            if request.operation != Operation::Read {
                return self.submit(request);
            }
            assert!(!self.lent.contains(&request.buffer), "it was lent");
            let area = self.lent.remove(0);
            let other = Request {
                buffer: area,
                ..request
            };
            self.given.insert(request.token, (request.buffer, area));
            self.target.submit(other)
        }
        fn lend(&mut self, area: BufferSlice, _blocks: u32) -> bool {
            self.lent.push(area);
            true
        }
        fn end_lending(&mut self) {
            self.lent.clear();
        }
        fn poll(&mut self, wait: bool) -> Option<Reply> {
            let reply = self.target.poll(wait)?;
            let Some((given, area)) = self.given.remove(&reply.token) else {
                return Some(reply);
            };
            self.exchanged += 1;
            self.lent.push(given);
            Some(Reply {
                exchanged: Some(area),
                ..reply
            })
        }

        fn counters(&self) -> Counters {
            self.target.counters()
        }
    }

    impl Managed for Exchanging {
        fn devices(&self) -> Vec<String> {
            self.target.devices()
        }
        fn close(self: Box<Self>) -> Result<(), CloseError> {
            self.target.close()
        }
    }

    fn array_facts() -> ArrayFacts {
        ArrayFacts {
            level: "raid1",
            layout: String::new(),
            chunk_blocks: 16,
            members: 2,
            missing: MemberSet::EMPTY,
            data_chunks: 1,
            redundancy: 1,
        }
    }

    #[test]
    fn reads_may_return_exchanged_buffers() {
        let target = open_device("mem:8M", &OpenOptions::default()).unwrap();
        let facts = TargetFacts {
            array: Some(array_facts()),
            ..target.facts().clone()
        };
        let mut target = Exchanging {
            target,
            facts,
            lent: Vec::new(),
            given: BTreeMap::new(),
            exchanged: 0,
        };
        let interrupt = AtomicBool::new(false);
        // Run every kind on the same target in turn. Operations of the kinds differ in length.
        for kind in KINDS {
            let params = Params {
                operations: kind.operations.map(|_| 100),
                ..Params::new(8 << 20, 1)
            };
            let plan = kind.plan(&params).unwrap();
            let orders = Orders {
                warmup_operations: 8,
                ..Orders::new(&interrupt)
            };
            let before = target.exchanged;
            let measured = run(&mut target, &plan, &orders).unwrap();
            let reads = measured.run.latency.contains_key("read");
            assert_eq!(reads, target.exchanged > before, "{}", kind.name);
        }
    }

    #[test]
    fn only_an_array_has_a_level() {
        let target = open_device("mem:8M", &OpenOptions::default()).unwrap();
        let mut facts = target.facts().clone();
        let message = why(&facts, RequestError::BeyondTolerance);
        assert!(
            message.starts_with("the file or device reports"),
            "{message}"
        );
        facts.array = Some(array_facts());
        let message = why(&facts, RequestError::BeyondTolerance);
        assert_eq!(message, RequestError::BeyondTolerance.to_string());
    }
}
