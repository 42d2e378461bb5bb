//! Whether the headline ratios of an experiment are known well enough, or how many repetition blocks that
//! would take: what a runner asks after each block.

use serde::Serialize;

use crate::statistics::blocks_needed;
use crate::{Analysis, Comparison, Quantity, Verdict};

/// Half-width of an interval that settles a question, as a log-ratio: 5 %.
pub const HALF_WIDTH_TARGET: f64 = 0.05;

/// A headline ratio whose interval is still too wide.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unresolved {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Half of what the interval spans, as a log-ratio; infinite below two blocks.
    pub half_width: f64,
    /// About so many blocks would do; `None`: more than anybody waits for, or fewer than two so far.
    pub blocks_needed: Option<u32>,
}

impl Analysis {
    /// The headline ratios, that is all comparisons with the baseline but the control's, whose interval
    /// is wider than `target` to each side.
    pub fn unresolved(&self, target: f64) -> Vec<Unresolved> {
        // What is refused stays so, however often it is measured.
        let mut headlines: Vec<&Comparison> = self.comparisons.iter().collect();
        headlines.retain(|it| !it.control && it.verdict != Verdict::Refused);
        // Of response times the 99 of 100 are the headline.
        headlines.retain(|it| it.quantity != Quantity::ResponseP50);
        headlines
            .into_iter()
            .filter(|it| it.log_ratio.half_width() > target)
            .map(|it| unresolved(it, target))
            .collect()
    }
}

fn unresolved(comparison: &Comparison, target: f64) -> Unresolved {
    Unresolved {
        system: comparison.system.clone(),
        workload: comparison.workload.clone(),
        half_width: comparison.log_ratio.half_width(),
        blocks_needed: blocks_needed(&comparison.log_ratio, target),
    }
}
