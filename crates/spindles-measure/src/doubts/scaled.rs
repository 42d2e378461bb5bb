//! Sizes smaller than the workloads define them.

use super::{Kind, Rank};

/// Its row of the table.
pub(super) static KIND: Kind = Kind {
    name: "scaled",
    rank: Rank::Partial,
    title: "Scaled sizes",
    remedy: "The workloads moved less data than they define, to be done sooner. Compare these \
             figures with each other, not with figures of full size.",
    find: |analysis| match (analysis.experiment.scaled, &*analysis.experiment.scaled_how) {
        (false, _) => Vec::new(),
        (true, "") => vec!["sizes are smaller than the workloads define them".to_owned()],
        (true, how) => vec![how.to_owned()],
    },
};
