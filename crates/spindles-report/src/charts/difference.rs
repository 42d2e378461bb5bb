//! Bars of the difference from the baseline on a scale of factors, with the 95 % interval
//! as a whisker and the A/A pair's difference as a band.

use spindles_measure::{Analysis, Comparison, Quantity, Verdict, statistics::Estimate};

use super::{Chart, Panel, Rows, float, legend};
use crate::svg::factor_ticks;
use crate::{figures, words};

pub(super) static CHART: Chart = Chart {
    name: "difference",
    entry: "Difference",
    title: "Difference from the baseline",
    caption: "Each bar is the ratio of a rate to the baseline's rate, and right is faster; some \
        panels show the ratio of a time, and say so. Half lies as far from ×1 as twice. The \
        whisker is the 95 % interval over repetition blocks; it reaches the edge if it has no end. \
        The band around ×1 shows how far two measurements of the baseline differed. All panels of \
        rates have one scale, all panels of times another.",
    panels,
};

/// Returns the CSS class of a verdict.
pub(crate) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown
        | Verdict::OneBlock
        | Verdict::Failed
        | Verdict::Refused
        | Verdict::AaPair => "equal",
    }
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    // Times may differ by more than rates do, so each kind has its own scale.
    let frame_of = |is_time: bool| {
        let all = analysis.comparisons.iter().chain(&analysis.overall);
        let mine = all.filter(move |comparison| comparison.quantity.is_time() == is_time);
        let logs = mine
            .clone()
            .map(|mine| logs(mine.quantity, &mine.log_ratio));
        Frame::of(logs, mine.map(figure))
    };
    let (of_rates, of_times) = (frame_of(false), frame_of(true));
    let baseline = words::baseline_name(analysis);
    let workloads = analysis.experiment.workloads.iter();
    let asked = workloads.flat_map(|workload| {
        let quantities = analysis.quantities(workload).iter();
        quantities.map(move |&quantity| (workload, quantity))
    });
    let panels = asked.filter_map(|(workload, quantity)| {
        let other = words::other_baseline(analysis, workload);
        let name = analysis.baseline_of(&workload.name);
        let figure = words::figure(analysis.cell(name, &workload.name)?, quantity);
        let comparisons = analysis.comparisons.iter();
        let mine = comparisons.filter(|c| c.workload == workload.name && c.quantity == quantity);
        let rows = mine.filter(|c| c.log_ratio.blocks > 0);
        let said = match other {
            None => baseline.to_owned(),
            Some(other) => format!("not run by {baseline}: {other}, the first that ran it,"),
        };
        let note = match quantity {
            Quantity::Rate => format!("{said} reaches {figure}"),
            times => format!("{}, left is faster: {said} takes {figure}", times.words()),
        };
        let from = other.unwrap_or(baseline);
        let frame = if quantity.is_time() {
            of_times
        } else {
            of_rates
        };
        panel(&workload.name, note, rows.collect(), frame, from)
    });
    let overall = analysis.overall.iter().collect();
    let note = words::overall(analysis);
    let mut of: Vec<&str> = (analysis.overall.iter())
        .map(|comparison| &*comparison.workload)
        .collect();
    of.dedup();
    let title = format!("Over {}", of.join(" or "));
    panels
        .chain(panel(&title, note, overall, of_rates, baseline))
        .collect()
}

fn panel(
    title: &str,
    note: String,
    mut rows: Vec<&Comparison>,
    frame: Frame,
    baseline: &str,
) -> Option<Panel> {
    rows.sort_by_key(|comparison| comparison.control);
    (!rows.is_empty()).then(|| Panel {
        title: title.to_owned(),
        note,
        svg: draw(title, &rows, frame, baseline),
        legend: legend_of(&rows),
    })
}

/// Builds a legend of what the panel contains.
fn legend_of(rows: &[&Comparison]) -> Vec<(String, String)> {
    let is = |verdict: Verdict| {
        let mut asked = rows.iter().filter(|row| !row.control);
        asked.any(|row| row.verdict == verdict)
    };
    let finite =
        |row: &&Comparison| row.log_ratio.low.is_finite() && row.log_ratio.high.is_finite();
    let all = [
        (is(Verdict::Faster), ("faster", "faster")),
        (
            is(Verdict::NoDifferenceShown),
            ("equal", "no difference shown"),
        ),
        (is(Verdict::Slower), ("slower", "slower")),
        (is(Verdict::Refused), ("equal", "refused")),
        (is(Verdict::OneBlock), ("equal", "one block: no verdict")),
        (rows.iter().any(finite), ("interval", "95 % interval")),
        (rows.iter().any(|row| row.control), ("control", "A/A pair")),
    ];
    let there: Vec<(&str, &str)> = (all.into_iter())
        .filter_map(|(there, swatch)| there.then_some(swatch))
        .collect();
    legend(&there)
}

/// Converts a log-ratio of speeds to logarithms of the quantity's ratio: value, lower and upper
/// end.
pub(super) fn logs(quantity: Quantity, log_ratio: &Estimate) -> (f64, f64, f64) {
    if quantity.is_time() {
        (-log_ratio.value, -log_ratio.high, -log_ratio.low)
    } else {
        (log_ratio.value, log_ratio.low, log_ratio.high)
    }
}

