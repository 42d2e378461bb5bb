//! Reports results that measure the harness rather than the system.

use super::{Kind, Rank, by_workload, percent};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "load-generator",
    rank: Rank::Untrue,
    title: "The load generator was the limit",
    remedy: "These rates exceed 70 % of the harness's own rate on a target that does nothing. They \
        are refused as results, so they get no verdict. Use larger operations, or more machines.",
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
