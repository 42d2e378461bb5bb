//! Replays a trace on an open target and measures it. The timed window begins with the first
//! request. It ends with the last answer, or with the flush after it if anything was written.

use crate::experiment::replay::{ReplayAnswer, ReplayWork};
use crate::experiment::trace::TraceFile;
use crate::machine::clock::{self, Clocks, ThreadTime};
use crate::machine::evidence::{self, Watched};
use crate::measure::arrivals::Arrivals;
use crate::measure::execute::{members_of, watched, why};
use crate::measure::failure::Failure;
use crate::measure::late::Watch;
use crate::measure::measurement::{self, Measurement, Window};
use crate::measure::recorder::{Clock, Collector, Recorder};
use crate::measure::schedule::Draw;
use spindles_array::{Areas, Target};
use spindles_block::{BlockIndex, BufferSlice, Operation, Reply, Request};
use spindles_measure::{Phase, Traffic};
use spindles_workload::file::Class;
use spindles_workload::replay::{Placed, Replay, Timing};
use spindles_workload::trace::{TraceOperation, TraceRequest};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most memory for the data of requests in flight.
const MEMORY_BYTES: u64 = 64 << 20;
/// Most memory for one request. The parts of a longer one are sent one after the other.
const AREA_BYTES_MAX: u64 = 4 << 20;
/// A wait shorter than this ends sooner than a timer: poll instead.
const POLL_BELOW: Duration = Duration::from_micros(60);
/// The token of the last flush; other tokens are numbers of slots.
const FLUSH: u64 = u64::MAX;

/// Replays a trace once.
pub(crate) fn run(
    target: &mut dyn Target,
    work: &ReplayWork,
    of_folder: Option<&Watched>,
    interrupt: &AtomicBool,
) -> Result<Measurement, Failure> {
    let mut player = Player::new(target, work, interrupt)?;
    player.flush()?;
    let of_target = watched(player.target.facts());
    let watched = of_folder.unwrap_or(&of_target);
    let members = members_of(player.target);
    let late = Watch::begin(player.target);
    let seen = watched.now();
    let thread = ThreadTime::now();
    let before = Clocks::now();
    let began = Instant::now();
    let collector = Collector::default();
    let clock = Clock::start(None);
    player.recorder = Some(Recorder::new(clock, &collector));
    player.began = began;
    let ended = player.play();
    player.end_timer()?;
    ended?;
    let mut recorder = player.recorder.take().expect("set above");
    recorder.hand_over();
    let work_ns = clock::duration_ns(began.elapsed());
    let flush_ns = match work.facts.changes {
        0 => None,
        _ => Some(player.flush()?),
    };
    let window = Window {
        began,
        ended: Instant::now(),
        before,
        after: Clocks::now(),
    };
    let own = ThreadTime::now().used_since(thread, "workload and engine".to_owned());
    let mut evidence = watched.now().since(&seen, vec![own]);
    evidence.actors = work.plan.in_flight_max;
    evidence.actor_ns = recorder.actor_ns();
    evidence.cache.file_bytes = work.facts.end_bytes;
    if of_folder.is_none() {
        evidence.members = evidence::members_since(&members_of(player.target), &members);
    }
    let counted = collector.take_counted(&clock);
    let Measurement { mut run, window } = Measurement::new(counted, window);
    run.io = measurement::io(target.facts());
    run.doubts = measurement::target_doubts(target.facts());
    run.phases = vec![measurement::operations(&run, work_ns)];
    if let Some(elapsed_ns) = flush_ns {
        run.phases.push(Phase {
            name: "flush".to_owned(),
            begin_ns: work_ns,
            elapsed_ns,
            ..Phase::default()
        });
        run.latency
            .entry("flush".to_owned())
            .or_default()
            .record(elapsed_ns);
    }
    run.evidence = Some(evidence);
    run.late_members = late.end(target);
    run.counted = run.operations;
    Ok(Measurement { run, window })
}

/// A request in flight.
struct Slot {
    request: TraceRequest,
    number: u64,
    placed: Placed,
    due: Instant,
    sent: Instant,
    /// Blocks that are not submitted yet, and blocks of the area that are free.
    blocks_left: u64,
    area_left: u32,
    requests_out: u32,
}

struct Player<'a> {
    target: &'a mut dyn Target,
    work: &'a ReplayWork,
    interrupt: &'a AtomicBool,
    trace: TraceFile,
    replay: Replay,
    slots: Vec<Option<Slot>>,
    areas: Areas,
    /// The next request and when it is due.
    next: Option<(TraceRequest, Instant)>,
    is_over: bool,
    taken: u64,
    /// Slots with blocks to submit.
    stalled: Vec<usize>,
    in_flight: u32,
    began: Instant,
    timer: Arrivals,
    recorder: Option<Recorder<'a>>,
}

