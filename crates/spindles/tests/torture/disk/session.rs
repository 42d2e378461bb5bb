//! A session: an array, a few lives of its client, crashes, and checks of the result.

use crate::torture::disk::job::{Job, Lacking, Work, exit};
use crate::torture::disk::machine::{Crash, Fault, How, Machine, Of, Plan, Tally};
use crate::torture::disk::medium::{Lie, Medium};
use crate::torture::disk::mount::{Mount, NoMount};
use crate::torture::disk::shape::Shape;
use crate::torture::disk::{CLIENT, JOB};
use crate::torture::for_seeds;
use crate::torture::ledger::{Ledger, Record};
use crate::torture::random::Random;
use crate::world::Running;
use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A client that runs longer than this hangs.
const CLIENT_TIMEOUT: Duration = Duration::from_mins(1);
/// A client whose disk hangs is killed after this time.
const HANG: Duration = Duration::from_millis(150);
/// The number of sets of missing members tried at each check, chosen at random if there are more.
const SETS_MAX: usize = 3;

/// The environment of sessions.
#[derive(Debug)]
pub(crate) struct Harness {
    mounts: Vec<Mount>,
    /// The folder for the disks and logs of sessions that found a failure.
    kept: PathBuf,
}

impl Harness {
    /// Mounts disks that tear at 512 bytes and, if a file system can pose as such, at 4096.
    pub(crate) fn new(kept: &Path) -> Result<Self, NoMount> {
        let fine = Mount::new(512)?;
        let mounts = [fine].into_iter().chain(Mount::new(4096)).collect();
        Ok(Self {
            mounts,
            kept: kept.to_owned(),
        })
    }

    /// The sizes at which the disks tear, in bytes.
    pub(crate) fn tears(&self) -> Vec<usize> {
        self.mounts.iter().map(Mount::sector_bytes).collect()
    }

    /// Runs sessions, until one returns false of its failure.
    pub(crate) fn run(
        &self,
        sessions: &Sessions,
        found: &(dyn Fn(Failure) -> bool + Sync),
    ) -> Counts {
        let counts = Mutex::new(Counts::default());
        for_seeds(sessions.seeds.clone(), sessions.at_once, |seed| {
            if sessions.until.is_some_and(|until| Instant::now() > until) {
                return false;
            }
            let (of_session, failure) = Session::run(self, seed, sessions.lie);
            let mut counts = counts.lock().expect("no thread panics with it");
            for (name, count) in of_session {
                let sum = counts.entry(name).or_default();
                *sum = match name {
                    "at_once" => count.max(*sum),
                    _ => count + *sum,
                };
            }
            drop(counts);
            failure.is_none_or(found)
        });
        counts.into_inner().expect("no thread panics with it")
    }
}

/// The sessions to run.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The seeds, one for each session.
    pub(crate) seeds: std::ops::Range<u64>,
    /// The number of sessions run at once.
    pub(crate) at_once: usize,
    /// The time after which no new session starts.
    pub(crate) until: Option<Instant>,
    /// The fault of the disks once the array is created: a session must detect the fault.
    pub(crate) lie: Lie,
}

/// Counts over all sessions, by name. `impossible` is arrays that could not be created, `power` and
/// `process` are kills with and without the power, `degraded` is checks with members missing.
/// Others count the requests to the disks, `at_once` the most in flight on one disk.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// A failure found by a session.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// The seed of the session.
    pub(crate) seed: u64,
    /// The array.
    array: String,
    /// The lives so far.
    story: Vec<String>,
    /// The violation.
    what: String,
    /// The folder where the disks and the log are kept; `None` if they could not be kept.
    kept: Option<PathBuf>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "session {}: {}", self.seed, self.array)?;
        for life in &self.story {
            writeln!(f, "  {life}")?;
        }
        write!(f, "  {}", self.what)?;
        if let Some(kept) = &self.kept {
            write!(f, "\n  kept in {}", kept.display())?;
        }
        Ok(())
    }
}

/// The end of a client.
#[derive(Debug)]
enum End {
    /// It exited, with this code and these words on standard error.
    Exit(u8, String),
    Killed(Crash),
}

