//! The drawn numbers that decided each ratio of a prediction.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use spindles_measure::{Analysis, Deciding};

pub(super) static SECTION: Section = Section {
    name: "deciding-numbers",
    title: "Which numbers decided",
    body: Body::Table(&TABLE),
};

pub(crate) static TABLE: TextTable = TextTable {
    caption: "Spearman's rank correlation of each drawn number with the ratio to the baseline, \
        over the draws. Above 0, a larger number favours the system. Of each ratio the five \
        largest are listed that hold at 5 % after Holm's correction for all its numbers.",
    class: |_| "glance",
    columns,
};

fn columns(analysis: &Analysis) -> Vec<Column> {
    let titles = [
        ("workload, system", false, 0),
        ("number", false, 0),
        ("correlation", true, 0),
        ("p", true, 1),
    ];
    let titles = titles.map(|(title, figures, gives_way)| (title.to_owned(), figures, gives_way));
    let rows: Vec<[String; 4]> = analysis.deciding.iter().flat_map(rows).collect();
    Column::of_rows(titles, &rows)
}

fn rows(of: &Deciding) -> Vec<[String; 4]> {
    let name = format!("{}, {}", of.quantity.of(&of.workload), of.system);
    if of.numbers.is_empty() {
        let none = format!("none of {} beyond chance in {} draws", of.tested, of.draws);
        return vec![[name, none, String::new(), String::new()]];
    }
    let numbers = of.numbers.iter().map(|number| {
        [
            name.clone(),
            number.name.clone(),
            correlation(number.correlation),
            p_value(number.p_corrected),
        ]
    });
    numbers.collect()
}

/// Formats a correlation with its sign.
pub(crate) fn correlation(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{:.2}", value.abs())
}

fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}
