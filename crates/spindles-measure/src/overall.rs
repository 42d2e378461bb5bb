//! Each system over all workloads: the geometric mean of its ratios to the baseline. For normalised
//! results it is the only mean that doesn't depend on the reference (Fleming and Wallace 1986).
//! Every workload counts the same. A workload whose ratio says nothing about speed is left out for
//! all systems: only means over the same workloads can be compared.

use std::collections::BTreeMap;

use crate::results::{Cell, Comparison, LeftOut, OverallScope, Quantity, Reason, Verdict};
use crate::significance::{verdict, verdict_of_pair};
use crate::statistics::{mean, mean_of_blocks, median_of_blocks, seed_of};
use crate::{Analysis, Experiment, Workload};

fn scope_of(analysis: &Analysis) -> OverallScope {
    let mut scope = OverallScope::default();
    for workload in &analysis.experiment.workloads {
        // A workload without any comparison has nothing to leave out.
        if has_comparison(analysis, workload) {
            match reason(analysis, workload) {
                None => scope.workloads.push(workload.name.clone()),
                Some(reason) => scope.left_out.push(LeftOut {
                    workload: workload.name.clone(),
                    reason,
                }),
            }
        }
    }
    scope
}

fn has_comparison(analysis: &Analysis, workload: &Workload) -> bool {
    let mut comparisons = analysis.comparisons.iter();
    // The baseline against itself alone is no comparison.
    comparisons.any(|comparison| {
        comparison.workload == workload.name
            && comparison.log_ratio.blocks > 0
            && !comparison.control
    })
}

/// Returns why a workload does not count, if so.
fn reason(analysis: &Analysis, workload: &Workload) -> Option<Reason> {
    let cells = || {
        analysis
            .cells
            .iter()
            .filter(|cell| cell.workload == workload.name)
    };
    if workload.arrivals_per_s > 0 {
        Some(Reason::SetRate)
    } else if analysis.baseline_of(&workload.name) != analysis.experiment.baseline {
        Some(Reason::NoBaseline)
    } else if cells().any(|cell| analysis.is_refused(cell)) {
        Some(Reason::Refused)
    } else if analysis.experiment.total_with(&workload.name).is_some() {
        Some(Reason::InTotal)
    } else if cells().any(Cell::is_cached) {
        Some(Reason::Cached)
    } else if cells().any(|cell| analysis.seconds_if_short(cell).is_some()) {
        Some(Reason::TooShort)
    } else {
        None
    }
}

/// Compares each system over the workloads that count, if it ran at least two. The `workload` of
/// each result gives their number.
pub(crate) fn of(analysis: &Analysis) -> (Vec<Comparison>, OverallScope) {
    let scope = scope_of(analysis);
    let systems = analysis.experiment.systems.iter();
    let mut overall: Vec<Comparison> = systems
        .filter_map(|system| {
            let mine: Vec<&Comparison> = analysis
                .comparisons
                .iter()
                .filter(|comparison| {
                    comparison.system == system.name && comparison.log_ratio.blocks > 0
                })
                .filter(|comparison| scope.workloads.contains(&comparison.workload))
                .collect();
            (mine.len() > 1).then(|| overall_of(&analysis.experiment, &analysis.cells, &mine))
        })
        .collect();
    let floor = (overall.iter())
        .find(|comparison| comparison.control && comparison.log_ratio.blocks > 0)
        .map(|comparison| comparison.log_ratio.value.abs());
    for comparison in &mut overall {
        if !comparison.control {
            comparison.noise_floor = floor;
        }
        comparison.verdict = if comparison.control {
            verdict_of_pair(&comparison.log_ratio)
        } else {
            verdict(&comparison.log_ratio, None, comparison.noise_floor)
        };
    }
    (overall, scope)
}

fn overall_of(experiment: &Experiment, cells: &[Cell], mine: &[&Comparison]) -> Comparison {
    let first = mine[0];
    let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for comparison in mine {
        for (block, log_ratio) in ratios(cells, comparison) {
            by_block.entry(block).or_default().push(log_ratio);
        }
    }
    // Skip blocks without one of the workloads: their mean would cover fewer workloads.
    let whole = by_block.values().filter(|logs| logs.len() == mine.len());
    let means: Vec<f64> = whole.map(|logs| mean(logs)).collect();
    let seed = seed_of(experiment.seed, &[&first.system, "overall"]);
    let log_ratio = mean_of_blocks(&means, seed);
    Comparison {
        system: first.system.clone(),
        baseline: first.baseline.clone(),
        workload: format!("{} workloads", mine.len()),
        quantity: Quantity::Rate,
        control: first.control,
        log_ratio_median: median_of_blocks(&means, seed),
        p_corrected: log_ratio.p_value,
        not_shown_among: None,
        noise_floor: None,
        verdict: Verdict::NoDifferenceShown,
        log_ratio,
    }
}

/// The log-ratios of a comparison, by block.
fn ratios(cells: &[Cell], comparison: &Comparison) -> Vec<(u32, f64)> {
    let cell = |system: &str| {
        let mut cells = cells.iter();
        cells.find(|cell| cell.workload == comparison.workload && cell.system == system)
    };
    let (Some(mine), Some(theirs)) = (cell(&comparison.system), cell(&comparison.baseline)) else {
        return Vec::new();
    };
    let repetitions = mine.repetitions.iter().filter_map(|mine| {
        let mut others = theirs.repetitions.iter();
        let other = others.find(|other| other.block == mine.block)?;
        Some((mine.block, (mine.per_second / other.per_second).ln()))
    });
    repetitions.collect()
}
