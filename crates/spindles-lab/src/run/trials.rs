//! Trials after all blocks: changes that would confirm the verdicts on bottlenecks and caches, if
//! they can be made here. Each is tried in pairs of runs on a fresh system, one unchanged and one
//! with the change.

use super::options::go_on;
use super::state::{NOTHING_DONE, Runner, Stop, fail};
use super::under_test::UnderTest;
use crate::experiment::{BlockWork, Work, WorkloadSpec};
use crate::measure::failure::Failure;
use crate::measure::schedule::Draw;
use crate::run::described::workload_records;
use crate::run::preflight::workloads_as;
use spindles_measure::verdicts::Intervention;
use spindles_measure::{Analysis, Record, Run, Trial};
use spindles_workload::IN_FLIGHT_MAX;
use spindles_workload::file::{Action, Answer, FileNext, FilePlan};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Pairs of runs per trial: the fewest that give a meaningful interval.
const PAIRS: u32 = 3;

/// A planned trial.
struct Planned {
    side: usize,
    /// Index of the workload in the experiment.
    workload: usize,
    change: Intervention,
    how: How,
    /// Indexes of the workload's records whose verdicts asked for it.
    records: Vec<usize>,
}

impl Planned {
    /// Returns the runs of the records that asked for the trial, each with the change tried.
    fn runs_of_records(
        &self,
        workload: &WorkloadSpec,
        runs: Vec<Run>,
        pair: u32,
        changed: bool,
    ) -> impl Iterator<Item = Run> {
        let names = workload_records(workload)
            .into_iter()
            .map(|workload_record| workload_record.name);
        let recorded = runs.into_iter().zip(names).enumerate();
        let asked = recorded.filter(|(at, _)| self.records.contains(at));
        asked.map(move |(_, (run, of))| Run {
            trial: Some(Trial {
                of,
                change: self.change.clone(),
                pair,
                changed,
            }),
            ..run
        })
    }
}

/// How a change is made.
enum How {
    /// Runs another workload.
    Workload(Box<WorkloadSpec>),
    /// Empties the caches before each phase.
    EmptyCaches,
    /// Takes a fifth of each CPU away.
    LessCpu,
}

