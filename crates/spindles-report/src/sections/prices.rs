//! Prices of systems per capacity and per rate.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use crate::figures;
use spindles_measure::{Analysis, Quantity, Rate, System, Verdict};

pub(super) static SECTION: Section = Section {
    name: "prices",
    title: "Prices",
    body: Body::Table(&TABLE),
};

pub(crate) static TABLE: TextTable = TextTable {
    caption: "In the currency of the experiment's prices. GB and MB are powers of ten; a rate is \
        the geometric mean of all repetitions. Less is better. The rate of a cache or of the load \
        generator has no price.",
    // With more columns, the table becomes cards.
    class: |columns| match columns {
        0..=8 => "glance",
        _ => "glance cards",
    },
    columns,
};

/// Shown instead of a price if the rate measures a cache.
const CACHED: &str = "cache figure";

/// A megabyte and a gigabyte as disks are sold.
const MB: f64 = 1e6;
const GB: f64 = 1e9;

/// Systems that have a price, except the control.
fn priced(analysis: &Analysis) -> Vec<(&System, f64)> {
    let systems = analysis.experiment.systems.iter();
    systems
        .filter(|system| Some(&system.name) != analysis.experiment.control.as_ref())
        .filter_map(|system| Some((system, system.price.filter(|price| price.is_finite())?)))
        .collect()
}

/// The priced item, then a column for each system.
fn columns(analysis: &Analysis) -> Vec<Column> {
    let systems = priced(analysis).into_iter();
    let systems = systems.map(|(system, _)| (system.name.clone(), true, 0));
    let titles = std::iter::once(("price".to_owned(), false, 0)).chain(systems);
    Column::of_rows(titles, &rows(analysis))
}

/// One row for the whole system, one per GB, and one for each workload. Empty if no system has a
/// price.
fn rows(analysis: &Analysis) -> Vec<Vec<String>> {
    let systems = priced(analysis);
    if systems.is_empty() {
        return Vec::new();
    }
    let row = |what: String, amount: &dyn Fn(&System) -> Option<f64>| -> Vec<String> {
        let figures = systems.iter().map(|(system, price)| {
            let amount = amount(system).filter(|amount| *amount > 0.0);
            amount.map_or(String::new(), |amount| figure(price / amount))
        });
        std::iter::once(what).chain(figures).collect()
    };
    let mut rows = vec![
        row("whole".to_owned(), &|_| Some(1.0)),
        row("per GB".to_owned(), &|system| {
            Some(figures::float(system.capacity_bytes) / GB)
        }),
    ];
    let workloads = analysis.experiment.workloads.iter();
    // A rate set in advance is the same for all systems, and a single operation has a time instead.
    for workload in workloads.filter(|workload| analysis.quantities(workload) == [Quantity::Rate]) {
        let (unit, words) = match workload.rate {
            Rate::Bytes => (MB, "MB/s"),
            Rate::Operations => (1000.0, "1,000 op/s"),
        };
        let mut row = row(format!("per {words} in {}", workload.name), &|system| {
            let cell = analysis.cell(&system.name, &workload.name)?;
            Some(cell.geometric_mean / unit)
        });
        for ((system, _), text) in systems.iter().zip(&mut row[1..]) {
            let Some(cell) = analysis.cell(&system.name, &workload.name) else {
                continue;
            };
            if analysis.is_refused(cell) {
                Verdict::Refused.words().clone_into(text);
            } else if cell.is_cached() {
                CACHED.clone_into(text);
            }
        }
        rows.push(row);
    }
    // Drop rows without any figure.
    rows.retain(|row| row[1..].iter().any(|figure| !figure.is_empty()));
    rows
}

/// Formats three significant digits, however small the value is.
fn figure(value: f64) -> String {
    if value.abs() >= 1.0 || value <= 0.0 {
        return figures::three_digits(value).replace(".00", "");
    }
    // This many zeros after the decimal point, then three digits.
    let zeros = (-value.log10()).floor();
    let digits = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let zeros = digits.iter().filter(|digit| **digit < zeros).count();
    format!("{value:.*}", zeros + 3)
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn small_prices_keep_their_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.06, "0.0600"),
            (0.5, "0.500"),
            (0.001_234_5, "0.00123"),
            (1.25, "1.25"),
            (120.0, "120"),
            (1234.0, "1,234"),
        ] {
            assert_eq!(figure(value), expected);
        }
    }
}
