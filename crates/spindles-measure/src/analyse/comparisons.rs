//! Compares the cells with those of the baselines.

use std::collections::BTreeMap;

use crate::Experiment;
use crate::questions::{baseline_of, design_error_of, quantities_of};
use crate::results::{Cell, Comparison, Quantity, Verdict};
use crate::significance::{UNCORRECTED_COMPARISONS_MAX, verdict, verdict_of_pair};
use crate::statistics::{DesignError, holm, mean_of_blocks, median_of_blocks, seed_of};

/// Returns the comparisons with the experiment's baseline, and those with baselines of their own.
pub(super) fn comparisons_of(
    experiment: &Experiment,
    cells: &[Cell],
) -> (Vec<Comparison>, Vec<Comparison>) {
    let mut comparisons = compared_with(experiment, cells, |cell| {
        let baseline = baseline_of(experiment, cells, &cell.workload)?;
        (cell.system != baseline).then_some(baseline)
    });
    let own = compared_with(experiment, cells, |cell| {
        let mut systems = experiment.systems.iter();
        let system = systems.find(|system| system.name == cell.system);
        system.and_then(|system| system.baseline.as_deref())
    });

    let errors = design_errors(experiment, cells);
    let with_baseline = comparisons.len();
    comparisons.extend(own);
    // The A/A pairs measure the noise of the others, so they are corrected separately.
    let asked = correct(&mut comparisons, &errors, |c| !c.control);
    correct(&mut comparisons, &errors, |c| c.control);
    let floors: BTreeMap<Question, f64> = comparisons
        .iter()
        .filter(|c| c.control && c.log_ratio.blocks > 0)
        .map(|c| (question(c), c.log_ratio.value.abs()))
        .collect();
    let corrected = asked > UNCORRECTED_COMPARISONS_MAX;
    for comparison in &mut comparisons {
        if !comparison.control {
            comparison.noise_floor = floors.get(&question(comparison)).copied();
        }
        let floors = comparison.noise_floor.into_iter();
        comparison.noise_floor = floors.chain(comparison.quantity.floor()).reduce(f64::max);
        if comparison.control {
            comparison.verdict = verdict_of_pair(&comparison.log_ratio);
            continue;
        }
        let p = corrected.then_some(comparison.p_corrected);
        let of = |p| verdict(&comparison.log_ratio, p, comparison.noise_floor);
        let (alone, among_others) = (of(None), of(p));
        comparison.verdict = among_others;
        comparison.not_shown_among = (alone != among_others).then_some(asked);
    }
    let own = comparisons.split_off(with_baseline);
    (comparisons, own)
}

/// A workload and the quantity in which systems are compared.
type Question = (String, Quantity);

fn question(comparison: &Comparison) -> Question {
    (comparison.workload.clone(), comparison.quantity)
}

/// Compares every cell with the cell of the system that `baseline` names.
fn compared_with<'a>(
    experiment: &Experiment,
    cells: &[Cell],
    baseline: impl Fn(&Cell) -> Option<&'a str>,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for workload in &experiment.workloads {
        let mine = || cells.iter().filter(|cell| cell.workload == workload.name);
        for cell in mine() {
            let name = baseline(cell);
            let Some(other) = name.and_then(|name| mine().find(|cell| cell.system == name)) else {
                continue;
            };
            let quantities = quantities_of(workload, cells).iter();
            all.extend(quantities.map(|&quantity| compared(experiment, cell, other, quantity)));
        }
    }
    all
}

/// Applies Holm's correction to the comparisons that `is_asked` selects. A pair that occurs twice
/// counts once: a system's own baseline may also be the experiment's. Returns the number of pairs.
fn correct(
    comparisons: &mut [Comparison],
    errors: &BTreeMap<Question, DesignError>,
    is_asked: impl Fn(&Comparison) -> bool,
) -> usize {
    let pair = |comparison: &Comparison| {
        (
            comparison.system.clone(),
            comparison.baseline.clone(),
            question(comparison),
        )
    };
    let asked = comparisons.iter().filter(|comparison| is_asked(comparison));
    let asked = asked.map(|comparison| {
        let p_value = match errors.get(&question(comparison)) {
            Some(error) => error.p_value(comparison.log_ratio.value),
            None => comparison.log_ratio.p_value,
        };
        (pair(comparison), p_value)
    });
    let (pairs, p_values): (Vec<_>, Vec<f64>) =
        asked.collect::<BTreeMap<_, _>>().into_iter().unzip();
    let corrected: BTreeMap<_, f64> = pairs.into_iter().zip(holm(&p_values)).collect();
    for comparison in comparisons
        .iter_mut()
        .filter(|comparison| is_asked(comparison))
    {
        comparison.p_corrected = corrected[&pair(comparison)];
    }
    corrected.len()
}

/// For each question, the error of its blocks × systems design over the complete blocks.
fn design_errors(experiment: &Experiment, cells: &[Cell]) -> BTreeMap<Question, DesignError> {
    let mut errors = BTreeMap::new();
    let asked = experiment.workloads.iter().flat_map(|workload| {
        let quantities = quantities_of(workload, cells).iter();
        quantities.map(move |&quantity| (workload, quantity))
    });
    for (workload, quantity) in asked {
        if let Some(error) = design_error_of(cells, workload, quantity) {
            errors.insert((workload.name.clone(), quantity), error);
        }
    }
    errors
}

fn compared(
    experiment: &Experiment,
    cell: &Cell,
    baseline: &Cell,
    quantity: Quantity,
) -> Comparison {
    let logs: Vec<f64> = cell
        .repetitions
        .iter()
        .filter_map(|mine| {
            let theirs = baseline
                .repetitions
                .iter()
                .find(|other| other.block == mine.block)?;
            Some((mine.speed(quantity)? / theirs.speed(quantity)?).ln())
        })
        .collect();
    let seed = seed_of(experiment.seed, &[&cell.system, &cell.workload]);
    let log_ratio = mean_of_blocks(&logs, seed);
    Comparison {
        system: cell.system.clone(),
        baseline: baseline.system.clone(),
        workload: cell.workload.clone(),
        quantity,
        control: Some(&cell.system) == experiment.control.as_ref()
            && baseline.system == experiment.baseline,
        log_ratio_median: median_of_blocks(&logs, seed),
        p_corrected: log_ratio.p_value,
        not_shown_among: None,
        noise_floor: None,
        verdict: Verdict::NoDifferenceShown,
        log_ratio,
    }
}
