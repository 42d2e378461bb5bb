//! Systems that have a baseline of their own, each compared with that: rows of texts for every output.

use spindles_measure::{Analysis, Comparison};

use crate::words;

/// The titles of the columns.
pub(crate) const COLUMNS: &[&str] = &[
    "systems",
    "workload",
    "difference",
    "95 % interval",
    "verdict",
];

/// Which of them are figures.
pub(crate) const FIGURES: std::ops::Range<usize> = 2..4;

/// How to read them.
pub(crate) const CAPTION: &str = "Systems that have a baseline of their own: how their rates differ from \
    those of that one in the same repetition blocks.";

/// A row for each workload on each of them.
pub(crate) fn rows(analysis: &Analysis) -> Vec<[String; 5]> {
    analysis.own_comparisons.iter().map(row).collect()
}

fn row(comparison: &Comparison) -> [String; 5] {
    [
        format!("{} beside {}", comparison.system, comparison.baseline),
        comparison.of(),
        words::difference(comparison),
        words::interval(comparison),
        words::marked(comparison),
    ]
}
