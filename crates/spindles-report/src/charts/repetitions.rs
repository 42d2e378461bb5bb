//! Every repetition as a dot: what scatters, what jumps and what lies far out.

use spindles_measure::{Analysis, Cell, Quantity};

use super::{Chart, Panel, Rows, legend, rate_tick, shown};
use crate::{figures, words};

pub(super) static CHART: Chart = Chart {
    name: "repetitions",
    entry: "Repetitions",
    title: "Every repetition",
    caption: "One dot for each run, the stroke is their geometric mean. Rings are outliers; they are kept in \
              every figure. Each panel has its own scale, which need not begin at zero.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let systems = shown(analysis);
    analysis
        .experiment
        .workloads
        .iter()
        .filter_map(|workload| {
            let cells: Vec<&Cell> = systems
                .iter()
                .filter_map(|name| analysis.cell(name, &workload.name))
                .collect();
            let several = cells.iter().any(|cell| cell.repetitions.len() > 1);
            several.then(|| Panel {
                title: workload.name.clone(),
                note: workload.summary.clone(),
                svg: draw(&workload.name, &cells),
                legend: legend_of(&cells),
            })
        })
        .collect()
}

fn legend_of(cells: &[&Cell]) -> Vec<(String, String)> {
    let mut repetitions = cells.iter().flat_map(|cell| &cell.repetitions);
    let outliers = repetitions.any(|repetition| repetition.outlier);
    let all = [
        ("run", "a run"),
        ("mean", "geometric mean"),
        ("outlier", "outlier"),
    ];
    legend(&all[..if outliers { 3 } else { 2 }])
}

fn draw(workload: &str, cells: &[&Cell]) -> String {
    let rates = || {
        cells
            .iter()
            .flat_map(|cell| cell.repetitions.iter().map(|r| r.per_second))
    };
    let low = rates().fold(f64::INFINITY, f64::min);
    let high = rates().fold(0.0, f64::max);
    let room = ((high - low) * 0.04).max(high * 0.005);
    let names: Vec<&str> = cells.iter().map(|cell| cell.system.as_str()).collect();
    let rate = cells[0].rate;
    // Ticks are round in the unit they are read in.
    let (unit, words) = figures::rate_unit(high, rate);
    let range = ((low - room).max(0.0) / unit, (high + room) / unit);
    let mut chart = Rows::new(&names, range, 78.0, |tick| rate_tick(tick, words));
    for (index, cell) in cells.iter().enumerate() {
        let middle = chart.middle(index);
        for repetition in &cell.repetitions {
            let class = if repetition.outlier {
                "dot outlier"
            } else {
                "dot"
            };
            let radius = if repetition.outlier { 4.0 } else { 3.0 };
            let title = format!(
                "{}, block {}: {}",
                cell.system,
                repetition.block.saturating_add(1),
                figures::rate(repetition.per_second, rate)
            );
            chart.svg.circle(
                class,
                (chart.scale.at(repetition.per_second / unit), middle),
                radius,
                &title,
            );
        }
        if !cell.repetitions.is_empty() {
            let mean = chart.scale.at(cell.geometric_mean / unit);
            let line = ((mean, middle - 8.0), (mean, middle + 8.0));
            chart.svg.line("mean", line.0, line.1);
        }
        chart.label(
            index,
            &cell.system,
            "figure plain",
            &words::figure(cell, Quantity::Rate),
        );
    }
    let said: Vec<String> = cells
        .iter()
        .map(|cell| {
            let rate = words::figure(cell, Quantity::Rate);
            format!("{} {rate}", cell.system)
        })
        .collect();
    chart.svg.finish(&format!(
        "{workload}, geometric means of all repetitions: {}",
        said.join(", ")
    ))
}
