//! Reports results that measure the harness rather than the system.

use super::{Kind, Rank, by_workload, percent};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "load-generator",
    rank: Rank::Untrue,
    title: "The load generator was the limit",
    remedy: "These rates are above 70 % of what the harness itself does on a target that does \
        nothing, so they are refused as results: no verdict is made of them. Ask for more per \
        operation, or from more machines.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let ceiling = analysis
                .ceiling(&cell.workload)
                .filter(|_| analysis.is_refused(cell))?;
            Some(format!(
                "{} of the ceiling",
                percent(cell.geometric_mean / ceiling)
            ))
        })
    },
};
