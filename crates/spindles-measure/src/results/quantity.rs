//! The quantity a comparison is about: the rate, or a time if the rate says nothing. At a set
//! arrival rate all systems that keep up have the same rate, so response times are compared. For a
//! run of a single operation, its duration is compared.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Histogram, RELATIVE_ERROR_MAX};

/// Quantity compared. Log-ratios use the inverse of times, so above 0 is faster for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes or operations per second.
    #[default]
    Rate,
    /// Duration of a run that is a single operation.
    Time,
    /// 99th percentile of the response time of an open loop.
    ResponseP99,
    /// Median response time of an open loop.
    ResponseP50,
}

impl Quantity {
    /// Returns true if less is faster.
    pub fn is_time(self) -> bool {
        self != Self::Rate
    }

    /// The quantity in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Time => "time",
            Self::ResponseP99 => "p99 response time",
            Self::ResponseP50 => "p50 response time",
        }
    }

    /// Name of the workload, with the quantity if it has several.
    pub fn of(self, workload: &str) -> String {
        match self {
            Self::Rate | Self::Time => workload.to_owned(),
            Self::ResponseP99 | Self::ResponseP50 => format!("{workload}, {}", self.words()),
        }
    }

    /// Noise floor of the quantity itself: percentiles are read off buckets, so equal values may
    /// lie in neighbouring ones.
    pub(crate) fn floor(self) -> Option<f64> {
        match self {
            Self::Rate | Self::Time => None,
            Self::ResponseP99 | Self::ResponseP50 => Some(RELATIVE_ERROR_MAX.ln_1p()),
        }
    }
}

/// Response times of one repetition of an open loop, over all its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Response {
    /// Half took at most this, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of 100 took at most this, in nanoseconds.
    pub p99_ns: u64,
}

impl Response {
    /// Computes the response times. `None` for a closed loop.
    pub(crate) fn of(response: &BTreeMap<String, Histogram>) -> Option<Self> {
        let mut all = Histogram::default();
        for operation in response.values() {
            all.merge(operation);
        }
        (!all.is_empty()).then(|| Self {
            p50_ns: all.percentile(50.0).max(1),
            p99_ns: all.percentile(99.0).max(1),
        })
    }
}

/// Runs that did not keep up with the arrival rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overload {
    /// Number of overloaded runs.
    pub runs: usize,
    /// Number of finished runs.
    pub of: usize,
    /// Share of the arrived operations that these runs answered.
    pub share_answered: f64,
}

impl Overload {
    /// Returns true if most runs did not keep up. Otherwise something stalled for a while, and the
    /// system can do more.
    pub fn is_usual(&self) -> bool {
        self.runs * 2 > self.of
    }

    /// The overload in words.
    pub fn words(&self) -> String {
        let percent = match self.share_answered * 100.0 {
            few if few < 10.0 => format!("{few:.2}"),
            many => format!("{many:.0}"),
        };
        let runs = match (self.runs, self.of) {
            (runs, all) if runs == all => String::new(),
            (runs, all) => format!(" in {runs} of {all} runs"),
        };
        format!("answered {percent} % of arrivals{runs}")
    }
}
