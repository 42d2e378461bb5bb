//! The steady state test over the last five repetitions fails.

use super::{Kind, by_workload, percent};

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "not-steady",
    title: "Not steady",
    remedy: "Over the last five repetitions these figures range by more than 20 % of their mean \
             or trend by more than 10 %. Their intervals say how much that matters; on a flash \
             device run longer, or precondition it.",
    find: |analysis| {
        by_workload(analysis, |cell| {
            let steady = cell.steady.filter(|steady| !steady.holds())?;
            Some(format!("range {}", percent(steady.range)))
        })
    },
};
