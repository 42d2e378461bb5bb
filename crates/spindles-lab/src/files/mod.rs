//! Carries a phase of a workload on files out in a folder: an actor is a thread, as the processes of the
//! classic tools are, and waits for each system call.
//!
//! The timed window goes from the first timed operation of any actor to the end of the last, or until the
//! time of an endless phase is over. Knows nothing of arrays or experiments.

mod hands;

use crate::clock::{self, MachineTicks};
use crate::execute::Failure;
use crate::recorder::{ClassNs, Clock, Collector, Counted, Recorder, named_ns};
use hands::Hands;

use rustix::io::Errno;
use spindles_io::ThreadUsage;
use spindles_measure::{Histogram, Series, ThreadUse, Traffic, Usage};
use spindles_workload::file::{
    Action, Answer, FileCounted, FileIssue, FileNext, FilePlan, FileWorkload,
};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// What a phase in a folder showed.
pub(crate) struct Measured {
    /// The timed window without its warm-up.
    pub(crate) elapsed_ns: u64,
    pub(crate) operations: u64,
    pub(crate) counted: u64,
    pub(crate) application: Traffic,
    pub(crate) latency: BTreeMap<String, Histogram>,
    pub(crate) series: Series,
    /// Time of all actors by what they did, see `Evidence::actor_ns`.
    pub(crate) actor_ns: BTreeMap<String, u64>,
    /// CPU time of all actors.
    pub(crate) threads: Vec<ThreadUse>,
    /// What the kernel counted for all of them together.
    pub(crate) usage: Usage,
    pub(crate) process_cpu_ns: (u64, u64),
    pub(crate) machine: (MachineTicks, MachineTicks),
}

/// What the harness counts a second in a phase if no operation takes any time: its own ceiling, measured for
/// about so long. One thread plays all actors, so several threads may reach more.
pub(crate) fn ceiling(plan: &FilePlan, phase: usize, duration: Duration) -> u64 {
    let facts = &plan.phases()[phase];
    let mut workload = plan.start(phase);
    let collector = Collector::default();
    let mut recorder = Recorder::new(Clock::start(None), &collector);
    let mut ready: VecDeque<(u32, Option<Answer>)> =
        (0..facts.actors).map(|it| (it, None)).collect();
    let began = Instant::now();
    let mut before = began;
    while let Some((actor, answer)) = ready.pop_front() {
        match workload.step(actor, answer) {
            FileNext::Do(issue) => {
                let answer = as_asked(&issue);
                let now = Instant::now();
                if issue.timed {
                    recorder.count(issue.class, before, now, moved(&issue, answer));
                }
                before = now;
                ready.push_back((actor, Some(answer)));
            }
            FileNext::Wait | FileNext::Done => {}
        }
        while let Some(woken) = workload.woken() {
            ready.push_back((woken, None));
        }
        if before - began > duration {
            break;
        }
    }
    recorder.hand_over();
    let clock = Clock::start(None);
    let all = collector.into_counted(&clock);
    let elapsed_ns = clock::duration_ns(before - began);
    crate::calibrate::per_second(counted_of(facts.counted, &all), elapsed_ns)
}

/// The answer to an operation that moved all that was asked for.
fn as_asked(issue: &FileIssue) -> Answer {
    let bytes = match issue.action {
        Action::Read(_, _, bytes)
        | Action::Write(_, _, bytes)
        | Action::Append(_, bytes)
        | Action::ReadWhole(_, bytes)
        | Action::PutBytes(_, bytes)
        | Action::GetBytes(_, bytes) => bytes.into(),
        _ => 0,
    };
    Answer { bytes }
}

fn counted_of(counted: Option<FileCounted>, all: &Counted) -> u64 {
    match counted {
        None => 0,
        Some(FileCounted::ReadBytes) => all.bytes.read,
        Some(FileCounted::WrittenBytes) => all.bytes.written,
        Some(FileCounted::Bytes) => all.bytes.total(),
        Some(FileCounted::Of(class)) => all.latency.get(class.name()).map_or(0, Histogram::total),
        Some(FileCounted::Operations) => all.operations,
    }
}

/// What is shared by the actors of a phase.
struct Shared<'a> {
    workload: Mutex<Box<dyn FileWorkload>>,
    /// Of each actor.
    seats: Vec<Seat>,
    stop: AtomicBool,
    failed: OnceLock<String>,
    folder: &'a File,
    name: &'a Path,
}

