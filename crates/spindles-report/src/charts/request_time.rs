//! Bars of the time of modelled disks' requests, in parts.

use spindles_measure::Analysis;

use super::{Chart, Panel, Rows, by_workload, legend, time_tick};
use crate::figures;
use crate::request_time::{CellTime, PARTS};

pub(super) static CHART: Chart = Chart {
    name: "request-parts",
    entry: "Parts of a request",
    title: "Parts of a request",
    caption: "Mean time of a request of a modelled disk, in parts. Arm, rotation and medium \
        include writes after their answer. Each panel has its own scale.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    by_workload(analysis, |workload, cells| {
        let times: Vec<(&str, CellTime)> = (cells.iter())
            .filter_map(|cell| Some((&*cell.system, CellTime::of(analysis, cell)?)))
            .collect();
        (!times.is_empty()).then(|| Panel {
            title: workload.name.clone(),
            note: "time for each request of a disk".to_owned(),
            svg: draw(&workload.name, &times),
            legend: legend(&PARTS.map(|(name, class, _)| (class, name))),
        })
    })
}

fn draw(workload: &str, times: &[(&str, CellTime)]) -> String {
    let names: Vec<&str> = times.iter().map(|(name, _)| *name).collect();
    let sums = times.iter().map(|(_, time)| time.sum_ns());
    let most = sums.fold(0.0, f64::max);
    let mut chart = Rows::new(&names, (0.0, most * 1.02), 58.0, time_tick);
    let mut said = Vec::new();
    for (index, (name, time)) in times.iter().enumerate() {
        let middle = chart.middle(index);
        let mut begin = 0.0;
        for part in &PARTS {
            let end = begin + time.part_ns(part);
            let title = format!("{name}, {}: {}", part.0, figures::time(end - begin));
            let ends = (chart.scale.at(begin), chart.scale.at(end));
            let class = format!("bar {}", part.1);
            if end > begin {
                chart.svg.bar(&class, ends, (middle - 6.0, 12.0), &title);
                said.push(title);
            }
            begin = end;
        }
        chart.label(index, name, "figure plain", &figures::time(time.sum_ns()));
    }
    chart
        .svg
        .finish(&format!("{workload}: {}", said.join("; ")))
}
