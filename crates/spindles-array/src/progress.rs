//! The progress of jobs.

use spindles_engine::ScrubStatus;

/// The progress of a target's rebuilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Bytes of the arrays processed so far.
    pub done_bytes: u64,
    /// Bytes of the arrays.
    pub total_bytes: u64,
}

/// The progress of the scrubs of a target's arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// True if a scrub is running.
    pub going: bool,
    /// Bytes of arrays processed so far.
    pub done_bytes: u64,
    /// Bytes of arrays.
    pub total_bytes: u64,
    /// Stretches of the arrays that could not be read for lack of members.
    pub failed: u64,
    /// The findings.
    pub found: ScrubStatus,
}
