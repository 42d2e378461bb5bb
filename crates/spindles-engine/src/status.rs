//! The state of a running array, for display and tests.

use crate::{
    config::WriteBackMode,
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
    /// True if no more is written in this opening: too much is missing, or necessary metadata could
    /// not be made durable.
    pub stopped_writing: bool,
    /// Number of further members that the array can lose, in any combination, in addition to
    /// members missing or not filled.
    pub survives_more: u8,
    /// Every position.
    pub members: Vec<MemberStatus>,
    /// The generation of the superblocks; 0 without superblocks.
    pub generation: u64,
    /// True if the array would be resynchronised after a crash now.
    pub dirty: bool,
    /// The jobs under way, and those that ended with failed stripe ranges.
    pub jobs: Vec<JobStatus>,
    /// Lost blocks of the array. Requests for these blocks fail until the blocks are
    /// written.
    pub lost_blocks: u64,
    /// Blocks that the last scrub, a rebuild or a reader found wrong and that nothing repaired
    /// since. Disagreements count too.
    pub left_blocks: u64,
    /// The placement of the journal.
    pub journal: JournalStatus,
    /// The stage; `None` if the array has none, or neither uses it nor found records in it.
    pub stage: Option<StageStatus>,
    /// The progress of a growth; `None` unless the array grows.
    pub growth: Option<GrowthStatus>,
    /// The findings of the current scrub, or else of the last one since opening.
    pub scrub: ScrubStatus,
    /// The state of the bitmaps; `None` for an array without them.
    pub regions: Option<RegionsStatus>,
}

/// The state of the bitmaps of an array, in regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionsStatus {
    /// All regions.
    pub total: u64,
    /// Bytes of the array in one region; the average if groups differ in size.
    pub region_bytes: u64,
    /// Regions that were ever written; the others read as zeros.
    pub written: u64,
    /// Regions with a dirty bit: written a short time ago, or while a member was missing, or about
    /// to be written when a crash came.
    pub dirty: u64,
    /// Regions that a crash left dirty and that are not resynchronised yet; 0 if journals record
    /// the interrupted writes.
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
    /// On its members, because the journal's own device is not there or failed.
    DeviceOut,
}

/// The state of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageState {
    /// It is empty. The first write that could be staged brings it into use.
    Off,
    /// What an earlier opening staged is being loaded.
    Loading,
    /// It takes writes.
    On,
    /// The stage takes only writes of staged blocks. Placing goes on until it is empty.
    Draining,
}

/// The stage of an array. Sums count from the opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageStatus {
    /// The choice of writes to stage.
    pub mode: WriteBackMode,
    /// Its state.
    pub state: StageState,
    /// Blocks of the array that are in records that are not released.
    pub staged_blocks: u64,
    /// The memory for contents.
    pub memory_blocks: u32,
    /// The part of this memory in use.
    pub memory_used_blocks: u32,
    /// The fill, in 256ths: of the memory, of the space on the members or of the table of records,
    /// whichever is fullest.
    pub fill_256: u32,
    /// The age of the oldest record that is not released, in nanoseconds.
    pub oldest_ns: Option<u64>,
    /// The rate of placing, in blocks per second; 0 if unknown.
    pub placing_blocks_per_s: u64,
    /// True if the next answer waits, because the stage fills faster than it is placed.
    pub is_paced: bool,
    /// True if some blocks can't be placed.
    pub is_stuck: bool,
    /// Blocks that were written again before they were placed.
    pub absorbed_blocks: u64,
    /// Placed blocks.
    pub placed_blocks: u64,
    /// Rows of which all blocks were placed at once.
    pub whole_rows: u64,
    /// How long answers waited because the stage filled, in nanoseconds.
    pub paced_ns: u64,
}

/// The progress of a growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthStatus {
    /// Bytes of the array that are in their new places.
    pub done_bytes: u64,
    /// Bytes of the array before it grew.
    pub total_bytes: u64,
    /// True if the next part can't be moved in this opening.
    pub stuck: bool,
}

/// The state of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The position.
    pub member: MemberIndex,
    /// Its state.
    pub state: Member,
    /// True if the member is out, but not durably: the array would count on it after a crash.
    pub counted_on: bool,
    /// Its faults since opening.
    pub faults: MemberFaults,
    /// Errors of the device, as recorded in the device's superblock.
    pub errors: ErrorCounts,
    /// True if it is much slower than its peers.
    pub slow: bool,
    /// True if a read waits at it for much longer than its peers take.
    pub stalls: bool,
    /// Reads hedged since opening because they waited for this member.
    pub hedged_reads: u64,
    /// The recent average time of its reads, in nanoseconds; 0 if unknown.
    pub read_ns: u64,
    /// Regions whose contents it lacks in part: written since it is out, or not filled yet. 0 for
    /// an array without bitmaps.
    pub lacks_regions: u64,
}

impl Status {
    /// Returns the job of that name, if it is under way or ended with failed stripe ranges.
    #[must_use]
    pub fn job(&self, name: &str) -> Option<&JobStatus> {
        self.jobs.iter().find(|job| job.name == name)
    }
}
