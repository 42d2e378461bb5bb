//! Reports systems that did not keep up with the arrival rate.

use super::{Kind, Rank, by_workload};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "overload",
    rank: Rank::Untrue,
    title: "Did not keep up",
    remedy: "Operations arrived faster than they were answered, so response times include the \
        backlog: they show which system is slower, but not by how much. If all runs fell behind, \
        lower `arrivals`. If only some did, look for pauses in the rate over time, and find their \
        cause.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            analysis.overload(cell).map(|overload| overload.words())
        })
    },
};
