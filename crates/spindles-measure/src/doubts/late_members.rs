//! Reports members that answered late.

use super::{Kind, Rank, by_workload};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "late-members",
    rank: Rank::Unsure,
    title: "Members answered late",
    remedy: "A member answered a read much later than its peers do (stalled), or was much slower \
        than they are for seconds (slow). With redundancy, the array then reads from the other \
        members, and sends a few waiting reads to them too (hedged). These figures depend on that \
        device: check its health, and what else uses it.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let late = cell.late_members.iter();
            let late: Vec<String> = late.map(ToString::to_string).collect();
            (!late.is_empty()).then(|| late.join("; "))
        })
    },
};
