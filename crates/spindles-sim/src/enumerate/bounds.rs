//! The bounds of an enumeration, and its results.

use crate::planted::Planted;
use std::fmt;

/// The bounds of an enumeration.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Overlapping requests.
    pub requests: u32,
    /// Consecutive crashes.
    pub crashes: u8,
    /// Scenarios whose requests need more writes to members are left out.
    pub member_writes_max: u32,
    /// A second crash strikes at one in this many moments of a recovery, times the sets of members
    /// that may be missing then. 1: at all moments.
    pub later_crash_share: u64,
    /// One in this many blocks is corrupted after a crash, one at a time. Only in arrays with
    /// checksums, without a journal device and without missing members. 0: none.
    pub rot_share: u64,
    /// No further moment is explored after this many states.
    pub states_max: u64,
    /// Set to include larger arrays, and all requests for each layout.
    pub all_arrays: bool,
    /// A planted fault.
    pub planted: Planted,
}

impl Bounds {
    /// Two requests, and a share of the second crashes: takes a minute.
    pub const SHORT: Self = Self {
        requests: 2,
        crashes: 2,
        member_writes_max: 4,
        later_crash_share: 64,
        rot_share: 0,
        states_max: u64::MAX,
        all_arrays: false,
        planted: Planted::None,
    };

    /// Three requests and all second crashes: takes hours.
    pub const LONG: Self = Self {
        requests: 3,
        crashes: 2,
        member_writes_max: u32::MAX,
        later_crash_share: 1,
        rot_share: 0,
        states_max: u64::MAX,
        all_arrays: true,
        planted: Planted::None,
    };
}

/// The results of an enumeration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Scenarios explored.
    pub scenarios: u64,
    /// Distinct states after a crash.
    pub states: u64,
    /// Distinct moments between operations while requests were in flight.
    pub moments: u64,
    /// Openings of arrays.
    pub openings: u64,
    /// Reads of written atoms that returned the old contents.
    pub old: u64,
    /// Reads of written atoms that returned the new contents.
    pub new: u64,
    /// Errors for blocks on a missing member, in unlogged whole rows that were not durable.
    pub errors_unlogged: u64,
    /// Errors for blocks that were being written, after a crash that lost the journal device. Also
    /// for other blocks in their rows, on a member that was lost before the resync.
    pub errors_without_log: u64,
    /// Errors for blocks that had answered an error before.
    pub errors_again: u64,
    /// Openings with a corrupt block.
    pub rotten: u64,
    /// Errors and wrong bytes in unfinished writes, with a corrupt block: the named gaps.
    pub gaps: u64,
    /// Successful reads of arrays opened read-only.
    pub looked: u64,
    /// Failed reads of arrays opened read-only.
    pub errors_looked: u64,
    /// Openings that were refused, legally.
    pub refused: u64,
    /// Openings left out, because no present member could prove another outdated.
    pub undecidable: u64,
    /// Broken promises.
    pub findings: Vec<Finding>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The scenario.
    pub scenario: String,
    /// The finding in words.
    pub what: String,
    /// The steps that led there.
    pub way: Vec<String>,
}

impl Summary {
    /// Adds the results of another enumeration.
    pub fn add(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.states += other.states;
        self.moments += other.moments;
        self.openings += other.openings;
        self.old += other.old;
        self.new += other.new;
        self.errors_unlogged += other.errors_unlogged;
        self.errors_without_log += other.errors_without_log;
        self.errors_again += other.errors_again;
        self.rotten += other.rotten;
        self.gaps += other.gaps;
        self.looked += other.looked;
        self.errors_looked += other.errors_looked;
        self.refused += other.refused;
        self.undecidable += other.undecidable;
        self.findings.extend(other.findings);
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} scenarios, {} moments, {} states, {} openings; reads: {} old, {} new; errors: {} \
             of unlogged rows, {} without the log, {} again; {} with rot, {} in gaps; read only: \
             {} answered, {} errors; {} refused, {} undecidable; {} findings",
            self.scenarios,
            self.moments,
            self.states,
            self.openings,
            self.old,
            self.new,
            self.errors_unlogged,
            self.errors_without_log,
            self.errors_again,
            self.rotten,
            self.gaps,
            self.looked,
            self.errors_looked,
            self.refused,
            self.undecidable,
            self.findings.len()
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  {}", self.scenario, self.what)?;
        for step in &self.way {
            write!(f, "\n    {step}")?;
        }
        Ok(())
    }
}
