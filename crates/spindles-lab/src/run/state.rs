//! The state of a run: it prepares systems, and takes them down.

use super::options::{Options, go_on};
use super::under_test::UnderTest;
use crate::experiment::systems::kinds::SINGLE;
use crate::experiment::systems::modelled::Modelled;
use crate::experiment::systems::{self, Members};
use crate::experiment::{Experiment, SystemSpec, WorkloadSpec};
use crate::machine::clock;
use crate::measure::failure::Failure;
use crate::measure::fill;
use crate::measure::schedule::Draw;
use crate::run::described::workload_records;
use crate::run::preflight::{
    self, Side, bare_bytes, check, check_room, destroyed_by, has_file_system,
};
use crate::run::records::RecordsError;
use crate::run::run_error::RunError;
use crate::systems::pool::Pool;
use crate::systems::scratch;
use crate::systems::targets::commands::Made;
use crate::systems::targets::mounted::Mounted;
use crate::systems::targets::{self, Site};
use spindles_admin::assemble::EngineOptions;
use spindles_array::Incident;
use spindles_measure::{Record, Run};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Receives the events of a run.
pub trait Observer {
    /// A record was made. An error ends the run.
    fn record(&mut self, record: &Record) -> Result<(), RecordsError>;

    /// `done` of `total` runs are done, and `what` comes next.
    fn progress(&mut self, done: u64, total: u64, what: &str);

    /// Reports a problem of a system that is no result of a workload.
    fn trouble(&mut self, system: &str, what: &str) {
        let _ = (system, what);
    }

    /// Reports incidents on the devices of a system while workloads ran on it.
    fn incidents(&mut self, system: &str, incidents: &[Incident]) {
        let _ = (system, incidents);
    }
}

/// How an experiment ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whole repetition blocks recorded.
    pub blocks: u32,
    /// Runs recorded, failed ones and trials included.
    pub runs: u32,
    /// Runs that failed or were discarded.
    pub failed: u32,
    /// True if the user interrupted it.
    pub interrupted: bool,
    /// True if the time limit ended it.
    pub out_of_time: bool,
}

pub(super) enum Stop {
    Interrupted,
    Error(RunError),
}

impl From<RecordsError> for Stop {
    fn from(error: RecordsError) -> Self {
        Self::Error(RunError::Records(error))
    }
}

