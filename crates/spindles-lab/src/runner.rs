//! Runs an experiment: in each repetition block every system once, in random order; on each system
//! every workload, in the order of the file. Records go out as they are made.

use crate::calibrate::Parts;
use crate::clock::{self, MachineTicks};
use crate::environment;
use crate::execute::{self, Failure, Orders};
use crate::experiment::{BlockWork, Experiment, Members, SystemSpec, Work, WorkloadSpec};
use crate::fill;
use crate::fio::FioWork;
use crate::jobs::Job;
use crate::newfs;
use crate::on_files;
use crate::preflight::{
    self, Side, check, check_room, described, described_folder, workload_records, workloads_as,
    writer,
};
use crate::records::RecordsError;
use crate::schedule::Draw;
use crate::scratch::Scratch;
use crate::targets::commands::Made;
use crate::targets::mounted::Mounted;
use crate::targets::{self, Pool, Site};
use crate::tool;
use crate::whole::{MEMORY, Whole};
use spindles_io::{Incident, OpenOptions, Target, TargetFacts};
use spindles_layout::LEVELS;
use spindles_measure::{Analysis, HALF_WIDTH_TARGET, JobShare, Record, Run, Stage, System};
use spindles_workload::file::FilePlan;
use spindles_workload::{Plan, Streams};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How to run, beside what the experiment says.
#[derive(Debug)]
pub struct Options<'a> {
    /// Lose what named devices hold.
    pub force: bool,
    /// Write to existing arrays also where that gives up what members hold that are away.
    pub degraded: bool,
    /// How devices are opened.
    pub open: OpenOptions,
    /// This program, which serves arrays that are to be block devices of the kernel.
    pub program: PathBuf,
    /// Measure the parts by themselves before the first run.
    pub calibrate: bool,
    /// Set when the user wants to end: the run in progress is dropped, what is recorded stays.
    pub interrupt: &'a AtomicBool,
}

/// What a run tells whoever started it.
pub trait Observer {
    /// A record is made. An error ends the run.
    fn record(&mut self, record: &Record) -> Result<(), RecordsError>;

    /// So many of so many runs are done; what comes now.
    fn progress(&mut self, done: u64, total: u64, what: &str);

    /// Something about a system that is no result of a workload.
    fn trouble(&mut self, system: &str, what: &str) {
        let _ = (system, what);
    }

    /// What went wrong on the devices of a system while workloads ran on it.
    fn incidents(&mut self, system: &str, incidents: &[Incident]) {
        let _ = (system, incidents);
    }
}

/// How an experiment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whole repetition blocks recorded.
    pub blocks: u32,
    /// Runs recorded, failed ones included.
    pub runs: u32,
    /// Runs that failed.
    pub failed: u32,
    /// Whether the user ended it.
    pub interrupted: bool,
    /// Whether the time limit ended it.
    pub out_of_time: bool,
}

/// Why an experiment could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It does not fit what there is; the line is that of the experiment file.
    #[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Experiment {
        /// The experiment file.
        file: String,
        /// The line, where one is at fault.
        line: Option<usize>,
        /// What is wrong, and the remedy.
        what: String,
    },
    /// The members could not be made.
    #[error("{}: the members can't be made there: {source}", .folder.display())]
    Members {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is too little room.
    #[error(
        "{} has room for {free_mib} MiB and the members need {needed_mib} MiB: choose another \
         folder or a smaller size",
        .folder.display()
    )]
    NoRoom {
        /// Where.
        folder: PathBuf,
        /// What there is.
        free_mib: u64,
        /// What is needed.
        needed_mib: u64,
    },
    /// The records could not be written.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// How long the machine is watched before the first run, to know how busy it is without us.
const IDLE_WATCH: Duration = Duration::from_millis(500);

/// Runs the experiment.
///
/// # Errors
/// When it can't begin, or records can't be written. A system or workload that fails is recorded
/// as failed instead, and the others go on.
pub fn run(
    experiment: &Experiment,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let mut runner = Runner::new(experiment, options, observer)?;
    let ended = runner.all_blocks();
    match ended {
        Ok(()) => {}
        Err(Stop::Interrupted) => runner.outcome.interrupted = true,
        Err(Stop::Error(error)) => return Err(error),
    }
    Ok(runner.outcome)
}

enum Stop {
    Interrupted,
    Error(RunError),
}

