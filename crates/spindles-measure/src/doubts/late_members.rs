//! Reports members that answered late.

use super::{Kind, Rank, by_workload};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "late-members",
    rank: Rank::Unsure,
    title: "Members answered late",
    remedy: "A member kept reads waiting for much longer than its peers take (stalled), or took \
        much longer than they do for seconds (slow). Where there is redundancy it was read around \
        meanwhile, and a few of the reads that waited were asked of the others too (hedged). These \
        figures tell of that device: look at its health, and at what else uses it.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let late = cell.late_members.iter();
            let late: Vec<String> = late.map(ToString::to_string).collect();
            (!late.is_empty()).then(|| late.join("; "))
        })
    },
};
