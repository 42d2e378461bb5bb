//! The distance of two distributions of response times, as the literature on disk models states it.

/// The root mean square of the horizontal distance of two cumulative distributions. Values of
/// different numbers are compared at the quantiles of the shorter list. Sorts both. `None` if one
/// is empty.
///
/// Ruemmler and Wilkes, An introduction to disk drive modeling, 1994.
pub fn demerit(measured: &mut [u64], modelled: &mut [u64]) -> Option<f64> {
    measured.sort_unstable();
    modelled.sort_unstable();
    let count = measured.len().min(modelled.len());
    if count == 0 {
        return None;
    }
    let squares = (0..count).map(|quantile| {
        let (one, other) = (at(measured, quantile, count), at(modelled, quantile, count));
        let distance = float(one.abs_diff(other));
        distance * distance
    });
    let sum: f64 = squares.sum();
    Some((sum / float(u64::try_from(count).expect("64 bits"))).sqrt())
}

/// Returns the value at the middle of this quantile of `count`.
fn at(sorted: &[u64], quantile: usize, count: usize) -> u64 {
    let place = (2 * quantile + 1) * sorted.len() / (2 * count);
    sorted[place.min(sorted.len() - 1)]
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times in nanoseconds are below 2^53"
)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_compared_sorted_and_at_quantiles() {
        let of = |one: &[u64], other: &[u64]| demerit(&mut one.to_vec(), &mut other.to_vec());
        assert_eq!(of(&[3, 1, 2], &[1, 2, 3]), Some(0.0));
        assert_eq!(of(&[10, 20], &[23, 14]), Some(12.5_f64.sqrt()));
        // At the quantiles of the shorter: 2 of 1, 2, 3.
        assert_eq!(of(&[1, 2, 3], &[2]), Some(0.0));
        assert_eq!(of(&[0, 1, 2, 3], &[1, 3]), Some(0.0));
        assert_eq!(of(&[], &[1]), None);
    }
}
