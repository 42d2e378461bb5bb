//! Bars of the gain from each part of modelled disks, if it is a tenth faster.

use spindles_measure::{Analysis, Help};

use super::difference::{Bar, Frame, draw_bars, logs};
use super::{Chart, Panel, legend};
use crate::words;

pub(super) static CHART: Chart = Chart {
    name: "faster-part-gains",
    entry: "Faster parts",
    title: "Gain from faster parts",
    caption: "Speed with one part of the disks a tenth faster, divided by the speed without, with \
        the same draws. Right is faster. The whisker is the 95 % interval. One scale for all.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let figure =
        |help: &Help| words::difference_of(help.quantity, &help.log_ratio, words::TIMES_IN_TABLES);
    let all = analysis.help.iter();
    let frame = Frame::of(
        all.clone().map(|help| logs(help.quantity, &help.log_ratio)),
        all.map(figure),
    );
    let mut panels = Vec::new();
    for workload in &analysis.experiment.workloads {
        for system in &analysis.experiment.systems {
            let parts = analysis.help.iter();
            let parts =
                parts.filter(|help| help.system == system.name && help.workload == workload.name);
            let bars: Vec<Bar<'_>> = parts
                .map(|help| Bar {
                    name: &help.part,
                    logs: logs(help.quantity, &help.log_ratio),
                    class: "rate".to_owned(),
                    figure_class: "plain",
                    figure: figure(help),
                    title: format!("{}: {}", help.part, figure(help)),
                })
                .collect();
            if !bars.is_empty() {
                let words = format!("{} in {}, faster parts", system.name, workload.name);
                panels.push(Panel {
                    title: format!("{}, {}", workload.name, system.name),
                    note: "speed with a faster part".to_owned(),
                    svg: draw_bars(&words, &bars, frame, 0.0),
                    legend: legend(&[("rate", "gain"), ("interval", "95 % interval")]),
                });
            }
        }
    }
    panels
}
