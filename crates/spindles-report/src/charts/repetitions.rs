//! Every repetition as a dot, which shows scatter, jumps and outliers.

use spindles_measure::{Analysis, Cell, Quantity, Repetition};

use super::{Chart, Panel, Rows, axis, by_workload, figure, legend};
use crate::words;

pub(super) static CHART: Chart = Chart {
    name: "repetitions",
    entry: "Repetitions",
    title: "Every repetition",
    caption: "Each dot is a run; the stroke is their geometric mean. Rings are outliers, which \
        count in every figure. Each panel has its own scale, which may not begin at zero.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    by_workload(analysis, |workload, cells| {
        let quantity = match analysis.quantities(workload) {
            [Quantity::Time] => Quantity::Time,
            _ => Quantity::Rate,
        };
        let several = cells.iter().any(|cell| cell.repetitions.len() > 1);
        several.then(|| Panel {
            title: workload.name.clone(),
            note: workload.summary.clone(),
            svg: draw(&workload.name, quantity, &cells),
            legend: legend_of(&cells),
        })
    })
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

/// The compared figure of a repetition.
fn value(repetition: &Repetition, quantity: Quantity) -> f64 {
    let speed = repetition.speed(quantity).unwrap_or(repetition.per_second);
    if quantity.is_time() {
        1e9 / speed
    } else {
        speed
    }
}

fn draw(workload: &str, quantity: Quantity, cells: &[&Cell]) -> String {
    let values = || {
        let repetitions = cells.iter().flat_map(|cell| &cell.repetitions);
        repetitions.map(|repetition| value(repetition, quantity))
    };
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(0.0, f64::max);
    let room = ((high - low) * 0.04).max(high * 0.005);
    let names: Vec<&str> = cells.iter().map(|cell| cell.system.as_str()).collect();
    let rate = cells[0].rate;
    let (unit, tick) = axis(high, quantity, rate);
    let range = ((low - room).max(0.0) / unit, (high + room) / unit);
    let mut chart = Rows::new(&names, range, 78.0, tick);
    for (index, cell) in cells.iter().enumerate() {
        let middle = chart.middle(index);
        for repetition in &cell.repetitions {
            let class = if repetition.outlier {
                "dot outlier"
            } else {
                "dot"
            };
            let radius = if repetition.outlier { 4.0 } else { 3.0 };
            let value = value(repetition, quantity);
            let title = title_of(cell, repetition, quantity);
            chart.svg.circle(
                class,
                (chart.scale.at(value / unit), middle),
                radius,
                &title,
            );
        }
        if !cell.repetitions.is_empty() {
            let mean = cell.time_ns(quantity).unwrap_or(cell.geometric_mean);
            let mean = chart.scale.at(mean / unit);
            let line = ((mean, middle - 8.0), (mean, middle + 8.0));
            chart.svg.line("mean", line.0, line.1);
        }
        chart.label(
            index,
            &cell.system,
            "figure plain",
            &words::figure(cell, quantity),
        );
    }
    chart.svg.finish(&description(workload, quantity, cells))
}

/// Returns the title of a repetition's dot: the system, the block and the figure.
fn title_of(cell: &Cell, repetition: &Repetition, quantity: Quantity) -> String {
    let value = value(repetition, quantity);
    let figure = figure(value, quantity, cell.rate);
    let block = repetition.block.saturating_add(1);
    format!("{}, block {block}: {figure}", cell.system)
}

/// Describes the chart in words: the mean of each system.
fn description(workload: &str, quantity: Quantity, cells: &[&Cell]) -> String {
    let said: Vec<String> = cells
        .iter()
        .map(|cell| {
            let rate = words::figure(cell, quantity);
            format!("{} {rate}", cell.system)
        })
        .collect();
    format!(
        "{workload}, geometric means of all repetitions: {}",
        said.join(", ")
    )
}