/// Common layout of panels that are read side by side.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Range of the scale.
    range: (f64, f64),
    /// Width of the figures on the right.
    figures_wide: f64,
}

/// Width of a character in an emphasised figure.
const FIGURE_WIDE: f64 = 7.9;

impl Frame {
    /// Computes the layout for these ratios, as logarithms with the ends of their intervals, and
    /// these figures.
    pub(super) fn of(
        logs: impl Iterator<Item = (f64, f64, f64)> + Clone,
        figures: impl Iterator<Item = String>,
    ) -> Self {
        let longest = figures.map(|figure| figure.chars().count()).max();
        Self {
            range: range(logs),
            figures_wide: (float(longest.unwrap_or(0)) * FIGURE_WIDE).max(52.0),
        }
    }
}

/// Returns the range of all bars and whiskers, zero included, with a margin. An interval wider than
/// twice the bars is cut off instead of squeezing them.
fn range(logs: impl Iterator<Item = (f64, f64, f64)> + Clone) -> (f64, f64) {
    let (mut low, mut high) = (-0.05_f64, 0.05_f64);
    for (value, ..) in logs.clone().filter(|(value, ..)| value.is_finite()) {
        low = low.min(value);
        high = high.max(value);
    }
    let room = (high - low) / 2.0;
    let (mut least, mut most) = (low, high);
    for (_, from, to) in logs {
        least = least.min(from.max(low - room));
        most = most.max(to.min(high + room));
    }
    (least * 1.04, most * 1.04)
}

fn draw(workload: &str, rows: &[&Comparison], frame: Frame, baseline: &str) -> String {
    let floor = rows
        .iter()
        .filter_map(|comparison| comparison.noise_floor)
        .fold(0.0, f64::max);
    let bars: Vec<Bar> = rows.iter().map(|row| bar(workload, row)).collect();
    let words = format!("{workload}, difference from {baseline}");
    draw_bars(&words, &bars, frame, floor)
}

fn bar<'a>(workload: &str, comparison: &'a Comparison) -> Bar<'a> {
    let verdict = class(comparison.verdict);
    let (class, figure_class) = if comparison.control {
        ("control equal".to_owned(), "equal")
    } else {
        (verdict.to_owned(), verdict)
    };
    Bar {
        name: &comparison.system,
        logs: logs(comparison.quantity, &comparison.log_ratio),
        class,
        figure_class,
        figure: figure(comparison),
        title: format!(
            "{} in {workload}: {}, 95 % interval {}, {}",
            comparison.system,
            words::difference(comparison),
            words::interval(comparison),
            words::verdict(comparison),
        ),
    }
}

/// Formats the difference. One block gets its mark, since a bar without an interval would look like
/// a result.
fn figure(comparison: &Comparison) -> String {
    let difference = words::difference(comparison);
    match comparison.verdict {
        Verdict::OneBlock => format!("{difference} {}", figures::mark(Verdict::OneBlock)),
        _ => difference,
    }
}

/// A ratio with its interval, drawn as a bar from ×1.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    /// Logarithms of the ratio and of the ends of its interval.
    pub(super) logs: (f64, f64, f64),
    /// CSS classes of the bar and of its figure.
    pub(super) class: String,
    pub(super) figure_class: &'static str,
    pub(super) figure: String,
    /// Tooltip.
    pub(super) title: String,
}

/// Draws bars around a ratio of one. `floor` is the difference of two identical systems, as a
/// log-ratio.
pub(super) fn draw_bars(words: &str, bars: &[Bar], frame: Frame, floor: f64) -> String {
    let names: Vec<&str> = bars.iter().map(|bar| bar.name).collect();
    let mut chart = Rows::with_ticks(&names, frame.range, frame.figures_wide, |scale| {
        let factors = factor_ticks(scale.low, scale.high).into_iter();
        let labelled = factors.map(|factor| (factor.ln(), figures::factor_tick(factor)));
        labelled.collect()
    });
    let one = chart.scale.at(0.0);
    if floor > 0.0 {
        let (from, to) = (chart.scale.at(-floor), chart.scale.at(floor));
        let bottom = chart.bottom - 2.0;
        chart.svg.bar(
            "band",
            (from, to),
            (2.0, bottom),
            "noise floor: the A/A pair",
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        let (value, low, high) = bar.logs;
        let middle = chart.middle(index);
        chart.svg.bar(
            &format!("bar {}", bar.class),
            (one, chart.scale.at(value)),
            (middle - 6.0, 12.0),
            &bar.title,
        );
        chart.whisker(middle, (low, high));
        let class = format!("figure {}", bar.figure_class);
        chart.label(index, bar.name, &class, &bar.figure);
    }
    let bottom = chart.bottom;
    chart.svg.line("zero", (one, 2.0), (one, bottom));
    let said: Vec<String> = bars
        .iter()
        .map(|bar| format!("{} {}", bar.name, bar.figure))
        .collect();
    chart.svg.finish(&format!("{words}: {}", said.join(", ")))
}
