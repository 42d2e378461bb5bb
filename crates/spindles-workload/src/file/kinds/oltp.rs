//! filebench's oltp: the processes of a database on ten data files and a log.
//!
//! - *Shadow* processes read at random offsets, compute, and post to two kinds of semaphores.
//! - *Database writers* each issue 100 random block writes without waiting for each, then wait for
//!   their semaphore.
//! - The *log writer* writes 256 KiB once for 3200 reads.
//!
//! A semaphore has two counters. Posts wait while its `high` is 0, so that readers can't get too
//! far ahead of writers: 1000 reads release 100 writes of each of 10 writers.
//!
//! Separate actors carry out the writes that no process waits for, like the C library does.

use super::phases::{endless, fill, making_ready};
use crate::file::plan::{FileKind, HOW_LONG};
use crate::file::script::{Script, Scripts};
use crate::file::{
    Access, Action, Answer, At, Class, FileCounted, FileId, FileIssue, FileNext, FilePhase,
    FilePlan, FileWorkload, Parameter, Slot,
};
use crate::plan::size_words;
use crate::stream::Random;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "oltp",
    summary: "filebench's oltp: 200 readers, 10 writers and a log writer of a database for 300 s",
    parameters: &[
        Parameter::bytes(
            "filesize",
            4 << 30,
            1 << 20,
            1 << 44,
            "bytes of each data file",
        )
        .multiple_of(1 << 20)
        .scaled(4 << 20),
        Parameter::count("nfiles", 10, 1, 64, "data files"),
        Parameter::bytes(
            "logfilesize",
            10 << 20,
            1 << 20,
            1 << 40,
            "bytes of the log",
        )
        .multiple_of(1 << 20),
        Parameter::bytes("iosize", 2048, 512, 1 << 20, "bytes of a block").multiple_of(512),
        Parameter::count("nshadows", 200, 1, 2048, "processes that read"),
        Parameter::count("ndbwriters", 10, 1, 100, "processes that write blocks"),
        Parameter::count("nlgwr", 1, 1, 10, "processes that write the log"),
        Parameter::count(
            "aio",
            20,
            1,
            256,
            "writes in flight that no process waits for",
        ),
        Parameter::count(
            "usermode",
            200_000,
            0,
            1 << 30,
            "rounds that a reader computes after each read",
        ),
        Parameter::words(
            "dsync",
            &["none", "log", "both"],
            "which writes are durable when answered",
        ),
        HOW_LONG,
    ],
    takes_archive: false,
    actors: Some("nshadows"),
    files: |plan| Ok(plan.value("nfiles") + 1),
    check: |_| None,
    phases,
    bytes: |plan| plan.value("filesize") * plan.value("nfiles") + plan.value("logfilesize"),
    start,
};

/// Bytes that the log writer writes at once.
const LOG_BYTES: u32 = 256 << 10;
/// Writes of a database writer in one round.
const BATCH: u32 = 100;
/// Computing steps of a database writer in one round.
const WRITER_COMPUTES: u32 = 10_000;
/// The posts that a database writer takes in one round, and how far readers may get ahead of it.
const WRITER_SEMAPHORE: Semaphore = Semaphore::new(1000, 2000);
/// The same for the log writer.
const LOG_SEMAPHORE: Semaphore = Semaphore::new(3200, 1000);

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let (shadows, writers) = (plan.small("nshadows"), plan.small("ndbwriters"));
    let (logs, helpers) = (plan.small("nlgwr"), plan.small("aio"));
    let iosize = plan.small("iosize");
    let summary = format!(
        "{shadows} processes read {} at random, {writers} write, {logs} write the log; {} files \
         of {}",
        size_words(iosize.into()),
        plan.value("nfiles"),
        size_words(plan.value("filesize"))
    );
    let actors = shadows + writers + logs + helpers;
    let buffer = iosize.max(LOG_BYTES);
    vec![
        making_ready(1, 1 << 20),
        endless(summary, FileCounted::Operations, actors, buffer),
    ]
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let files = plan.small("nfiles");
    if phase == 0 {
        let filesize = plan.value("filesize");
        let data = (0..files).fold(Script::new(), |script, file| {
            fill(script, FileId(file), filesize, 1 << 20)
        });
        let all = fill(data, FileId(files), plan.value("logfilesize"), 1 << 20);
        return Scripts::start(vec![all], naming(files));
    }
    let kinds = [
        (plan.small("nshadows"), Role::Shadow),
        (plan.small("ndbwriters"), Role::Writer),
        (plan.small("nlgwr"), Role::Log),
        (plan.small("aio"), Role::Helper),
    ];
    let roles = kinds
        .into_iter()
        .flat_map(|(count, role)| (0..count).map(move |_| role));
    let actors = roles
        .enumerate()
        .map(|(at, role)| Actor::new(plan.seed, at, role, files));
    let semaphores = kinds.iter().flat_map(|(count, role)| {
        let one = match role {
            Role::Writer => Some(WRITER_SEMAPHORE),
            Role::Log => Some(LOG_SEMAPHORE),
            Role::Shadow | Role::Helper => None,
        };
        (0..*count).filter_map(move |_| one.clone())
    });
    let iosize = plan.small("iosize");
    Box::new(Oltp {
        files,
        iosize,
        places: plan.value("filesize") / u64::from(iosize),
        log_places: plan.value("logfilesize") / u64::from(LOG_BYTES),
        computes: plan.small("usermode"),
        sync_data: plan.is("dsync", "both"),
        sync_log: !plan.is("dsync", "none"),
        shadows: index(plan.small("nshadows")),
        semaphores: semaphores.collect(),
        actors: actors.collect(),
        writes: VecDeque::new(),
        idle_helpers: VecDeque::new(),
        woken: VecDeque::new(),
    })
}