struct Session<'a> {
    harness: &'a Harness,
    mount: &'a Mount,
    seed: u64,
    random: Random,
    shape: Shape,
    folder: TempDir,
    log: PathBuf,
    disks: Vec<Medium>,
    /// The disks as the last client found them.
    before: Vec<Medium>,
    lives: u64,
    /// True if the last reader waited until everything that a crash left was resynced.
    settled: bool,
    /// Disks that failed writes, and may have been put out.
    failed: Vec<usize>,
    counts: Counts,
    story: Vec<String>,
}

/// An error describes the violation.
type Found<T> = Result<T, String>;

impl<'a> Session<'a> {
    fn run(harness: &'a Harness, seed: u64, lie: Lie) -> (Counts, Option<Failure>) {
        let mut random = Random::of(seed, "session");
        let mount = random.choose(&harness.mounts);
        let shape = Shape::draw(&mut random);
        let disk = |disk: &(String, u64)| {
            let bytes = usize::try_from(disk.1).expect("64 bits");
            Medium::new(bytes, mount.sector_bytes())
        };
        let folder = TempDir::new().expect("a folder");
        let mut session = Self {
            harness,
            mount,
            seed,
            random,
            log: folder.path().join("log"),
            folder,
            disks: shape.disks.iter().map(disk).collect(),
            before: Vec::new(),
            shape,
            lives: 0,
            settled: false,
            failed: Vec::new(),
            counts: Counts::default(),
            story: Vec::new(),
        };
        session.count("sessions", 1);
        let failure = session.live(lie).err().map(|what| Failure {
            seed,
            array: format!(
                "{}, tearing at {}",
                session.shape.describe(),
                mount.sector_bytes()
            ),
            what,
            kept: match lie {
                Lie::None => session.keep(),
                _ => None,
            },
            story: std::mem::take(&mut session.story),
        });
        (session.counts, failure)
    }

    fn count(&mut self, name: &'static str, more: u64) {
        *self.counts.entry(name).or_default() += more;
    }

    fn count_requests(&mut self, tally: &Tally) {
        self.count("reads", tally.reads);
        self.count("writes", tally.writes);
        self.count("durable", tally.durable);
        self.count("flushes", tally.flushes);
        self.count("faults", tally.faults);
        let at_once = self.counts.entry("at_once").or_default();
        *at_once = tally.at_once.max(*at_once);
    }

    fn live(&mut self, lie: Lie) -> Found<()> {
        if !self.create()? {
            self.count("impossible", 1);
            return Ok(());
        }
        for disk in &mut self.disks {
            disk.set_lie(lie);
        }
        for _ in 0..self.random.between(1, 3) {
            if self.shape.grows && self.failed.is_empty() && self.random.percent(60) {
                self.grow()?;
            }
            if !self.ask()? {
                return Ok(());
            }
        }
        // As the last life left it; then as the first check of the whole array left it.
        if self.check(true)? && self.check(!self.settled)? && self.failed.is_empty() {
            self.scrub()?;
        }
        Ok(())
    }

    fn create(&mut self) -> Found<bool> {
        let names = self.names();
        let creation = self.shape.creation(&self.paths(&names));
        let job = self.job(&names, &[], Work::Create(creation));
        match self.client(&names, &job, Plan::calm())? {
            End::Exit(exit::CLOSED, _) => Ok(true),
            End::Exit(exit::IMPOSSIBLE, _) => Ok(false),
            end => Err(format!("creating it: {end:?}")),
        }
    }

    /// Runs a client with random requests, up to its end or a crash. Returns true if another may
    /// follow.
    fn ask(&mut self) -> Found<bool> {
        let names = self.names();
        // Now and then members are absent: they get the writes they miss when they are back.
        let mut away = Vec::new();
        if self.random.percent(20) {
            let sets = self.shape.tolerated(&self.failed);
            away = self.random.choose(&sets).clone();
        }
        self.failed.extend(&away);
        self.failed.sort_unstable();
        self.failed.dedup();
        let random = &mut self.random;
        let work = Work::Ask {
            operations: random.doubling(10, 200),
            depth: random.doubling(1, 16),
            scrubs: random.percent(15),
            closes: random.percent(60),
        };
        let mut plan = Plan::draw(random);
        plan.faults = self.faults();
        let loss = plan.loss;
        let job = self.job(&names, &away, work.clone());
        self.story
            .push(format!("without {away:?}: {work:?}, {plan:?}"));
        let power = match self.client(&names, &job, plan)? {
            // Everything is durable after a close.
            End::Exit(exit::CLOSED, _) if self.random.percent(50) => return Ok(true),
            End::Exit(exit::CLOSED, _) => true,
            End::Exit(exit::LEFT, _) => self.random.percent(50),
            End::Killed(crash) => {
                self.crashed(crash == Crash::Power)?;
                return Ok(true);
            }
            End::Exit(exit::REFUSED, why) if self.may_refuse(job.lacking) => {
                self.story.push(why);
                return Ok(false);
            }
            End::Exit(code, why) => return Err(format!("exit {code}: {why}")),
        };
        if power {
            for disk in &mut self.disks {
                disk.lose_power(Vec::new(), loss, &mut self.random);
            }
        }
        self.crashed(power)?;
        Ok(true)
    }

