//! Each system over all workloads: the geometric mean of its ratios to the baseline. Of normalised
//! results it is the one mean that doesn't depend on what they are normalised to (Fleming and
//! Wallace 1986). Every workload counts the same; those whose rate was set beforehand don't count.

use std::collections::BTreeMap;

use crate::Experiment;
use crate::analysis::{Cell, Comparison, Verdict, seed_of, verdict};
use crate::statistics::{mean, mean_of_blocks, median_of_blocks};

/// One for each system that is compared in at least two workloads; the `workload` of each says of how
/// many it is.
pub(crate) fn comparisons(
    experiment: &Experiment,
    cells: &[Cell],
    comparisons: &[Comparison],
) -> Vec<Comparison> {
    // What comes at a set rate is answered at that rate by whoever can.
    let paced = experiment
        .workloads
        .iter()
        .filter(|it| it.arrivals_per_s > 0);
    let paced: Vec<&String> = paced.map(|it| &it.name).collect();
    let systems = experiment.systems.iter();
    let mut overall: Vec<Comparison> = systems
        .filter_map(|system| {
            let mine: Vec<&Comparison> = comparisons
                .iter()
                .filter(|it| it.system == system.name && it.log_ratio.blocks > 0)
                .filter(|it| !paced.contains(&&it.workload))
                .collect();
            (mine.len() > 1).then(|| overall_of(experiment, cells, &mine))
        })
        .collect();
    let floor = (overall.iter())
        .find(|it| it.control && it.log_ratio.blocks > 0)
        .map(|it| it.log_ratio.value.abs());
    for comparison in &mut overall {
        if !comparison.control {
            comparison.noise_floor = floor;
        }
        comparison.verdict = verdict(&comparison.log_ratio, None, comparison.noise_floor);
    }
    overall
}

fn overall_of(experiment: &Experiment, cells: &[Cell], mine: &[&Comparison]) -> Comparison {
    let first = mine[0];
    let mut by_block: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for comparison in mine {
        for (block, log_ratio) in ratios(cells, comparison) {
            by_block.entry(block).or_default().push(log_ratio);
        }
    }
    // A block without one of the workloads is a mean of something else.
    let whole = by_block.values().filter(|logs| logs.len() == mine.len());
    let means: Vec<f64> = whole.map(|logs| mean(logs)).collect();
    let seed = seed_of(experiment.seed, &[&first.system, "overall"]);
    let log_ratio = mean_of_blocks(&means, seed);
    Comparison {
        system: first.system.clone(),
        baseline: first.baseline.clone(),
        workload: format!("{} workloads", mine.len()),
        control: first.control,
        log_ratio_median: median_of_blocks(&means, seed),
        p_corrected: log_ratio.p_value,
        noise_floor: None,
        verdict: Verdict::NoDifferenceShown,
        log_ratio,
    }
}

/// The log-ratios of a comparison, block by block.
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
