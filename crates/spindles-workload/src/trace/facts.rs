//! What a replay must know of a trace beforehand.

use super::request::{TraceRequest, When};

/// Sums over a whole trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFacts {
    /// Number of requests.
    pub requests: u64,
    /// Requests that change the target.
    pub changes: u64,
    /// Requests with a response time.
    pub responses: u64,
    /// The end of the highest request.
    pub end_bytes: u64,
    /// The longest request.
    pub largest_bytes: u64,
    /// True if requests have gaps after answers instead of times.
    pub has_gaps: bool,
}

impl TraceFacts {
    /// Counts a request.
    pub fn add(&mut self, request: &TraceRequest) {
        self.requests += 1;
        self.changes += u64::from(request.operation.changes());
        self.responses += u64::from(request.response_ns.is_some());
        self.end_bytes = self.end_bytes.max(request.end_bytes());
        self.largest_bytes = self.largest_bytes.max(request.bytes);
        self.has_gaps |= matches!(request.when, When::After(_));
    }
}
