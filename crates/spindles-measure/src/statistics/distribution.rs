//! The normal distribution and Student's t, each with its inverse.

use std::f64::consts::{FRAC_2_PI, TAU};

/// Probability that a standard normal value is at most `x`. Absolute error below 1e-14.
pub fn normal_cdf(x: f64) -> f64 {
    if x < -8.0 {
        return 0.0;
    }
    if x > 8.0 {
        return 1.0;
    }
    // Marsaglia 2004: 1/2 + density(x) × (x + x³/3 + x⁵/(3·5) + x⁷/(3·5·7) + …).
    let (mut sum, mut term, mut divisor) = (x, x, 1.0);
    loop {
        divisor += 2.0;
        term *= x * x / divisor;
        let next = sum + term;
        if next.to_bits() == sum.to_bits() {
            break;
        }
        sum = next;
    }
    0.5 + sum * (-x * x / 2.0).exp() / TAU.sqrt()
}

/// The value that a standard normal variable does not exceed with this probability.
pub fn normal_quantile(probability: f64) -> f64 {
    bisect(-8.0, 8.0, |x| normal_cdf(x) < probability)
}

/// Probability that Student's t with these degrees of freedom is further from 0 than `t`.
pub fn student_t_two_sided(t: f64, degrees: u32) -> f64 {
    if degrees == 0 || t.is_nan() {
        return 1.0;
    }
    if t.is_infinite() {
        return 0.0;
    }
    // Abramowitz and Stegun 26.7.3 and 26.7.4: finite sums for whole degrees of freedom.
    let angle = (t.abs() / f64::from(degrees).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    let mut term = if odd { cos } else { 1.0 };
    let mut sum = if odd && degrees == 1 { 0.0 } else { term };
    let mut step = if odd { 3 } else { 2 };
    while step < degrees {
        term *= cos * cos * f64::from(step - 1) / f64::from(step);
        sum += term;
        step += 2;
    }
    let within = if odd {
        FRAC_2_PI * (angle + sin * sum)
    } else {
        sin * sum
    };
    (1.0 - within).clamp(0.0, 1.0)
}

/// The value that Student's t with these degrees of freedom does not exceed with this
/// probability, which is at least one half.
pub fn student_t_quantile(probability: f64, degrees: u32) -> f64 {
    let outside = 2.0 * (1.0 - probability);
    bisect(0.0, 1e6, |t| student_t_two_sided(t, degrees) > outside)
}

/// Bisects for the point where `below` turns from true to false, nearly to the last bit.
fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 5e-7 * expected.abs().max(0.1),
            "{found} {expected}"
        );
    }

    #[test]
    fn normal_quantiles_match_published_tables() {
        close(normal_cdf(0.0), 0.5);
        close(normal_cdf(1.959_963_985), 0.975);
        close(normal_cdf(-1.0), 0.158_655_253_9);
        close(normal_quantile(0.975), 1.959_963_985);
        close(normal_quantile(0.005), -2.575_829_304);
        for tenth in -60..=60 {
            let x = f64::from(tenth) / 10.0;
            assert!((normal_quantile(normal_cdf(x)) - x).abs() < 1e-5, "{x}");
        }
    }

    #[test]
    fn student_quantiles_match_published_tables() {
        for (degrees, expected) in [
            (1, 12.706_204_74),
            (2, 4.302_652_73),
            (3, 3.182_446_31),
            (4, 2.776_445_11),
            (5, 2.570_581_84),
            (7, 2.364_624_25),
            (10, 2.228_138_85),
            (30, 2.042_272_46),
            (61, 1.999_623_58),
        ] {
            close(student_t_quantile(0.975, degrees), expected);
            close(student_t_two_sided(expected, degrees), 0.05);
            close(student_t_two_sided(-expected, degrees), 0.05);
        }
        close(student_t_two_sided(0.0, 4), 1.0);
    }
}