impl Runner<'_> {
    /// Tries the changes that the verdicts on all records so far ask for.
    pub(super) fn trials(&mut self, shared_device: bool) -> Result<(), Stop> {
        let Ok(analysis) = Analysis::of(&self.records) else {
            return Ok(());
        };
        let planned = self.planned(&analysis);
        for (number, trial) in (0_u64..).zip(&planned) {
            let which = format!(
                "trial {} of {}, {} runs",
                number + 1,
                planned.len(),
                2 * PAIRS
            );
            let ended = self.one_trial(number, trial, &which, shared_device);
            if ended.is_err() {
                let said = format!(
                    "{number} of {} trials were finished: the report says less about the others, \
                     or nothing",
                    planned.len()
                );
                self.observer.trouble("confirm", &said);
            }
            ended?;
        }
        Ok(())
    }

    fn planned(&self, analysis: &Analysis) -> Vec<Planned> {
        let mut planned: Vec<Planned> = Vec::new();
        for (side, it) in self.sides.iter().enumerate() {
            // The control only serves to show the noise.
            let is_control = self.control.as_ref() == Some(&it.spec.name);
            for (workload, spec) in self.experiment.workloads.iter().enumerate() {
                // Nodes receive parameters. A change that is no parameter would not reach them, and
                // would seem to have no effect.
                let is_elsewhere = spec.nodes() > 0 || spec.beside.is_some();
                if is_control || is_elsewhere || !spec.runs_on(workloads_as(&it.spec)) {
                    continue;
                }
                for (record, name) in workload_records(spec)
                    .iter()
                    .map(|workload_record| &workload_record.name)
                    .enumerate()
                {
                    let cell = analysis.cell(&it.spec.name, name);
                    let verdicts = cell.and_then(|cell| cell.verdicts.as_ref());
                    let changes = verdicts.map(|verdicts| verdicts.interventions());
                    for change in changes.into_iter().flatten() {
                        let same = |planned: &&mut Planned| {
                            (planned.side, planned.workload) == (side, workload)
                                && planned.change == *change
                        };
                        if let Some(same) = planned.iter_mut().find(same) {
                            same.records.push(record);
                        } else if let Some(how) = self.how(spec, record, change) {
                            planned.push(Planned {
                                side,
                                workload,
                                change: change.clone(),
                                how,
                                records: vec![record],
                            });
                        }
                    }
                }
            }
        }
        planned
    }

    /// Returns how a change is made for a record of a workload; `None` if it can't be made here.
    fn how(&self, spec: &WorkloadSpec, record: usize, change: &Intervention) -> Option<How> {
        let changed = match change {
            Intervention::DoubleActors => with_actors(&spec.work, |actors| actors * 2)?,
            Intervention::HalveActors => with_actors(&spec.work, |actors| actors.div_ceil(2))?,
            Intervention::FsyncOff => {
                let plan = spec.files()?;
                if is_flush(plan, record) {
                    return None;
                }
                Work::Files(plan.clone().without_syncs())
            }
            Intervention::WithoutCache => {
                let kept = spec.files().is_some() && !self.experiment.empty_caches;
                return kept.then_some(How::EmptyCaches);
            }
            Intervention::LimitCpu => return Some(How::LessCpu),
            Intervention::TwoStreams
            | Intervention::ShapeLink
            | Intervention::LeaveMemberOut
            | Intervention::ReplaceMember { .. }
            | Intervention::SpreadLoad
            | Intervention::DoubleMembers
            | Intervention::SecondGenerator
            | Intervention::LargerFiles
            | Intervention::CountFlush => return None,
        };
        let changed = WorkloadSpec {
            work: changed,
            ..spec.clone()
        };
        // The parameter may affect only another phase.
        let actors = |spec: &WorkloadSpec| {
            let records = workload_records(spec);
            records.get(record).map(|record| record.in_flight_max)
        };
        let is_other = *change == Intervention::FsyncOff || actors(&changed) != actors(spec);
        is_other.then(|| How::Workload(Box::new(changed)))
    }

    /// Runs a trial. `which` is for the line of progress: `trial 3 of 18, 6 runs`.
    fn one_trial(
        &mut self,
        number: u64,
        trial: &Planned,
        which: &str,
        shared: bool,
    ) -> Result<(), Stop> {
        let spec = self.sides[trial.side].spec.clone();
        let workload = self.experiment.workloads[trial.workload].clone();
        let what = format!(
            "{}: {} on {}",
            trial.change.name(),
            workload.name,
            spec.name
        );
        let doing = format!("{which}: {what}");
        self.observer.progress(self.total, self.total, &doing);
        let mut under_test = match self.begin(0, trial.side)? {
            Ok(under_test) => under_test,
            Err(why) => {
                self.observer.trouble(&spec.name, &why);
                return Ok(());
            }
        };
        let mut tried = Vec::new();
        for pair in 0..PAIRS {
            let index = number << 32 | u64::from(pair);
            let seed = Draw::new(self.experiment.seed, 6, index).number();
            for which in Draw::new(self.experiment.seed, 7, index).order(2) {
                go_on(self.options.interrupt).map_err(|_| Stop::Interrupted)?;
                let changed = which == 1;
                let blank =
                    |spec: &WorkloadSpec| self.blank_runs(trial.side, spec, pair, seed, shared);
                let (mut runs, ended) = if changed {
                    trial.how.run(&mut under_test, &workload, blank)
                } else {
                    run(&mut under_test, &workload, blank)
                };
                match ended {
                    Ok(()) => drop(fail(&mut runs, NOTHING_DONE)),
                    Err(Failure::Interrupted) => return Err(Stop::Interrupted),
                    Err(Failure::Failed(why)) => {
                        fail(&mut runs, &why);
                        self.observer.trouble(&spec.name, &format!("{what}: {why}"));
                    }
                }
                tried.extend(trial.runs_of_records(&workload, runs, pair, changed));
            }
        }
        // They count together or not at all, so they are recorded after the system was checked.
        let damage = self.end(under_test, &spec.name);
        for mut run in tried {
            run.failed = run.failed.or_else(|| damage.clone());
            self.outcome.failed += u32::from(run.failed.is_some());
            self.outcome.runs += 1;
            self.record(Record::Run(Box::new(run)))?;
        }
        Ok(())
    }
}

