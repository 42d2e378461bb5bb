//! Bars of the percentage difference from the baseline, with the 95 % interval
//! as a whisker and the A/A pair's difference as a band.

use spindles_measure::{Analysis, Comparison, Verdict};

use super::{Chart, Panel, Rows, legend};
use crate::{figures, words};

pub(super) static CHART: Chart = Chart {
    name: "difference",
    entry: "Difference",
    title: "Difference from the baseline",
    caption: "Each bar is the difference of the rate from that of the baseline in percent, right is faster; the whisker is \
              the 95 % interval over repetition blocks. The band around zero is how far the \
              baseline measured twice came out apart. One scale for all panels.",
    panels,
};

/// The class of a verdict in the style sheet.
pub(crate) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown | Verdict::Refused => "equal",
    }
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let range = range(&analysis.comparisons);
    analysis
        .experiment
        .workloads
        .iter()
        .filter_map(|workload| {
            let mut rows: Vec<&Comparison> = analysis
                .comparisons
                .iter()
                .filter(|c| c.workload == workload.name)
                .collect();
            rows.sort_by_key(|comparison| comparison.control);
            let baseline = analysis.cell(&analysis.experiment.baseline, &workload.name)?;
            let note = format!(
                "{} makes {}",
                words::baseline_name(analysis),
                figures::rate(baseline.geometric_mean, baseline.rate)
            );
            (!rows.is_empty()).then(|| Panel {
                title: workload.name.clone(),
                note,
                svg: draw(
                    &workload.name,
                    &rows,
                    range,
                    &words::baseline_name(analysis),
                ),
                legend: legend_of(&rows),
            })
        })
        .collect()
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
fn range(comparisons: &[Comparison]) -> (f64, f64) {
    let (mut low, mut high) = (-5.0_f64, 5.0_f64);
    for comparison in comparisons {
        let (value, ..) = comparison.percent();
        low = low.min(value);
        high = high.max(value);
    }
    let room = (high - low) / 2.0;
    let (mut least, mut most) = (low, high);
    for comparison in comparisons {
        let (_, from, to) = comparison.percent();
        least = least.min(from.max(low - room));
        most = most.max(to.min(high + room));
    }
    (least * 1.04, most * 1.04)
}

fn draw(workload: &str, rows: &[&Comparison], range: (f64, f64), baseline: &str) -> String {
    let names: Vec<&str> = rows
        .iter()
        .map(|comparison| comparison.system.as_str())
        .collect();
    let mut chart = Rows::new(&names, range, 52.0, |tick| {
        if tick.abs() > 0.0 {
            figures::percent(tick).replace(".0", "")
        } else {
            "0".to_owned()
        }
    });
    let zero = chart.scale.at(0.0);
    let floor = rows
        .iter()
        .filter_map(|comparison| comparison.noise_floor)
        .fold(0.0, f64::max);
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
    for (index, comparison) in rows.iter().enumerate() {
        let (value, low, high) = comparison.percent();
        let middle = chart.middle(index);
        let verdict = class(comparison.verdict);
        let bar = if comparison.control {
            "bar control"
        } else {
            "bar"
        };
        let title = format!(
            "{} in {workload}: {}, 95 % interval {}, {}",
            comparison.system,
            figures::percent(value),
            figures::interval(&comparison.log_ratio),
            comparison.verdict.words(),
        );
        let (from, to) = (chart.scale.at(low), chart.scale.at(high));
        chart.svg.bar(
            &format!("{bar} {verdict}"),
            (zero, chart.scale.at(value)),
            (middle - 6.0, 12.0),
            &title,
        );
        if low.is_finite() && high.is_finite() {
            // A halo keeps the whisker apart from its bar, whatever their colours.
            chart.svg.line("halo", (from, middle), (to, middle));
            chart.svg.line("whisker", (from, middle), (to, middle));
            // An end that is off the scale has no cap.
            let on = |end: f64| chart.scale.low <= end && end <= chart.scale.high;
            for (_, end) in [(low, from), (high, to)]
                .into_iter()
                .filter(|(end, _)| on(*end))
            {
                chart
                    .svg
                    .line("whisker", (end, middle - 3.5), (end, middle + 3.5));
            }
        }
        let figure_class = if comparison.control {
            "figure equal"
        } else {
            &format!("figure {verdict}")
        };
        chart.label(
            index,
            &comparison.system,
            figure_class,
            &figures::percent(value),
        );
    }
    let bottom = chart.bottom;
    chart.svg.line("zero", (zero, 2.0), (zero, bottom));
    let said: Vec<String> = rows
        .iter()
        .map(|c| format!("{} {}", c.system, figures::percent(c.percent().0)))
        .collect();
    chart.svg.finish(&format!(
        "{workload}, difference from {baseline}: {}",
        said.join(", ")
    ))
}
