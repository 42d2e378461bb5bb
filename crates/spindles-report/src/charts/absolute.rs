//! Rates as they are, the fastest first, with their intervals.

use spindles_measure::{Analysis, Cell};

use super::{Chart, Panel, Rows, legend, rate_tick, shown};
use crate::{figures, words};

pub(super) static CHART: Chart = Chart {
    name: "rates",
    entry: "Rates",
    title: "Rates",
    caption: "Geometric means of all repetitions, the fastest first; the whisker is the 95 % interval over \
              repetition blocks. What disturbs a whole block widens the whiskers of all systems alike, so \
              two may overlap and differ all the same: their difference from the baseline says it. Each panel has its own scale.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let systems = shown(analysis);
    let workloads = analysis.experiment.workloads.iter();
    workloads
        .filter_map(|workload| {
            let mut cells: Vec<&Cell> = systems
                .iter()
                .filter_map(|name| analysis.cell(name, &workload.name))
                .filter(|cell| cell.geometric_mean > 0.0)
                .collect();
            cells.sort_by(|a, b| b.geometric_mean.total_cmp(&a.geometric_mean));
            (cells.len() > 1).then(|| Panel {
                title: workload.name.clone(),
                note: workload.summary.clone(),
                svg: draw(analysis, &workload.name, &cells),
                legend: legend_of(analysis, &cells),
            })
        })
        .collect()
}

fn is_baseline(analysis: &Analysis, cell: &Cell) -> bool {
    cell.system == analysis.experiment.baseline
}

fn is_known(cell: &Cell) -> bool {
    cell.log_rate.low.is_finite() && cell.log_rate.high.is_finite()
}

fn legend_of(analysis: &Analysis, cells: &[&Cell]) -> Vec<(String, String)> {
    let mut swatches = legend(&[("rate", "rate")]);
    if cells.iter().any(|cell| is_baseline(analysis, cell)) {
        swatches.extend(legend(&[("equal", &words::baseline_name(analysis))]));
    }
    if cells.iter().any(|cell| is_known(cell)) {
        swatches.extend(legend(&[("interval", "95 % interval")]));
    }
    swatches
}

fn draw(analysis: &Analysis, workload: &str, cells: &[&Cell]) -> String {
    let rate = cells[0].rate;
    let fastest = cells[0].geometric_mean;
    let ends = cells.iter().filter(|cell| is_known(cell));
    // An interval that is wider than the bars themselves is cut off rather than squeezing them.
    let most = ends
        .map(|cell| cell.log_rate.high.exp())
        .fold(fastest, f64::max)
        .min(fastest * 1.5);
    let (unit, words) = figures::rate_unit(most, rate);
    let names: Vec<&str> = cells.iter().map(|cell| cell.system.as_str()).collect();
    let range = (0.0, most / unit * 1.02);
    let mut chart = Rows::new(&names, range, 78.0, |tick| rate_tick(tick, words));
    let mut said = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let middle = chart.middle(index);
        let figure = figures::rate(cell.geometric_mean, rate);
        let ends = (cell.log_rate.low.exp(), cell.log_rate.high.exp());
        let mut title = format!("{}: {figure}", cell.system);
        if is_known(cell) {
            let [low, high] = [ends.0, ends.1].map(|end| figures::rate(end, rate));
            title += &format!(", 95 % interval {low} … {high}");
        }
        let class = if is_baseline(analysis, cell) {
            "bar equal"
        } else {
            "bar rate"
        };
        let bar = (
            chart.scale.at(0.0),
            chart.scale.at(cell.geometric_mean / unit),
        );
        chart.svg.bar(class, bar, (middle - 6.0, 12.0), &title);
        if is_known(cell) {
            chart.whisker(middle, (ends.0 / unit, ends.1 / unit));
        }
        chart.label(index, &cell.system, "figure plain", &figure);
        said.push(format!("{} {figure}", cell.system));
    }
    chart.svg.finish(&format!(
        "{workload}, rates, the fastest first: {}",
        said.join(", ")
    ))
}
