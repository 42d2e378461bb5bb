//! Reports a program built without optimisation.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "debug-build",
    rank: Rank::Untrue,
    title: "Debug build",
    remedy: "The program was built without optimisation, so all CPU work is many times too slow. \
             Run it with `cargo run --release`.",
    find: |analysis| match &*analysis.environment.profile {
        "debug" => vec!["the records come from a debug build".to_owned()],
        _ => Vec::new(),
    },
};
