//! CPU time for the same amount of work, in three parts.

use spindles_measure::{Analysis, Cell, Rate};

use super::{Chart, Panel, Rows, by_workload, legend, time_tick};
use crate::figures;

pub(super) static CHART: Chart = Chart {
    name: "cpu",
    entry: "CPU",
    title: "CPU",
    caption: "CPU time for each GiB or operation, over all CPUs of the machine, in three parts: \
        the workload itself, the array, and the rest of the machine (the kernel's share of the \
        I/O, and other programs). Each panel has its own scale.",
    panels,
};

/// The parts of a bar: CSS class and label.
const PARTS: [(&str, &str); 3] = [
    ("cpu-workload", "workload"),
    ("cpu-engine", "engine"),
    ("cpu-rest", "rest of the machine"),
];

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let total = |cell: &Cell| cell.cpu_per_counted().map_or(0.0, |(w, e, r)| w + e + r);
    by_workload(analysis, |workload, cells| {
        let most = cells.iter().map(|cell| total(cell)).fold(0.0, f64::max);
        (most > 0.0).then(|| Panel {
            title: workload.name.clone(),
            note: format!("CPU time {}", figures::cpu_unit(workload.rate)),
            svg: draw(&workload.name, &cells, workload.rate, most),
            legend: legend(&PARTS),
        })
    })
}

fn draw(workload: &str, cells: &[&Cell], rate: Rate, most: f64) -> String {
    let names: Vec<&str> = cells.iter().map(|cell| cell.system.as_str()).collect();
    let scaled = most * figures::cpu_scale(rate);
    let mut chart = Rows::new(&names, (0.0, scaled * 1.02), 58.0, |tick| {
        if tick > 0.0 {
            time_tick(tick)
        } else {
            "0".to_owned()
        }
    });
    let mut said = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let (workload_ns, engine, rest) = cell.cpu_per_counted().unwrap_or_default();
        let middle = chart.middle(index);
        let mut begin = 0.0;
        for ((class, words), share) in PARTS.into_iter().zip([workload_ns, engine, rest]) {
            let end = begin + share * figures::cpu_scale(rate);
            let title = format!(
                "{}, {words}: {} {}",
                cell.system,
                figures::cpu(share, rate),
                figures::cpu_unit(rate)
            );
            let ends = (chart.scale.at(begin), chart.scale.at(end));
            chart
                .svg
                .bar(&format!("bar {class}"), ends, (middle - 6.0, 12.0), &title);
            begin = end;
        }
        let total = figures::cpu(workload_ns + engine + rest, rate);
        said.push(format!("{} {total}", cell.system));
        chart.label(index, &cell.system, "figure plain", &total);
    }
    chart.svg.finish(&format!(
        "{workload}, CPU time {}: {}",
        figures::cpu_unit(rate),
        said.join(", ")
    ))
}
