//! Lines of the rate against a number that varies between workloads of one kind: processes,
//! requests in flight, the size of a file or of an operation.

use spindles_measure::{Analysis, Cell, Fact, Rate, Sweep, SweptUnit, sweeps};

use super::{Chart, Labels, Panel, WIDTH, line_class, line_legend, rate_tick, shown};
use crate::figures;
use crate::svg::{Anchor, Scale, Svg};

pub(super) static CHART: Chart = Chart {
    name: "sweeps",
    entry: "Sweeps",
    title: "Rate against one number",
    caption: "Workloads of one kind that differ only in the number along the bottom; upwards is \
        faster. Strokes through the points are 95 % intervals over repetition blocks; one that \
        reaches the upper edge continues beyond it. Numbers that span a factor of ten or more use \
        a logarithmic scale. Each panel begins at zero.",
    panels,
};

const HEIGHT: f64 = 232.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// Largest height of whiskers, relative to the fastest point.
const STROKE_MAX: f64 = 1.5;
/// Ratio of the largest to the smallest number from which the scale is logarithmic.
const LOGARITHMIC_MIN: f64 = 10.0;

/// Formats a number for reading.
pub(super) fn value(fact: &Fact, value: u64) -> String {
    let value = figures::float(value);
    let text = figures::round(&match fact.unit {
        SweptUnit::Bytes => figures::bytes(value),
        SweptUnit::Count => figures::three_digits(value),
    });
    // Keep the figure and its unit on one line.
    text.replace(' ', "\u{a0}")
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let sweeps = sweeps(&analysis.experiment.workloads);
    let panel = |sweep| panel(analysis, sweep, title(sweep, &sweeps));
    sweeps.iter().filter_map(panel).collect()
}

/// Title of a sweep. If several sweeps are alike, the common first words of its workloads' names.
fn title(sweep: &Sweep, all: &[Sweep]) -> String {
    let alike = |other: &&Sweep| {
        (&other.of, &other.fact, &other.fixed) == (&sweep.of, &sweep.fact, &sweep.fixed)
    };
    let mut names = sweep.points.iter().map(|(_, name)| name.split(' '));
    let first: Vec<&str> = names.next().into_iter().flatten().collect();
    let shared = names.fold(first, |shared, name| {
        let same = shared.into_iter().zip(name).take_while(|(a, b)| a == b);
        same.map(|(word, _)| word).collect()
    });
    if all.iter().filter(alike).count() < 2 || shared.is_empty() {
        return sweep.of.clone();
    }
    let without_number = shared.strip_suffix(&[&*sweep.fact.name]);
    without_number.unwrap_or(&shared).join(" ")
}

