//! How far jobs are.

use spindles_engine::ScrubStatus;

/// How far the rebuilds of a target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Bytes of the arrays gone through.
    pub done_bytes: u64,
    /// Bytes of the arrays.
    pub total_bytes: u64,
}

/// How far the scrubs of a target's arrays are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// Whether one goes on.
    pub going: bool,
    /// Bytes of arrays gone through.
    pub done_bytes: u64,
    /// Bytes of arrays.
    pub total_bytes: u64,
    /// Stretches of the arrays that could not be looked at, for lack of members.
    pub failed: u64,
    /// What was found.
    pub found: ScrubStatus,
}