pub(super) struct Runner<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) options: &'a Options<'a>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) sides: Vec<Side>,
    pub(super) control: Option<String>,
    pub(super) size_bytes: u64,
    pub(super) pool: Pool,
    pub(super) idle_permille: u64,
    pub(super) total: u64,
    pub(super) outcome: Outcome,
    /// The part of modelled disks that is faster now, and the model with it.
    pub(super) faster: Option<(String, Modelled)>,
    /// The records so far, if intervals are checked between blocks or trials follow.
    pub(super) records: Vec<Record>,
    /// Users' devices that got superblocks of the lab's arrays; these are removed at the end.
    pub(super) labelled: RefCell<BTreeSet<String>>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        options: &'a Options<'a>,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, RunError> {
        let (sides, control) = preflight::sides(experiment);
        let size_bytes = preflight::size_bytes(experiment);
        let members = check(experiment, options.force)?;
        let folder = experiment.folder.clone();
        let folder = folder.unwrap_or_else(scratch::temporary_folder);
        let files = experiment.members == Members::Files && members > 0;
        let member_bytes = preflight::member_bytes(experiment);
        if files {
            check_room(&folder, members, member_bytes)?;
        }
        let runs_of = |side: &Side| {
            let workloads = preflight::workloads_of(experiment, &side.spec);
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
            labelled: RefCell::default(),
            outcome: Outcome::default(),
            faster: None,
        })
    }

    /// Remembers the devices of an array that was or will be created.
    fn note_labelled(&self, spec: &SystemSpec, devices: impl IntoIterator<Item = String>) {
        if systems::kind_of(&spec.target).exists || spec.commands.is_some() {
            return;
        }
        // The lab's own files are deleted anyway.
        let is_own = |name: &String| self.pool.folder().is_some() && self.pool.names.contains(name);
        let devices = devices.into_iter().chain(spec.journal.clone());
        let mut labelled = self.labelled.borrow_mut();
        labelled.extend(devices.filter(|name| !is_own(name)));
    }

    /// Removes the superblocks of the lab's arrays from users' devices. Otherwise these would later
    /// be found as members of incomplete arrays.
    pub(super) fn wipe(&mut self) {
        for device in self.labelled.take() {
            if !spindles_device::holds_superblock(&device) {
                continue;
            }
            if let Err(error) = spindles_admin::wipe::wipe(&[&device]) {
                let why = format!("{error}: wipe it to remove what is left of the lab's array");
                self.observer.trouble(&device, &why);
            }
        }
    }

    pub(super) fn record(&mut self, record: Record) -> Result<(), RecordsError> {
        self.observer.record(&record)?;
        // Kept only if needed later.
        if self.experiment.blocks_max > self.experiment.blocks || self.experiment.confirm {
            self.records.push(record);
        }
        Ok(())
    }

    pub(super) fn prepare(
        &self,
        side: usize,
        members: &[String],
    ) -> Result<Box<dyn targets::System>, String> {
        let spec = &self.sides[side].spec;
        let interrupt = self.options.interrupt;
        let mut open = self.options.open.clone();
        open.ignore_flushes = spec.ignore_flushes;
        let is_only_read = destroyed_by(self.experiment, spec).is_none();
        let place = Site {
            members,
            size_bytes: self.size_bytes,
            chunk_bytes: spec.chunk_bytes,
            consistency: spec.consistency,
            checksum: spec.checksum,
            journal: spec.journal.as_deref(),
            write_back: spec.write_back,
            is_plain: moves_blocks(spec),
            is_served: spec.is_served,
            open: &open,
            engine: EngineOptions {
                job_rate: spec.rebuild_rate,
                read_policy: spec.read_policy,
                ..EngineOptions::default()
            },
            program: &self.options.program,
            degraded: self.options.degraded,
            read_only: is_only_read,
            force: self.options.force || is_only_read,
            go_on: &|| go_on(interrupt),
        };
        let needs = targets::needs(&spec.target)?;
        let counted = members.iter().take(needs.members).cloned();
        self.note_labelled(spec, counted.chain(needs.named));
        let system = match &spec.commands {
            Some(commands) => Made::prepare(&spec.target, commands, &place)?,
            None => targets::prepare(&spec.target, &place)?,
        };
        Ok(match &spec.mounting {
            Some(mounting) => Box::new(Mounted::new(system, mounting, &place)),
            None => system,
        })
    }

    /// Assigns files to systems in random order, block by block. Devices keep their order: they may
    /// differ, and the user listed them on purpose.
    fn members_for(&self, block: u32, side: usize) -> Vec<String> {
        let names = &self.pool.names;
        if self.pool.folder().is_none() {
            return names.clone();
        }
        let index = u64::from(block) << 32 | u64::try_from(side).expect("few");
        let order = Draw::new(self.experiment.seed, 3, index).order(names.len());
        order.into_iter().map(|at| names[at].clone()).collect()
    }

    /// Creates the records of a workload's results before it has run.
    pub(super) fn blank_runs(
        &self,
        side: usize,
        workload: &WorkloadSpec,
        block: u32,
        seed: u64,
        shared_device: bool,
    ) -> Vec<Run> {
        let blank = |(order, workload)| Run {
            experiment: self.experiment.name.clone(),
            system: self.sides[side].record.clone(),
            workload,
            repetition_block: block,
            order,
            seed,
            started_unix_ms: clock::unix_ms(),
            scaled: !self.experiment.scaled_how.is_empty(),
            shared_device,
            ..Run::default()
        };
        let records = (self.outcome.runs..).zip(workload_records(workload));
        records.map(blank).collect()
    }

    /// Prepares a system for its workloads. The inner error says why that failed.
    pub(super) fn begin(
        &mut self,
        block: u32,
        side: usize,
    ) -> Result<Result<UnderTest<'a>, String>, Stop> {
        if let Err(error) = self.renew_members(block, side) {
            return Ok(Err(error.to_string()));
        }
        let members = self.members_for(block, side);
        let spec = self.sides[side].spec.clone();
        match self.prepare(side, &members) {
            Ok(system) => {
                let mut filled = self.filled(&spec, system)?;
                if let Ok(under_test) = &mut filled {
                    match self.host_plan(block, &spec) {
                        Ok(host) => under_test.host = host,
                        Err(why) => return Ok(Err(why)),
                    }
                    if let Some(plan) = self.controller_plan(block, &spec)
                        && let Err(why) = under_test.put_behind(plan)
                    {
                        return Ok(Err(why));
                    }
                }
                Ok(filled)
            }
            Err(why) => Ok(Err(why)),
        }
    }

    /// Takes a system down. Returns the reason if nothing that was measured on it counts.
    pub(super) fn end(&mut self, mut under_test: UnderTest<'_>, name: &str) -> Option<String> {
        if let Some(target) = under_test.open.take() {
            self.observer.incidents(name, &target.incidents());
            drop(target.close());
        }
        drop(under_test.leave_folder());
        // A job may have replaced a device.
        let side = self.sides.iter().find(|side| side.spec.name == name);
        if let Some(side) = side {
            self.note_labelled(&side.spec, under_test.system.devices());
        }
        let UnderTest { system, damage, .. } = under_test;
        for why in damage.iter().cloned().chain(system.end().err()) {
            self.observer.trouble(name, &why);
        }
        damage
    }

    /// Fills a new system: reads of never-written blocks would measure nothing, and first writes
    /// differ from later ones.
    fn filled(
        &mut self,
        spec: &SystemSpec,
        mut system: Box<dyn targets::System>,
    ) -> Result<Result<UnderTest<'a>, String>, Stop> {
        let mut under_test = UnderTest {
            experiment: self.experiment,
            options: self.options,
            idle_permille: self.idle_permille,
            empty_caches: self.experiment.empty_caches,
            has_file_system: holds_files(spec, system.as_mut()),
            host: None,
            controller: None,
            system,
            open: None,
            damage: None,
        };
        let size_bytes = bare_bytes(self.experiment, spec);
        let exists = systems::kind_of(&spec.target).exists
            && spec.mounting.is_none()
            && spec.commands.is_none();
        // A modelled disk by itself has no blocks that were never written.
        let is_disk = self.experiment.members.modelled().is_some()
            && systems::kind_of(&spec.target).name == SINGLE.name;
        let exists = exists || is_disk;
        let share_percent = preflight::bare_share_percent(self.experiment, spec);
        // A file system spreads its blocks over the whole system.
        let is_spread = spec.modelled_fs.is_some();
        let exists = exists || moves_blocks(spec);
        if exists || size_bytes == 0 && share_percent == 0 && !is_spread {
            return Ok(Ok(under_test));
        }
        let target = match under_test.system.open() {
            Ok(target) => under_test.open.insert(target),
            Err(why) => return Ok(Err(why)),
        };
        let bytes = target.facts().bytes();
        if let Some(fs) = &spec.modelled_fs
            && let Err(error) = fs.row.check(bytes, &fs.options)
        {
            return Ok(Err(error.to_string()));
        }
        let what = format!("filling {}", spec.name);
        let done = self.outcome.runs.into();
        self.observer.progress(done, self.total, &what);
        // Of a target that is smaller, a replay uses all.
        let size_bytes = size_bytes.max(bytes / 100 * share_percent).min(bytes);
        let size_bytes = if is_spread { bytes } else { size_bytes };
        match fill::fill(target.as_mut(), size_bytes, self.options.interrupt) {
            Ok(()) => Ok(Ok(under_test)),
            Err(Failure::Interrupted) => Err(Stop::Interrupted),
            Err(Failure::Failed(why)) => Ok(Err(format!("it can't be filled: {why}"))),
        }
    }
}

/// Returns true if a system's modelled file system reads only what it has written, so that nothing
/// fills the system before.
pub(super) fn moves_blocks(spec: &SystemSpec) -> bool {
    let fs = spec.modelled_fs.as_ref();
    fs.is_some_and(|fs| fs.row.moves_blocks)
}

/// Why a workload that ended without an error has no result.
pub(super) const NOTHING_DONE: &str = "nothing was done in its time: let it run longer";

/// Marks all runs without a result as failed. Returns their number.
pub(super) fn fail(runs: &mut [Run], why: &str) -> u32 {
    let mut failed = 0;
    let has_result = |run: &Run| run.elapsed_ns > 0 && run.counted > 0;
    for run in runs.iter_mut().filter(|run| !has_result(run)) {
        run.failed = Some(why.to_owned());
        failed += 1;
    }
    failed
}

/// Returns true if a system is a file system or holds one. The result of commands may be a device.
pub(super) fn holds_files(spec: &SystemSpec, system: &mut dyn targets::System) -> bool {
    let is_known = spec.commands.is_none() || spec.mounting.is_some();
    has_file_system(spec) && (is_known || system.folder().is_ok())
}
