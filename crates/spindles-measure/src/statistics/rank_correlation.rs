//! Spearman's rank correlation.

use super::averages::{count, mean};
use super::student_t_two_sided;

/// The fewest pairs for a correlation.
const PAIRS_MIN: usize = 3;

/// Returns Spearman's rank correlation of pairs and its two-sided p-value. `None` for fewer than
/// three pairs, or if one side does not vary.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    if pairs.len() < PAIRS_MIN {
        return None;
    }
    let [one, other] = [|pair: &(f64, f64)| pair.0, |pair: &(f64, f64)| pair.1]
        .map(|side| ranks(&pairs.iter().map(side).collect::<Vec<_>>()));
    let middle = mean(&one); // That of the other side is the same.
    let product = |x: &[f64], y: &[f64]| -> f64 {
        let pairs = x.iter().zip(y);
        pairs.map(|(x, y)| (x - middle) * (y - middle)).sum()
    };
    let spread = (product(&one, &one) * product(&other, &other)).sqrt();
    if spread <= 0.0 {
        return None;
    }
    let correlation = (product(&one, &other) / spread).clamp(-1.0, 1.0);
    let degrees = u32::try_from(pairs.len()).unwrap_or(u32::MAX) - 2;
    let rest = 1.0 - correlation * correlation;
    let p_value = if rest > 0.0 {
        let t = correlation * (f64::from(degrees) / rest).sqrt();
        student_t_two_sided(t, degrees)
    } else {
        0.0
    };
    // Of all orders of the ranks, two correlate perfectly.
    let orders: f64 = (1..=degrees + 2).map(f64::from).product();
    Some((correlation, p_value.max(2.0 / orders)))
}

/// Ranks values from 1. Equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let of = |is: fn(std::cmp::Ordering) -> bool| {
            let others = values.iter();
            let found: Vec<&f64> = others.filter(|other| is(other.total_cmp(value))).collect();
            count(&found)
        };
        let (below, equal) = (of(std::cmp::Ordering::is_lt), of(std::cmp::Ordering::is_eq));
        below + f64::midpoint(equal, 1.0)
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Random;

    /// The example of a textbook: ten pairs with a correlation of −29/165 and p = 0.627188.
    #[test]
    fn a_known_example() {
        let one = [
            106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0,
        ];
        let other = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        let pairs: Vec<(f64, f64)> = one.into_iter().zip(other).collect();
        let (correlation, p_value) = rank_correlation(&pairs).unwrap();
        assert!((correlation + 29.0 / 165.0).abs() < 1e-12, "{correlation}");
        assert!((p_value - 0.627_188).abs() < 1e-5, "{p_value}");
    }

    #[test]
    fn ties_share_their_ranks_and_constants_have_no_correlation() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(
            rank_correlation(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]),
            None
        );
        assert_eq!(rank_correlation(&[(1.0, 1.0), (2.0, 2.0)]), None);
        // A perfect order of three is no evidence: it comes up once in three.
        let (correlation, p_value) =
            rank_correlation(&[(1.0, 5.0), (2.0, 6.0), (3.0, 9.0)]).unwrap();
        assert!((correlation - 1.0).abs() < 1e-12 && (p_value - 1.0 / 3.0).abs() < 1e-12);
    }

    /// Unrelated numbers seem related about as often as the p-value says.
    #[test]
    fn chance_is_called_chance() {
        let mut random = Random::new(7);
        let mut found = 0;
        for _ in 0..1000 {
            let pairs: Vec<(f64, f64)> = (0..20).map(|_| (random.unit(), random.unit())).collect();
            found += u32::from(rank_correlation(&pairs).unwrap().1 < 0.05);
        }
        assert!((30..=70).contains(&found), "{found} of 1000");
    }
}
