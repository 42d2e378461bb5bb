//! Comparisons of two systems, and the verdicts on them.

use serde::Serialize;

use super::Quantity;
use crate::statistics::Estimate;

/// Result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename_all = "snake_case"))]
pub enum Verdict {
    /// Faster than the baseline.
    Faster,
    /// Slower than the baseline.
    Slower,
    /// The figures show no difference.
    NoDifferenceShown,
    /// Both share only one repetition block, so the scatter is unknown.
    OneBlock,
    /// The two share no block in which both finished.
    Failed,
    /// One of the two figures measures the load generator: it is above 70 % of the rate that the
    /// harness reaches on a target that does nothing.
    Refused,
    /// No verdict: the baseline against itself (the A/A pair), as a yardstick for the other
    /// comparisons. `null` in JSON.
    #[cfg_attr(feature = "schema", schemars(skip))]
    AaPair,
}

impl Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no_difference_shown",
            Self::OneBlock => "one_block",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::AaPair => return serializer.serialize_none(),
        };
        serializer.serialize_str(name)
    }
}

impl Verdict {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no difference shown",
            Self::OneBlock => "one block: no verdict",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::AaPair => "A/A pair",
        }
    }

    /// The same verdict from the other system's point of view.
    #[must_use]
    pub fn of_the_other(self) -> Self {
        match self {
            Self::Faster => Self::Slower,
            Self::Slower => Self::Faster,
            Self::NoDifferenceShown
            | Self::OneBlock
            | Self::Failed
            | Self::Refused
            | Self::AaPair => self,
        }
    }
}

/// A cell against the baseline's cell in the same repetition blocks. The estimates are natural
/// logarithms of the ratio of rates, or of the inverse ratio of times. 0 is equal, above 0 is
/// faster.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Name of the system.
    pub system: String,
    /// Name of the system compared against.
    pub baseline: String,
    /// Name of the workload.
    pub workload: String,
    /// Quantity compared.
    pub quantity: Quantity,
    /// True if the system is the baseline measured a second time (the A/A pair).
    pub control: bool,
    /// Log-ratio: mean over blocks.
    pub log_ratio: Estimate,
    /// Log-ratio: median over blocks.
    pub log_ratio_median: Estimate,
    /// The p-value of the block design after Holm's correction over all comparisons of the
    /// experiment. All systems of the workload contribute to its error.
    pub p_corrected: f64,
    /// Number of comparisons corrected for, if the interval alone shows a difference that does not
    /// survive the correction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shown_among: Option<usize>,
    /// Absolute difference of the A/A pair in this workload, as a log-ratio.
    pub noise_floor: Option<f64>,
    /// Result of the comparison; null for the A/A pair.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Verdict>"))]
    pub verdict: Verdict,
}

impl Comparison {
    /// Difference from the baseline in percent: geometric mean, lower and upper end. For a time,
    /// below 0 is faster.
    pub fn percent(&self) -> (f64, f64, f64) {
        difference_of(self.quantity, &self.log_ratio)
    }

    /// Name of the workload; for an open loop also the quantity compared.
    pub fn of(&self) -> String {
        self.quantity.of(&self.workload)
    }
}

/// Converts a log-ratio of speeds to a difference of the quantity in percent: value, lower and
/// upper end.
pub fn difference_of(quantity: Quantity, log_ratio: &Estimate) -> (f64, f64, f64) {
    if !quantity.is_time() {
        return percent_of(log_ratio);
    }
    percent_of(&log_ratio.negated())
}

/// Converts a log-ratio to a difference in percent: value, lower and upper end.
pub fn percent_of(estimate: &Estimate) -> (f64, f64, f64) {
    let percent = |log: f64| log.exp_m1() * 100.0;
    (
        percent(estimate.value),
        percent(estimate.low),
        percent(estimate.high),
    )
}

/// Differences from this factor on are given as a factor: percentages of losses crowd below 100.
const FACTOR_MIN: f64 = 2.0;

/// Returns the factor and direction of a large difference of speeds, such as `(4.1, "slower")`.
/// `None` below a factor of 2.
pub fn factor_of(log_ratio: f64) -> Option<(f64, &'static str)> {
    let times = log_ratio.abs().exp();
    let which = if log_ratio > 0.0 { "faster" } else { "slower" };
    let is_large = (FACTOR_MIN..f64::INFINITY).contains(&times);
    is_large.then_some((times, which))
}
