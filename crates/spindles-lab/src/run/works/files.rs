//! Runs a workload on files, phase by phase, with cold caches, and fills in the records of its
//! phases.

use super::super::under_test::UnderTest;
use crate::machine::caches::{make_ready, sync};
use crate::machine::clock;
use crate::machine::evidence::Watched;
use crate::measure::execute;
use crate::measure::failure::Failure;
use crate::measure::files::{self, Blocks, Course, HostPlan, Hosted};
use crate::measure::measurement::{self, Measurement};
use crate::measure::recorder::Collector;
use crate::run::preflight::newfs_of;
use crate::systems::scratch::Scratch;
use spindles_measure::{CacheUse, Histogram, Io, Predicted, Run};
use spindles_workload::file::FilePlan;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Where the phases of a workload on files run, one after the other.
trait Ground {
    /// Writes everything to the devices, then empties the caches if wanted and permitted. Returns
    /// true if they were emptied.
    fn make_ready(&mut self) -> bool;
    /// Carries out a phase that only makes files without measuring it, if that is possible. Returns
    /// false if the phase must run.
    fn prepare(&mut self, _plan: &FilePlan, _phase: usize) -> Result<bool, Failure> {
        Ok(false)
    }
    /// Runs a phase.
    fn run(&mut self, plan: &FilePlan, phase: usize) -> Result<Measurement, Failure>;
    /// Ends the file system with the workload, if it does: what an endless phase left in memory
    /// need not be written then. Returns false if it stays.
    fn abandon(&mut self) -> bool {
        false
    }
    /// Writes everything to the devices. Returns the time that it takes the machine; 0 on a
    /// modelled host.
    fn settle(&mut self) -> Result<u64, Failure>;
}

impl UnderTest<'_> {
    /// Runs a workload on files; each phase with a result fills in one of `runs`. Uses a folder if
    /// there is a file system, otherwise the open system.
    pub(super) fn files(&mut self, plan: &FilePlan, runs: &mut [Run]) -> Result<(), Failure> {
        let seed = runs.first().map_or(0, |run| run.seed);
        let plan = plan.clone().with_seed(seed);
        let (interrupt, idle_permille) = (self.options.interrupt, self.idle_permille);
        if let Some(host) = self.host.clone() {
            return self.files_on_host(&plan, &host, runs);
        }
        if !self.has_file_system {
            let target = self.opened()?.as_mut();
            let doubts = measurement::target_doubts(target.facts());
            let io = measurement::io(target.facts());
            let watched = execute::watched(target.facts());
            let mut ground = OnBlocks {
                blocks: Blocks::new(target),
                interrupt,
            };
            let ended = run(&plan, &mut ground, &watched, &io, idle_permille, runs);
            for run in runs.iter_mut().filter(|run| run.elapsed_ns > 0) {
                run.doubts.extend_from_slice(&doubts);
            }
            return ended;
        }
        self.close()?;
        let place = self.system.folder()?;
        let (files, _scratch) = Scratch::with_folder(&place.folder)?;
        // The archive lies on another disk, also in a folder of the lab.
        let elsewhere = plan.archive_folder();
        let elsewhere = elsewhere.map(|folder| Scratch::with_folder(Path::new(folder)));
        let (plan, _elsewhere) = match elsewhere.transpose()? {
            Some((folder, scratch)) => {
                let folder = folder.to_string_lossy().into_owned();
                (plan.with_archive_in(folder), Some(scratch))
            }
            None => (plan, None),
        };
        let mut ground = InFolder {
            files,
            empty_caches: self.empty_caches,
            interrupt,
        };
        let io = measurement::io_of_files();
        run(&plan, &mut ground, &place.watched, &io, idle_permille, runs)
    }
}

impl UnderTest<'_> {
    /// Runs a workload on files on a modelled host with a new file system.
    fn files_on_host(
        &mut self,
        plan: &FilePlan,
        host: &HostPlan,
        runs: &mut [Run],
    ) -> Result<(), Failure> {
        if plan.archive_folder().is_some() {
            let why = "an archive in another folder can't be modelled: leave out archive_folder";
            return Err(Failure::Failed(why.to_owned()));
        }
        let (interrupt, idle_permille) = (self.options.interrupt, self.idle_permille);
        let empty_caches = self.empty_caches;
        let target = self.opened()?.as_mut();
        let io = measurement::io(target.facts());
        let watched = execute::watched(target.facts());
        let mut ground = OnHost {
            hosted: Hosted::new(target, host)?,
            empty_caches,
            interrupt,
        };
        let ended = run(plan, &mut ground, &watched, &io, idle_permille, runs);
        mark(runs);
        ended
    }

    /// Makes a modelled file system on the whole system.
    pub(super) fn newfs_on_host(
        &mut self,
        words: &[String],
        host: &HostPlan,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let fs = newfs_of(&host.fs, words).map_err(Failure::Failed)?;
        let host = HostPlan { fs, ..host.clone() };
        let (interrupt, idle_permille) = (self.options.interrupt, self.idle_permille);
        let target = self.opened()?.as_mut();
        let mut hosted = Hosted::new(target, &host)?;
        let mut measured = hosted.newfs(interrupt)?;
        measured.run.operations = 1;
        measured.run.counted = 1;
        let mut latency = Histogram::new();
        latency.record(measured.run.elapsed_ns);
        measured.run.latency.insert("newfs".to_owned(), latency);
        let cpu_ns = measured.run.cpu_ns.workload;
        measured.into_run(run, idle_permille);
        run.cpu_ns.workload = cpu_ns;
        mark(std::slice::from_mut(run));
        Ok(())
    }
}

