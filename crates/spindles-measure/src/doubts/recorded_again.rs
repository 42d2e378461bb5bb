//! Reports runs that are in the records more than once.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "recorded-again",
    rank: Rank::Partial,
    title: "Recorded more than once",
    remedy: "The records contain the same runs again, for example because files were concatenated. \
        Each run counts once; remove its copies.",
    find: |analysis| match analysis.recorded_again {
        0 => Vec::new(),
        1 => vec!["1 record is a copy".to_owned()],
        count => vec![format!("{count} records are copies")],
    },
};
