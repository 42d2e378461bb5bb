//! What decided a prediction: the drawn numbers, and the parts of the disks.

use serde::Serialize;

use super::Quantity;
use crate::statistics::Estimate;

/// The drawn numbers that decided a ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Deciding {
    /// Name of the system.
    pub system: String,
    /// Name of the system that it is compared with.
    pub baseline: String,
    /// Name of the workload.
    pub workload: String,
    /// Quantity of the ratio.
    pub quantity: Quantity,
    /// Number of draws.
    pub draws: usize,
    /// Number of drawn numbers and words that differ between the draws.
    pub tested: usize,
    /// The largest correlations beyond chance, largest first.
    pub numbers: Vec<Correlation>,
}

/// A drawn number and its correlation with a ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Correlation {
    /// Name of the number; of a switch also the word, as in `write_back = any`.
    pub name: String,
    /// Spearman's rank correlation. Above 0: the larger the number, the faster the system, relative
    /// to the baseline.
    pub correlation: f64,
    /// The p-value after Holm's correction for all numbers of the ratio.
    pub p_corrected: f64,
}

/// What a faster part of the disks would bring a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FasterPart"))]
pub struct Help {
    /// Name of the part, which is a tenth faster.
    pub part: String,
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// Quantity compared.
    pub quantity: Quantity,
    /// Log-ratio of the speeds with the same draws, faster to unchanged. Above 0 is faster.
    pub log_ratio: Estimate,
}
