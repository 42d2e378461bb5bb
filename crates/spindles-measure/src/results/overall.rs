//! Workloads that the overall comparison covers, and why others do not count.

use serde::Serialize;

/// Workloads that the overall comparison covers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OverallScope {
    /// Names of the workloads that count, for systems that ran them.
    pub workloads: Vec<String>,
    /// Workloads left out, and why.
    pub left_out: Vec<LeftOut>,
}

/// A workload that does not count.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Name of the workload.
    pub workload: String,
    /// Why it does not count.
    pub reason: Reason,
}

/// Why a workload does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Its rate was set in advance.
    SetRate,
    /// The baseline did not run it.
    NoBaseline,
    /// One of its figures measures the load generator.
    Refused,
    /// One of its figures measures a cache.
    Cached,
    /// The phase counts as part of a total.
    InTotal,
    /// Some system finished it too soon.
    TooShort,
}

impl Reason {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::SetRate => "its rate was set",
            Self::NoBaseline => "not run by the baseline",
            Self::Refused => "the load generator's figure",
            Self::Cached => "a cache figure",
            Self::InTotal => "counted in its total",
            Self::TooShort => "took less than 0.1 s",
        }
    }
}
