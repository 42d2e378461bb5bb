//! The chart of a prediction next to a measurement: a panel for each workload.

use spindles_measure::{CheckedFigure, PredictionCheck};

use crate::charts::{Panel, Rows, axis, legend};
use crate::prediction::absolute;

/// How to read the chart.
pub(crate) const CAPTION: &str =
    "Bars are predictions, with their bands. Circles are measurements.";

/// Draws a panel for each workload and quantity.
pub(crate) fn panels(check: &PredictionCheck) -> Vec<Panel> {
    let mut names: Vec<String> = Vec::new();
    for row in &check.figures {
        if !names.contains(&row.of()) {
            names.push(row.of());
        }
    }
    let panel = |name: String| {
        let rows = check.figures.iter().filter(|row| row.of() == name);
        let rows: Vec<&CheckedFigure> = rows.collect();
        Panel {
            note: rows[0].quantity.words().to_owned(),
            svg: draw(&name, &rows),
            legend: legend(&[
                ("rate", "predicted"),
                ("interval", "band"),
                ("measured", "measured"),
            ]),
            title: name,
        }
    };
    names.into_iter().map(panel).collect()
}

fn draw(name: &str, rows: &[&CheckedFigure]) -> String {
    let longest = (rows.iter())
        .map(|row| row.predicted.max(row.measured))
        .fold(0.0, f64::max);
    let ends = rows.iter().filter_map(|row| Some(row.band?.1));
    // A wide band is cut off, instead of squeezing the bars.
    let most = ends.fold(longest, f64::max).min(longest * 1.5);
    let (unit, tick) = axis(most, rows[0].quantity, rows[0].rate);
    let names: Vec<&str> = rows.iter().map(|row| row.system.as_str()).collect();
    let mut chart = Rows::new(&names, (0.0, most / unit * 1.02), 78.0, tick);
    let mut said = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let middle = chart.middle(index);
        let [predicted, measured] = [row.predicted, row.measured].map(|value| absolute(row, value));
        let title = format!("{}: predicted {predicted}, measured {measured}", row.system);
        chart.bar(index, row.predicted / unit, &title);
        if let Some((low, high)) = row.band {
            chart.whisker(middle, (low / unit, high / unit));
        }
        chart.circle(index, row.measured / unit, "measured", &title);
        chart.label(index, &row.system, "figure plain", &measured);
        said.push(title);
    }
    chart.finish(&format!("{name}: {}", said.join("; ")))
}
