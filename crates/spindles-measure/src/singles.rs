//! Each system against the mean of several single devices, as comparisons of the year 2002 drew it:
//! where the devices differ, neither of them is the yardstick.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::{Cell, UNCORRECTED_COMPARISONS_MAX, Verdict, seed_of, verdict};
use crate::histogram::to_f64;
use crate::statistics::{Estimate, holm, mean, mean_of_blocks};
use crate::{Experiment, Run};

/// Each system against the mean of several single devices.
#[derive(Clone, Debug, Serialize)]
pub struct Singles {
    /// Names of the single devices, without the control.
    pub systems: Vec<String>,
    /// One for each system and workload, the single devices among them: how far each is from the mean
    /// of all.
    pub rows: Vec<AgainstSingles>,
}

/// One system in one workload against the mean of the single devices in the same blocks.
#[derive(Clone, Debug, Serialize)]
pub struct AgainstSingles {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Whether it is one of the single devices.
    pub is_single: bool,
    /// Log-ratio of its rate to their arithmetic mean: mean over blocks.
    pub log_ratio: Estimate,
    /// The p-value after Holm's correction.
    pub p_corrected: f64,
    /// What it came to.
    pub verdict: Verdict,
    /// Log-ratio of its CPU time to the mean of theirs, the whole machine's for each byte or operation
    /// counted, where it was measured.
    pub cpu: Option<Estimate>,
}

impl Singles {
    /// `None` where there are no two single devices beside the control.
    pub(crate) fn of(experiment: &Experiment, cells: &[Cell], runs: &[Run]) -> Option<Self> {
        // A disk that is there twice, as under two mounts, is one; and a folder may lie on any of them.
        let mut disks = BTreeSet::new();
        let systems: Vec<String> = (experiment.systems.iter())
            .filter(|it| it.level == "single" && !it.is_folder())
            .filter(|it| Some(&it.name) != experiment.control.as_ref())
            .filter(|it| it.expression.is_empty() || disks.insert(&it.expression))
            .map(|it| it.name.clone())
            .collect();
        if systems.len() < 2 {
            return None;
        }
        let mut rows = Vec::new();
        // At a set rate all systems that keep up answer as much.
        let is_paced = |name: &str| {
            let mut workloads = experiment.workloads.iter();
            workloads.any(|it| it.name == name && it.arrivals_per_s > 0)
        };
        for cell in cells.iter().filter(|cell| !is_paced(&cell.workload)) {
            if Some(&cell.system) != experiment.control.as_ref() {
                rows.extend(row(experiment, &systems, cell, runs));
            }
        }
        let mut asked: Vec<&mut AgainstSingles> =
            rows.iter_mut().filter(|it| !it.is_single).collect();
        let p_values: Vec<f64> = asked.iter().map(|it| it.log_ratio.p_value).collect();
        let corrected = asked.len() > UNCORRECTED_COMPARISONS_MAX;
        for (row, p) in asked.iter_mut().zip(holm(&p_values)) {
            row.p_corrected = p;
            row.verdict = verdict(&row.log_ratio, corrected.then_some(p), None);
        }
        Some(Self { systems, rows })
    }

    /// Their names as a list: `wd0 and wd1`.
    pub fn names(&self) -> String {
        match &self.systems[..] {
            [all @ .., last] => format!("{} and {last}", all.join(", ")),
            [] => String::new(),
        }
    }
}

fn row(
    experiment: &Experiment,
    singles: &[String],
    cell: &Cell,
    runs: &[Run],
) -> Option<AgainstSingles> {
    let good = |run: &&Run| run.workload.name == cell.workload && run.failed.is_none();
    let mut blocks: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
    for run in runs.iter().filter(good) {
        blocks.entry(run.repetition_block).or_default().push(run);
    }
    let estimate = |what: &str, of: fn(&Run) -> f64| {
        let ratios: Vec<f64> = (blocks.values())
            .filter_map(|runs| log_ratio(&cell.system, singles, runs, of))
            .collect();
        let seed = seed_of(experiment.seed, &[&cell.system, &cell.workload, what]);
        (!ratios.is_empty()).then(|| mean_of_blocks(&ratios, seed))
    };
    let log_ratio = estimate("against the singles", Run::per_second)?;
    Some(AgainstSingles {
        system: cell.system.clone(),
        workload: cell.workload.clone(),
        is_single: singles.contains(&cell.system),
        p_corrected: log_ratio.p_value,
        verdict: Verdict::NoDifferenceShown,
        log_ratio,
        cpu: estimate("cpu against the singles", cpu_per_counted),
    })
}

/// CPU time of the whole machine for each thing counted; 0 where it is not known.
fn cpu_per_counted(run: &Run) -> f64 {
    match run.counted {
        0 => 0.0,
        counted => to_f64(run.cpu_ns.machine) / to_f64(counted),
    }
}

/// In the runs of one block: the logarithm of a system's figure less that of the mean of the singles'.
/// `None` where one of them is missing or 0.
fn log_ratio(system: &str, singles: &[String], runs: &[&Run], of: fn(&Run) -> f64) -> Option<f64> {
    let figure = |name: &str| {
        let mut runs = runs.iter();
        let run = runs.find(|run| run.system.name == name)?;
        Some(of(run)).filter(|figure| *figure > 0.0)
    };
    let theirs: Option<Vec<f64>> = singles.iter().map(|name| figure(name)).collect();
    Some((figure(system)? / mean(&theirs?)).ln())
}
