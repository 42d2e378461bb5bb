//! Tests whether a machine became faster or slower during an experiment.

use super::averages::{count, mean};
use super::distribution::student_t_two_sided;

/// A straight line through figures in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Drift {
    /// Rise of the line from the first to the last figure.
    pub excursion: f64,
    /// Probability of a line this steep if there were no drift.
    pub p_value: f64,
}

/// Fits the line. `None` for fewer than 5 points, or if all have the same x.
pub fn drift(points: &[(f64, f64)]) -> Option<Drift> {
    if points.len() < 5 {
        return None;
    }
    let xs: Vec<f64> = points.iter().map(|point| point.0).collect();
    let ys: Vec<f64> = points.iter().map(|point| point.1).collect();
    let (x_mean, y_mean) = (mean(&xs), mean(&ys));
    let spread: f64 = xs.iter().map(|x| (x - x_mean).powi(2)).sum();
    if spread <= 0.0 {
        return None;
    }
    let product: f64 = points
        .iter()
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum();
    let slope = product / spread;
    let residual: f64 = points
        .iter()
        .map(|(x, y)| (y - y_mean - slope * (x - x_mean)).powi(2))
        .sum();
    let degrees = u32::try_from(points.len() - 2).unwrap_or(u32::MAX);
    let error = (residual / (count(points) - 2.0) / spread).sqrt();
    let p_value = if error > 0.0 {
        student_t_two_sided(slope / error, degrees)
    } else if slope.abs() > 0.0 {
        0.0
    } else {
        1.0
    };
    let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = xs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Drift {
        excursion: slope * (most - least),
        p_value,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Random;
    use super::*;

    #[test]
    fn a_known_line_is_found() {
        // y = 2x with residuals +1 -1 -1 +1 …: slope 2 exactly, error sqrt(8 / 6 / 42).
        let residuals = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0];
        let points: Vec<(f64, f64)> = (0_u8..8)
            .zip(residuals)
            .map(|(x, residual)| (f64::from(x), 2.0 * f64::from(x) + residual))
            .collect();
        let found = drift(&points).unwrap();
        assert!((found.excursion - 14.0).abs() < 1e-9);
        let t = 2.0 / (8.0_f64 / 6.0 / 42.0).sqrt();
        assert!((found.p_value - student_t_two_sided(t, 6)).abs() < 1e-12);
        assert!(drift(&points[..4]).is_none());
    }

    #[test]
    fn noise_alone_is_called_drift_in_about_5_of_100_trials() {
        let wrong = (0..1000_u64)
            .filter(|&trial| {
                let mut random = Random::new(trial ^ 0x51de);
                let points: Vec<(f64, f64)> = (0_u8..40)
                    .map(|x| (f64::from(x), random.normal()))
                    .collect();
                drift(&points).unwrap().p_value < 0.05
            })
            .count();
        assert!((30..=70).contains(&wrong), "{wrong} of 1000");
    }
}
