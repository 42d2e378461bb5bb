//! Joins the records of consecutive experiments (the same one run again).

use std::collections::BTreeMap;

use crate::{Calibration, Discard, Environment, Experiment, Record, Run};

/// Records of the joined experiments.
pub(super) struct Joined {
    pub(super) experiment: Experiment,
    pub(super) environment: Environment,
    pub(super) calibration: Option<Calibration>,
    pub(super) runs: Vec<Run>,
    pub(super) trials: Vec<Run>,
    pub(super) faster: Vec<Run>,
    pub(super) recorded_again: usize,
}

/// Offsets added to the numbers of an experiment's runs, so that they follow those of earlier ones.
#[derive(Clone, Copy, Default)]
struct Offsets {
    block: u32,
    order: u32,
    pair: u32,
}

impl Offsets {
    fn after(runs: &[Run], trials: &[Run]) -> Self {
        let next = |of: fn(&Run) -> u32| {
            let numbers = runs.iter().map(of);
            numbers
                .map(|number| number.saturating_add(1))
                .max()
                .unwrap_or(0)
        };
        let pairs = trials.iter().filter_map(|run| run.trial.as_ref());
        Self {
            block: next(|run| run.repetition_block),
            order: next(|run| run.order),
            pair: pairs
                .map(|pair| pair.pair.saturating_add(1))
                .max()
                .unwrap_or(0),
        }
    }
}

impl Offsets {
    /// Returns a run with its numbers after those of earlier experiments.
    fn shifted(self, run: &Run) -> Run {
        let mut run = run.clone();
        if let Some(trial) = &mut run.trial {
            trial.pair = trial.pair.saturating_add(self.pair);
        } else {
            run.repetition_block = run.repetition_block.saturating_add(self.block);
            run.order = run.order.saturating_add(self.order);
        }
        run
    }
}

/// Collects the records. Runs of a later experiment follow those of the earlier.
pub(super) fn joined(records: &[Record]) -> Joined {
    let mut experiments: Vec<(&Experiment, Offsets)> = Vec::new();
    let mut environment: Option<Environment> = None;
    let mut calibration: Option<Calibration> = None;
    let mut runs: Vec<Run> = Vec::new();
    let mut trials: Vec<Run> = Vec::new();
    let mut faster: Vec<Run> = Vec::new();
    let mut discards: Vec<(&Discard, u32)> = Vec::new();
    let mut known: BTreeMap<Identity, Vec<&Run>> = BTreeMap::new();
    let mut offsets = Offsets::default();
    let mut recorded_again = 0;
    for record in records {
        match record {
            Record::Experiment(this) => {
                // An experiment recorded again, as in concatenated files, is not a later one.
                let mut earlier = experiments.iter();
                let same =
                    earlier.find(|(experiment, _)| this.started_unix_ms > 0 && *experiment == this);
                offsets = match same {
                    Some((_, offsets)) => *offsets,
                    None => Offsets::after(&runs, &trials),
                };
                experiments.push((this, offsets));
            }
            Record::Environment(this) => {
                environment.get_or_insert_with(|| this.clone());
            }
            Record::Calibration(this) => {
                calibration.get_or_insert_with(|| Calibration::clone(this));
            }
            Record::Run(run) => {
                // Without a start time, a run recorded twice cannot be distinguished from two equal
                // runs.
                if run.started_unix_ms > 0 {
                    let alike = known.entry(identity(run)).or_default();
                    if alike.contains(&&**run) {
                        recorded_again += 1;
                        continue;
                    }
                    alike.push(run);
                }
                let run = offsets.shifted(run);
                let list = match (&run.trial, run.faster_part()) {
                    (Some(_), _) => &mut trials,
                    (None, Some(_)) => &mut faster,
                    (None, None) => &mut runs,
                };
                list.push(run);
            }
            Record::Discard(this) => {
                let block = this.repetition_block.saturating_add(offsets.block);
                discards.push((this, block));
            }
        }
    }
    withdraw(&mut runs, discards);
    Joined {
        experiment: experiments
            .first()
            .map_or_else(Experiment::default, |(experiment, _)| (*experiment).clone()),
        environment: environment.unwrap_or_default(),
        calibration,
        runs,
        trials,
        faster,
        recorded_again,
    }
}

/// What a run recorded again has in common with the first: its times, seed, system and workload.
type Identity<'a> = (u64, u64, u64, &'a str, &'a str);

fn identity(run: &Run) -> Identity<'_> {
    (
        run.started_unix_ms,
        run.elapsed_ns,
        run.seed,
        &run.system.name,
        &run.workload.name,
    )
}

/// Marks the runs of discarded systems as failed, each in the given repetition block.
fn withdraw(runs: &mut [Run], discards: Vec<(&Discard, u32)>) {
    for (discard, block) in discards {
        let is_its = |run: &&mut Run| {
            run.experiment == discard.experiment
                && run.system.name == discard.system
                && run.repetition_block == block
        };
        for run in runs.iter_mut().filter(is_its) {
            run.failed.get_or_insert_with(|| discard.why.clone());
        }
    }
}

/// Adds every system and workload that has a run, even if the experiment's own record is missing or
/// cut short.
pub(super) fn completed(mut experiment: Experiment, runs: &[Run]) -> Experiment {
    for run in runs {
        if !experiment
            .systems
            .iter()
            .any(|system| system.name == run.system.name)
        {
            experiment.systems.push(run.system.clone());
        }
        if !experiment
            .workloads
            .iter()
            .any(|workload| workload.name == run.workload.name)
        {
            experiment.workloads.push(run.workload.clone());
        }
        experiment.scaled |= run.scaled;
        experiment.shared_device |= run.shared_device;
    }
    if experiment.name.is_empty() {
        experiment.name.clone_from(&runs[0].experiment);
    }
    let known = experiment
        .systems
        .iter()
        .any(|system| system.name == experiment.baseline);
    if !known {
        let single = experiment
            .systems
            .iter()
            .find(|system| system.level == "single");
        let baseline = single.or(experiment.systems.first());
        experiment.baseline = baseline.map_or(String::new(), |system| system.name.clone());
    }
    experiment
}
