//! Systems that did not keep up with the rate at which operations came.

use super::{Kind, by_workload, percent};

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "overload",
    title: "Did not keep up",
    remedy: "Operations came faster than they were answered, so response times grow for as long as a run \
             lasts: which is slower holds, by how much does not. Lower `arrivals` to compare response times.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let share = analysis.share_answered(cell)?;
            Some(format!("answered {} of what came", percent(share)))
        })
    },
};
