//! Reports runs that are in the records more than once.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "recorded-again",
    rank: Rank::Partial,
    title: "Recorded more than once",
    remedy: "The same runs are in the records again, as where files were put one after the other. \
        Each counts once; leave the others out.",
    find: |analysis| match analysis.recorded_again {
        0 => Vec::new(),
        1 => vec!["1 run was recorded once more".to_owned()],
        count => vec![format!("{count} runs were recorded once more")],
    },
};
