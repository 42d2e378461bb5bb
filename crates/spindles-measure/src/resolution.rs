//! Finds headline ratios that are not yet known precisely enough, and estimates the repetition
//! blocks needed. A runner asks after each block.

use serde::Serialize;

use crate::statistics::blocks_needed;
use crate::{Analysis, Comparison, Quantity, Verdict};

/// Half-width of an interval, as a log-ratio, that is narrow enough: 5 %.
pub const HALF_WIDTH_TARGET: f64 = 0.05;

/// A headline ratio whose interval is still too wide.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unresolved {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Half the width of the interval, as a log-ratio. Infinite below two blocks.
    pub half_width: f64,
    /// Estimated number of blocks needed. `None` above
    /// [`BLOCKS_NEEDED_MAX`](crate::statistics::BLOCKS_NEEDED_MAX), or with fewer than two blocks
    /// so far.
    pub blocks_needed: Option<u32>,
}

impl Analysis {
    /// The headline ratios whose interval is wider than `target` to each side. Headlines are all
    /// comparisons with the baseline except the control's.
    pub fn unresolved(&self, target: f64) -> Vec<Unresolved> {
        // More blocks don't help a refused figure.
        let mut headlines: Vec<&Comparison> = self.comparisons.iter().collect();
        headlines.retain(|headline| !headline.control && headline.verdict != Verdict::Refused);
        // The 99th percentile is the headline of response times.
        headlines.retain(|headline| headline.quantity != Quantity::ResponseP50);
        headlines
            .into_iter()
            .filter(|headline| headline.log_ratio.half_width() > target)
            .map(|headline| unresolved(headline, target))
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
