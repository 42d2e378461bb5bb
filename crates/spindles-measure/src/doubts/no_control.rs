//! Reports that the experiment has no A/A pair.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "no-control",
    rank: Rank::Partial,
    title: "No A/A pair",
    remedy: "Without the same system measured twice under two names, the difference that \
             this machine shows where there is none is unknown. Add one to the experiment.",
    find: |analysis| {
        if analysis.comparisons.is_empty() || analysis.comparisons.iter().any(|c| c.control) {
            Vec::new()
        } else {
            vec!["the experiment has no control".to_owned()]
        }
    },
};