fn naming(files: u32) -> impl Fn(FileId) -> String + Send + 'static {
    move |file| match file.0 {
        log if log == files => "logfile.000000001".to_owned(),
        number => format!("datafile.{:09}", number + 1),
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Shadow,
    Writer,
    Log,
    Helper,
}

/// The next step of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActorStep {
    /// Opens the file of that number; all files are opened first.
    Open(u32),
    /// A shadow reads; a writer queues its writes.
    Work,
    Compute,
    /// A shadow posts to the semaphore of that number.
    Post(usize),
    /// A writer waits for its own semaphore.
    Take,
    /// A writer waits until half of its writes are done.
    Settle,
    /// A helper has a write in flight.
    Writing {
        of: usize,
    },
}

struct Actor {
    role: Role,
    random: Random,
    step: ActorStep,
    /// The file of its next operation, round robin.
    file: u32,
    /// Queued writes still in flight.
    in_flight: u32,
    /// The actor continues once at most this many writes are in flight.
    in_flight_max: u32,
    /// Set while it waits for its semaphore.
    asked: bool,
}

impl Actor {
    fn new(seed: u64, at: usize, role: Role, files: u32) -> Self {
        let number = u32::try_from(at).expect("few");
        Self {
            role,
            random: Random::new(seed, "oltp", number),
            step: ActorStep::Open(0),
            file: number % files,
            in_flight: 0,
            in_flight_max: 0,
            asked: false,
        }
    }

    /// Makes the actor wait until half of its writes in flight are done, at least one.
    fn settle(&mut self) {
        self.in_flight_max = self.in_flight / 2;
        self.step = ActorStep::Settle;
    }
}

/// filebench's pair of counters, and the actors that wait for either.
#[derive(Clone)]
struct Semaphore {
    /// Posts that its owner takes at once.
    takes: u64,
    low: u64,
    high: u64,
    /// Set while its owner waits for `low`.
    owner_waits: bool,
    /// Actors that wait for `high`.
    posters: VecDeque<u32>,
}

impl Semaphore {
    const fn new(takes: u64, high: u64) -> Self {
        Self {
            takes,
            low: 0,
            high,
            owner_waits: false,
            posters: VecDeque::new(),
        }
    }
}

/// A queued write.
struct Handed {
    of: usize,
    file: u32,
    offset: u64,
    bytes: u32,
}

struct Oltp {
    files: u32,
    iosize: u32,
    /// Blocks of a data file.
    places: u64,
    /// Writes that the log holds.
    log_places: u64,
    computes: u32,
    sync_data: bool,
    sync_log: bool,
    /// Number of shadows; the actors with semaphores follow.
    shadows: usize,
    /// Semaphores of the writers and log writers, in the order of the actors.
    semaphores: Vec<Semaphore>,
    actors: Vec<Actor>,
    writes: VecDeque<Handed>,
    idle_helpers: VecDeque<u32>,
    woken: VecDeque<u32>,
}

impl Oltp {
    fn open(&self, at: usize, file: u32) -> FileIssue {
        let is_log = file == self.files;
        let syncs = if is_log {
            self.sync_log
        } else {
            self.sync_data
        };
        let writes = self.actors[at].role != Role::Shadow;
        let access = if syncs && writes {
            Access::ReadWriteSync
        } else {
            Access::ReadWrite
        };
        FileIssue::new(Action::Open(FileId(file), Slot(file), access)).untimed()
    }

    fn shadow(&mut self, at: usize) -> Option<FileIssue> {
        loop {
            let actor = &mut self.actors[at];
            match actor.step {
                ActorStep::Work => {
                    let file = actor.file;
                    actor.file = (file + 1) % self.files;
                    let place = actor.random.below(self.places);
                    actor.step = ActorStep::Compute;
                    let offset = At::Offset(place * u64::from(self.iosize));
                    let read = Action::Read(Slot(file), offset, self.iosize);
                    return Some(FileIssue::new(read));
                }
                ActorStep::Compute => {
                    actor.step = ActorStep::Post(0);
                    if self.computes > 0 {
                        return Some(FileIssue::new(Action::Think(self.computes)));
                    }
                }
                ActorStep::Post(number) if number < self.semaphores.len() => {
                    let semaphore = &mut self.semaphores[number];
                    if semaphore.high == 0 {
                        let me = u32::try_from(at).expect("few");
                        semaphore.posters.push_back(me);
                        return None;
                    }
                    semaphore.high -= 1;
                    semaphore.low += 1;
                    if semaphore.owner_waits && semaphore.low >= semaphore.takes {
                        semaphore.owner_waits = false;
                        let owner = u32::try_from(self.shadows + number).expect("few");
                        self.woken.push_back(owner);
                    }
                    actor.step = ActorStep::Post(number + 1);
                }
                _ => actor.step = ActorStep::Work,
            }
        }
    }

