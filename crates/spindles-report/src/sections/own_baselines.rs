//! Comparisons of systems with baselines of their own.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use crate::words;
use spindles_measure::{Analysis, Comparison};

pub(super) static SECTION: Section = Section {
    name: "own-baselines",
    title: "Against their own baselines",
    body: Body::Table(&TABLE),
};

pub(crate) static TABLE: TextTable = TextTable {
    caption: "Systems with a baseline of their own: the difference of their rates from that \
        baseline in the same repetition blocks.",
    class: |_| "full",
    columns,
};

/// One row for each such system and workload.
fn columns(analysis: &Analysis) -> Vec<Column> {
    let titles = [
        ("systems", false, 0),
        ("workload", false, 0),
        ("difference", true, 0),
        // If a terminal is too narrow even for marks, which the overview explains, drop the
        // interval.
        ("95 % interval", true, 1),
        ("verdict", false, 0),
    ];
    let titles = titles.map(|(title, figures, expendable)| (title.to_owned(), figures, expendable));
    let rows: Vec<[String; 5]> = analysis.own_comparisons.iter().map(row).collect();
    Column::of_rows(titles, &rows)
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
