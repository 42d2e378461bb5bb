//! Runs an experiment. In each repetition block every system runs once, in random order; on each
//! system every workload runs, in the order of the file. Records are emitted immediately.

mod calibrate;
mod describe;
mod described;
mod dry_run;
mod options;
mod parallel;
mod predicted;
mod preflight;
mod progress;
mod records;
mod run_error;
mod state;
mod trials;
mod under_test;
mod works;

use crate::experiment::Experiment;
use crate::measure::failure::Failure;
use crate::measure::schedule::Draw;
pub use dry_run::{DryRun, Loss, dry_run};
pub use options::Options;
use options::go_on;
use preflight::{check_nodes, workloads_as};
pub use progress::{Ending, Progress, RECORDS_FILE, RunState, STATE_FILE, run_state};
pub use records::{RESULTS_FOLDER, RecordsError, RecordsFile, default_folder, load, typed};
pub use run_error::RunError;
use spindles_measure::{Analysis, Discard, HALF_WIDTH_TARGET, Record};
use state::{NOTHING_DONE, Runner, Stop, fail};
pub use state::{Observer, Outcome};
use std::time::{Duration, Instant};

/// Runs the experiment.
///
/// # Errors
/// When it can't begin, or records can't be written. A failing system or workload is recorded as
/// failed instead, and the others continue.
pub fn run(
    experiment: &Experiment,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let mut runner = Runner::new(experiment, options, observer)?;
    let ended = runner.everything();
    match ended {
        Ok(()) => {}
        Err(Stop::Interrupted) => runner.outcome.interrupted = true,
        Err(Stop::Error(error)) => return Err(error),
    }
    Ok(runner.outcome)
}

/// How fast a part is that is a tenth faster.
const FASTER: f64 = 1.1;

impl Runner<'_> {
    fn greet_nodes(&mut self) -> Result<(), Stop> {
        match check_nodes(self.experiment, self.options) {
            Ok(()) => Ok(()),
            Err(Failure::Interrupted) => Err(Stop::Interrupted),
            Err(Failure::Failed(what)) => Err(Stop::Error(RunError::Nodes { what })),
        }
    }

    fn everything(&mut self) -> Result<(), Stop> {
        self.greet_nodes()?;
        // Between two systems no process has the devices open: another run of the lab must not take
        // them then.
        let _claims =
            preflight::check_devices(self.experiment, &self.pool.names, &self.options.open)
                .map_err(Stop::Error)?;
        let measured = self.measure();
        self.wipe();
        measured
    }

    fn measure(&mut self) -> Result<(), Stop> {
        let shared_device = self.describe_systems()?;
        self.blocks(shared_device)?;
        if self.experiment.confirm {
            self.trials(shared_device)?;
        }
        self.what_would_help(shared_device)
    }

    /// Returns the order of the systems in a block.
    fn order(&self, block: u32) -> Vec<usize> {
        Draw::new(self.experiment.seed, 0, block.into()).order(self.sides.len())
    }

    fn blocks(&mut self, shared_device: bool) -> Result<(), Stop> {
        if self.is_parallel() {
            let blocks = 0..self.experiment.blocks;
            let blocks: Vec<Vec<usize>> = blocks.map(|block| self.order(block)).collect();
            return self.turns(&blocks, shared_device);
        }
        let began = Instant::now();
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
            for side in self.order(block) {
                self.one_system(block, side, shared_device)?;
            }
            self.outcome.blocks += 1;
            longest = longest.max(block_began.elapsed());
        }
        Ok(())
    }

    /// If asked for, runs all blocks again for each part of the disks and links, with this part a
    /// tenth faster and the same draws.
    fn what_would_help(&mut self, shared_device: bool) -> Result<(), Stop> {
        let model = self.experiment.members.modelled();
        let Some(model) = model.filter(|model| model.what_would_help) else {
            return Ok(());
        };
        let parts = model.with_faster_parts(FASTER);
        let more = u64::try_from(parts.len()).expect("few");
        let blocks = self.outcome.blocks;
        let is_control = |side: &usize| self.control.as_ref() == Some(&self.sides[*side].spec.name);
        let sides = (0..self.sides.len()).filter(|side| !is_control(side));
        let order = vec![sides.collect::<Vec<_>>(); usize::try_from(blocks).expect("32 bits fit")];
        self.total = self.total / u64::from(self.experiment.blocks_max.max(1)) * u64::from(blocks);
        self.total *= more + 1;
        for part in parts {
            self.faster = Some(part);
            self.turns(&order, shared_device)?;
        }
        self.faster = None;
        self.outcome.blocks = blocks;
        Ok(())
    }

    /// Returns true if the interval of every ratio to the baseline is narrow.
    fn is_resolved(&self) -> bool {
        let analysis = Analysis::of(&self.records);
        analysis.is_ok_and(|analysis| analysis.unresolved(HALF_WIDTH_TARGET).is_empty())
    }

    fn one_system(&mut self, block: u32, side: usize, shared_device: bool) -> Result<(), Stop> {
        let spec = self.sides[side].spec.clone();
        let what = format!("block {}: {}", block + 1, spec.name);
        let done = self.outcome.runs.into();
        self.observer.progress(done, self.total, &what);
        let mut under_test = self.begin(block, side)?;
        let mut good = 0;
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
            let mut runs = self.blank_runs(side, workload, block, seed, shared_device);
            let measured = match &mut under_test {
                Ok(under_test) => under_test.run(workload, &mut runs),
                Err(why) => Err(Failure::Failed(why.clone())),
            };
            match measured {
                Err(Failure::Interrupted) => return Err(Stop::Interrupted),
                Err(Failure::Failed(why)) => {
                    self.outcome.failed += fail(&mut runs, &why);
                }
                Ok(()) => self.outcome.failed += fail(&mut runs, NOTHING_DONE),
            }
            for mut run in runs {
                self.mark_predicted(&mut run);
                good += u32::from(run.failed.is_none());
                self.record(Record::Run(Box::new(run)))?;
                self.outcome.runs += 1;
            }
        }
        if let Ok(under_test) = under_test
            && let Some(why) = self.end(under_test, &spec.name)
        {
            self.outcome.failed += good;
            self.record(Record::Discard(Discard {
                experiment: self.experiment.name.clone(),
                system: spec.name.clone(),
                repetition_block: block,
                why,
            }))?;
        }
        Ok(())
    }
}