/// Runs a workload into records that `blank` creates for it.
fn run(
    under_test: &mut UnderTest<'_>,
    workload: &WorkloadSpec,
    blank: impl Fn(&WorkloadSpec) -> Vec<Run>,
) -> (Vec<Run>, Result<(), Failure>) {
    let mut runs = blank(workload);
    let ended = under_test.run(workload, &mut runs);
    (runs, ended)
}

impl How {
    /// Runs a workload with the change.
    fn run(
        &self,
        under_test: &mut UnderTest<'_>,
        workload: &WorkloadSpec,
        blank: impl Fn(&WorkloadSpec) -> Vec<Run>,
    ) -> (Vec<Run>, Result<(), Failure>) {
        match self {
            Self::Workload(other) => run(under_test, other, blank),
            Self::EmptyCaches => {
                let before = std::mem::replace(&mut under_test.empty_caches, true);
                let ended = run(under_test, workload, blank);
                under_test.empty_caches = before;
                ended
            }
            Self::LessCpu => with_less_cpu(|| run(under_test, workload, blank)),
        }
    }
}

/// Returns the same work with another number of actors.
fn with_actors(work: &Work, number: fn(u64) -> u64) -> Option<Work> {
    match work {
        Work::Blocks(work) if work.arrivals_per_s.is_none() => {
            let plan = work.kind.plan(&work.params(0, 1)).ok()?;
            let in_flight = u32::try_from(number(plan.actors_per_stream.into())).ok()?;
            (in_flight <= IN_FLIGHT_MAX).then_some(Work::Blocks(BlockWork {
                in_flight: Some(in_flight),
                ..*work
            }))
        }
        Work::Files(plan) => plan.with_actors(number).map(Work::Files),
        Work::Blocks(_) | Work::Fio(_) | Work::Newfs(_) | Work::Copy(_) | Work::Replay(_) => None,
    }
}

/// Returns true if the phase of a record is a single flush. Without the flush, the phase would be
/// empty.
fn is_flush(plan: &FilePlan, record: usize) -> bool {
    let phases = plan.phases();
    let mut recorded = (0..)
        .zip(&phases)
        .filter(|(_, phase)| phase.counted.is_some());
    let Some((phase, _)) = recorded.nth(record) else {
        return false;
    };
    let mut workload = plan.start(phase);
    let FileNext::Do(first) = workload.step(0, None) else {
        return false;
    };
    matches!(first.action, Action::Fsync(_) | Action::SyncAll)
        && workload.step(0, Some(Answer::default())) == FileNext::Done
}

/// Runs `work` while a thread on each CPU computes for a fifth of the time.
fn with_less_cpu<T>(work: impl FnOnce() -> T) -> T {
    /// Short intervals slow everything down evenly.
    const BUSY: Duration = Duration::from_millis(2);
    const IDLE: Duration = Duration::from_millis(8);
    /// Stops the threads, even if the work panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..cpus {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    while began.elapsed() < BUSY {
                        std::hint::spin_loop();
                    }
                    thread::sleep(IDLE);
                }
            });
        }
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;

    #[test]
    fn only_pure_flush_phases_are_not_tried_without_flushes() {
        let of = |kind: &str, record| {
            let text = format!(
                "name = \"x\"\n[[system]]\nname = \"disk\"\ntarget = \"folder:/tmp\"\n\
                 [[workload]]\nkind = \"{kind}\"\n"
            );
            let experiment = Experiment::parse("x.toml", &text).unwrap();
            is_flush(experiment.workloads[0].files().unwrap(), record)
        };
        assert_eq!([of("untar", 0), of("untar", 1)], [false, true]);
        assert_eq!([of("cp", 0), of("touch", 0)], [false, false]);
    }
}
