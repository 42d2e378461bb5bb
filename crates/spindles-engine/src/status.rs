//! The state of a running array, for people and tests.

use crate::{
    Engine,
    faults::MemberFaults,
    jobs::{JobStatus, scrub::ScrubStatus},
    member::{ArrayState, Member},
};
use alloc::vec::Vec;
use spindles_block::MemberIndex;
use spindles_format::BadBlockKind;

/// The state of a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Healthy, degraded or failed.
    pub state: ArrayState,
    /// Every position.
    pub members: Vec<MemberStatus>,
    /// The generation of the superblocks; 0 without superblocks.
    pub generation: u64,
    /// Whether the array would be resynchronised if the process ended now.
    pub dirty: bool,
    /// The jobs under way, and those that could not do everything.
    pub jobs: Vec<JobStatus>,
    /// Blocks of the array that a crash took. They answer errors until they are written.
    pub lost_blocks: u64,
    /// Where writes are logged.
    pub journal: JournalStatus,
    /// How far it has grown, while it does.
    pub growth: Option<GrowthStatus>,
    /// What the scrub under way found, or else the last one since opening.
    pub scrub: ScrubStatus,
}

/// Where an array logs its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalStatus {
    /// Nowhere.
    None,
    /// On its members.
    Members,
    /// On a device of its own.
    Device,
    /// On its members, because the device that it has for that is not there, or failed.
    DeviceOut,
}

/// How far the growth of an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthStatus {
    /// Bytes of the array that are where they will be.
    pub done_bytes: u64,
    /// Bytes of the array before it grew.
    pub total_bytes: u64,
    /// Whether what comes next can't be moved in this opening.
    pub stuck: bool,
}

/// The state of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Which.
    pub member: MemberIndex,
    /// Its state.
    pub state: Member,
    /// What went wrong on it since opening.
    pub faults: MemberFaults,
    /// Whether it is much slower than its peers.
    pub slow: bool,
    /// How long a read of it takes of late, in nanoseconds; 0 where that is not known.
    pub read_ns: u64,
}

impl Status {
    /// The job of that name, if it is under way or could not do everything.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&JobStatus> {
        self.jobs.iter().find(|job| job.name == name)
    }
}

impl Engine {
    /// The state of the array. Allocates: not for the data path.
    pub fn status(&self) -> Status {
        Status {
            state: self.state(),
            members: self
                .members
                .iter()
                .map(|member| MemberStatus {
                    member: member.index,
                    state: member.state,
                    faults: self.faults_of(member.index),
                    slow: self.slow.members.contains(member.index),
                    read_ns: self.slow.average_ns(member.index),
                })
                .collect(),
            generation: self.metadata.generation(),
            dirty: self.metadata.dirty,
            jobs: self.job_statuses(),
            lost_blocks: self.bad.blocks(BadBlockKind::Lost),
            journal: self.journal_status(),
            growth: self.growth_status(),
            scrub: self.scrub.found,
        }
    }
}
