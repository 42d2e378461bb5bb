//! Reports missing runs of a block that has begun.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "missing-runs",
    rank: Rank::Partial,
    title: "A repetition block is incomplete",
    remedy: "The experiment ended in the middle of a repetition block. Rates count all finished \
        runs, differences only the blocks that both sides finished, so these may differ from the \
        ratios of the rates.",
    find: |analysis| {
        let begun = analysis.experiment.runs_per_block() * analysis.blocks();
        match begun.saturating_sub(analysis.runs.len()) {
            0 => Vec::new(),
            1 => vec![format!("1 of {begun} runs is missing")],
            missing => vec![format!("{missing} of {begun} runs are missing")],
        }
    },
};
