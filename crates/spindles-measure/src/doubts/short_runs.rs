//! Reports runs too short to mean much.

use super::{Kind, Rank, by_workload};
use crate::histogram::to_f64;
use crate::statistics::median;
use crate::{Analysis, Cell};

/// Median duration of a cell's runs, in seconds, below which they are short.
const SECONDS_MIN: f64 = 0.1;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "short-runs",
    rank: Rank::Partial,
    title: "Short runs",
    remedy: "A run of less than 0.1 s is over before caches, queues and the CPU's frequency have \
             settled. Give the workload more to do.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let seconds = seconds_if_short(analysis, cell)?;
            Some(format!("{:.0} ms", seconds * 1e3))
        })
    },
};

/// Returns the median duration of a cell's runs in seconds. `None` if it is long enough.
pub(crate) fn seconds_if_short(analysis: &Analysis, cell: &Cell) -> Option<f64> {
    let runs = analysis.runs.iter().chain(&analysis.totals);
    let seconds: Vec<f64> = runs
        .filter(|run| run.system.name == cell.system && run.workload.name == cell.workload)
        .map(|run| to_f64(run.elapsed_ns) / 1e9)
        .collect();
    let typical = median(&seconds);
    (typical < SECONDS_MIN).then_some(typical)
}
