//! Reports systems that did not keep up with the arrival rate.

use super::{Kind, Rank, by_workload};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "overload",
    rank: Rank::Untrue,
    title: "Did not keep up",
    remedy: "Operations came faster than they were answered, and response times have what piled up \
        in them: which is slower holds, by how much does not. Where all runs fell behind, lower \
        `arrivals`; where only some did, something stood still for a while (see the rate over \
        time): find out what.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            analysis.overload(cell).map(|overload| overload.words())
        })
    },
};
