//! Bytes that the members wrote, and read in addition, for each byte the workload wrote.

use spindles_measure::{Analysis, Cell};

use super::{Chart, Panel, Rows, by_workload, legend};
use crate::figures;

pub(super) static CHART: Chart = Chart {
    name: "amplification",
    entry: "Amplification",
    title: "Write amplification",
    caption: "Bytes written to the members for each byte the workload wrote, and bytes read in \
        addition to update parity. Copies and parity are the price of surviving a lost member; the \
        rest is the price of writing less than a whole stripe.",
    panels,
};

const LEGEND: [(&str, &str); 2] = [
    ("amplified", "written"),
    ("amplified-read", "read in addition"),
];

/// Written and additionally read per byte written.
fn amplification(cell: &Cell) -> Option<(f64, f64)> {
    let written = cell.write_amplification()?;
    let more = cell.members.read.saturating_sub(cell.application.read);
    Some((
        written,
        figures::float(more) / figures::float(cell.application.written),
    ))
}

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let most = analysis
        .cells
        .iter()
        .filter_map(amplification)
        .map(|(written, read)| written + read)
        .fold(1.0, f64::max);
    by_workload(analysis, |workload, mut cells| {
        cells.retain(|cell| cell.application.written > 0);
        (!cells.is_empty()).then(|| Panel {
            title: workload.name.clone(),
            note: "bytes at the members per byte written".to_owned(),
            svg: draw(&workload.name, &cells, most),
            legend: legend(&LEGEND),
        })
    })
}

fn draw(workload: &str, cells: &[&Cell], most: f64) -> String {
    let names: Vec<&str> = cells.iter().map(|cell| cell.system.as_str()).collect();
    let mut chart = Rows::new(&names, (0.0, most * 1.02), 52.0, |tick| format!("{tick} ×"));
    let mut said = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let (written, read) = amplification(cell).unwrap_or_default();
        let middle = chart.middle(index);
        let (zero, end) = (chart.scale.at(0.0), chart.scale.at(written));
        let title = format!("{}: {} written", cell.system, figures::times(written));
        chart
            .svg
            .bar("bar amplified", (zero, end), (middle - 6.0, 12.0), &title);
        if read > 0.0 {
            let title = format!("{}: {} read in addition", cell.system, figures::times(read));
            let ends = (end, chart.scale.at(written + read));
            chart
                .svg
                .bar("bar amplified-read", ends, (middle - 6.0, 12.0), &title);
        }
        said.push(format!("{} {}", cell.system, figures::times(written)));
        chart.label(
            index,
            &cell.system,
            "figure plain",
            &figures::times(written),
        );
    }
    let (one, bottom) = (chart.scale.at(1.0), chart.bottom);
    chart.svg.line("zero", (one, 2.0), (one, bottom));
    chart.svg.finish(&format!(
        "{workload}, write amplification: {}",
        said.join(", ")
    ))
}
