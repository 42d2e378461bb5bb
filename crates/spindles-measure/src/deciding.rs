//! Which numbers decided a prediction: correlations of drawn numbers with ratios, and the ratios
//! that faster parts bring.

use std::collections::{BTreeMap, BTreeSet};

use crate::analyse::cells_of;
use crate::prediction_check::paired_blocks;
use crate::results::{Correlation, Deciding, Help};
use crate::statistics::{holm, mean_of_blocks, rank_correlation, seed_of};
use crate::{Analysis, Comparison, Predicted, Run, SIGNIFICANCE};

/// The most numbers that are named for a ratio.
const NAMED_MAX: usize = 5;

/// Correlates every drawn number with every ratio to a baseline.
pub(crate) fn deciding(analysis: &Analysis) -> Vec<Deciding> {
    let draws = Draws::of(&analysis.runs);
    if draws.columns.is_empty() {
        return Vec::new();
    }
    let compared = analysis
        .comparisons
        .iter()
        .filter(|comparison| !comparison.control);
    compared
        .filter_map(|comparison| of_comparison(analysis, comparison, &draws))
        .collect()
}

fn of_comparison(analysis: &Analysis, of: &Comparison, draws: &Draws<'_>) -> Option<Deciding> {
    let cell = analysis.cell(&of.system, &of.workload)?;
    let base = analysis.cell(&of.baseline, &of.workload)?;
    let ratios = paired_blocks(cell, base, of.quantity);
    let correlations = draws.columns.iter().filter_map(|(name, values)| {
        let pairs = ratios.iter();
        let pairs = pairs.filter_map(|(block, ratio)| Some((*values.get(block)?, *ratio)));
        let (correlation, p_value) = rank_correlation(&pairs.collect::<Vec<_>>())?;
        Some((name, correlation, p_value))
    });
    let correlations: Vec<(&String, f64, f64)> = correlations.collect();
    if correlations.is_empty() {
        return None;
    }
    let p_values: Vec<f64> = correlations
        .iter()
        .map(|(_, _, p_value)| *p_value)
        .collect();
    let corrected = correlations.iter().zip(holm(&p_values));
    let mut numbers: Vec<Correlation> = corrected
        .filter(|(_, p)| *p < SIGNIFICANCE)
        .map(|(&(name, correlation, _), p_corrected)| Correlation {
            name: name.clone(),
            correlation,
            p_corrected,
        })
        .collect();
    numbers.sort_by(|a, b| b.correlation.abs().total_cmp(&a.correlation.abs()));
    numbers.truncate(NAMED_MAX);
    Some(Deciding {
        system: of.system.clone(),
        baseline: of.baseline.clone(),
        workload: of.workload.clone(),
        quantity: of.quantity,
        draws: ratios.len(),
        tested: correlations.len(),
        numbers,
    })
}

/// The drawn numbers by name and block. A word of a switch counts as 1 if it was
/// drawn, else as 0.
struct Draws<'a> {
    columns: BTreeMap<String, BTreeMap<u32, f64>>,
    of_blocks: BTreeMap<u32, &'a Predicted>,
}

impl<'a> Draws<'a> {
    fn of(runs: &'a [Run]) -> Self {
        let mut draws = Self {
            columns: BTreeMap::new(),
            of_blocks: BTreeMap::new(),
        };
        for run in runs {
            if let Some(predicted) = &run.predicted {
                draws
                    .of_blocks
                    .entry(run.repetition_block)
                    .or_insert(predicted);
            }
        }
        draws.add_numbers();
        draws.add_words();
        draws
    }

    fn add_numbers(&mut self) {
        for (block, predicted) in &self.of_blocks {
            for (name, value) in &predicted.numbers {
                let column = self.columns.entry(name.clone()).or_default();
                column.insert(*block, *value);
            }
        }
    }

    /// Adds a column for each word; of two words one, as the other is its opposite.
    fn add_words(&mut self) {
        let mut words: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for predicted in self.of_blocks.values() {
            for (name, word) in &predicted.switches {
                words.entry(name).or_default().insert(word);
            }
        }
        for (name, words) in words {
            let opposite = usize::from(words.len() == 2);
            for word in words.into_iter().skip(opposite) {
                let drawn = self.of_blocks.iter();
                let column = drawn.filter_map(|(block, predicted)| {
                    let is_drawn = predicted.switches.get(name)? == word;
                    Some((*block, f64::from(u8::from(is_drawn))))
                });
                let column = column.collect();
                self.columns.insert(format!("{name} = {word}"), column);
            }
        }
    }
}

/// Compares the runs with a faster part with the unchanged ones of the same draws.
pub(crate) fn help(analysis: &Analysis) -> Vec<Help> {
    let mut by_part: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &analysis.faster {
        if let Some(part) = run.faster_part() {
            by_part.entry(part).or_default().push(run);
        }
    }
    let mut all = Vec::new();
    for (part, runs) in by_part {
        for cell in cells_of(&analysis.experiment, &runs) {
            let workloads = &analysis.experiment.workloads;
            let workload = workloads
                .iter()
                .find(|workload| workload.name == cell.workload);
            let quantity =
                workload.and_then(|workload| analysis.quantities(workload).first().copied());
            let unchanged = analysis.cell(&cell.system, &cell.workload);
            let (Some(quantity), Some(unchanged)) = (quantity, unchanged) else {
                continue;
            };
            let logs = paired_blocks(&cell, unchanged, quantity).into_iter();
            let logs: Vec<f64> = logs.map(|(_, log)| log).collect();
            let seed = seed_of(analysis.experiment.seed, &[&cell.system, &cell.workload]);
            all.push(Help {
                part: part.to_owned(),
                log_ratio: mean_of_blocks(&logs, seed),
                system: cell.system,
                workload: cell.workload,
                quantity,
            });
        }
    }
    all
}