    /// The next operation of a database writer or a log writer; `None` if it waits.
    fn writer(&mut self, at: usize) -> Option<FileIssue> {
        loop {
            let role = self.actors[at].role;
            match self.actors[at].step {
                ActorStep::Work => {
                    self.hand_over(at);
                    match role {
                        Role::Log => self.actors[at].settle(),
                        _ => self.actors[at].step = ActorStep::Compute,
                    }
                }
                ActorStep::Compute => {
                    self.actors[at].step = ActorStep::Take;
                    return Some(FileIssue::new(Action::Think(WRITER_COMPUTES)));
                }
                ActorStep::Take => {
                    if !self.take(at) {
                        return None;
                    }
                    match role {
                        Role::Log => self.actors[at].step = ActorStep::Work,
                        _ => self.actors[at].settle(),
                    }
                }
                _ => {
                    let actor = &mut self.actors[at];
                    if actor.in_flight > actor.in_flight_max {
                        return None;
                    }
                    actor.step = match role {
                        Role::Log => ActorStep::Take,
                        _ => ActorStep::Work,
                    };
                    let waited = FileIssue::new(Action::Nothing);
                    return Some(waited.counted_as(Class::AioWait));
                }
            }
        }
    }

    /// Takes the writer's posts from its semaphore. Returns false if it must wait.
    fn take(&mut self, at: usize) -> bool {
        let semaphore = &mut self.semaphores[at - self.shadows];
        let actor = &mut self.actors[at];
        if !actor.asked {
            actor.asked = true;
            semaphore.high += semaphore.takes;
            self.woken.append(&mut semaphore.posters);
        }
        if semaphore.low < semaphore.takes {
            semaphore.owner_waits = true;
            return false;
        }
        semaphore.low -= semaphore.takes;
        actor.asked = false;
        true
    }

    fn hand_over(&mut self, at: usize) {
        let actor = &mut self.actors[at];
        if actor.role == Role::Log {
            let place = actor.random.below(self.log_places);
            actor.in_flight += 1;
            self.writes.push_back(Handed {
                of: at,
                file: self.files,
                offset: place * u64::from(LOG_BYTES),
                bytes: LOG_BYTES,
            });
        } else {
            for _ in 0..BATCH {
                let file = actor.file;
                actor.file = (file + 1) % self.files;
                let place = actor.random.below(self.places);
                actor.in_flight += 1;
                self.writes.push_back(Handed {
                    of: at,
                    file,
                    offset: place * u64::from(self.iosize),
                    bytes: self.iosize,
                });
            }
        }
        let wanted = self.writes.len().min(self.idle_helpers.len());
        self.woken.extend(self.idle_helpers.drain(..wanted));
    }

    fn helper(&mut self, at: usize) -> Option<FileIssue> {
        if let ActorStep::Writing { of } = self.actors[at].step {
            self.actors[at].step = ActorStep::Work;
            let owner = &mut self.actors[of];
            owner.in_flight -= 1;
            if owner.step == ActorStep::Settle && owner.in_flight == owner.in_flight_max {
                self.woken.push_back(u32::try_from(of).expect("few"));
            }
        }
        let Some(handed) = self.writes.pop_front() else {
            self.idle_helpers.push_back(u32::try_from(at).expect("few"));
            return None;
        };
        self.actors[at].step = ActorStep::Writing { of: handed.of };
        let offset = At::Offset(handed.offset);
        let write = Action::Write(Slot(handed.file), offset, handed.bytes);
        Some(FileIssue::new(write).counted_as(Class::AioWrite))
    }
}

impl FileWorkload for Oltp {
    fn step(&mut self, actor: u32, _answer: Option<Answer>) -> FileNext {
        let at = index(actor);
        if let ActorStep::Open(file) = self.actors[at].step {
            let last = match self.actors[at].role {
                Role::Shadow => self.files,
                Role::Writer | Role::Log | Role::Helper => self.files + 1,
            };
            self.actors[at].step = if file + 1 < last {
                ActorStep::Open(file + 1)
            } else {
                ActorStep::Work
            };
            return FileNext::Do(self.open(at, file));
        }
        let next = match self.actors[at].role {
            Role::Shadow => self.shadow(at),
            Role::Writer | Role::Log => self.writer(at),
            Role::Helper => self.helper(at),
        };
        next.map_or(FileNext::Wait, FileNext::Do)
    }

    fn woken(&mut self) -> Option<u32> {
        self.woken.pop_front()
    }

    fn path(&self, file: FileId) -> String {
        naming(self.files)(file)
    }
}