/// Index and name of a system, and its cells at the numbers that were run.
type Line<'a> = (usize, &'a str, Vec<(u64, &'a Cell)>);

fn panel(analysis: &Analysis, sweep: &Sweep, title: String) -> Option<Panel> {
    let systems = shown(analysis);
    let lines: Vec<Line> = (systems.iter().enumerate())
        .map(|(index, name)| {
            let cells = sweep.points.iter().filter_map(|(value, workload)| {
                let cell = analysis.cell(name, workload)?;
                (cell.geometric_mean > 0.0).then_some((*value, cell))
            });
            (index, *name, cells.collect())
        })
        .filter(|(_, _, cells): &Line| cells.len() > 1)
        .collect();
    let fixed =
        (sweep.fixed.iter()).map(|(fact, at)| format!("{} {}", fact.name, value(fact, *at)));
    let fixed: Vec<String> = fixed.collect();
    let at = match &fixed[..] {
        [] => String::new(),
        fixed => format!("; {}", fixed.join(", ")),
    };
    (!lines.is_empty()).then(|| Panel {
        title,
        note: format!("rate against {}{at}", sweep.fact.name),
        svg: draw(sweep, &lines),
        legend: line_legend(lines.iter().map(|(index, name, _)| (*index, *name))),
    })
}

/// Maps numbers to positions along the bottom. Logarithmic if they span a factor of ten.
fn across(sweep: &Sweep) -> impl Fn(u64) -> f64 {
    let numbers = sweep
        .points
        .iter()
        .map(|(number, _)| figures::float(*number));
    let least = numbers.clone().fold(f64::INFINITY, f64::min);
    let most = numbers.fold(0.0, f64::max);
    let is_logarithmic = least > 0.0 && most / least >= LOGARITHMIC_MIN;
    let of = move |number: f64| if is_logarithmic { number.ln() } else { number };
    let scale = Scale {
        low: of(least),
        high: of(most),
        from: LEFT + 10.0,
        to: RIGHT - 10.0,
    };
    move |number| scale.at(of(figures::float(number)))
}

fn draw(sweep: &Sweep, lines: &[Line]) -> String {
    let cells = || lines.iter().flat_map(|(_, _, cells)| cells);
    let fastest = cells()
        .map(|(_, cell)| cell.geometric_mean)
        .fold(0.0, f64::max);
    let (unit, words) = figures::rate_unit(fastest, sweep.rate);
    let ends = cells().map(|(_, cell)| cell.log_rate.high.exp());
    let most = ends.filter(|end| end.is_finite()).fold(fastest, f64::max);
    // Don't let a whisker far above all points squeeze them.
    let most = most.min(fastest * STROKE_MAX);
    let x = across(sweep);
    let y = Scale {
        low: 0.0,
        high: most / unit * 1.08,
        from: BOTTOM,
        to: TOP,
    };
    let mut svg = Svg::new(WIDTH, HEIGHT);
    for tick in y.ticks(5.0) {
        let class = if tick > 0.0 { "grid" } else { "zero" };
        svg.line(class, (LEFT, y.at(tick)), (RIGHT, y.at(tick)));
        let unit = match sweep.rate {
            Rate::Bytes => format!("{words}/s"),
            Rate::Operations => String::new(),
        };
        let label = rate_tick(tick, &unit);
        svg.text("tick", Anchor::End, (LEFT - 6.0, y.at(tick) + 4.0), &label);
    }
    let mut labels = Labels::new(BOTTOM + 17.0);
    for (number, _) in &sweep.points {
        svg.line("grid", (x(*number), BOTTOM), (x(*number), BOTTOM + 4.0));
        labels.write(&mut svg, x(*number), &value(&sweep.fact, *number));
    }
    let mut said = Vec::new();
    // The first system, with which all others are compared, is drawn last, on top.
    for (index, name, cells) in lines.iter().rev() {
        let class = line_class(*index);
        let points: Vec<(f64, f64)> = (cells.iter())
            .map(|(number, cell)| (x(*number), y.at(cell.geometric_mean / unit)))
            .collect();
        svg.path(&format!("curve {class}"), &points, name);
        for ((number, cell), point) in cells.iter().zip(&points) {
            let (low, high) = (cell.log_rate.low.exp(), cell.log_rate.high.exp());
            if low.is_finite() && high.is_finite() {
                let [low, high] = [low, high].map(|end| (point.0, y.at(end / unit).max(0.0)));
                svg.line(&format!("spread {class}"), low, high);
            }
            let title = format!(
                "{name} at {}: {}",
                value(&sweep.fact, *number),
                figures::rate(cell.geometric_mean, sweep.rate)
            );
            svg.circle(&format!("point {class}"), *point, 2.8, &title);
        }
        let rates = cells.iter();
        let rates = rates.map(|(_, cell)| figures::rate(cell.geometric_mean, sweep.rate));
        said.push(format!("{name} {}", rates.collect::<Vec<_>>().join(" ")));
    }
    said.reverse();
    let numbers = sweep.points.iter();
    let numbers = numbers.map(|(number, _)| value(&sweep.fact, *number));
    svg.finish(&format!(
        "{}, rate against {} {}: {}",
        sweep.of,
        sweep.fact.name,
        numbers.collect::<Vec<_>>().join(" "),
        said.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_of_one_kind_are_labelled_by_workload_name() {
        let sweep = |names: [&str; 3]| Sweep {
            of: "copy".to_owned(),
            rate: Rate::Bytes,
            fact: Fact {
                name: "nodes".to_owned(),
                unit: SweptUnit::Count,
            },
            fixed: Vec::new(),
            points: (1..).zip(names.map(str::to_owned)).collect(),
        };
        let from = sweep([
            "copy from nodes 1",
            "copy from nodes 2",
            "copy from nodes 4",
        ]);
        let to = sweep(["copy to nodes 1", "copy to nodes 2", "copy to nodes 4"]);
        assert_eq!(title(&from, std::slice::from_ref(&from)), "copy");
        let both = [from, to];
        let titles = both.iter().map(|name| title(name, &both));
        assert_eq!(titles.collect::<Vec<_>>(), ["copy from", "copy to"]);
    }
}
