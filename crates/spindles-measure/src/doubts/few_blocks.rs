//! Reports too few repetition blocks for a reliable interval.

use super::{Kind, Rank};
use crate::statistics::BOOTSTRAP_BLOCKS_MIN;

/// `1 repetition block`.
pub(crate) fn blocks(count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} repetition block{s}")
}

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "few-blocks",
    rank: Rank::Unsure,
    title: "Few repetitions",
    remedy: "Intervals from few repetitions assume well-behaved noise. Use at least 5 repetition \
             blocks, better 8.",
    find: |analysis| {
        let fewest = analysis
            .comparisons
            .iter()
            .map(|c| c.log_ratio.blocks)
            .filter(|&blocks| blocks > 0)
            .min();
        match fewest.unwrap_or_else(|| analysis.blocks()) {
            fewest if fewest < BOOTSTRAP_BLOCKS_MIN => {
                vec![format!("some comparisons have only {}", blocks(fewest))]
            }
            _ => Vec::new(),
        }
    },
};
