//! Bars of the difference from the mean of several single devices, with the ratio next to them, as
//! in the published comparisons of software RAID of 2002.

use spindles_measure::{AgainstSingles, Analysis, Quantity, percent_of, statistics::Estimate};

use super::difference::{Bar, Frame, class, draw_bars, logs};
use super::{Chart, Panel, legend};
use crate::{figures, words};

pub(super) static CHART: Chart = Chart {
    name: "singles",
    entry: "Against singles",
    title: "Difference from the mean of the single devices",
    caption: "Single devices may differ, so each rate is divided by the arithmetic mean of their \
        rates in the same repetition block. Right is faster. The figures are the difference in \
        percent with the ratio in parentheses, or only the factor from 2 × on. The whisker is the \
        95 % interval. One scale for all panels.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    drawn(
        analysis,
        "rate",
        |row| Some(&row.log_ratio),
        |row| {
            if row.is_single {
                "equal"
            } else {
                class(row.verdict)
            }
        },
        |estimate| words::difference_of(Quantity::Rate, estimate, words::TIMES_IN_TABLES),
    )
}

/// Draws one of the two figures against the single devices. `large` formats a difference of a
/// factor of two or more.
pub(super) fn drawn(
    analysis: &Analysis,
    what: &str,
    of: fn(&AgainstSingles) -> Option<&Estimate>,
    class: fn(&AgainstSingles) -> &'static str,
    large: fn(&Estimate) -> String,
) -> Vec<Panel> {
    let Some(singles) = &analysis.singles else {
        return Vec::new();
    };
    let ratios = singles.rows.iter().filter_map(of);
    let frame = Frame::of(
        ratios.clone().map(|ratios| logs(Quantity::Rate, ratios)),
        ratios.map(|ratio| figure(ratio, large)),
    );
    let names = singles.names();
    let workloads = analysis.experiment.workloads.iter();
    workloads
        .filter_map(|workload| {
            let rows = singles.rows.iter();
            let rows = rows.filter(|row| row.workload == workload.name && of(row).is_some());
            let mut rows: Vec<&AgainstSingles> = rows.collect();
            rows.sort_by_key(|row| row.is_single);
            let bars: Vec<Bar> = (rows.iter())
                .filter_map(|row| Some(bar(row, what, of(row)?, class(row), large)))
                .collect();
            let words = format!("{}, {what} against the mean of {names}", workload.name);
            (!bars.is_empty()).then(|| Panel {
                title: workload.name.clone(),
                note: format!("{what} against the mean of {names}"),
                svg: draw_bars(&words, &bars, frame, 0.0),
                legend: legend_of(&rows, &bars),
            })
        })
        .collect()
}

/// Formats the difference in percent with the ratio, or with `large` if it is large.
fn figure(estimate: &Estimate, large: fn(&Estimate) -> String) -> String {
    if figures::factor(estimate.value).is_some() {
        return large(estimate);
    }
    let percent = figures::percent(percent_of(estimate).0);
    format!("{percent} ({:.2})", estimate.value.exp())
}

fn bar<'a>(
    row: &'a AgainstSingles,
    what: &str,
    estimate: &Estimate,
    class: &'static str,
    large: fn(&Estimate) -> String,
) -> Bar<'a> {
    let ends = [estimate.value, estimate.low, estimate.high];
    let [ratio, low, high] = ends.map(|log| format!("{:.2}", log.exp()));
    let interval = if estimate.low.is_finite() && estimate.high.is_finite() {
        format!("{low} … {high}")
    } else {
        "unknown".to_owned()
    };
    Bar {
        name: &row.system,
        logs: logs(Quantity::Rate, estimate),
        class: class.to_owned(),
        figure_class: if class == "rate" { "plain" } else { class },
        figure: figure(estimate, large),
        title: format!(
            "{} in {}: {what} {ratio} of the mean, 95 % interval {interval}",
            row.system, row.workload,
        ),
    }
}

fn legend_of(rows: &[&AgainstSingles], bars: &[Bar]) -> Vec<(String, String)> {
    let has = |class: &str| {
        let mut pairs = rows.iter().zip(bars);
        pairs.any(|(row, bar)| !row.is_single && bar.class == class)
    };
    let finite = |bar: &Bar| bar.logs.1.is_finite() && bar.logs.2.is_finite();
    let single = rows.iter().any(|row| row.is_single);
    let equal = match (has("equal"), single) {
        (true, true) => "no difference shown, or a single device",
        (true, false) => "no difference shown",
        (false, _) => "single device",
    };
    let all = [
        (has("faster"), ("faster", "faster")),
        (has("rate"), ("rate", "array")),
        (has("equal") || single, ("equal", equal)),
        (has("slower"), ("slower", "slower")),
        (bars.iter().any(finite), ("interval", "95 % interval")),
    ];
    let there = all.into_iter().filter(|(there, _)| *there);
    legend(&there.map(|(_, swatch)| swatch).collect::<Vec<_>>())
}