/// Marks the results as those of a modelled host. The runner fills in which.
fn mark(runs: &mut [Run]) {
    for run in runs.iter_mut().filter(|run| run.elapsed_ns > 0) {
        run.predicted = Some(Predicted::default());
    }
}

/// Runs all phases; those with a result fill in `runs` in their order. Results before a failure
/// stay.
fn run(
    plan: &FilePlan,
    ground: &mut dyn Ground,
    watched: &Watched,
    io: &Io,
    idle_permille: u64,
    runs: &mut [Run],
) -> Result<(), Failure> {
    let mut runs = runs.iter_mut();
    let phases = plan.phases();
    for (number, phase) in phases.iter().enumerate() {
        let emptied = !phase.follows && ground.make_ready();
        let is_followed = phases.get(number + 1).is_some_and(|next| next.follows);
        if phase.counted.is_none() && !is_followed && ground.prepare(plan, number)? {
            continue;
        }
        let before = watched.now();
        let measured = ground.run(plan, number)?;
        let after = watched.now();
        let is_last = number + 1 == phases.len();
        let is_over = is_last && phase.endless && ground.abandon();
        let settle_ns = if is_followed || is_over {
            0
        } else {
            ground.settle()?
        };
        let settled = watched.now();
        let Some(run) = phase.counted.and_then(|_| runs.next()) else {
            continue;
        };
        let mut engine_ns = after.cpu_ns_since(&before);
        if watched.processes.contains(&std::process::id()) {
            // The engine and the workload share this process.
            let process_ns = measured.window.process_ns();
            engine_ns = process_ns.saturating_sub(measured.run.cpu_ns.workload);
        }
        let own = measured
            .run
            .evidence
            .as_ref()
            .map(|evidence| evidence.members.clone());
        let own = own.filter(|members| !members.is_empty());
        let cache = CacheUse {
            file_bytes: plan.bytes(),
            settle_ns,
            emptied,
            ..CacheUse::default()
        };
        let measured = measured.with_counters((&before, &after), cache, phase.actors);
        measured.complete(engine_ns, idle_permille, run);
        run.io = io.clone();
        run.phases = vec![measurement::operations(run, run.elapsed_ns)];
        // The workload's writes reach the members after its end, unless the engine counts them.
        let members = own.unwrap_or_else(|| settled.members_since(&before));
        measurement::of_members(&members, run);
        measurement::without_warm_up(run);
    }
    Ok(())
}

/// A folder of the measured file system.
struct InFolder<'a> {
    files: PathBuf,
    /// True if caches are emptied before each phase.
    empty_caches: bool,
    interrupt: &'a AtomicBool,
}

impl Ground for InFolder<'_> {
    fn make_ready(&mut self) -> bool {
        make_ready(&self.files, self.empty_caches)
    }

    fn run(&mut self, plan: &FilePlan, phase: usize) -> Result<Measurement, Failure> {
        let course = Course {
            interrupt: self.interrupt,
            begin: &|| Ok(()),
            end: &|| {},
            collector: &Collector::default(),
            with_warm_up: false,
        };
        files::run_in_folder(plan, phase, &self.files, &course)
    }

    fn settle(&mut self) -> Result<u64, Failure> {
        let ((), settle_ns) = clock::timed(|| sync(&self.files));
        Ok(settle_ns)
    }
}

/// The bare target.
struct OnBlocks<'a> {
    blocks: Blocks<'a>,
    interrupt: &'a AtomicBool,
}

impl Ground for OnBlocks<'_> {
    fn make_ready(&mut self) -> bool {
        // There is no cache in between, and all writes were flushed.
        true
    }

    fn run(&mut self, plan: &FilePlan, phase: usize) -> Result<Measurement, Failure> {
        self.blocks.run(plan, phase, self.interrupt)
    }

    fn settle(&mut self) -> Result<u64, Failure> {
        let (flushed, settle_ns) = clock::timed(|| self.blocks.flush());
        flushed.map(|()| settle_ns)
    }
}

/// A modelled host.
struct OnHost<'a> {
    hosted: Hosted<'a>,
    /// True if its memory is emptied before each phase.
    empty_caches: bool,
    interrupt: &'a AtomicBool,
}

impl Ground for OnHost<'_> {
    fn make_ready(&mut self) -> bool {
        if self.empty_caches {
            self.hosted.empty_cache();
        }
        self.empty_caches
    }

    fn prepare(&mut self, plan: &FilePlan, phase: usize) -> Result<bool, Failure> {
        // A memory that is kept holds what the phase wrote last.
        if self.empty_caches {
            self.hosted.prepare(plan, phase)?;
        }
        Ok(self.empty_caches)
    }

    fn run(&mut self, plan: &FilePlan, phase: usize) -> Result<Measurement, Failure> {
        self.hosted.run(plan, phase, self.interrupt)
    }

    fn abandon(&mut self) -> bool {
        self.hosted.abandon();
        true
    }

    fn settle(&mut self) -> Result<u64, Failure> {
        self.hosted.settle(self.interrupt).map(|()| 0)
    }
}
