//! Small arrays, enumerated: the real engine on disks of a few blocks, a few requests that meet in
//! every order, a crash at every moment, everything that it may leave on the disks, every set of
//! members missing afterwards, and a second crash at every moment of the recovery.
//!
//! What lies on the disks, in caches too, together with what each atom may legally hold, is a
//! *state*. None is visited twice. From each the array is assembled, opened and read, with every
//! tolerated set of members missing; every atom is judged, and read again without further members.
//!
//! Contents are numbers (`store.rs`), so that a state costs microseconds. The engine is cloned
//! where the order of events branches; two branches with the same disks, the same operations in
//! flight and the same answers are taken for one, whatever else the engine remembers.

mod assemble;
mod explore;
mod fresh;
mod legal;
mod machine;
mod media;
mod scenario;
mod store;
mod way;

pub use explore::explore;
pub use scenario::{Event, Scenario, scenarios};
use spindles_engine::Mutation;
use std::fmt;

/// How far an enumeration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Requests that meet.
    pub requests: u32,
    /// Crashes one after another.
    pub crashes: u8,
    /// Scenarios whose requests need more writes to members are left out.
    pub member_writes_max: u32,
    /// Of the moments of a recovery, a second crash comes in one of so many, times the sets of
    /// members that may be missing then; 1 for all.
    pub later_crash_share: u64,
    /// Of the blocks of what a crash left, one at a time rots in one of so many, on arrays with checksums
    /// of which nobody is missing; 0 for none.
    pub rot_share: u64,
    /// No further moment is gone through after so many states.
    pub states_max: u64,
    /// Whether there are larger arrays too, and all requests for each layout.
    pub all_arrays: bool,
    /// The fault planted in the engine; needs the feature `canary`.
    pub mutation: Mutation,
}

impl Bounds {
    /// Two requests, and a share of the second crashes: a minute.
    pub const SHORT: Self = Self {
        requests: 2,
        crashes: 2,
        member_writes_max: 4,
        later_crash_share: 64,
        rot_share: 0,
        states_max: u64::MAX,
        all_arrays: false,
        mutation: Mutation::None,
    };

    /// Three requests and all second crashes: hours.
    pub const LONG: Self = Self {
        requests: 3,
        crashes: 2,
        member_writes_max: u32::MAX,
        later_crash_share: 1,
        rot_share: 0,
        states_max: u64::MAX,
        all_arrays: true,
        mutation: Mutation::None,
    };
}

/// What an enumeration came upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Scenarios gone through.
    pub scenarios: u64,
    /// Different states after a crash.
    pub states: u64,
    /// Moments between operations while requests were under way, each different from the others.
    pub moments: u64,
    /// Arrays opened.
    pub openings: u64,
    /// Reads of written places that returned what was there before.
    pub old: u64,
    /// Reads of written places that returned what was written.
    pub new: u64,
    /// Errors of blocks on a missing member, of unlogged whole rows that were not durable.
    pub errors_unlogged: u64,
    /// Errors of blocks that were being written, after a crash that took the device with the log; and of
    /// what lay beside them in their rows on a member that was lost later, before they had settled.
    pub errors_without_log: u64,
    /// Errors of blocks that had answered one before.
    pub errors_again: u64,
    /// Openings with a block that rotted.
    pub rotten: u64,
    /// Errors and wrong bytes of what was being written, beside a block that rotted: the named gaps.
    pub gaps: u64,
    /// Reads of arrays opened read only that were answered.
    pub looked: u64,
    /// And those that were errors.
    pub errors_looked: u64,
    /// Openings that were refused, where that is legal.
    pub refused: u64,
    /// Openings left out, because nobody there could tell that a member is outdated.
    pub undecidable: u64,
    /// What must not be, each with the way there.
    pub findings: Vec<Finding>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The scenario.
    pub scenario: String,
    /// What was found.
    pub what: String,
    /// What happened, step by step.
    pub way: Vec<String>,
}

impl Summary {
    /// Adds what another enumeration came upon.
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
            "{} scenarios, {} moments, {} states, {} openings; reads: {} old, {} new; errors: {} of \
             unlogged rows, {} without the log, {} again; {} with rot, {} in gaps; read only: {} answered, {} errors; {} refused, {} undecidable; {} findings",
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