/// Where an actor waits.
#[derive(Default)]
struct Seat {
    thread: OnceLock<Thread>,
    woken: AtomicBool,
}

/// What one actor leaves.
struct Left {
    window: Option<(Instant, Instant)>,
    class_ns: ClassNs,
    cpu_ns: u64,
    /// At its begin and at its end.
    usage: (ThreadUsage, ThreadUsage),
}

/// How often the one who waits for the end looks whether the user wants one.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a phase of a plan in `folder`, in which the phases before it have run.
pub(crate) fn run(
    plan: &FilePlan,
    phase: usize,
    folder: &Path,
    interrupt: &AtomicBool,
) -> Result<Measured, Failure> {
    let facts = &plan.phases()[phase];
    let opened = File::open(folder)
        .map_err(|error| Failure::Failed(format!("{}: {error}", folder.display())))?;
    let shared = Shared {
        workload: Mutex::new(plan.start(phase)),
        seats: (0..facts.actors).map(|_| Seat::default()).collect(),
        stop: AtomicBool::new(false),
        failed: OnceLock::new(),
        folder: &opened,
        name: folder,
    };
    let duration_ns = facts.endless.then(|| plan.seconds() * 1_000_000_000);
    let collector = Collector::default();
    // Buffers are made before the clock starts, which is set once all are there.
    let ready = Barrier::new(shared.seats.len() + 1);
    let begin = Barrier::new(shared.seats.len() + 1);
    let clock = OnceLock::new();
    let waiter = std::thread::current();
    let mut left = Vec::with_capacity(shared.seats.len());
    let mut before = (0, MachineTicks::default());
    std::thread::scope(|scope| {
        let actors: Vec<_> = (0..facts.actors)
            .map(|actor| {
                let (shared, collector) = (&shared, &collector);
                let (ready, begin, clock, waiter) = (&ready, &begin, &clock, &waiter);
                let buffer_bytes = facts.buffer_bytes;
                scope.spawn(move || {
                    let mut hands = Hands::new(shared.folder, buffer_bytes, plan.seed, actor);
                    let seat = &shared.seats[index(actor)];
                    seat.thread.get_or_init(std::thread::current);
                    ready.wait();
                    begin.wait();
                    let clock = *clock.get().expect("set before the begin");
                    let mut recorder = Recorder::new(clock, collector);
                    let (cpu, usage) = (clock::thread_cpu_ns(), ThreadUsage::now());
                    let ended = shared.act(actor, &mut hands, &mut recorder);
                    if let Err(why) = ended {
                        shared.failed.get_or_init(|| why);
                        shared.stop();
                    }
                    recorder.hand_over();
                    waiter.unpark();
                    Left {
                        window: recorder.window,
                        class_ns: recorder.class_ns,
                        cpu_ns: clock::thread_cpu_ns() - cpu,
                        usage: (usage, ThreadUsage::now()),
                    }
                })
            })
            .collect();
        ready.wait();
        before = (clock::process_cpu_ns(), MachineTicks::now());
        let started = clock.get_or_init(|| Clock::start(duration_ns));
        begin.wait();
        while actors.iter().any(|actor| !actor.is_finished()) {
            let now = Instant::now();
            let over = started.until.is_some_and(|until| now >= until);
            if over || interrupt.load(Ordering::Relaxed) {
                shared.stop();
            }
            let rest = started
                .until
                .map(|until| until.saturating_duration_since(now));
            // Short phases are not to wait for us.
            let wait = rest
                .filter(|rest| !rest.is_zero())
                .unwrap_or(LOOK)
                .min(LOOK);
            let wait = wait.min((now - started.began).max(Duration::from_millis(1)));
            std::thread::park_timeout(wait);
        }
        left = actors
            .into_iter()
            .map(|actor| actor.join().expect("an actor does not panic"))
            .collect();
    });
    let after = (clock::process_cpu_ns(), MachineTicks::now());
    if interrupt.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    if let Some(why) = shared.failed.get() {
        return Err(Failure::Failed(why.clone()));
    }
    let clock = clock.get().expect("set before the begin");
    Ok(measured(
        facts.counted,
        clock,
        collector,
        &left,
        before,
        after,
    ))
}