impl From<RecordsError> for Stop {
    fn from(error: RecordsError) -> Self {
        Self::Error(RunError::Records(error))
    }
}

/// What was found of a system.
struct Described {
    /// Physical devices beneath it.
    devices: Vec<String>,
    /// Of an array: whether all its members lie on one.
    shared: Option<bool>,
}

struct Runner<'a> {
    experiment: &'a Experiment,
    options: &'a Options<'a>,
    observer: &'a mut dyn Observer,
    sides: Vec<Side>,
    control: Option<String>,
    size_bytes: u64,
    pool: Pool,
    idle_permille: u64,
    total: u64,
    outcome: Outcome,
    /// What was recorded, where intervals are looked at between blocks.
    records: Vec<Record>,
}

impl<'a> Runner<'a> {
    fn new(
        experiment: &'a Experiment,
        options: &'a Options<'a>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RunError> {
        let (sides, control) = preflight::sides(experiment);
        let blocks = experiment.workloads.iter().filter_map(WorkloadSpec::blocks);
        let size_bytes = blocks.map(|work| work.size_bytes).max().unwrap_or(0);
        let needed_bytes = preflight::needed_bytes(experiment, size_bytes);
        let members = check(experiment, options.force)?;
        let folder = experiment.folder.clone();
        let folder = folder.unwrap_or_else(targets::temporary_folder);
        let files = experiment.members == Members::Files && members > 0;
        let levels = LEVELS.iter().map(|level| level.chunk_bytes.into());
        let chunks = sides.iter().filter_map(|side| side.spec.chunk_bytes);
        let chunk_bytes = chunks.chain(levels).max().unwrap_or(0);
        let member_bytes = targets::member_bytes(needed_bytes, chunk_bytes);
        if files {
            check_room(&folder, members, member_bytes)?;
        }
        let runs_of = |side: &Side| {
            let runs_on = |spec: &&WorkloadSpec| spec.runs_on(workloads_as(&side.spec));
            let workloads = experiment.workloads.iter().filter(runs_on);
            workloads
                .map(|spec| workload_records(spec).len())
                .sum::<usize>()
        };
        let runs: usize = sides.iter().map(runs_of).sum();
        let total = u64::try_from(runs).expect("few") * u64::from(experiment.blocks_max);
        let pool = Pool::new(&experiment.members, members, member_bytes, &folder);
        let pool = pool.map_err(|source| RunError::Members { folder, source })?;
        Ok(Self {
            experiment,
            options,
            observer,
            sides,
            control,
            size_bytes,
            pool,
            idle_permille: 0,
            total,
            records: Vec::new(),
            outcome: Outcome {
                blocks: 0,
                runs: 0,
                failed: 0,
                interrupted: false,
                out_of_time: false,
            },
        })
    }

    fn all_blocks(&mut self) -> Result<(), Stop> {
        let began = Instant::now();
        let shared_device = self.describe_systems()?;
        let mut longest = Duration::ZERO;
        for block in 0..self.experiment.blocks_max {
            if block >= self.experiment.blocks && self.is_resolved() {
                return Ok(());
            }
            let block_began = Instant::now();
            if let Some(limit) = self.experiment.time_limit
                && block > 0
                && began.elapsed() + longest > limit
            {
                self.outcome.out_of_time = true;
                return Ok(());
            }
            let order = Draw::new(self.experiment.seed, 0, block.into()).order(self.sides.len());
            for side in order {
                self.one_system(block, side, shared_device)?;
            }
            self.outcome.blocks += 1;
            longest = longest.max(block_began.elapsed());
        }
        Ok(())
    }

    /// Whether the interval of every ratio to the baseline is narrow.
    fn is_resolved(&self) -> bool {
        let analysis = Analysis::of(&self.records);
        analysis.is_ok_and(|analysis| analysis.unresolved(HALF_WIDTH_TARGET).is_empty())
    }

    fn record(&mut self, record: Record) -> Result<(), RecordsError> {
        self.observer.record(&record)?;
        // Only where they are asked for.
        if self.experiment.blocks_max > self.experiment.blocks {
            self.records.push(record);
        }
        Ok(())
    }

    /// Opens every system once: what it is goes into the first records. Answers whether all
    /// members lie on one physical device.
    fn describe_systems(&mut self) -> Result<bool, Stop> {
        let mut devices = BTreeSet::new();
        let mut shared = true;
        let mut several = false;
        for side in 0..self.sides.len() {
            if self.options.interrupt.load(Ordering::Relaxed) {
                return Err(Stop::Interrupted);
            }
            let what = format!("preparing {}", self.sides[side].spec.name);
            self.observer.progress(0, self.total, &what);
            let names = self.pool.names.clone();
            let mut system = match self.prepare(side, &names) {
                Ok(system) => system,
                Err(why) => {
                    go_on(self.options.interrupt).map_err(|_| Stop::Interrupted)?;
                    return Err(Stop::Error(self.wrong_system(side, &why)));
                }
            };
            let described = if self.opens(side) {
                self.describe_target(side, system.as_mut())
            } else {
                self.describe_folder(side, system.as_mut())
            };
            let described = described.map_err(|why| Stop::Error(self.wrong_system(side, &why)))?;
            devices.extend(described.devices);
            let ended = system.end();
            ended.map_err(|why| Stop::Error(self.wrong_system(side, &why)))?;
            if let Some(is_shared) = described.shared {
                several = true;
                shared &= is_shared;
            }
        }
        let memory = devices.remove(MEMORY);
        let shared_device = several
            && match devices.len() {
                // Nobody says what is beneath, but files in one folder share it.
                0 => self.pool.folder().is_some() && !memory,
                1 => shared && !memory,
                _ => false,
            };
        self.lay_out()?;
        let before = MachineTicks::now();
        self.observer
            .progress(0, self.total, "watching the idle machine");
        std::thread::sleep(IDLE_WATCH);
        self.idle_permille = MachineTicks::now().since(before).busy_permille();
        let mut environment = environment::capture(self.folder().as_deref(), &devices);
        let idle = format!("{}.{} %", self.idle_permille / 10, self.idle_permille % 10);
        let more = &mut environment.more;
        more.insert("machine busy before the first run".to_owned(), idle);
        let experiment = self.experiment_record(shared_device);
        self.record(Record::Experiment(experiment))?;
        self.record(Record::Environment(environment))?;
        if self.options.calibrate {
            self.calibrate()?;
        }
        Ok(shared_device)
    }

    /// Whether the system is described by its blocks: not where its workloads ask for a folder alone.
    fn opens(&self, side: usize) -> bool {
        let spec = &self.sides[side].spec;
        let runs = |workload: &&WorkloadSpec| workload.runs_on(workloads_as(spec));
        let mut mine = self.experiment.workloads.iter().filter(runs);
        if mine.clone().any(|workload| workload.blocks().is_some()) {
            return true;
        }
        // fio and newfs take a block device, or what file system there is.
        let has_files = targets::kind_of(&spec.target).name == "folder"
            || spec.mounting.is_some()
            || spec.commands.is_some();
        !has_files && mine.all(|workload| workload.files().is_none())
    }

    fn describe_target(
        &mut self,
        side: usize,
        system: &mut dyn targets::System,
    ) -> Result<Described, String> {
        let target = system.open()?;
        let facts = target.facts().clone();
        let spec = &self.sides[side].spec;
        self.sides[side].record = described(spec, &facts);
        self.fits(side, &facts)?;
        drop(target.close());
        let devices = facts.devices.iter();
        Ok(Described {
            devices: devices
                .filter_map(|device| device.physical_device.clone())
                .collect(),
            shared: facts
                .array
                .is_some()
                .then(|| facts.shared_physical_device().is_some()),
        })
    }

    /// Of a system that has only workloads on files.
    fn describe_folder(
        &mut self,
        side: usize,
        system: &mut dyn targets::System,
    ) -> Result<Described, String> {
        let facts = system.facts()?;
        let place = system.folder()?;
        let spec = &self.sides[side].spec;
        let mut record = described_folder(spec, &place);
        if let Some(array) = facts {
            // What the array is, and how much its file system offers.
            record = System {
                capacity_bytes: record.capacity_bytes,
                options: record.options,
                ..described(spec, &array)
            };
        }
        self.sides[side].record = record;
        let left = system.leave_folder();
        left.map(|()| Described {
            devices: place
                .watched
                .devices
                .into_iter()
                .map(|(name, _)| name)
                .collect(),
            shared: None,
        })
    }

    fn lay_out(&mut self) -> Result<(), Stop> {
        self.observer
            .progress(0, self.total, "laying out the members");
        let interrupt = self.options.interrupt;
        let laid_out = self.pool.lay_out(&|| go_on(interrupt));
        laid_out.map_err(|source| match source.kind() {
            io::ErrorKind::Interrupted => Stop::Interrupted,
            _ => Stop::Error(RunError::Members {
                folder: self.pool.folder().unwrap_or(Path::new("")).to_owned(),
                source,
            }),
        })
    }

    fn calibrate(&mut self) -> Result<(), Stop> {
        self.observer
            .progress(0, self.total, "measuring the parts by themselves");
        let devices = matches!(self.experiment.members, Members::Devices(_));
        let parts = Parts {
            // New devices in memory have nothing to say; the others were laid out, or may be written.
            members: if devices || self.pool.folder().is_some() {
                &self.pool.names
            } else {
                &[]
            },
            writes: true,
            open: &self.options.open,
            experiment: self.experiment,
            interrupt: self.options.interrupt,
        };
        let calibration = parts.measure();
        go_on(self.options.interrupt).map_err(|_| Stop::Interrupted)?;
        Ok(self.record(Record::Calibration(Box::new(calibration)))?)
    }

    /// The folder whose file system holds what is measured, if there is one.
    fn folder(&self) -> Option<PathBuf> {
        let ours = self.pool.folder().map(Path::to_owned);
        ours.or_else(|| {
            let first = self.pool.names.first().or_else(|| {
                let spec = &self.sides.first()?.spec;
                Some(&spec.target)
            })?;
            let path = Path::new(first.strip_prefix("folder:").unwrap_or(first));
            path.exists().then(|| path.to_owned())
        })
    }

    fn wrong_system(&self, side: usize, what: &str) -> RunError {
        let spec = &self.sides[side].spec;
        RunError::Experiment {
            file: self.experiment.source.clone(),
            line: (spec.line > 0).then_some(spec.line),
            what: format!("system \"{}\": {what}", spec.name),
        }
    }

    /// Whether every workload fits the system.
    fn fits(&self, side: usize, facts: &TargetFacts) -> Result<(), String> {
        let spec = &self.sides[side].spec;
        for workload in &self.experiment.workloads {
            let work = workload.blocks().filter(|work| work.on_one());
            let Some(work) = work.filter(|_| workload.runs_on(workloads_as(spec))) else {
                continue;
            };
            if facts.bytes() < work.size_bytes {
                return Err(format!(
                    "it holds {} MiB, and {} works on {} MiB: choose a smaller size or larger \
                     members",
                    facts.bytes() >> 20,
                    workload.name,
                    work.size_bytes >> 20
                ));
            }
        }
        Ok(())
    }

    fn experiment_record(&self, shared_device: bool) -> spindles_measure::Experiment {
        let experiment = self.experiment;
        spindles_measure::Experiment {
            name: experiment.name.clone(),
            summary: experiment.summary.clone(),
            seed: experiment.seed,
            started_unix_ms: clock::unix_ms(),
            repetition_blocks: experiment.blocks,
            baseline: experiment.baseline.clone(),
            control: self.control.clone(),
            systems: self.sides.iter().map(|side| side.record.clone()).collect(),
            workloads: (experiment.workloads.iter())
                .flat_map(workload_records)
                .collect(),
            scaled: !experiment.scaled_how.is_empty(),
            scaled_how: experiment.scaled_how.clone(),
            shared_device,
            definition: experiment.definition.clone(),
        }
    }

    fn prepare(&self, side: usize, members: &[String]) -> Result<Box<dyn targets::System>, String> {
        let spec = &self.sides[side].spec;
        let interrupt = self.options.interrupt;
        let mut open = self.options.open.clone();
        open.job_rate = spec.rebuild_rate.unwrap_or(open.job_rate);
        open.read_policy = spec.read_policy.unwrap_or(open.read_policy);
        let place = Site {
            members,
            size_bytes: self.size_bytes,
            chunk_bytes: spec.chunk_bytes,
            consistency: spec.consistency,
            checksum: spec.checksum,
            journal: spec.journal.as_deref(),
            open: &open,
            program: &self.options.program,
            degraded: self.options.degraded,
            read_only: writer(self.experiment, spec).is_none(),
            go_on: &|| go_on(interrupt),
        };
        let system = match &spec.commands {
            Some(commands) => Made::prepare(&spec.target, commands, &place)?,
            None => (targets::kind_of(&spec.target).prepare)(&spec.target, &place)?,
        };
        Ok(match &spec.mounting {
            Some(mounting) => Box::new(Mounted::new(system, mounting, &place)),
            None => system,
        })
    }

    /// Files take their places in the systems in random order, block by block. Devices keep
    /// theirs: they may differ, and whoever listed them knows why so.
    fn members_for(&self, block: u32, side: usize) -> Vec<String> {
        let names = &self.pool.names;
        if self.pool.folder().is_none() {
            return names.clone();
        }
        let index = u64::from(block) << 32 | u64::try_from(side).expect("few");
        let order = Draw::new(self.experiment.seed, 3, index).order(names.len());
        order.into_iter().map(|at| names[at].clone()).collect()
    }

    fn one_system(&mut self, block: u32, side: usize, shared_device: bool) -> Result<(), Stop> {
        let members = self.members_for(block, side);
        let spec = self.sides[side].spec.clone();
        let what = format!("block {}: {}", block + 1, spec.name);
        let done = self.outcome.runs.into();
        self.observer.progress(done, self.total, &what);
        let mut open: Option<Box<dyn Target>> = None;
        let mut system = match self.prepare(side, &members) {
            Ok(system) => self.filled(&spec, system, &mut open)?,
            Err(why) => Err(why),
        };
        for (number, workload) in self.experiment.workloads.iter().enumerate() {
            if !workload.runs_on(workloads_as(&spec)) {
                continue;
            }
            go_on(self.options.interrupt).map_err(|_| Stop::Interrupted)?;
            let done = self.outcome.runs.into();
            let name = workload.full_name();
            let what = format!("block {}: {}, {name}", block + 1, spec.name);
            self.observer.progress(done, self.total, &what);
            let purpose = u64::from(block) << 32 | u64::try_from(number).expect("few");
            let seed = Draw::new(self.experiment.seed, 2, purpose).number();
            let blank = Run {
                experiment: self.experiment.name.clone(),
                system: self.sides[side].record.clone(),
                repetition_block: block,
                order: self.outcome.runs,
                seed,
                started_unix_ms: clock::unix_ms(),
                scaled: !self.experiment.scaled_how.is_empty(),
                shared_device,
                ..Run::default()
            };
            let mut runs: Vec<Run> = (self.outcome.runs..)
                .zip(workload_records(workload))
                .map(|(order, workload)| Run {
                    workload,
                    order,
                    ..blank.clone()
                })
                .collect();
            let measured = match (&mut system, &workload.work) {
                (Ok(system), Work::Blocks(work)) => {
                    let system = system.as_mut();
                    self.one_run(system, &mut open, workload, work, &mut runs[0])
                }
                (Ok(system), Work::Files(plan)) => {
                    self.file_runs(system.as_mut(), &mut open, plan, &mut runs)
                }
                (Ok(system), Work::Fio(work)) => {
                    self.fio_run(system.as_mut(), &mut open, work, &mut runs[0])
                }
                (Ok(system), Work::Newfs(words)) => {
                    self.newfs_run(system.as_mut(), &mut open, words, &mut runs[0])
                }
                (Err(why), _) => Err(Failure::Failed(why.clone())),
            };
            match measured {
                Err(Failure::Interrupted) => return Err(Stop::Interrupted),
                Err(Failure::Failed(why)) => {
                    for run in runs.iter_mut().filter(|run| run.elapsed_ns == 0) {
                        run.failed = Some(why.clone());
                        self.outcome.failed += 1;
                    }
                }
                Ok(()) => {}
            }
            for run in runs {
                self.record(Record::Run(Box::new(run)))?;
                self.outcome.runs += 1;
            }
        }
        if let Some(target) = open {
            self.observer.incidents(&spec.name, &target.incidents());
            drop(target.close());
        }
        if let Ok(system) = system
            && let Err(why) = system.end()
        {
            self.observer.trouble(&spec.name, &why);
        }
        Ok(())
    }

    /// The system, filled if it is new: reads of what was never written would measure nothing, and
    /// first writes something else than later ones.
    fn filled(
        &mut self,
        spec: &SystemSpec,
        mut system: Box<dyn targets::System>,
        open: &mut Option<Box<dyn Target>>,
    ) -> Result<Result<Box<dyn targets::System>, String>, Stop> {
        let size_bytes = fill::size_bytes(&self.experiment.workloads, workloads_as(spec));
        let exists = targets::kind_of(&spec.target).exists
            && spec.mounting.is_none()
            && spec.commands.is_none();
        if exists || size_bytes == 0 {
            return Ok(Ok(system));
        }
        let what = format!("filling {}", spec.name);
        let done = self.outcome.runs.into();
        self.observer.progress(done, self.total, &what);
        let target = match system.open() {
            Ok(target) => open.insert(target),
            Err(why) => return Ok(Err(why)),
        };
        match fill::fill(target.as_mut(), size_bytes, self.options.interrupt) {
            Ok(()) => Ok(Ok(system)),
            Err(Failure::Interrupted) => Err(Stop::Interrupted),
            Err(Failure::Failed(why)) => Ok(Err(format!("it can't be filled: {why}"))),
        }
    }

    fn one_run(
        &self,
        system: &mut dyn targets::System,
        open: &mut Option<Box<dyn Target>>,
        workload: &WorkloadSpec,
        work: &BlockWork,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let plan = |streams| {
            let plan = work.kind.plan(&work.params(run.seed, streams));
            plan.map_err(|error| Failure::Failed(format!("{}: {error}", workload.name)))
        };
        let whole = match work.kind.streams {
            Streams::One => {
                let target = match open {
                    Some(target) => target,
                    None => open.insert(system.open().map_err(Failure::Failed)?),
                };
                if let Some((job, Stage::During)) = workload.beside {
                    let target = open.take().expect("just opened");
                    let target = (job.begin)(system, target).map_err(Failure::Failed)?;
                    let target = open.insert(target).as_mut();
                    let whole = self.beside(target, job, &plan(1)?, run)?;
                    whole.into_run(run, self.idle_permille);
                    return Ok(());
                }
                let warmup = self.experiment.warmup_operations;
                let orders = orders(warmup, self.options.interrupt, work, &|| {});
                let measured = execute::run(target.as_mut(), &plan(1)?, &orders)?;
                Whole::one(measured, target.facts())
            }
            Streams::Members => {
                closed(open)?;
                self.members_at_once(&system.devices(), &plan(1)?, work)?
            }
        };
        whole.into_run(run, self.idle_permille);
        Ok(())
    }

    /// A workload on files, each phase with a result into one of `runs`.
    fn file_runs(
        &self,
        system: &mut dyn targets::System,
        open: &mut Option<Box<dyn Target>>,
        plan: &FilePlan,
        runs: &mut [Run],
    ) -> Result<(), Failure> {
        closed(open)?;
        let place = system.folder().map_err(Failure::Failed)?;
        let seed = runs.first().map_or(0, |run| run.seed);
        let place = on_files::Place {
            folder: &place.folder,
            watched: place.watched,
            empty_caches: self.experiment.empty_caches,
            idle_permille: self.idle_permille,
            interrupt: self.options.interrupt,
        };
        on_files::run(&plan.clone().with_seed(seed), &place, runs)
    }

    /// Makes a file system on the whole of a system.
    fn newfs_run(
        &self,
        system: &mut dyn targets::System,
        open: &mut Option<Box<dyn Target>>,
        words: &[String],
        run: &mut Run,
    ) -> Result<(), Failure> {
        closed(open)?;
        system.leave_folder().map_err(Failure::Failed)?;
        let exported = system.export(&self.options.program);
        let exported = exported.map_err(Failure::Failed)?;
        newfs::run(words, &exported, &system.devices(), self.idle_permille, run)
    }

    /// fio, on the whole of a system as a block device, or on a file where it has a file system.
    fn fio_run(
        &self,
        system: &mut dyn targets::System,
        open: &mut Option<Box<dyn Target>>,
        work: &FioWork,
        run: &mut Run,
    ) -> Result<(), Failure> {
        closed(open)?;
        if let Ok(place) = system.folder() {
            let scratch = Scratch::new(&place.folder).and_then(|it| Ok((it.folder()?, it)));
            let (folder, _scratch) = scratch
                .map_err(|error| Failure::Failed(format!("{}: {error}", place.folder.display())))?;
            let file = folder.join("fio").to_string_lossy().into_owned();
            return work.run(&file, &place.watched, self.idle_permille, run);
        }
        let exported = system.export(&self.options.program);
        let exported = exported.map_err(Failure::Failed)?;
        let watched = tool::watched(&exported, &system.devices());
        work.run(&exported.device, &watched, self.idle_permille, run)
    }

    /// A workload beside a job that was begun. Then the job goes on by itself to its end.
    fn beside(
        &self,
        target: &mut dyn Target,
        job: &Job,
        plan: &Plan,
        run: &mut Run,
    ) -> Result<Whole, Failure> {
        // What was never written is passed over in no time: only what lies before it counts.
        let counts = |bytes: u64| bytes > 0 && bytes < plan.size_bytes;
        let done = |target: &dyn Target| (job.progress)(target);
        let first = Cell::new((Instant::now(), 0));
        let last = Cell::new((Instant::now(), 0));
        // Warm up while the job is under way as well.
        let orders = Orders {
            warmup_operations: self.experiment.warmup_operations,
            interrupt: self.options.interrupt,
            ready: &|| first.set((Instant::now(), 0)),
            goes_on: &|target| {
                let bytes = done(target);
                if let Some(bytes) = bytes.filter(|bytes| *bytes < plan.size_bytes) {
                    if first.get().1 == 0 {
                        first.set((Instant::now(), bytes));
                    }
                    last.set((Instant::now(), bytes));
                }
                bytes.is_some()
            },
            duration: None,
            arrivals_per_s: None,
        };
        let measured = execute::run(target, plan, &orders)?;
        let whole = Whole::one(measured, target.facts());
        let (first, last) = (first.get(), last.get());
        let mut share = JobShare {
            beside_bytes: last.1.saturating_sub(first.1),
            beside_ns: clock::duration_ns(last.0.saturating_duration_since(first.0)),
            ..JobShare::default()
        };
        let alone = Instant::now();
        let before = done(target).unwrap_or(0);
        while let Some(bytes) = done(target) {
            if counts(bytes) {
                share.alone_bytes = bytes.saturating_sub(before);
                share.alone_ns = clock::duration_ns(alone.elapsed());
            }
            go_on(self.options.interrupt).map_err(|_| Failure::Interrupted)?;
            if !target.work() {
                let why = format!("the {} does not come to its end", job.name);
                return Err(Failure::Failed(why));
            }
        }
        run.job = Some(share);
        Ok(whole)
    }

    /// Every device by itself on a thread of its own, begun together.
    fn members_at_once(
        &self,
        devices: &[String],
        plan: &Plan,
        work: &BlockWork,
    ) -> Result<Whole, Failure> {
        let barrier = Barrier::new(devices.len());
        let open = OpenOptions {
            read_only: !plan.kind.writes,
            ..self.options.open.clone()
        };
        let (warmup, interrupt) = (self.experiment.warmup_operations, self.options.interrupt);
        let one = |name: &String| {
            let waited = std::cell::Cell::new(false);
            let ready = || {
                waited.set(true);
                barrier.wait();
            };
            let orders = orders(warmup, interrupt, work, &ready);
            let result = spindles_io::open_device(name, &open)
                .map_err(|error| Failure::Failed(error.to_string()))
                .and_then(|mut target| {
                    let measured = execute::run(target.as_mut(), plan, &orders)?;
                    Ok(Whole::one(measured, target.facts()))
                });
            if !waited.get() {
                barrier.wait(); // The others are not to wait for one that failed before.
            }
            result
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = devices
                .iter()
                .map(|name| scope.spawn(|| one(name)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a stream does not panic"))
                .collect()
        });
        let streams = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Whole::of_streams(streams))
    }
}

/// How a workload on blocks runs while no job is under way.
fn orders<'b>(
    warmup_operations: u32,
    interrupt: &'b AtomicBool,
    work: &BlockWork,
    ready: &'b dyn Fn(),
) -> Orders<'b> {
    Orders {
        warmup_operations,
        interrupt,
        ready,
        goes_on: &|_| true,
        duration: work.seconds.map(Duration::from_secs),
        arrivals_per_s: work.arrivals_per_s,
    }
}

/// Closes the target, if it is open.
fn closed(open: &mut Option<Box<dyn Target>>) -> Result<(), Failure> {
    open.take().map_or(Ok(()), |target| {
        let closed = target.close();
        closed.map_err(|error| Failure::Failed(error.to_string()))
    })
}

fn go_on(interrupt: &AtomicBool) -> io::Result<()> {
    if interrupt.load(Ordering::Relaxed) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}
