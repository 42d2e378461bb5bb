//! Estimates the number of repetition blocks for an interval of a given width.

use super::distribution::student_t_quantile;
use super::interval::Estimate;
use crate::histogram::to_f64;

/// The search ends at this many blocks.
pub const BLOCKS_NEEDED_MAX: u32 = 1000;

/// Returns the number of blocks at which the half-width of an estimate like this one falls to
/// `target`. It is the least n with `t × s / √n` ≤ `target`, where `s` is derived from the present
/// width and `t` is Student's. `None` if the estimate has fewer than two blocks, or for more than
/// [`BLOCKS_NEEDED_MAX`].
pub fn blocks_needed(estimate: &Estimate, target: f64) -> Option<u32> {
    let blocks = u32::try_from(estimate.blocks).ok()?;
    let half = estimate.half_width();
    if blocks < 2 || !half.is_finite() {
        return None;
    }
    let deviation = half * to_f64(blocks.into()).sqrt() / t(blocks);
    (2..=BLOCKS_NEEDED_MAX)
        .find(|&needed| t(needed) * deviation / to_f64(needed.into()).sqrt() <= target)
}

/// Student's t quantile for the mean of this many blocks. Past 100 degrees of freedom it is within
/// 1 % of the normal quantile.
fn t(blocks: u32) -> f64 {
    student_t_quantile(
        f64::midpoint(1.0, super::interval::LEVEL),
        (blocks - 1).min(100),
    )
}

#[cfg(test)]
mod tests {
    use super::super::mean_of_blocks;
    use super::*;

    /// An estimate from blocks of this deviation, with Student's interval.
    fn estimate(deviation: f64, blocks: u32) -> Estimate {
        let half = t(blocks) * deviation / f64::from(blocks).sqrt();
        Estimate {
            low: -half,
            high: half,
            blocks: usize::try_from(blocks).unwrap(),
            ..mean_of_blocks(&[0.0; 2], 1)
        }
    }

    #[test]
    fn block_counts_equal_the_formula() {
        // (1.96 × CV / 5 %)² is 7.5 and 61.5; Student's t for few blocks needs a few more.
        assert_eq!(blocks_needed(&estimate(0.07, 5), 0.05), Some(11));
        assert_eq!(blocks_needed(&estimate(0.20, 5), 0.05), Some(64));
        assert_eq!(blocks_needed(&estimate(0.20, 12), 0.05), Some(64));
        assert_eq!(blocks_needed(&estimate(0.001, 8), 0.05), Some(2));
        assert_eq!(blocks_needed(&estimate(2.0, 8), 0.05), None);
        assert_eq!(blocks_needed(&mean_of_blocks(&[1.0], 1), 0.05), None);
    }
}