    /// Grows the array to chunks of another size, as far as a crash allows.
    fn grow(&mut self) -> Found<()> {
        let names = self.names();
        let chunk_bytes = 4096 << self.random.below(2);
        let plan = Plan::draw(&mut self.random);
        let work = Work::Grow { chunk_bytes };
        let job = self.job(&names, &[], work.clone());
        self.story.push(format!("{work:?}, {plan:?}"));
        match self.client(&names, &job, plan)? {
            End::Exit(exit::REFUSED, _) => Ok(()),
            End::Exit(exit::CLOSED, _) => {
                self.count("growths", 1);
                Ok(())
            }
            End::Killed(crash) => {
                self.count("growths", 1);
                self.crashed(crash == Crash::Power)
            }
            End::Exit(code, why) => Err(format!("exit {code}: {why}")),
        }
    }

    /// Scrubs an array without failures: the scrub must find nothing.
    fn scrub(&mut self) -> Found<()> {
        let names = self.names();
        let job = self.job(&names, &[], Work::Scrub);
        self.story.push("it is scrubbed".to_owned());
        match self.client(&names, &job, Plan::calm())? {
            End::Exit(exit::CLOSED, _) => {
                self.count("scrubs", 1);
                Ok(())
            }
            end => Err(format!("{end:?}")),
        }
    }

    fn crashed(&mut self, power: bool) -> Found<()> {
        let (name, what) = if power {
            ("power", "power is lost")
        } else {
            ("process", "the process crashed")
        };
        self.count(name, 1);
        self.story.push(what.to_owned());
        Ledger::append(&self.log, &Record::Crash { power }).map_err(|error| error.to_string())
    }

    /// Returns what an opening lacks without the disks in `away`, and with those that failed
    /// before.
    fn lacking(&self, away: &[usize]) -> Lacking {
        let is_journal = |disk: &usize| *disk >= self.shape.members();
        let mut lacking = away.iter().chain(&self.failed);
        match lacking.clone().next() {
            None => Lacking::Nothing,
            Some(_) if lacking.clone().all(is_journal) => Lacking::Journal,
            Some(_) if lacking.any(is_journal) => Lacking::Both,
            Some(_) => Lacking::Members,
        }
    }

    /// Returns true if the array may be refused after a crash, by rule 5.
    fn may_refuse(&self, lacking: Lacking) -> bool {
        let logs = self.shape.creation.consistency.is_none();
        match lacking {
            Lacking::Nothing | Lacking::Journal => false,
            Lacking::Members => !logs,
            Lacking::Both => true,
        }
    }

    /// Draws faults that the level survives, and faults that any array survives.
    fn faults(&mut self) -> Vec<Fault> {
        let mut faults = Vec::new();
        let random = &mut self.random;
        let range = |random: &mut Random, bytes: usize| {
            let from = random.index(bytes);
            let to = from + random.index(bytes - from + 1);
            if random.percent(30) {
                0..bytes
            } else {
                from..to
            }
        };
        if random.percent(30) {
            let disk = random.index(self.disks.len());
            faults.push(Fault {
                disk,
                range: range(random, self.disks[disk].bytes()),
                of: *random.choose(&[Of::Reads, Of::Changes, Of::All]),
                after: random.doubling(1, 500),
                times: random.doubling(1, 5),
                how: if random.percent(50) {
                    How::Stalls(random.doubling(1000, 60_000))
                } else {
                    How::Fails(libc::EAGAIN)
                },
            });
        }
        if !random.percent(25) {
            return faults;
        }
        // Disks that failed before may fail again, and other disks if the level survives that.
        let sets = self.shape.tolerated(&self.failed);
        let mut fails = sets[random.index(sets.len())].clone();
        if self.shape.has_journal && random.percent(30) {
            fails.push(self.shape.members());
        }
        for disk in fails {
            faults.push(Fault {
                disk,
                range: range(random, self.disks[disk].bytes()),
                of: *random.choose(&[Of::Reads, Of::Changes, Of::All]),
                after: random.doubling(1, 500),
                times: random.doubling(1, 1000),
                how: match random.below(8) {
                    0 => How::Hangs,
                    1 | 2 => How::Fails(libc::ENOSPC),
                    _ => How::Fails(libc::EIO),
                },
            });
            if !self.failed.contains(&disk) {
                self.failed.push(disk);
            }
        }
        faults
    }

