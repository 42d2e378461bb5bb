//! Comparisons of systems with baselines of their own, as rows of text for every output.

use spindles_measure::{Analysis, Comparison};

use crate::words;

/// Titles of the columns.
pub(crate) const COLUMNS: &[&str] = &[
    "systems",
    "workload",
    "difference",
    "95 % interval",
    "verdict",
];

/// Columns that hold figures.
pub(crate) const FIGURES: std::ops::Range<usize> = 2..4;

/// How to read the table.
pub(crate) const CAPTION: &str = "Systems that have a baseline of their own: how their rates \
    differ from the rates of that baseline in the same repetition blocks.";

/// One row for each such system and workload.
pub(crate) fn rows(analysis: &Analysis) -> Vec<[String; 5]> {
    analysis.own_comparisons.iter().map(row).collect()
}

fn row(comparison: &Comparison) -> [String; 5] {
    [
        format!("{} vs {}", comparison.system, comparison.baseline),
        comparison.of(),
        words::difference(comparison),
        words::interval(comparison),
        words::marked(comparison),
    ]
}
