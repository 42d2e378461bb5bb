//! The tasks of an agent: each is prepared as a whole and then run part by part. Knows nothing of
//! connections to controllers.

use super::copies::{self, Endpoint, await_signal, connect, signal};
use super::fio;
use super::link::Link;
use super::wire::{CopyTask, Done, Task};
use crate::experiment::fio::{FIO, FioWork, Source, check_on_nodes};
use crate::experiment::parameter_of;
use crate::machine::caches::{make_ready, sync};
use crate::machine::clock::{self, MachineTicks};
use crate::machine::evidence::Watched;
use crate::measure::failure::Failure;
use crate::measure::files::{self, Course};
use crate::measure::recorder::{Clock, Collector, Recorder, named_ns};
use crate::measure::{fio as fios, measurement, tool};
use crate::systems::scratch::Scratch;
use spindles_block::Instant;
use spindles_device::TcpCounters;
use spindles_measure::{CacheUse, Evidence, Run, Traffic};
use spindles_workload::file::{self, Class, FilePlan};
use std::cell::Cell;
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often a waiting task checks the brake.
const LOOK: Duration = Duration::from_millis(50);
/// How long connecting a data stream may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The environment of tasks.
pub(super) struct Site<'a> {
    /// Parent of the folders of tasks.
    pub(super) folder: &'a Path,
    /// Devices that tasks may overwrite.
    pub(super) devices: &'a [String],
    /// The origin of `begin_ns` and `end_ns`.
    pub(super) base: Instant,
    /// The interface to the controller.
    pub(super) link: Option<Link>,
    /// Stops a task.
    pub(super) brake: &'a Brake,
}

/// Stops a task, whatever it waits for.
#[derive(Debug, Default)]
pub(super) struct Brake {
    pulled: AtomicBool,
    /// Connections that the task may be waiting for.
    streams: Mutex<Vec<TcpStream>>,
}

impl Brake {
    /// Stops the task.
    pub(super) fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in streams.iter() {
            // The connection may be closed already.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns the flag that is set when the task must stop.
    pub(super) fn pulled(&self) -> &AtomicBool {
        &self.pulled
    }

    pub(super) fn is_pulled(&self) -> bool {
        self.pulled.load(Ordering::SeqCst)
    }

    /// Waits until `at`. Fails with `Interrupted` if the brake is pulled.
    fn wait_until(&self, at: Instant) -> Result<(), Failure> {
        while !self.is_pulled() {
            let rest = Duration::from_nanos(at.ns_since(clock::now()));
            if rest.is_zero() {
                return Ok(());
            }
            std::thread::sleep(rest.min(LOOK));
        }
        Err(Failure::Interrupted)
    }

    /// Adds a stream that `pull` shuts down, so that its waiters wake up.
    pub(super) fn add(&self, stream: &TcpStream) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.extend(stream.try_clone());
        drop(streams);
        if self.is_pulled() {
            self.pull();
        }
    }
}

/// Called when a part is ready; returns the time of its first operation.
pub(super) type Armed<'a> = &'a dyn Fn() -> Result<Instant, Failure>;

/// A prepared task. Its parts are run in order.
pub(super) trait Job {
    /// Returns the number of parts.
    fn parts(&self) -> usize;

