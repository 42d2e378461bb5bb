//! Absolute rates, fastest first, with their intervals.

use spindles_measure::{Analysis, Cell, Quantity, Rate, Workload};

use super::{Chart, Panel, Rows, axis, by_workload, legend};
use crate::words;

pub(super) static CHART: Chart = Chart {
    name: "rates",
    entry: "Rates",
    title: "Rates",
    caption: "Geometric means of all repetitions, fastest first; the whisker is the 95 % interval \
        over repetition blocks. A disturbance of a whole block widens the whiskers of all systems, \
        so systems may differ although their whiskers overlap: only the difference from the \
        baseline decides. Each panel has its own scale. If a run is one operation, bars show its \
        time; if operations arrive at a set rate, the p99 response time: shorter is then faster.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    by_workload(analysis, |workload, mut cells| {
        cells.retain(|cell| cell.geometric_mean > 0.0);
        let rate = cells.first()?.rate;
        let quantity = *analysis.quantities(workload).first()?;
        let drawn = Drawn { quantity, rate };
        let speed = |cell: &Cell| match cell.time_ns(quantity) {
            Some(time_ns) => 1e9 / time_ns,
            None => cell.geometric_mean,
        };
        cells.sort_by(|a, b| speed(b).total_cmp(&speed(a)));
        (cells.len() > 1).then(|| Panel {
            title: workload.name.clone(),
            note: workload.summary.clone(),
            svg: draw(analysis, workload, &drawn, &cells),
            legend: legend_of(analysis, &drawn, &cells),
        })
    })
}

fn is_baseline(analysis: &Analysis, cell: &Cell) -> bool {
    words::is_baseline(analysis, cell)
}

fn legend_of(analysis: &Analysis, drawn: &Drawn, cells: &[&Cell]) -> Vec<(String, String)> {
    let mut swatches = legend(&[("rate", drawn.quantity.words())]);
    if let Some(cell) = cells.iter().find(|cell| is_baseline(analysis, cell)) {
        swatches.extend(legend(&[("equal", &cell.system)]));
    }
    if cells.iter().any(|cell| drawn.is_known(cell)) {
        swatches.extend(legend(&[("interval", "95 % interval")]));
    }
    swatches
}

/// Figures drawn for a workload: rates, durations of a single operation, or response times.
struct Drawn {
    quantity: Quantity,
    rate: Rate,
}

impl Drawn {
    /// The figure and the ends of its interval.
    fn of(&self, cell: &Cell) -> (f64, (f64, f64)) {
        let ends = (cell.log_rate.low.exp(), cell.log_rate.high.exp());
        match (self.quantity, cell.time_ns(self.quantity)) {
            (Quantity::Time, Some(time_ns)) => (time_ns, (1e9 / ends.1, 1e9 / ends.0)),
            // The interval belongs to the rate.
            (_, Some(time_ns)) => (time_ns, (f64::NAN, f64::NAN)),
            (_, None) => (cell.geometric_mean, ends),
        }
    }

    /// Returns true if the interval is finite.
    fn is_known(&self, cell: &Cell) -> bool {
        let (_, (low, high)) = self.of(cell);
        low.is_finite() && high.is_finite()
    }

    fn figure(&self, value: f64) -> String {
        super::figure(value, self.quantity, self.rate)
    }
}

fn draw(analysis: &Analysis, workload: &Workload, drawn: &Drawn, cells: &[&Cell]) -> String {
    let longest = cells
        .iter()
        .map(|cell| drawn.of(cell).0)
        .fold(0.0, f64::max);
    let ends = cells.iter().filter(|cell| drawn.is_known(cell));
    // Cut off an interval that is wider than the bars, instead of squeezing them.
    let most = ends
        .map(|cell| drawn.of(cell).1.1)
        .fold(longest, f64::max)
        .min(longest * 1.5);
    let (unit, tick) = axis(most, drawn.quantity, drawn.rate);
    let names: Vec<&str> = cells.iter().map(|cell| cell.system.as_str()).collect();
    let range = (0.0, most / unit * 1.02);
    let mut chart = Rows::new(&names, range, 78.0, tick);
    let mut said = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let middle = chart.middle(index);
        let (value, ends) = drawn.of(cell);
        let figure = drawn.figure(value);
        let mut title = format!("{}: {figure}", cell.system);
        if drawn.is_known(cell) {
            let [low, high] = [ends.0, ends.1].map(|end| drawn.figure(end));
            title += &format!(", 95 % interval {low} … {high}");
        }
        let class = if is_baseline(analysis, cell) {
            "bar equal"
        } else {
            "bar rate"
        };
        let bar = (chart.scale.at(0.0), chart.scale.at(value / unit));
        chart.svg.bar(class, bar, (middle - 6.0, 12.0), &title);
        if drawn.is_known(cell) {
            chart.whisker(middle, (ends.0 / unit, ends.1 / unit));
        }
        chart.label(index, &cell.system, "figure plain", &figure);
        said.push(format!("{} {figure}", cell.system));
    }
    let what = if drawn.quantity.is_time() {
        "times"
    } else {
        "rates"
    };
    chart.svg.finish(&format!(
        "{}, {what}, fastest first: {}",
        workload.name,
        said.join(", ")
    ))
}