impl<'a> Player<'a> {
    fn new(
        target: &'a mut dyn Target,
        work: &'a ReplayWork,
        interrupt: &'a AtomicBool,
    ) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let facts = target.facts();
        let block_bytes = facts.block_size.bytes();
        let largest = work.facts.largest_bytes.min(AREA_BYTES_MAX);
        // A request that begins within a block touches one block more.
        let area_blocks = largest.div_ceil(block_bytes.into()) + 1;
        let area_bytes = area_blocks * u64::from(block_bytes);
        let fit = u32::try_from(MEMORY_BYTES / area_bytes).expect("at most the memory");
        let most = work.plan.in_flight_max.min(fit.max(1));
        let most = most.min(facts.requests_max.max(1));
        let replay = work.on(block_bytes, facts.blocks);
        let replay = replay.map_err(|error| Failure::Failed(format!("{}: {error}", facts.name)))?;
        let replay = replay.with_in_flight(most);
        let area_blocks = u32::try_from(area_blocks).expect("at most the memory");
        let slots = usize::try_from(most).expect("few");
        let areas = Areas::new(target, most, area_blocks);
        let mut random = Draw::new(1, 1, 0);
        for slot in 0..slots {
            random.fill(&mut target.buffer_mut(areas.buffer())[areas.bytes_of(slot)]);
        }
        let timer = Arrivals::new(1, 1);
        Ok(Self {
            target,
            work,
            interrupt,
            trace: TraceFile::open(&work.trace, work.format).map_err(|error| failed(&error))?,
            replay,
            slots: (0..slots).map(|_| None).collect(),
            areas,
            next: None,
            is_over: false,
            taken: 0,
            stalled: Vec::new(),
            in_flight: 0,
            began: Instant::now(),
            timer: timer.map_err(|error| Failure::Failed(format!("a timer: {error}")))?,
            recorder: None,
        })
    }

    /// Sends all requests of the trace and awaits their answers.
    fn play(&mut self) -> Result<(), Failure> {
        loop {
            self.fetch()?;
            let due = self.next.as_ref().map(|(_, due)| *due);
            if due.is_some_and(|due| due <= Instant::now()) {
                self.send();
            } else if self.is_over && self.next.is_none() && self.in_flight == 0 {
                return Ok(());
            } else {
                self.await_until(due)?;
            }
            while let Some(reply) = self.target.poll(false) {
                self.replied(reply)?;
            }
            for slot in std::mem::take(&mut self.stalled) {
                self.submit(slot);
            }
            if self.interrupt.load(Ordering::Relaxed) {
                self.drain();
                return Err(Failure::Interrupted);
            }
        }
    }

    /// Takes the next request of the trace if one more may be in flight.
    fn fetch(&mut self) -> Result<(), Failure> {
        if self.next.is_some() || self.is_over || !self.replay.has_room() {
            return Ok(());
        }
        let request = self.trace.next_request();
        let request = request.map_err(|error| Failure::Failed(error.to_string()))?;
        self.is_over = request.is_none();
        self.next = request.map(|request| {
            let due_ns = self.replay.take(&request);
            // Later than any run ends.
            let due = self.began.checked_add(Duration::from_nanos(due_ns));
            (
                request,
                due.unwrap_or_else(|| self.began + Duration::from_hours(1 << 20)),
            )
        });
        Ok(())
    }

    /// Waits for a reply, or until the next request is due.
    fn await_until(&mut self, due: Option<Instant>) -> Result<(), Failure> {
        let reply = match due {
            None => self.target.poll(true),
            Some(due) if due.saturating_duration_since(Instant::now()) < POLL_BELOW => {
                self.target.poll(false)
            }
            Some(due) => {
                self.timer.expect(due);
                self.timer.wait(self.target)?;
                self.target.poll(false)
            }
        };
        reply.map_or(Ok(()), |reply| self.replied(reply))
    }

    fn send(&mut self) {
        let Some((request, due)) = self.next.take() else {
            return;
        };
        let free = self.slots.iter().position(Option::is_none);
        let number = free.expect("the replay has room for no more than slots");
        let placed = self.replay.place(&request);
        self.taken += 1;
        let sent = Instant::now();
        self.slots[number] = Some(Slot {
            request,
            number: self.taken,
            placed,
            due: match self.work.plan.timing {
                Timing::FlatOut => sent,
                Timing::Recorded | Timing::Answered => due,
            },
            sent,
            blocks_left: placed.blocks,
            area_left: self.areas.area_blocks(),
            requests_out: 0,
        });
        self.submit(number);
    }

    /// Submits as much of a slot's request as target and memory take.
    fn submit(&mut self, number: usize) {
        let facts = self.target.facts();
        let request_blocks_max = facts.request_blocks_max;
        let Some(slot) = &mut self.slots[number] else {
            return;
        };
        let (operation, has_data) = match slot.request.operation {
            TraceOperation::Read => (Operation::Read, true),
            TraceOperation::Write => (Operation::Write { fua: false }, true),
            TraceOperation::Flush => (Operation::Flush, false),
            TraceOperation::Trim => (Operation::Discard, false),
            TraceOperation::Zero => (Operation::WriteZeroes { fua: false }, false),
        };
        let is_flush = slot.request.operation == TraceOperation::Flush;
        let area = self.areas.of(number);
        while slot.blocks_left > 0 || (is_flush && slot.requests_out == 0) {
            let most = if has_data {
                request_blocks_max.min(slot.area_left)
            } else {
                request_blocks_max
            };
            let blocks = u32::try_from(slot.blocks_left)
                .unwrap_or(u32::MAX)
                .min(most);
            if blocks == 0 && !is_flush {
                return; // The next part waits for the memory of this one.
            }
            let done = slot.placed.blocks - slot.blocks_left;
            let buffer = if has_data {
                area.plus(self.areas.area_blocks() - slot.area_left)
            } else {
                BufferSlice::NONE
            };
            let request = Request {
                token: u64::try_from(number).expect("few"),
                operation,
                block: BlockIndex(slot.placed.first_block + done),
                blocks,
                buffer,
            };
            if self.target.submit(request).is_err() {
                assert!(self.in_flight > 0, "an idle target takes a request");
                self.stalled.push(number);
                return;
            }
            slot.blocks_left -= u64::from(blocks);
            slot.area_left -= if has_data { blocks } else { 0 };
            slot.requests_out += 1;
            self.in_flight += 1;
            if is_flush {
                return;
            }
        }
    }

    fn replied(&mut self, reply: Reply) -> Result<(), Failure> {
        let ended = Instant::now();
        self.in_flight -= 1;
        let number = usize::try_from(reply.token).expect("a slot of ours");
        let slot = self.slots[number].as_mut().expect("it is in flight");
        slot.requests_out -= 1;
        if let Err(error) = reply.result {
            let (operation, placed) = (slot.request.operation, slot.placed);
            let request = slot.number;
            self.drain();
            let facts = self.target.facts();
            return Err(Failure::Failed(format!(
                "{}: request {request} of the trace, a {} of {} blocks at block {}, failed: {}",
                facts.name,
                operation.name(),
                placed.blocks,
                placed.first_block,
                why(facts, error),
            )));
        }
        if slot.requests_out > 0 {
            return Ok(());
        }
        if slot.blocks_left > 0 {
            slot.area_left = self.areas.area_blocks();
            if !self.stalled.contains(&number) {
                self.stalled.push(number);
            }
            return Ok(());
        }
        if let Some(slot) = self.slots[number].take() {
            self.answered(&slot, ended);
        }
        Ok(())
    }

    /// Counts an answered request.
    fn answered(&mut self, slot: &Slot, ended: Instant) {
        self.replay.answered(clock::duration_ns(ended - self.began));
        let block_bytes = u64::from(self.target.facts().block_size.bytes());
        let bytes = slot.placed.blocks * block_bytes;
        let (class, traffic) = match slot.request.operation {
            TraceOperation::Read => (Class::Read, Traffic::of_reads(bytes)),
            TraceOperation::Write => (Class::Write, Traffic::of_writes(bytes)),
            TraceOperation::Flush => (Class::Fsync, Traffic::default()),
            // They move no data, and records have no class for them.
            TraceOperation::Trim | TraceOperation::Zero => (Class::Write, Traffic::default()),
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.count(class, slot.sent, ended, traffic);
            if self.work.plan.timing != Timing::FlatOut {
                recorder.was_due(class, slot.due, ended);
            }
        }
        if let Some(sink) = &self.work.sink {
            let late = slot.sent.saturating_duration_since(slot.due);
            sink.answered(&ReplayAnswer {
                request: slot.number,
                operation: slot.request.operation,
                offset_bytes: slot.placed.first_block * block_bytes,
                bytes,
                late_ns: clock::duration_ns(late),
                response_ns: clock::duration_ns(ended - slot.sent),
                recorded_ns: slot.request.response_ns,
            });
        }
    }

    /// Waits until nothing is in flight.
    fn drain(&mut self) {
        while self.target.poll(true).is_some() {}
        self.in_flight = 0;
    }

    /// Ends the timer, so that the target can be closed.
    fn end_timer(&mut self) -> Result<(), Failure> {
        self.drain();
        self.timer.end(self.target).map_err(Failure::Failed)
    }

    /// Makes everything durable. Returns how long it took, in nanoseconds.
    fn flush(&mut self) -> Result<u64, Failure> {
        assert_eq!(self.in_flight, 0);
        let sent = Instant::now();
        let request = Request {
            token: FLUSH,
            operation: Operation::Flush,
            block: BlockIndex(0),
            blocks: 0,
            buffer: BufferSlice::NONE,
        };
        self.target
            .submit(request)
            .expect("an idle target takes a request");
        let reply = self.target.poll(true).expect("the flush is in flight");
        reply.result.map_err(|error| {
            let facts = self.target.facts();
            let why = why(facts, error);
            Failure::Failed(format!("{}: the flush failed: {why}", facts.name))
        })?;
        Ok(clock::duration_ns(sent.elapsed()))
    }
}
