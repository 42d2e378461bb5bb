//! Runs a phase in a folder. Each actor is a thread that waits for each system call, like the
//! processes of the classic tools.

use super::hands::{self, Hands};
use super::measured::{counted_of, moved, usage_of};
use crate::machine::clock::{self, Clocks, ThreadTime};
use crate::measure::failure::Failure;
use crate::measure::measurement::{Measurement, Window};
use crate::measure::recorder::{ClassNs, Clock, Collector, Recorder, named_ns};
use rustix::fd::AsFd as _;
use rustix::io::Errno;
use spindles_block::Instant;
use spindles_device::ThreadUsage;
use spindles_measure::{Evidence, ThreadUse};
use spindles_workload::file::{Answer, Class, FileIssue, FileNext, FilePlan, FileWorkload};
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::thread::{ScopedJoinHandle, Thread};
use std::time::Duration;

/// State shared by the actors of a phase.
struct Shared<'a> {
    workload: Mutex<Box<dyn FileWorkload>>,
    /// A seat per actor.
    seats: Vec<Seat>,
    stop: AtomicBool,
    failed: OnceLock<String>,
    folder: &'a File,
    name: &'a Path,
    /// Size of an actor's buffer, and the seed of its contents.
    buffer_bytes: u32,
    seed: u64,
}

/// The start of a phase. Buffers are allocated before the clock starts, once all actors are ready.
struct Start {
    ready: Barrier,
    begin: Barrier,
    /// Set between the two barriers.
    clock: OnceLock<Clock>,
    /// The thread that waits for the end of the phase.
    waiter: Thread,
}

impl Start {
    /// Returns the start of a phase that the current thread waits for.
    fn new(actors: usize) -> Self {
        Self {
            ready: Barrier::new(actors + 1),
            begin: Barrier::new(actors + 1),
            clock: OnceLock::new(),
            waiter: std::thread::current(),
        }
    }
}

/// Returns how much of the first files in a folder is cached, in thousandths. `None` if they are
/// empty or the kernel does not report it.
fn resident_permille(folder: &Path) -> Option<u32> {
    /// Checking each of 100,000 small files would take as long as a phase.
    const FILES_MAX: usize = 1000;
    let mut folders = vec![folder.to_owned()];
    let (mut files, mut bytes, mut cached) = (0, 0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).ok()?.flatten() {
            let facts = entry.metadata().ok()?;
            if facts.is_dir() {
                folders.push(entry.path());
            } else if facts.is_file() && files < FILES_MAX {
                files += 1;
                bytes += facts.len();
                let of_file = spindles_device::cached_bytes(&File::open(entry.path()).ok()?)?;
                cached += of_file.min(facts.len());
            }
        }
    }
    let permille = (cached * 1000).checked_div(bytes)?;
    u32::try_from(permille).ok()
}

/// Where an actor waits.
#[derive(Default)]
struct Seat {
    thread: OnceLock<Thread>,
    woken: AtomicBool,
}

/// The figures of one actor.
struct Left {
    window: Option<(Instant, Instant)>,
    class_ns: ClassNs,
    thread: ThreadUse,
    /// Usage at its begin and at its end.
    usage: (ThreadUsage, ThreadUsage),
}

/// Settings of a phase beyond its plan.
pub(crate) struct Course<'a> {
    /// Set to end the phase early.
    pub(crate) interrupt: &'a AtomicBool,
    /// Called once all actors have started, right before their first operation. Its error ends the
    /// phase.
    pub(crate) begin: &'a dyn Fn() -> Result<(), Failure>,
    /// Called right after the last operation.
    pub(crate) end: &'a dyn Fn(),
    /// Collects the figures.
    pub(crate) collector: &'a Collector,
    /// True if the figures of a timed phase include its warm-up.
    pub(crate) with_warm_up: bool,
}

/// How often the waiting thread checks for an interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// Runs a phase of a plan in `folder`, in which the phases before it have run.
pub(crate) fn run(
    plan: &FilePlan,
    phase: usize,
    folder: &Path,
    course: &Course<'_>,
) -> Result<Measurement, Failure> {
    let (interrupt, collector) = (course.interrupt, course.collector);
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
        buffer_bytes: facts.buffer_bytes,
        seed: plan.seed,
    };
    let resident_permille = resident_permille(folder);
    let duration_ns = facts.endless.then(|| plan.seconds() * 1_000_000_000);
    let start = Start::new(shared.seats.len());
    let mut left = Vec::with_capacity(shared.seats.len());
    let mut before = Clocks::now();
    std::thread::scope(|scope| {
        let (shared, start) = (&shared, &start);
        let actors: Vec<_> = (0..facts.actors)
            .map(|actor| scope.spawn(move || shared.run_actor(actor, start, collector)))
            .collect();
        start.ready.wait();
        let may_begin = (course.begin)();
        if may_begin.is_err() {
            shared.stop();
        }
        before = Clocks::now();
        let clock = start
            .clock
            .get_or_init(|| match Clock::start(clock::now(), duration_ns) {
                started if course.with_warm_up => started.with_warm_up(),
                started => started,
            });
        start.begin.wait();
        shared.await_end(&actors, clock, interrupt);
        left = actors
            .into_iter()
            .map(|actor| actor.join().expect("an actor does not panic"))
            .collect();
        may_begin
    })?;
    (course.end)();
    let after = Clocks::now();
    if interrupt.load(Ordering::Relaxed) {
        return Err(Failure::Interrupted);
    }
    if let Some(why) = shared.failed.get() {
        return Err(Failure::Failed(why.clone()));
    }
    let clock = start.clock.get().expect("set before the begin");
    let Measurement { mut run, window } = measured(clock, collector, &left, before, after);
    run.counted = counted_of(facts.counted, &run);
    let evidence = run.evidence.get_or_insert_default();
    evidence.cache.resident_permille = resident_permille;
    Ok(Measurement { run, window })
}

