//! Reports sizes smaller than the workloads define.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "scaled",
    rank: Rank::Partial,
    title: "Scaled sizes",
    remedy: "The workloads moved less data than they define, to finish sooner. Compare these \
             figures with each other, not with full-size figures.",
    find: |analysis| match (analysis.experiment.scaled, &*analysis.experiment.scaled_how) {
        (false, _) => Vec::new(),
        (true, "") => vec!["sizes are smaller than the workloads define".to_owned()],
        (true, how) => vec![how.to_owned()],
    },
};
