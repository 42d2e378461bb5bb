//! Reports fewer repetition blocks than the experiment asks for.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "stopped-early",
    rank: Rank::Partial,
    title: "Fewer repetitions than planned",
    remedy: "The experiment stopped before its last block, by its time limit or by hand, so \
        intervals are wider than planned. Raise the limit, or let it run to its end.",
    find: |analysis| {
        let asked = usize::try_from(analysis.experiment.repetition_blocks).unwrap_or(usize::MAX);
        match analysis.blocks() {
            blocks if blocks < asked => vec![format!("{blocks} of {asked} repetition blocks")],
            _ => Vec::new(),
        }
    },
};
