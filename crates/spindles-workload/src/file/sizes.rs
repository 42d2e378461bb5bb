//! Random file sizes. Logarithms and roots come from `libm`, which computes the same results on
//! every machine, so that seeds replay.

use crate::stream::Random;

/// The shape of filebench's gamma distribution (`sizegamma=1500`).
const SHAPE: f64 = 1.5;

/// Uniform in (0, 1], with 53 bits.
fn unit(random: &mut Random) -> f64 {
    let bits = random.below(1 << 53) + 1;
    float(bits) / float(1 << 53)
}

/// Standard normal (Box and Muller, 1958).
fn normal(random: &mut Random) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit(random)));
    radius * libm::cos(2.0 * core::f64::consts::PI * unit(random))
}

/// Gamma with shape 1.5 and this mean: the sum of an exponential and half of a squared normal.
pub(crate) fn gamma(random: &mut Random, mean: u64) -> u64 {
    let half_square = libm::pow(normal(random), 2.0) / 2.0;
    let value = half_square - libm::log(unit(random));
    whole(value / SHAPE * float(mean))
}

/// Lognormal with these parameters of the logarithm.
pub(crate) fn lognormal(random: &mut Random, mu: f64, sigma: f64) -> u64 {
    whole(libm::exp(mu + sigma * normal(random)))
}

/// Returns a value times a scale, rounded.
pub fn times(value: u64, scale: f64) -> u64 {
    whole(float(value) * scale)
}

#[expect(clippy::cast_precision_loss, reason = "sizes below 2^53 are exact")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: never negative, and below 2^63"
)]
fn whole(value: f64) -> u64 {
    libm::round(value) as u64
}