    /// Reads everything, with all members and with members missing, each time from the state after
    /// the last life. The session continues from the state after the whole array was read. Returns
    /// false if that was refused. `crashed` is set if the last crash may not be resynced yet.
    fn check(&mut self, crashed: bool) -> Found<bool> {
        let mut sets = self.shape.tolerated(&self.failed);
        sets.remove(0); // The empty set.
        while sets.len() > SETS_MAX {
            sets.swap_remove(self.random.index(sets.len()));
        }
        if self.shape.has_journal {
            // In addition to the members, and alone.
            for set in &mut sets {
                if self.random.percent(30) {
                    set.push(self.shape.members());
                }
            }
            sets.push(vec![self.shape.members()]);
        }
        let (disks, log) = (self.disks.clone(), self.log.clone());
        for away in sets {
            self.fork(&log)?;
            let was_read = self.read(&away, crashed)?;
            if was_read && self.random.percent(40) {
                self.story.push("they are back".to_owned());
                self.read(&[], false)?;
            }
            self.disks.clone_from(&disks);
        }
        self.fork(&log)?;
        self.beyond()?;
        self.disks = disks;
        self.log = log;
        self.read(&[], crashed)
    }

    /// Continues with a copy of the log.
    fn fork(&mut self, log: &Path) -> Found<()> {
        self.log = self.folder.path().join(format!("log-{}", self.lives));
        let copied = std::fs::copy(log, &self.log);
        copied.map(drop).map_err(|error| error.to_string())
    }

    /// Reads with more members missing than the level survives.
    fn beyond(&mut self) -> Found<()> {
        let members: Vec<usize> = (0..self.shape.members()).collect();
        let mut away: Vec<usize> = members
            .into_iter()
            .filter(|_| self.random.percent(50))
            .collect();
        away.truncate(self.shape.members() - 1);
        if self.shape.survives(&away) {
            return Ok(());
        }
        let names = self.names();
        let settles = false;
        let mut job = self.job(&names, &away, Work::Read { settles });
        job.beyond = true;
        self.story.push(format!("read without {away:?}"));
        match self.client(&names, &job, Plan::calm())? {
            End::Exit(exit::CLOSED | exit::REFUSED, _) => Ok(()),
            end => Err(format!("{end:?}")),
        }
    }

    /// Reads everything without some disks. Returns false if the array was refused, and may be.
    fn read(&mut self, away: &[usize], crashed: bool) -> Found<bool> {
        let names = self.names();
        // Without a log, an array that is not resynced may be refused with members missing.
        let logs = self.shape.creation.consistency.is_none();
        let settles = !logs || self.random.percent(70);
        let job = self.job(&names, away, Work::Read { settles });
        self.story.push(format!("read without {away:?}"));
        let end = self.client(&names, &job, Plan::calm())?;
        self.count("checks", 1);
        self.count("degraded", u64::from(!away.is_empty()));
        match end {
            End::Exit(exit::CLOSED, _) => {
                self.settled = settles;
                Ok(true)
            }
            End::Exit(exit::REFUSED, why) if crashed && self.may_refuse(job.lacking) => {
                self.story.push(why);
                Ok(false)
            }
            End::Exit(code, why) => Err(format!("exit {code}: {why}")),
            End::Killed(_) => unreachable!("a calm plan has no kills"),
        }
    }