    /// Runs a part. Returns the begin of the first operation, the end of the last, and the figures.
    fn run(&mut self, part: usize, course: &Course<'_>) -> Result<Ran, Failure>;
}

/// The result of a part.
pub(super) struct Ran {
    window: (Instant, Instant),
    run: Run,
    /// Connections that carried its data.
    connections: Vec<TcpCounters>,
}

/// Prepares a task.
pub(super) fn prepare<'a>(task: &Task, site: &'a Site<'_>) -> Result<Box<dyn Job + 'a>, Failure> {
    match task {
        Task::Copy(task) => Ok(Box::new(CopyJob::new(task, site)?)),
        Task::Files {
            kind,
            parameters,
            seed,
            empty_caches,
        } => {
            let known = file::by_name(kind);
            let known = known.ok_or_else(|| failed(format!("it has no workload \"{kind}\"")))?;
            let chosen = parameters
                .iter()
                .map(|(name, text)| (name.clone(), parameter_of(text)));
            let plan = known.plan(&chosen.collect(), 1.0, *seed);
            let plan = plan.map_err(|error| failed(error.to_string()))?;
            let (folder, scratch) = own_folder(site.folder, plan.bytes())?;
            Ok(Box::new(FilesJob {
                plan,
                folder,
                _scratch: scratch,
                empty_caches: *empty_caches,
            }))
        }
        Task::Fio { options, device } => {
            check_on_nodes(options).map_err(failed)?;
            let work = FioWork::new(options.clone(), Source::Parameters, None, 1.0);
            let work = work.map_err(failed)?;
            let (file, scratch) = match device {
                Some(device) if site.devices.contains(device) => (device.clone(), None),
                Some(device) => {
                    return Err(failed(format!(
                        "{device} was not given to the agent: start it with --device {device}"
                    )));
                }
                None => {
                    let (folder, scratch) = own_folder(site.folder, work.file_bytes())?;
                    let file = folder.join("fio").to_string_lossy().into_owned();
                    (file, Some(scratch))
                }
            };
            Ok(Box::new(FioJob {
                work,
                file,
                _scratch: scratch,
            }))
        }
    }
}

fn failed(why: String) -> Failure {
    Failure::Failed(why)
}

/// Creates a folder that is removed with its `Scratch`, if `bytes` fit there.
fn own_folder(parent: &Path, bytes: u64) -> Result<(PathBuf, Scratch), Failure> {
    // Checked before the first byte: a full disk would affect other users, too.
    if let Ok(stat) = rustix::fs::statvfs(parent) {
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < bytes {
            return Err(failed(format!(
                "{} MiB are needed and {} are free in {}: choose a smaller size, or another \
                 --folder for the agent",
                bytes >> 20,
                free >> 20,
                parent.display()
            )));
        }
    }
    Ok(Scratch::with_folder(parent)?)
}

/// Runs a part, and reads the counters of the machine and its interface around it. Calls `ended`
/// right after the last operation.
pub(super) fn carry_out(
    job: &mut dyn Job,
    part: usize,
    collector: &Collector,
    site: &Site<'_>,
    armed: Armed<'_>,
    ended: &dyn Fn(),
) -> Result<Done, Failure> {
    let (before, after) = (Cell::new(None), Cell::new(None));
    let link_now = || site.link.as_ref().map(Link::now);
    let begin = || {
        let at = armed()?;
        // Takes a moment, so do it before the start.
        let link = link_now();
        site.brake.wait_until(at)?;
        before.set(Some((link, MachineTicks::now())));
        Ok(())
    };
    let end = || {
        ended();
        after.set(Some((link_now(), MachineTicks::now())));
    };
    let course = Course {
        interrupt: site.brake.pulled(),
        begin: &begin,
        end: &end,
        collector,
        with_warm_up: true,
    };
    let Ran {
        window,
        mut run,
        connections,
    } = job.run(part, &course)?;
    let (link_before, before) = before.take().unwrap_or_default();
    let (link_after, after) = after.take().unwrap_or_default();
    let busy_ns = after.since(before).busy * clock::TICK_NS;
    run.cpu_ns.machine = run.cpu_ns.machine.max(busy_ns);
    let link = link_after.zip(link_before);
    Ok(Done {
        begin_ns: window.0.ns_since(site.base),
        end_ns: window.1.ns_since(site.base),
        run,
        link: link.map(|(after, before)| after.since(&before, &connections)),
    })
}

/// One stream of a copy.
struct CopyJob {
    task: CopyTask,
    stream: TcpStream,
    place: Endpoint,
    emptied: bool,
    _scratch: Option<Scratch>,
}

impl CopyJob {
    fn new(task: &CopyTask, site: &Site<'_>) -> Result<Self, Failure> {
        let own = task.disk.then(|| own_folder(site.folder, task.bytes));
        let own = own.transpose()?;
        let folder = own.as_ref().map(|(folder, _)| folder.as_path());
        let place = if task.writes {
            let contents = (task.bytes, task.seed);
            Endpoint::to_read(folder, "copy", contents, site.brake.pulled())?
        } else {
            Endpoint::to_write(folder, "copy")?
        };
        let emptied = folder.is_some_and(|folder| make_ready(folder, task.empty_caches));
        let stream = connect(&task.server, &task.ticket, CONNECT_TIME)?;
        site.brake.add(&stream);
        Ok(Self {
            task: task.clone(),
            stream,
            place,
            emptied,
            _scratch: own.map(|(_, scratch)| scratch),
        })
    }
}

impl CopyJob {
    /// Sends or receives all bytes of the file, and counts each piece.
    fn transfer(&mut self, recorder: &mut Recorder<'_>) -> Result<(), Failure> {
        let (bytes, writes) = (self.task.bytes, self.task.writes);
        let mut moved = |began: Instant, piece: usize| {
            let (class, traffic) = moved(writes, piece);
            recorder.count(class, began, clock::now(), traffic);
        };
        if writes {
            copies::send(&self.stream, &mut self.place, bytes, &mut moved)?;
        } else {
            signal(&self.stream)?;
            copies::receive(&self.stream, &mut self.place, bytes, &mut moved)?;
        }
        Ok(())
    }

