//! The state of a running array, for people and tests.

use crate::{
    faults::MemberFaults,
    jobs::{JobStatus, scrub::ScrubStatus},
    member::{ArrayState, Member},
};
use alloc::vec::Vec;
use spindles_block::MemberIndex;
use spindles_format::ErrorCounts;

/// The state of a running array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Healthy, degraded or failed.
    pub state: ArrayState,
    /// Whether nothing more is written in this opening: too much is missing, or what must be durable
    /// before could not be made so.
    pub stopped_writing: bool,
    /// So many members more may be lost, whichever they are, besides those that are missing or not filled.
    pub survives_more: u8,
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
    /// What the bitmaps say; `None` for an array without them.
    pub regions: Option<RegionsStatus>,
}

/// What the bitmaps of an array say, in regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionsStatus {
    /// How many there are.
    pub total: u64,
    /// Bytes of the array in one; where groups differ in size, on average.
    pub region_bytes: u64,
    /// Those that were ever written; others read as zeros.
    pub written: u64,
    /// Those with a dirty bit: written to a short time ago, or without a member that is missing, or
    /// about to be when a crash came.
    pub dirty: u64,
    /// Those that a crash left dirty, until the resync was there; none where journals tell what the
    /// crash left undone.
    pub unsettled: u64,
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
    /// It is out, and that is not durable yet: the array would count on it after a crash.
    pub counted_on: bool,
    /// What went wrong on it since opening.
    pub faults: MemberFaults,
    /// Errors of its device, as its superblock keeps them.
    pub errors: ErrorCounts,
    /// Whether it is much slower than its peers.
    pub slow: bool,
    /// Whether a read waits at it for much longer than its peers take.
    pub stalls: bool,
    /// Reads that were hedged since opening, because it kept them waiting.
    pub hedged_reads: u64,
    /// How long a read of it takes of late, in nanoseconds; 0 where that is not known.
    pub read_ns: u64,
    /// Regions of which it does not hold all that was written: since it is out, or that are still
    /// to be filled. 0 for an array without bitmaps.
    pub lacks_regions: u64,
}

impl Status {
    /// The job of that name, if it is under way or could not do everything.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&JobStatus> {
        self.jobs.iter().find(|job| job.name == name)
    }
}
