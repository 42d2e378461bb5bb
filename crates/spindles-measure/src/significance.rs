//! Decides whether a log-ratio shows a difference.

use crate::Verdict;
use crate::statistics::Estimate;

/// With more comparisons than this, a verdict must also hold after Holm's correction.
pub const UNCORRECTED_COMPARISONS_MAX: usize = 10;

/// Error rate that a verdict accepts: the probability of calling equal systems different.
pub const SIGNIFICANCE: f64 = 0.05;

/// Returns the verdict on a log-ratio. A difference needs an interval that lies entirely beyond the
/// noise floor, which is 0 if there is none. It must also hold after the correction, if one
/// applies.
pub(crate) fn verdict(
    log_ratio: &Estimate,
    p_corrected: Option<f64>,
    noise_floor: Option<f64>,
) -> Verdict {
    let floor = noise_floor.unwrap_or(0.0);
    let holds = p_corrected.is_none_or(|p| p < SIGNIFICANCE);
    match log_ratio.blocks {
        0 => Verdict::Failed,
        1 => Verdict::OneBlock,
        _ if holds && log_ratio.low > floor => Verdict::Faster,
        _ if holds && log_ratio.high < -floor => Verdict::Slower,
        _ => Verdict::NoDifferenceShown,
    }
}

/// Verdict of an A/A pair: none, unless they share no finished block.
pub(crate) fn verdict_of_pair(log_ratio: &Estimate) -> Verdict {
    match log_ratio.blocks {
        0 => Verdict::Failed,
        _ => Verdict::AaPair,
    }
}
