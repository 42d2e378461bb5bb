//! Each system against the mean of several single devices, as published comparisons of 2002 showed
//! it: if the devices differ, no single one is the yardstick.

use std::collections::{BTreeMap, BTreeSet};

use crate::histogram::to_f64;
use crate::results::{AgainstSingles, Cell, Singles, Verdict};
use crate::significance::{UNCORRECTED_COMPARISONS_MAX, verdict};
use crate::statistics::{holm, mean, mean_of_blocks, seed_of};
use crate::{Experiment, Run};

/// Compares all cells. `None` with fewer than two single devices, the control not counted.
pub(crate) fn of(experiment: &Experiment, cells: &[Cell], runs: &[Run]) -> Option<Singles> {
    // A disk listed twice, as under two mounts, counts once. A folder may lie on any of the
    // disks.
    let mut disks = BTreeSet::new();
    let systems: Vec<String> = (experiment.systems.iter())
        .filter(|system| system.level == "single" && !system.is_folder())
        .filter(|system| Some(&system.name) != experiment.control.as_ref())
        .filter(|system| system.expression.is_empty() || disks.insert(&system.expression))
        .map(|system| system.name.clone())
        .collect();
    if systems.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    // At a set arrival rate all systems that keep up have the same rate.
    let is_paced = |name: &str| {
        let mut workloads = experiment.workloads.iter();
        workloads.any(|workload| workload.name == name && workload.arrivals_per_s > 0)
    };
    for cell in cells.iter().filter(|cell| !is_paced(&cell.workload)) {
        if Some(&cell.system) != experiment.control.as_ref() {
            rows.extend(row(experiment, &systems, cell, runs));
        }
    }
    let mut asked: Vec<&mut AgainstSingles> =
        rows.iter_mut().filter(|row| !row.is_single).collect();
    let p_values: Vec<f64> = asked
        .iter()
        .map(|comparison| comparison.log_ratio.p_value)
        .collect();
    let corrected = asked.len() > UNCORRECTED_COMPARISONS_MAX;
    for (row, p) in asked.iter_mut().zip(holm(&p_values)) {
        row.p_corrected = p;
        row.verdict = verdict(&row.log_ratio, corrected.then_some(p), None);
    }
    Some(Singles { systems, rows })
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

/// CPU time of the whole machine for each unit counted. 0 if unknown.
fn cpu_per_counted(run: &Run) -> f64 {
    match run.counted {
        0 => 0.0,
        counted => to_f64(run.cpu_ns.machine) / to_f64(counted),
    }
}

/// Log-ratio of a system's figure to the mean of the singles' in the runs of one block. `None` if a
/// figure is missing or 0.
fn log_ratio(system: &str, singles: &[String], runs: &[&Run], of: fn(&Run) -> f64) -> Option<f64> {
    let figure = |name: &str| {
        let mut runs = runs.iter();
        let run = runs.find(|run| run.system.name == name)?;
        Some(of(run)).filter(|figure| *figure > 0.0)
    };
    let theirs: Option<Vec<f64>> = singles.iter().map(|name| figure(name)).collect();
    Some((figure(system)? / mean(&theirs?)).ln())
}