fn measured(
    clock: &Clock,
    collector: &Collector,
    left: &[Left],
    before: Clocks,
    after: Clocks,
) -> Measurement {
    let begins = left.iter().filter_map(|worker| Some(worker.window?.0));
    let ends = left.iter().filter_map(|worker| Some(worker.window?.1));
    let began = begins.min().unwrap_or(clock.began);
    let window = Window {
        began,
        ended: clock.until.or(ends.max()).unwrap_or(began),
        before,
        after,
    };
    let mut class_ns = ClassNs::default();
    for one in left {
        for (sum, ns) in class_ns.iter_mut().zip(one.class_ns) {
            *sum += ns;
        }
    }
    let Measurement { mut run, window } = Measurement::new(collector.take_counted(clock), window);
    run.cpu_ns.workload = left.iter().map(|worker| worker.thread.cpu_ns).sum();
    run.evidence = Some(Evidence {
        actor_ns: named_ns(&class_ns),
        threads: left.iter().map(|worker| worker.thread.clone()).collect(),
        usage: Some(usage_of(
            &left.iter().map(|worker| worker.usage).collect::<Vec<_>>(),
        )),
        ..Evidence::default()
    });
    Measurement { run, window }
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

    /// Runs an actor from its preparation to its end. Returns its figures.
    fn run_actor(&self, actor: u32, start: &Start, collector: &Collector) -> Left {
        // A descriptor table of its own, as the classic tools' processes have: a shared one makes
        // each operation slower.
        drop(spindles_device::use_own_descriptors(self.folder.as_fd()));
        let mut hands = Hands::new(self.folder, self.buffer_bytes, self.seed, actor);
        let seat = &self.seats[index(actor)];
        seat.thread.get_or_init(std::thread::current);
        start.ready.wait();
        start.begin.wait();
        let clock = *start.clock.get().expect("set before the begin");
        let mut recorder = Recorder::new(clock, collector);
        let (time, usage) = (ThreadTime::now(), ThreadUsage::now());
        let ended = self.act(actor, &mut hands, &mut recorder);
        if let Err(why) = ended {
            self.failed.get_or_init(|| why);
            self.stop();
        }
        recorder.hand_over();
        start.waiter.unpark();
        Left {
            window: recorder.window,
            class_ns: recorder.class_ns,
            thread: ThreadTime::now().used_since(time, format!("actor {actor}")),
            usage: (usage, ThreadUsage::now()),
        }
    }

    /// Waits until all actors have ended. Stops them after their time, or at an interrupt.
    fn await_end(
        &self,
        actors: &[ScopedJoinHandle<'_, Left>],
        clock: &Clock,
        interrupt: &AtomicBool,
    ) {
        while actors.iter().any(|actor| !actor.is_finished()) {
            let now = clock::now();
            let over = clock.until.is_some_and(|until| now >= until);
            if over || interrupt.load(Ordering::Relaxed) {
                self.stop();
            }
            let rest = clock
                .until
                .map(|until| Duration::from_nanos(until.ns_since(now)));
            // Don't delay the end of short phases.
            let wait = rest
                .filter(|rest| !rest.is_zero())
                .unwrap_or(LOOK)
                .min(LOOK);
            let since_begin = Duration::from_nanos(now.ns_since(clock.began));
            let wait = wait.min(since_begin.max(Duration::from_millis(1)));
            std::thread::park_timeout(wait);
        }
    }

    /// Runs the operations of an actor until it is done or the phase stops.
    fn act(
        &self,
        actor: u32,
        hands: &mut Hands<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), String> {
        let mut answer = None;
        let mut began = clock::now();
        while !self.stops() {
            let (next, path) = self.step(actor, answer.take());
            match next {
                FileNext::Done => break,
                FileNext::Wait => {
                    let seat = &self.seats[index(actor)];
                    while !seat.woken.swap(false, Ordering::Acquire) && !self.stops() {
                        std::thread::park();
                    }
                    let now = clock::now();
                    recorder.waited(began, now);
                    began = now;
                }
                FileNext::Do(issue) => {
                    let done = hands
                        .act(&issue, &path)
                        .map_err(|errno| self.why(&issue, &path, errno))?;
                    answer = Some(done);
                    if issue.class == Class::Seek {
                        continue; // Its time counts with the operation after it.
                    }
                    let ended = clock::now();
                    if issue.timed {
                        recorder.count(issue.class, began, ended, moved(&issue, done));
                    }
                    began = ended;
                }
            }
        }
        Ok(())
    }

    /// Returns the next step, and the path of the file that it names.
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
        let remedy = match errno {
            Errno::NOSPC => "; give the system a larger `size`, or the workload less to write",
            _ => "",
        };
        match path {
            "" => format!("{folder}: {what} failed: {error}{remedy}"),
            path => format!("{folder}/{path}: {what} failed: {error}{remedy}"),
        }
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}
