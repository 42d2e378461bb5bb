//! Progress of background jobs.
//!
//! Stripe ranges of a job end in any order. The job is complete below its *mark*. The mark is the
//! lowest place that is under way or failed, or otherwise the place that the walk has reached.

pub(crate) mod grow;
pub(crate) mod rebuild;
pub(crate) mod replace;
pub mod scrub;

use crate::throttle::Throttle;
use alloc::{vec, vec::Vec};
use spindles_block::Instant;
use spindles_layout::GroupIndex;

/// Stripe ranges reserved for jobs, so that clients and jobs cannot starve each other.
pub(crate) const JOB_RANGES: u32 = 8;

/// The default rate that jobs are guaranteed while clients are busy, in bytes of each member per
/// second.
pub const JOB_RATE: u64 = 10 << 20;

/// A row in the chunks of a group. Places are ordered as a walk visits them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) group: GroupIndex,
    pub(crate) row: u32,
}

/// The stage of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Never begun, or stopped.
    Idle,
    Going,
    /// Waiting for its last stripe ranges to end.
    Stopping,
    /// Went through the whole array.
    Over,
}

/// A job's walk through the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) stage: Stage,
    /// Where the next stripe range begins.
    pub(crate) next: Place,
    /// The job is complete below this place.
    pub(crate) mark: Place,
    /// The lowest place that failed.
    pub(crate) held: Option<Place>,
    /// Stripe ranges under way.
    pub(crate) pending: u32,
    /// Stripe ranges that failed.
    pub(crate) failed: u64,
    /// Stripe ranges in which redundancy did not agree with data.
    pub(crate) mismatches: u64,
}

impl Walk {
    /// Returns true if the walk went through the whole array.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns true while the job runs, or waits for its last stripe ranges to stop.
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Going | Stage::Stopping)
    }

    pub(crate) const IDLE: Self = Self {
        stage: Stage::Idle,
        next: Place {
            group: GroupIndex(0),
            row: 0,
        },
        mark: Place {
            group: GroupIndex(0),
            row: 0,
        },
        held: None,
        pending: 0,
        failed: 0,
        mismatches: 0,
    };
}

/// All jobs of an array.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    /// One for each row of the table.
    pub(crate) walks: Vec<Walk>,
    /// The number of jobs that run, plus places that wait to be repaired.
    pub(crate) going: u32,
    pub(crate) throttle: Throttle,
    /// When to check again whether a job may continue.
    pub(crate) wake: Option<Instant>,
}

impl Jobs {
    /// Creates `kinds` idle jobs with a guaranteed rate, in bytes of each member per second.
    pub(crate) fn new(kinds: usize, rate: u64) -> Self {
        Self {
            walks: vec![Walk::IDLE; kinds],
            going: 0,
            throttle: Throttle::new(rate),
            wake: None,
        }
    }

    /// Sets the guaranteed rate, in bytes of each member per second.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.throttle.rate = rate;
    }

    /// Returns true if a job has work to do.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.going > 0
    }

    /// Counts a place that waits to be repaired.
    pub(crate) fn someone_waits(&mut self) {
        self.going += 1;
    }

    /// Uncounts a place that waited to be repaired.
    pub(crate) fn nobody_waits(&mut self) {
        self.going -= 1;
    }

    /// When a job that waits only for time may continue.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.wake
    }
}

/// The progress of a job, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The job's name.
    pub name: &'static str,
    /// True while it runs. False if it went through the array and some stripe ranges failed.
    pub going: bool,
    /// Bytes of the array that the job has passed.
    pub done_bytes: u64,
    /// Bytes of the array.
    pub total_bytes: u64,
    /// Stripe ranges that failed.
    pub failed: u64,
    /// Stripe ranges in which redundancy did not agree with data.
    pub mismatches: u64,
    /// The guaranteed rate while clients are busy, in bytes of each member per second.
    pub rate: u64,
}
