//! Bars of the percentage difference from the baseline, with the 95 % interval
//! as a whisker and the A/A pair's difference as a band.

use spindles_measure::{Analysis, Comparison, Quantity, Verdict};

use super::{Chart, Panel, Rows, float, legend};
use crate::{figures, words};

pub(super) static CHART: Chart = Chart {
    name: "difference",
    entry: "Difference",
    title: "Difference from the baseline",
    caption: "Each bar is the difference of the rate from that of the baseline in percent, right is faster, or of a time \
              where a panel says so; the whisker is \
              the 95 % interval over repetition blocks, and goes on where it has no end. The band around zero is how far the \
              baseline measured twice came out apart. One scale for all panels of rates, one for those of times. The last \
              panel is the mean over the workloads, each of which counts the same.",
    panels,
};

/// The class of a verdict in the style sheet.
pub(crate) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown | Verdict::OneBlock | Verdict::Failed | Verdict::Refused => {
            "equal"
        }
    }
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    // Times may differ by more than rates do: each kind has a scale.
    let range_of = |is_time: bool| {
        let all = analysis.comparisons.iter().chain(&analysis.overall);
        let mine = all.filter(move |it| it.quantity.is_time() == is_time);
        range(mine.map(Comparison::percent))
    };
    let (of_rates, of_times) = (range_of(false), range_of(true));
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
            None => baseline.clone(),
            Some(other) => format!("not run by {baseline}: {other}, the first that ran it,"),
        };
        let note = match quantity {
            Quantity::Rate => format!("{said} makes {figure}"),
            times => format!("{}, left is faster: {said} takes {figure}", times.words()),
        };
        let from = other.unwrap_or(&baseline);
        let range = if quantity.is_time() {
            of_times
        } else {
            of_rates
        };
        panel(&workload.name, note, rows.collect(), range, from)
    });
    let overall = analysis.overall.iter().collect();
    let note = words::overall(analysis);
    let mut of: Vec<&str> = (analysis.overall.iter()).map(|it| &*it.workload).collect();
    of.dedup();
    let title = format!("Over {}", of.join(" or "));
    panels
        .chain(panel(&title, note, overall, of_rates, &baseline))
        .collect()
}

fn panel(
    title: &str,
    note: String,
    mut rows: Vec<&Comparison>,
    range: (f64, f64),
    baseline: &str,
) -> Option<Panel> {
    rows.sort_by_key(|comparison| comparison.control);
    (!rows.is_empty()).then(|| Panel {
        title: title.to_owned(),
        note,
        svg: draw(title, &rows, range, baseline),
        legend: legend_of(&rows),
    })
}

/// What is in the panel, and only that.
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

/// The range of all bars and whiskers, zero included, with a little room; an interval that is
/// wider than twice the bars themselves is cut off rather than squeezing them.
pub(super) fn range(percents: impl Iterator<Item = (f64, f64, f64)> + Clone) -> (f64, f64) {
    let (mut low, mut high) = (-5.0_f64, 5.0_f64);
    for (value, ..) in percents.clone() {
        low = low.min(value);
        high = high.max(value);
    }
    let room = (high - low) / 2.0;
    let (mut least, mut most) = (low, high);
    for (_, from, to) in percents {
        least = least.min(from.max(low - room));
        most = most.max(to.min(high + room));
    }
    (least * 1.04, most * 1.04)
}

fn draw(workload: &str, rows: &[&Comparison], range: (f64, f64), baseline: &str) -> String {
    let floor = rows
        .iter()
        .filter_map(|comparison| comparison.noise_floor)
        .fold(0.0, f64::max);
    let bars: Vec<Bar> = rows.iter().map(|it| bar(workload, it)).collect();
    let words = format!("{workload}, difference from {baseline}");
    draw_bars(&words, &bars, range, floor)
}

fn bar<'a>(workload: &str, comparison: &'a Comparison) -> Bar<'a> {
    let verdict = class(comparison.verdict);
    let percent = comparison.percent();
    let (class, figure_class) = if comparison.control {
        ("control equal".to_owned(), "equal")
    } else {
        (verdict.to_owned(), verdict)
    };
    Bar {
        name: &comparison.system,
        percent,
        class,
        figure_class,
        figure: figures::percent(percent.0),
        title: format!(
            "{} in {workload}: {}, 95 % interval {}, {}",
            comparison.system,
            figures::percent(percent.0),
            figures::interval(percent),
            words::verdict(comparison),
        ),
    }
}

/// A difference in percent with its interval, as a bar from zero.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    /// The figure and the ends of its interval.
    pub(super) percent: (f64, f64, f64),
    /// Classes of the bar and of its figure.
    pub(super) class: String,
    pub(super) figure_class: &'static str,
    pub(super) figure: String,
    /// What stands under a pointer.
    pub(super) title: String,
}

/// Bars around zero; `floor` is how far two identical systems came out apart, as a log-ratio.
pub(super) fn draw_bars(words: &str, bars: &[Bar], range: (f64, f64), floor: f64) -> String {
    let names: Vec<&str> = bars.iter().map(|bar| bar.name).collect();
    let longest = bars.iter().map(|bar| bar.figure.chars().count()).max();
    let figures_wide = (float(longest.unwrap_or(0)) * 6.8).max(52.0);
    let mut chart = Rows::new(&names, range, figures_wide, |tick| {
        if tick.abs() > 0.0 {
            figures::percent(tick).replace(".0", "")
        } else {
            "0".to_owned()
        }
    });
    let zero = chart.scale.at(0.0);
    if floor > 0.0 {
        let from = chart.scale.at((-floor).exp_m1() * 100.0);
        let to = chart.scale.at(floor.exp_m1() * 100.0);
        let bottom = chart.bottom - 2.0;
        chart.svg.bar(
            "band",
            (from, to),
            (2.0, bottom),
            "noise floor: the A/A pair",
        );
    }
    for (index, bar) in bars.iter().enumerate() {
        let (value, low, high) = bar.percent;
        let middle = chart.middle(index);
        chart.svg.bar(
            &format!("bar {}", bar.class),
            (zero, chart.scale.at(value)),
            (middle - 6.0, 12.0),
            &bar.title,
        );
        chart.whisker(middle, (low, high));
        let class = format!("figure {}", bar.figure_class);
        chart.label(index, bar.name, &class, &bar.figure);
    }
    let bottom = chart.bottom;
    chart.svg.line("zero", (zero, 2.0), (zero, bottom));
    let said: Vec<String> = bars
        .iter()
        .map(|bar| format!("{} {}", bar.name, bar.figure))
        .collect();
    chart.svg.finish(&format!("{words}: {}", said.join(", ")))
}
