//! Bars of the CPU time against the mean of several single devices.

use spindles_measure::Analysis;

use super::{Chart, Panel, singles};
use crate::figures;

pub(super) static CHART: Chart = Chart {
    name: "singles-cpu",
    entry: "CPU against singles",
    title: "CPU time against the mean of the single devices",
    caption: "CPU time of the whole machine for each byte or operation, divided by the mean of the \
        single devices in the same repetition block; right is more. This is CPU time for equal \
        work, not CPU load: a faster system loads a CPU more, for a shorter time. One scale for \
        all panels.",
    panels,
};

fn panels(analysis: &Analysis) -> Vec<Panel> {
    let class = |row: &spindles_measure::AgainstSingles| {
        if row.is_single { "equal" } else { "rate" }
    };
    let large = |estimate: &spindles_measure::statistics::Estimate| {
        format!("{} × as much", figures::how_often(estimate.value.exp()))
    };
    singles::drawn(analysis, "CPU time", |row| row.cpu.as_ref(), class, large)
}
