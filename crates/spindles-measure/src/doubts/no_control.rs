//! Reports that the experiment has no A/A pair.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "no-control",
    rank: Rank::Partial,
    title: "No A/A pair",
    remedy: "No system was measured twice under two names, so it is unknown how far identical \
             systems differ on this machine. Set `control = true` in the experiment.",
    find: |analysis| {
        if analysis.comparisons.is_empty() || analysis.comparisons.iter().any(|c| c.control) {
            Vec::new()
        } else {
            vec!["the experiment has no control system".to_owned()]
        }
    },
};