fn measured(
    counted: Option<FileCounted>,
    clock: &Clock,
    collector: Collector,
    left: &[Left],
    before: (u64, MachineTicks),
    after: (u64, MachineTicks),
) -> Measured {
    let begins = left.iter().filter_map(|it| Some(it.window?.0));
    let ends = left.iter().filter_map(|it| Some(it.window?.1));
    let began = begins.min().unwrap_or(clock.began);
    let ended = clock.until.or(ends.max()).unwrap_or(began);
    let all = collector.into_counted(clock);
    let warm_up_ns = all.series.warm_up_ns();
    let mut class_ns = ClassNs::default();
    for one in left {
        for (sum, ns) in class_ns.iter_mut().zip(one.class_ns) {
            *sum += ns;
        }
    }
    Measured {
        elapsed_ns: clock::duration_ns(ended - began).saturating_sub(warm_up_ns),
        operations: all.operations,
        counted: counted_of(counted, &all),
        application: all.bytes,
        latency: all.latency,
        series: all.series,
        actor_ns: named_ns(&class_ns),
        threads: (0..)
            .zip(left)
            .map(|(actor, it): (u32, _)| ThreadUse {
                name: format!("actor {actor}"),
                cpu_ns: it.cpu_ns,
            })
            .collect(),
        usage: usage_of(left),
        process_cpu_ns: (before.0, after.0),
        machine: (before.1, after.1),
    }
}

/// What the kernel counted for all actors together.
fn usage_of(left: &[Left]) -> Usage {
    let sum = |of: fn(&ThreadUsage) -> u64| {
        let actors = left.iter().map(|it| &it.usage);
        let each = actors.map(|(before, after)| of(after).saturating_sub(of(before)));
        each.sum::<u64>()
    };
    Usage {
        user_ns: sum(|it| it.user_ns),
        system_ns: sum(|it| it.system_ns),
        blocks_in: sum(|it| it.blocks_in),
        blocks_out: sum(|it| it.blocks_out),
        voluntary_switches: sum(|it| it.voluntary_switches),
        involuntary_switches: sum(|it| it.involuntary_switches),
        major_faults: sum(|it| it.major_faults),
    }
}

impl Shared<'_> {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for seat in &self.seats {
            if let Some(thread) = seat.thread.get() {
                thread.unpark();
            }
        }
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// All operations of an actor, until it is done or all are to stop.
    fn act(
        &self,
        actor: u32,
        hands: &mut Hands<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String> {
        let mut answer = None;
        let mut began = Instant::now();
        while !self.stops() {
            let (next, path) = self.step(actor, answer.take());
            match next {
                FileNext::Done => break,
                FileNext::Wait => {
                    let seat = &self.seats[index(actor)];
                    while !seat.woken.swap(false, Ordering::Acquire) && !self.stops() {
                        std::thread::park();
                    }
                    let now = Instant::now();
                    recorder.waited(began, now);
                    began = now;
                }
                FileNext::Do(issue) => {
                    let done = hands
                        .act(&issue, &path)
                        .map_err(|errno| self.why(&issue, &path, errno))?;
                    let ended = Instant::now();
                    if issue.timed {
                        recorder.count(issue.class, began, ended, moved(&issue, done));
                    }
                    answer = Some(done);
                    began = ended;
                }
            }
        }
        Ok(())
    }

    /// The next thing to do, and the path of the file that it names.
    fn step(&self, actor: u32, answer: Option<Answer>) -> (FileNext, String) {
        let mut workload = self.workload.lock().unwrap_or_else(PoisonError::into_inner);
        let next = workload.step(actor, answer);
        while let Some(woken) = workload.woken() {
            let seat = &self.seats[index(woken)];
            seat.woken.store(true, Ordering::Release);
            if let Some(thread) = seat.thread.get() {
                thread.unpark();
            }
        }
        let path = match next {
            FileNext::Do(issue) => hands::named(issue.action).map(|file| workload.path(file)),
            FileNext::Wait | FileNext::Done => None,
        };
        (next, path.unwrap_or_default())
    }

    fn why(&self, issue: &FileIssue, path: &str, errno: Errno) -> String {
        let what = issue.class.name();
        let folder = self.name.display();
        let error = std::io::Error::from(errno);
        match path {
            "" => format!("{folder}: {what} failed: {error}"),
            path => format!("{folder}/{path}: {what} failed: {error}"),
        }
    }
}

/// Bytes that an operation moved.
fn moved(issue: &FileIssue, answer: Answer) -> Traffic {
    let reads = matches!(
        issue.action,
        Action::Read(..) | Action::GetBytes(..) | Action::ReadWhole(..)
    );
    if reads {
        Traffic {
            read: answer.bytes,
            written: 0,
        }
    } else {
        Traffic {
            read: 0,
            written: answer.bytes,
        }
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}
