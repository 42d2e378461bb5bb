//! Bars of the difference from the mean of several single devices, with the ratio beside it: as the
//! comparisons of software RAID of the year 2002 drew it.

use spindles_measure::{AgainstSingles, Analysis, percent_of, statistics::Estimate};

use super::difference::{Bar, class, draw_bars, range};
use super::{Chart, Panel, legend};
use crate::figures;

pub(super) static CHART: Chart = Chart {
    name: "singles",
    entry: "Against singles",
    title: "Difference from the mean of the single devices",
    caption: "Where the single devices differ, none of them is the yardstick: each rate is divided by the \
              arithmetic mean of theirs in the same repetition block. Right is faster; the figures are the \
              difference in percent and, in parentheses, the ratio; the whisker is the 95 % interval. One scale for all panels.",
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
    )
}

/// Panels of one of the two figures against the single devices.
pub(super) fn drawn(
    analysis: &Analysis,
    what: &str,
    of: fn(&AgainstSingles) -> Option<&Estimate>,
    class: fn(&AgainstSingles) -> &'static str,
) -> Vec<Panel> {
    let Some(singles) = &analysis.singles else {
        return Vec::new();
    };
    let percents = singles
        .rows
        .iter()
        .filter_map(|row| of(row).map(percent_of));
    let range = range(percents.collect::<Vec<_>>().into_iter());
    let names = singles.names();
    let workloads = analysis.experiment.workloads.iter();
    workloads
        .filter_map(|workload| {
            let rows = singles.rows.iter();
            let rows = rows.filter(|row| row.workload == workload.name && of(row).is_some());
            let mut rows: Vec<&AgainstSingles> = rows.collect();
            rows.sort_by_key(|row| row.is_single);
            let bars: Vec<Bar> = (rows.iter())
                .filter_map(|row| Some(bar(row, what, of(row)?, class(row))))
                .collect();
            let words = format!("{}, {what} against the mean of {names}", workload.name);
            (!bars.is_empty()).then(|| Panel {
                title: workload.name.clone(),
                note: format!("{what} against the mean of {names}"),
                svg: draw_bars(&words, &bars, range, 0.0),
                legend: legend_of(&rows, &bars),
            })
        })
        .collect()
}

fn bar<'a>(
    row: &'a AgainstSingles,
    what: &str,
    estimate: &Estimate,
    class: &'static str,
) -> Bar<'a> {
    let percent = percent_of(estimate);
    let ratio = format!("{:.2}", estimate.value.exp());
    Bar {
        name: &row.system,
        percent,
        class: class.to_owned(),
        figure_class: if class == "rate" { "plain" } else { class },
        figure: format!("{} ({ratio})", figures::percent(percent.0)),
        title: format!(
            "{} in {}: {what} {ratio} of the mean, 95 % interval of the difference {} %",
            row.system,
            row.workload,
            figures::interval(percent),
        ),
    }
}

fn legend_of(rows: &[&AgainstSingles], bars: &[Bar]) -> Vec<(String, String)> {
    let has = |class: &str| {
        let mut pairs = rows.iter().zip(bars);
        pairs.any(|(row, bar)| !row.is_single && bar.class == class)
    };
    let finite = |bar: &Bar| bar.percent.1.is_finite() && bar.percent.2.is_finite();
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
