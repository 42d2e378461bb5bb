//! Runs too short to mean much.

use super::{Kind, by_workload};
use crate::histogram::to_f64;
use crate::statistics::median;

/// Median time of a run below which it is called short, in seconds.
const SECONDS_MIN: f64 = 0.1;

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "short-runs",
    title: "Short runs",
    remedy: "A run of less than 0.1 s is over before caches, queues and the CPU's frequency have \
             settled. Give the workload more to do.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let seconds: Vec<f64> = analysis
                .runs
                .iter()
                .filter(|run| run.system.name == cell.system && run.workload.name == cell.workload)
                .map(|run| to_f64(run.elapsed_ns) / 1e9)
                .collect();
            let typical = median(&seconds);
            (typical < SECONDS_MIN).then(|| format!("{:.0} ms", typical * 1e3))
        })
    },
};