    /// Waits until the server has received everything, or the file is durable here.
    fn await_complete(&self) -> Result<(), Failure> {
        if self.task.writes {
            await_signal(&self.stream)?;
        } else if self.task.fsync {
            self.place.sync()?;
        }
        Ok(())
    }
}

/// Returns the class and the traffic of a piece of a copy.
fn moved(writes: bool, piece: usize) -> (Class, Traffic) {
    let bytes = u64::try_from(piece).expect("at most a buffer");
    if writes {
        (Class::Write, Traffic::of_writes(bytes))
    } else {
        (Class::Read, Traffic::of_reads(bytes))
    }
}

impl Job for CopyJob {
    fn parts(&self) -> usize {
        1
    }

    fn run(&mut self, _part: usize, course: &Course<'_>) -> Result<Ran, Failure> {
        (course.begin)()?;
        let clock = Clock::start(clock::now(), None);
        let cpu_ns = clock::thread_cpu_ns();
        let mut recorder = Recorder::new(clock, course.collector);
        self.transfer(&mut recorder)?;
        let began = clock::now();
        self.await_complete()?;
        let end = clock::now();
        (course.end)();
        let class = if self.task.fsync {
            Class::Fsync
        } else {
            Class::Close
        };
        recorder.count(class, began, end, Traffic::default());
        recorder.hand_over();
        let cpu_ns = clock::thread_cpu_ns() - cpu_ns;
        let mut run = course.collector.take_counted(&clock);
        run.counted = run.application.total();
        run.cpu_ns.workload = cpu_ns;
        let mut evidence = Evidence {
            actors: 1,
            actor_ns: named_ns(&recorder.class_ns),
            ..Evidence::default()
        };
        evidence.cache.emptied = self.emptied;
        run.evidence = Some(evidence);
        Ok(Ran {
            window: (clock.began, end),
            run,
            connections: vec![TcpCounters::of(&self.stream)],
        })
    }
}

/// A workload on files.
struct FilesJob {
    plan: FilePlan,
    folder: PathBuf,
    _scratch: Scratch,
    empty_caches: bool,
}

impl Job for FilesJob {
    fn parts(&self) -> usize {
        self.plan.phases().len()
    }

    fn run(&mut self, part: usize, course: &Course<'_>) -> Result<Ran, Failure> {
        let phases = self.plan.phases();
        let phase = &phases[part];
        let emptied = !phase.follows && make_ready(&self.folder, self.empty_caches);
        let is_followed = phases.get(part + 1).is_some_and(|next| next.follows);
        let watched = Watched::default();
        let before = watched.now();
        let measured = files::run_in_folder(&self.plan, part, &self.folder, course)?;
        let after = watched.now();
        let settle_ns = if is_followed {
            0
        } else {
            let settling = clock::now();
            sync(&self.folder);
            clock::now().ns_since(settling)
        };
        let window = (measured.window.began, measured.window.ended);
        let cache = CacheUse {
            file_bytes: self.plan.bytes(),
            settle_ns,
            emptied,
            ..CacheUse::default()
        };
        let mut run = Run::default();
        let measured = measured.with_counters((&before, &after), cache, phase.actors);
        measured.complete(0, 0, &mut run);
        run.phases = vec![measurement::operations(&run, run.elapsed_ns)];
        Ok(Ran {
            window,
            run,
            connections: Vec::new(),
        })
    }
}

/// fio on a file or a device.
struct FioJob {
    work: FioWork,
    file: String,
    _scratch: Option<Scratch>,
}

impl Job for FioJob {
    fn parts(&self) -> usize {
        1
    }

    fn run(&mut self, _part: usize, course: &Course<'_>) -> Result<Ran, Failure> {
        let mut run = Run::default();
        run.workload.rate = self.work.rate();
        run.workload.parameters = self.work.options().clone();
        let version = tool::version(FIO, "--version");
        run.workload
            .parameters
            .insert("version".to_owned(), version);
        run.evidence = Some(Evidence::default());
        let arguments = self.work.arguments(&self.file).map_err(failed)?;
        fios::make_ready(&self.work, &self.file).map_err(failed)?;
        (course.begin)()?;
        let said = fio::run(&arguments, course.interrupt)?;
        let end = clock::now();
        (course.end)();
        fios::read(&said, &mut run).map_err(failed)?;
        if let Some(evidence) = &mut run.evidence {
            evidence.actors = self.work.in_flight();
        }
        // fio reports the duration of its I/O; it exits when the I/O ends.
        let began = Instant(end.0.saturating_sub(run.elapsed_ns));
        Ok(Ran {
            window: (began, end),
            run,
            connections: Vec::new(),
        })
    }
}
