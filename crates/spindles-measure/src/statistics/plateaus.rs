//! Finds the steps of a curve that falls in steps: change points of rates over the logarithm of a
//! size. It takes the best division into level pieces by least squares, with a penalty for each
//! further piece (Bayesian information criterion). Dynamic programming finds it.

use super::averages::{count, mean, median};

/// A level stretch of the curve.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Plateau {
    /// Smallest size on it.
    pub first: f64,
    /// Largest size on it.
    pub last: f64,
    /// Geometric mean of the rates.
    pub rate: f64,
    /// Points on it.
    pub points: usize,
}

/// Plateaus differ by at least this factor.
const STEP_MIN: f64 = 1.25;
/// Smallest scatter of a rate that is assumed, as a fraction. Otherwise points that agree by chance
/// would produce spurious steps.
const SCATTER_MIN: f64 = 0.03;

/// Returns the plateaus of points (size, rate), all above 0, from the smallest size on. A point on
/// the slope between two plateaus belongs to the nearer one. Fewer than 5 points have none.
pub fn plateaus(points: &[(f64, f64)]) -> Vec<Plateau> {
    if points.len() < 5
        || points
            .iter()
            .any(|&(size, rate)| size <= 0.0 || rate <= 0.0)
    {
        return Vec::new();
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let logs: Vec<f64> = sorted.iter().map(|point| point.1.ln()).collect();
    let mut bounds = divided(&logs, price(&logs));
    join_small_steps(&logs, &mut bounds);
    let ends = bounds.iter().skip(1).copied().chain([logs.len()]);
    bounds
        .iter()
        .zip(ends)
        .map(|(&begin, end)| Plateau {
            first: sorted[begin].0,
            last: sorted[end - 1].0,
            rate: mean(&logs[begin..end]).exp(),
            points: end - begin,
        })
        .collect()
}

/// Cost of a further piece: 3 parameters at ln n each, in units of the variance between neighbours.
fn price(logs: &[f64]) -> f64 {
    let steps: Vec<f64> = logs.windows(2).map(|two| (two[1] - two[0]).abs()).collect();
    // Few neighbours are at a step, so the median difference measures the scatter.
    let scatter = (median(&steps) / 0.6745 / std::f64::consts::SQRT_2).max(SCATTER_MIN);
    3.0 * scatter.powi(2) * count(logs).ln()
}

/// Start indices of the pieces of the cheapest division.
fn divided(logs: &[f64], price: f64) -> Vec<usize> {
    // For each end: the least cost up to it, and the start of its last piece.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for end in 1..=logs.len() {
        let costs = (0..end).map(|begin| {
            let piece = &logs[begin..end];
            let centre = mean(piece);
            let squares: f64 = piece.iter().map(|log| (log - centre).powi(2)).sum();
            (best[begin].0 + squares + price, begin)
        });
        let least = costs.min_by(|a, b| a.0.total_cmp(&b.0));
        best.push(least.expect("there is a begin before every end"));
    }
    let mut bounds = Vec::new();
    let mut end = logs.len();
    while end > 0 {
        end = best[end].1;
        bounds.push(end);
    }
    bounds.reverse();
    bounds
}

/// Joins single points on slopes to the nearer neighbour, and neighbours at nearly the same level.
fn join_small_steps(logs: &[f64], bounds: &mut Vec<usize>) {
    loop {
        let ends: Vec<usize> = bounds.iter().skip(1).copied().chain([logs.len()]).collect();
        let means: Vec<f64> = bounds
            .iter()
            .zip(&ends)
            .map(|(&begin, &end)| mean(&logs[begin..end]))
            .collect();
        let step = |at: usize| (means[at] - means[at - 1]).abs();
        let level = (1..bounds.len()).find(|&at| step(at) < STEP_MIN.ln());
        let slope = (1..bounds.len().saturating_sub(1)).find(|&at| ends[at] - bounds[at] == 1);
        match (level, slope) {
            (Some(at), _) => bounds.remove(at),
            (None, Some(at)) if step(at) <= step(at + 1) => bounds.remove(at),
            (None, Some(at)) => bounds.remove(at + 1),
            (None, None) => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    /// Sizes 4, 8, 16 … with rates that scatter by 5 %.
    fn points(rates: &[f64], seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        let mut size = 2.0;
        let point = |&rate: &f64| {
            size *= 2.0;
            (size, rate * (0.05 * random.normal()).exp())
        };
        rates.iter().map(point).collect()
    }

    #[test]
    fn steps_are_located_exactly() {
        for seed in 0..50 {
            let found = plateaus(&points(
                &[4e3, 4e3, 4e3, 4e3, 9e2, 9e2, 9e2, 1e2, 1e2],
                seed,
            ));
            let bounds: Vec<(f64, f64)> = found
                .iter()
                .map(|plateau| (plateau.first, plateau.last))
                .collect();
            assert_eq!(
                bounds,
                [(4.0, 32.0), (64.0, 256.0), (512.0, 1024.0)],
                "seed {seed}"
            );
            assert!((found[1].rate / 9e2 - 1.0).abs() < 0.15);
        }
    }

    #[test]
    fn a_level_curve_is_one_plateau() {
        let one = (0..200).filter(|&seed| plateaus(&points(&[500.0; 9], seed)).len() == 1);
        assert!(one.count() >= 196);
        assert!(plateaus(&points(&[500.0; 4], 0)).is_empty());
    }

    #[test]
    fn a_point_on_the_slope_makes_no_plateau() {
        let found = plateaus(&points(&[4e3, 4e3, 4e3, 1.2e3, 9e2, 9e2, 9e2], 1));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[1].first - 32.0).abs() < 1e-9);
    }
}
