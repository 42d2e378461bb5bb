//! Systems that did not keep up with the rate at which operations came.

use super::{Kind, by_workload, percent};

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "overload",
    title: "Did not keep up",
    remedy: "Operations came faster than they were answered, throughout or during a stall, and response times have \
             what piled up in them: which is slower holds, by how much does not. Where the rate over time falls \
             to nothing for a moment, find out why; otherwise lower `arrivals`.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let share = analysis.share_answered(cell)?;
            Some(format!("answered {} of what came", percent(share)))
        })
    },
};
