//! Statistics for few repetitions: intervals, tests, outliers, drift, steady state, warm-up,
//! plateaus and modes. All are deterministic: the same figures and seed give the same result on
//! every machine with the same floating point.

mod averages;
mod blocks_needed;
mod demerit;
mod design;
mod distribution;
mod drift;
mod fairness;
mod interval;
mod outlier;
mod plateaus;
mod random;
mod rank_correlation;
mod steady;
mod two_modes;
mod warm_up;

pub use averages::{deviation, geometric_mean, holm, mean, median};
pub use blocks_needed::{BLOCKS_NEEDED_MAX, blocks_needed};
pub use demerit::demerit;
pub use design::{DesignError, design_error};
pub use distribution::{normal_cdf, normal_quantile, student_t_quantile, student_t_two_sided};
pub use drift::{Drift, drift};
pub use fairness::fairness;
pub use interval::{
    BCA_BLOCKS_MIN, BOOTSTRAP_BLOCKS_MIN, Estimate, LEVEL, Method, RESAMPLES, difference_of_means,
    mean_of_blocks, median_of_blocks,
};
pub use outlier::{MODIFIED_Z_MAX, outliers};
pub use plateaus::{Plateau, plateaus};
pub use random::Random;
pub(crate) use random::seed_of;
pub use rank_correlation::rank_correlation;
pub use steady::{Steady, WINDOW, steady, steady_over};
pub use two_modes::{TwoModes, two_modes};
pub use warm_up::warm_up;