    fn job(&mut self, names: &[String], away: &[usize], work: Work) -> Job {
        let devices = (0..).zip(self.paths(names));
        let devices = devices.filter(|(disk, _)| !away.contains(disk));
        let tear_bytes = u32::try_from(self.mount.sector_bytes()).expect("small");
        Job {
            seed: self.seed,
            life: self.lives,
            log: self.log.clone(),
            tear_bytes,
            sector_bytes: tear_bytes.min(self.shape.creation.block_bytes),
            threads: self.random.percent(40),
            cached: self.random.percent(25),
            requests_max: u32::try_from(self.random.doubling(2, 16)).expect("small"),
            devices: devices.map(|(_, path)| path).collect(),
            lacking: self.lacking(away),
            beyond: false,
            work,
        }
    }

    /// Returns new names, so that no request left over from the last client reaches these disks.
    fn names(&mut self) -> Vec<String> {
        self.lives += 1;
        let (seed, life) = (self.seed, self.lives);
        let disks = self.shape.disks.iter();
        disks
            .map(|disk| format!("{seed}-{life}-{}", disk.0))
            .collect()
    }

    fn paths(&self, names: &[String]) -> Vec<String> {
        let path = |name: &String| self.mount.path(name).to_str().map(str::to_owned);
        let paths: Option<Vec<String>> = names.iter().map(path).collect();
        paths.expect("a temporary folder has a name in UTF-8")
    }

    /// Runs a client on the disks until it ends.
    fn client(&mut self, names: &[String], job: &Job, plan: Plan) -> Found<End> {
        let random = Random::of(self.random.any(), "machine");
        let can_zero = self.random.percent(50);
        let disks = std::mem::take(&mut self.disks);
        self.before.clone_from(&disks);
        let files: Vec<(String, usize, bool)> = names
            .iter()
            .zip(&disks)
            .map(|(name, disk)| (name.clone(), disk.bytes(), can_zero))
            .collect();
        let machine = Arc::new(Machine::new(disks, plan, &self.mount.late, random));
        self.mount.add(&machine, &files);
        let ended = self.process(job, &machine);
        let remains = machine.end();
        self.mount.remove(&files);
        self.disks = remains.disks;
        self.count_requests(&remains.tally);
        let (status, words) = ended?;
        match (status, remains.crashed) {
            (Some(code), _) => {
                let code = u8::try_from(code).unwrap_or(exit::FINDING);
                Ok(End::Exit(code, words))
            }
            (None, Some(crash)) => Ok(End::Killed(crash)),
            (None, None) => Err(format!("the client died: {words}")),
        }
    }

    /// Runs the process until it ends. Returns its exit status and its standard error.
    fn process(&mut self, job: &Job, machine: &Machine) -> Found<(Option<i32>, String)> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let job = serde_json::to_string(job).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command
            .args(["--exact", CLIENT, "--nocapture"])
            .env(JOB, job);
        let mut client = Running::begin(command);
        let id = i32::try_from(client.id()).ok().and_then(Pid::from_raw);
        machine.set_client(id.expect("it has an id"));
        let crash = *self.random.choose(&[Crash::Process, Crash::Power]);
        let status = wait(&mut client, machine, crash)?;
        Ok((status, client.said().trim().to_owned()))
    }

    /// Keeps the log, and the disks before and after the last client.
    fn keep(&self) -> Option<PathBuf> {
        let folder = self.harness.kept.join(self.seed.to_string());
        for (when, disks) in [("before", &self.before), ("after", &self.disks)] {
            let folder = folder.join(when);
            std::fs::create_dir_all(&folder).ok()?;
            for (disk, (name, _)) in disks.iter().zip(&self.shape.disks) {
                std::fs::write(folder.join(name), disk.read(0, disk.bytes())).ok()?;
            }
        }
        std::fs::copy(&self.log, folder.join("log")).ok()?;
        Some(folder)
    }
}

/// Waits until the client has ended. A client whose disk hangs is killed with `crash`.
fn wait(client: &mut Running, machine: &Machine, crash: Crash) -> Found<Option<i32>> {
    let started = Instant::now();
    let mut hangs_since = None;
    loop {
        if let Some(status) = client.status() {
            return Ok(status.code());
        }
        if machine.hangs() {
            let since = *hangs_since.get_or_insert_with(Instant::now);
            if since.elapsed() > HANG {
                machine.crash(crash);
            }
        }
        if started.elapsed() > CLIENT_TIMEOUT {
            machine.crash(Crash::Process);
            client.kill();
            return Err(format!("the client did not end in {CLIENT_TIMEOUT:?}"));
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}
