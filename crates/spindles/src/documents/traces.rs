//! The JSON of commands on traces.

use super::array::Incident;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spindles_measure::Histogram;

/// The percentiles of gaps in a profile.
pub(crate) const GAP_PERCENTS: [f64; 10] =
    [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0];

/// The converted trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Converted<'a> {
    pub from: &'a str,
    pub from_format: &'static str,
    pub to: &'a str,
    pub to_format: &'static str,
    pub requests: u64,
}

/// The distributions of a trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ShownTrace<'a> {
    pub file: &'a str,
    pub format: &'a str,
    pub requests: u64,
    /// True if the trace has gaps after answers instead of times.
    pub closed_loop: bool,
    pub span_ns: u64,
    /// The end of the highest request.
    pub range_bytes: u64,
    pub operations: Vec<OperationRow>,
    /// Requests that begin in each tenth of the range.
    pub tenths: Vec<Tenth>,
    /// The busiest places, the busiest first.
    pub hot_spots: Vec<HotSpot>,
    /// Between requests, or after answers; null if there are none.
    pub gaps: Option<Times>,
    /// Requests in flight when one is sent; null without response times.
    pub depth_mean: Option<f64>,
    pub depth_max: Option<u64>,
    pub profile: Shape,
}

/// The requests of one operation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct OperationRow {
    pub operation: &'static str,
    pub requests: u64,
    pub bytes: u64,
    pub bytes_mean: u64,
    pub bytes_p50: u64,
    pub bytes_p95: u64,
    pub bytes_max: u64,
    /// Requests that begin where one of the last 16 ended.
    pub sequential: u64,
    /// Null if the trace has no response times.
    pub response: Option<Times>,
}

/// Times of several requests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[expect(clippy::struct_field_names, reason = "the unit ends each name")]
pub(crate) struct Times {
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p95_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

impl Times {
    /// Returns the figures of a histogram.
    pub(crate) fn of(histogram: &Histogram) -> Self {
        Self {
            mean_ns: histogram.mean().round(),
            p50_ns: histogram.percentile(50.0),
            p95_ns: histogram.percentile(95.0),
            p99_ns: histogram.percentile(99.0),
            max_ns: histogram.max(),
        }
    }
}

/// A recorded trace.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TraceRecorded {
    pub requests: u64,
    /// Requests that came faster than they could be written, and are missing.
    pub dropped: u64,
    pub seconds: f64,
}

/// The replayed trace.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReplayedTrace<'a> {
    pub file: &'a str,
    pub target: &'a str,
    /// recorded, answered or flat-out.
    pub timing: &'static str,
    pub requests: u64,
    /// To the last answer, or the flush after it if anything was written.
    pub elapsed_ns: u64,
    pub requests_per_s: f64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub operations: Vec<ReplayedOperation>,
    /// How late requests were sent; null with flat-out.
    pub late: Option<Lateness>,
    /// Null if the trace has no response times.
    pub compared: Option<ComparedTimes>,
    pub incidents: Vec<Incident>,
}

/// The answers of one operation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ReplayedOperation {
    pub operation: &'static str,
    pub requests: u64,
    pub response: Times,
}

/// How long after their time requests were sent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Lateness {
    #[serde(flatten)]
    pub times: Times,
    /// Requests sent more than 1 ms late.
    pub late_1_ms: u64,
}

/// Response times of the trace and of the replay.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ComparedTimes {
    /// Requests with a response time in the trace.
    pub requests: u64,
    pub recorded_mean_ns: f64,
    pub replayed_mean_ns: f64,
    pub recorded_p95_ns: u64,
    pub replayed_p95_ns: u64,
    pub recorded_p99_ns: u64,
    pub replayed_p99_ns: u64,
    /// The root mean square of the horizontal distance of the two distributions.
    pub demerit_ns: f64,
    /// Of the mean in the trace.
    pub demerit_percent: f64,
}

/// A tenth of the range.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Tenth {
    pub reads: u64,
    pub others: u64,
}

/// A busy place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HotSpot {
    pub offset_bytes: u64,
    pub bytes: u64,
    pub requests: u64,
}

/// Distributions without addresses.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Shape {
    pub version: u32,
    pub requests: u64,
    pub closed_loop: bool,
    /// Rounded up to a power of two.
    pub range_bytes: u64,
    /// The gaps that 1, 5, 10, 25, 50, 75, 90, 95, 99 and 100 percent do not exceed.
    pub gap_ns: Vec<u64>,
    /// Pairs: percent of the range, and the permille of requests in the busiest places of that
    /// extent.
    pub busiest: Vec<(u64, u64)>,
    pub operations: Vec<ShapeOperation>,
}

/// One operation of a profile.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ShapeOperation {
    pub operation: &'static str,
    /// Of all requests.
    pub permille: u64,
    pub sequential_permille: u64,
    /// The most frequent lengths in bytes, each with the permille of the requests.
    pub sizes: Vec<(u64, u64)>,
}
