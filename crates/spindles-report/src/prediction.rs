//! A prediction next to a measurement, as sentences and as columns of text for every output.

use spindles_measure::{CheckedFigure, Coverage, PredictionCheck};

use crate::comparisons::Column;
use crate::{figures, words};

/// How to read the tables.
pub(crate) const CAPTION: &str = "The band holds the figure of one more draw with 95 % \
    probability, if the model is right. The error is the prediction's, in percent of the \
    measurement.";

/// Describes both sides: the experiment, its start, the path of its records, and the models.
pub(crate) fn sides(check: &PredictionCheck) -> [String; 2] {
    let (predicted, measured) = &check.read_from;
    let models = match &check.models[..] {
        [] => String::new(),
        models => format!("disks {}", models.join(", ")),
    };
    // Virtual time has no date.
    let predicted = [&check.predicted.0, &models, predicted];
    let date = figures::date(check.measured.1);
    let measured = [&check.measured.0, &date, measured];
    [predicted, measured].map(|facts| words::joined(&facts.map(String::as_str)))
}

/// Sums up the errors, the coverage and the order of systems.
pub(crate) fn sentences(check: &PredictionCheck) -> Vec<String> {
    let mut all = vec![coverage("figures", &check.of_figures)];
    if check.of_ratios.rows > 0 {
        all.push(coverage("ratios to the baseline", &check.of_ratios));
    }
    let order = &check.order;
    if order.pairs > 0 {
        let mut said = format!(
            "Order: {} of {} pairs of systems are as predicted",
            order.agree, order.pairs
        );
        said += &match order.shown {
            0 => "; for none do both sides show a difference.".to_owned(),
            shown => format!(
                "; of {shown} for which both sides show a difference, {}.",
                order.shown_agree
            ),
        };
        all.push(said);
    }
    for (workload, faster, slower) in &order.against {
        all.push(format!(
            "{workload}: {faster} is slower than {slower}, and was predicted to be faster."
        ));
    }
    all
}

fn coverage(what: &str, of: &Coverage) -> String {
    let error = figures::signed(of.median_error * 100.0);
    let error = error.trim_start_matches('+');
    let said = format!("Median error of {} {what}: {error} %", of.rows);
    match of.with_band {
        0 => format!("{said}; a band needs two draws."),
        with_band => format!("{said}; {} of {with_band} in the band.", of.in_band),
    }
}

/// Titles of the columns, whether they hold figures, and their priority of removal.
const TITLES: [(&str, bool, u8); 6] = [
    ("workload, system", false, 0),
    ("predicted", true, 0),
    ("band", true, 1),
    ("measured", true, 0),
    ("error", true, 0),
    ("in band", false, 0),
];

/// The columns of a table of figures or ratios.
pub(crate) fn columns(rows: &[CheckedFigure], figure: Figure) -> Vec<Column> {
    let titles = TITLES.map(|(title, figures, expendable)| (title.to_owned(), figures, expendable));
    let rows: Vec<[String; 6]> = rows.iter().map(|row| texts(row, figure)).collect();
    Column::of_rows(titles, &rows)
}

/// Formats a value of a row.
pub(crate) type Figure = fn(&CheckedFigure, f64) -> String;

/// A rate or a time.
pub(crate) fn absolute(row: &CheckedFigure, value: f64) -> String {
    if row.quantity.is_time() {
        figures::time(value)
    } else {
        figures::rate(value, row.rate)
    }
}

/// A ratio.
pub(crate) fn ratio(_: &CheckedFigure, value: f64) -> String {
    figures::times(value)
}

fn texts(row: &CheckedFigure, figure: Figure) -> [String; 6] {
    let band = |(low, high)| format!("{} … {}", figure(row, low), figure(row, high));
    let is_in_band = match row.is_in_band {
        None => "",
        Some(true) => "yes",
        Some(false) => "no",
    };
    [
        format!("{}, {}", row.of(), row.system),
        figure(row, row.predicted),
        row.band.map_or(String::new(), band),
        figure(row, row.measured),
        format!("{} %", figures::signed(row.error * 100.0)),
        is_in_band.to_owned(),
    ]
}

/// Both tables with their titles; the second is empty without a common baseline.
pub(crate) fn tables(check: &PredictionCheck) -> [(&'static str, Vec<Column>); 2] {
    [
        ("Figures", columns(&check.figures, absolute)),
        ("Ratios to the baseline", columns(&check.ratios, ratio)),
    ]
}

/// What the two sides do not share: differences in the work, and cells that one side lacks.
pub(crate) fn remarks(check: &PredictionCheck) -> Vec<String> {
    let differences = check.different_work.iter();
    let differences = differences.map(|difference| difference.words_of(["predicted", "measured"]));
    differences.chain(check.unmatched.iter().cloned()).collect()
}
