//! How far background jobs have come.
//!
//! Stripe ranges of a job end in any order. Everything below its *mark* is done: the lowest place that is
//! under way, or that could not be done, or else where it has come to.

pub(crate) mod grow;
pub(crate) mod rebuild;
pub(crate) mod replace;
pub mod scrub;

use crate::throttle::Throttle;
use alloc::{vec, vec::Vec};
use spindles_block::Instant;
use spindles_layout::GroupIndex;

/// Stripe ranges kept back for jobs, so that clients can't starve them nor they clients.
pub(crate) const JOB_RANGES: u32 = 8;

/// What jobs are guaranteed beside clients when nobody says otherwise, in bytes of each member per
/// second.
pub const JOB_RATE: u64 = 10 << 20;

/// A row in the chunks of a group. Places are ordered as a walk comes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) group: GroupIndex,
    pub(crate) row: u32,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Never begun, or stopped.
    Idle,
    Going,
    /// Its stripe ranges under way are the last.
    Stopping,
    /// Gone through.
    Over,
}

/// A job's way through the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) stage: Stage,
    /// Where the next stripe range begins.
    pub(crate) next: Place,
    /// Everything below is done.
    pub(crate) mark: Place,
    /// The lowest place that could not be done.
    pub(crate) held: Option<Place>,
    /// Stripe ranges under way.
    pub(crate) pending: u32,
    /// Stripe ranges that could not be done.
    pub(crate) failed: u64,
    /// Stripe ranges in which redundancy did not agree with data.
    pub(crate) mismatches: u64,
}

impl Walk {
    /// Whether everything was gone through.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether it goes on, or is about to have been stopped.
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
    /// How many of them are going, with the places that wait to be repaired.
    pub(crate) going: u32,
    pub(crate) throttle: Throttle,
    /// When to look again whether one may go on.
    pub(crate) wake: Option<Instant>,
}

impl Jobs {
    /// Of so many kinds, with what they are guaranteed beside clients.
    pub(crate) fn new(kinds: usize, rate: u64) -> Self {
        Self {
            walks: vec![Walk::IDLE; kinds],
            going: 0,
            throttle: Throttle::new(rate),
            wake: None,
        }
    }

    /// What jobs are guaranteed beside clients from now on, in bytes of each member per second.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.throttle.rate = rate;
    }

    /// Whether any job has something to do.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.going > 0
    }

    /// A place waits to be repaired.
    pub(crate) fn someone_waits(&mut self) {
        self.going += 1;
    }

    /// A place waits no more.
    pub(crate) fn nobody_waits(&mut self) {
        self.going -= 1;
    }

    /// When a job wants to go on that waits for nothing but time.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.wake
    }
}

/// How far a job has come, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The job's name.
    pub name: &'static str,
    /// Whether it goes on; otherwise it went through and could not do everything.
    pub going: bool,
    /// Bytes of the array gone through.
    pub done_bytes: u64,
    /// Bytes of the array.
    pub total_bytes: u64,
    /// Stripe ranges that could not be done.
    pub failed: u64,
    /// Stripe ranges in which redundancy did not agree with data.
    pub mismatches: u64,
    /// What it is guaranteed beside clients, in bytes of each member per second.
    pub rate: u64,
}
