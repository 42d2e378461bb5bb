//! Each system against the mean of several single devices.

use serde::Serialize;

use super::Verdict;
use crate::statistics::Estimate;

/// Every system against the mean of several single devices.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Singles {
    /// Names of the single devices, without the control.
    pub systems: Vec<String>,
    /// One row for each system and workload, including the single devices: its difference from the
    /// mean of all devices.
    pub rows: Vec<AgainstSingles>,
}

/// One system in one workload against the mean of the single devices in the same blocks.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgainstSingles {
    /// Name of the system.
    pub system: String,
    /// Name of the workload.
    pub workload: String,
    /// True if it is one of the single devices.
    pub is_single: bool,
    /// Log-ratio of its rate to their arithmetic mean: mean over blocks.
    pub log_ratio: Estimate,
    /// The p-value after Holm's correction.
    pub p_corrected: f64,
    /// Result of the comparison.
    pub verdict: Verdict,
    /// Log-ratio of its CPU time to their mean: time of the whole machine for each byte or
    /// operation counted. `None` if not measured.
    pub cpu: Option<Estimate>,
}

impl Singles {
    /// Joins the names of the devices: `wd0 and wd1`.
    pub fn names(&self) -> String {
        match &self.systems[..] {
            [all @ .., last] => format!("{} and {last}", all.join(", ")),
            [] => String::new(),
        }
    }
}
