//! Reports runs too short to mean much.

use super::{Kind, Rank, by_workload};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "short-runs",
    rank: Rank::Partial,
    title: "Short runs",
    remedy: "A run of less than 0.1 s ends before caches, queues and the CPU's frequency have \
             settled. Give the workload more to do.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let seconds = analysis.seconds_if_short(cell)?;
            Some(format!("{:.0} ms", seconds * 1e3))
        })
    },
};
