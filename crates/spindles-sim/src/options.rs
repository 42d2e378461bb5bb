//! The plan of a run: the array, the disks, the load, the faults.

use crate::disks::Model;
use crate::planted::Planted;
use spindles_block::{BlockSize, MemberSet};
use spindles_engine::{FaultLimits, Policy, ReadPolicy, WriteHole};
use spindles_layout::{Covered, Level, Redundancy};
use spindles_workload::Kind;
use spindles_workload::history::Initial;
use std::fmt;

/// An array or one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// A disk.
    Disk {
        /// Its size in bytes.
        bytes: u64,
    },
    /// An array.
    Array {
        /// Its level.
        level: &'static Level,
        /// Its layout's name; empty for the level's default.
        layout: String,
        /// The length of a chunk, in blocks.
        chunk_blocks: u32,
        /// Its members.
        members: Vec<Tree>,
    },
}

impl Tree {
    /// Returns the number of disks.
    pub fn disks(&self) -> usize {
        match self {
            Self::Disk { .. } => 1,
            Self::Array { members, .. } => members.iter().map(Self::disks).sum(),
        }
    }

    /// Returns true for an array that keeps checksums of its blocks. `around_keeps`: an array above
    /// already keeps them.
    pub fn keeps_checksums(&self, keepers: Keepers, around_keeps: bool) -> bool {
        let Self::Array { level, members, .. } = self else {
            return false;
        };
        match keepers {
            Keepers::None => false,
            Keepers::ArraysOfDisks => {
                (members.iter()).all(|member| matches!(member, Self::Disk { .. }))
            }
            Keepers::AsCreated => {
                level.keeps_checksums(members.iter().map(Self::covered), around_keeps)
            }
        }
    }

    fn covered(&self) -> Covered {
        match self {
            Self::Disk { .. } => Covered::Device,
            Self::Array { level, members, .. } => level.covered(members.iter().map(Self::covered)),
        }
    }

    /// Returns true if the array reads as zeros before its first write, whatever the disks hold.
    /// Assumes that arrays with redundancy or checksums have bitmaps.
    pub fn begins_with_zeros(&self, keepers: Keepers, around_keeps: bool) -> bool {
        match self {
            Self::Disk { .. } => false,
            Self::Array { level, members, .. } => {
                let keeps = self.keeps_checksums(keepers, around_keeps);
                let mut members = members.iter();
                level.redundancy != Redundancy::None
                    || keeps
                    || members.all(|member| member.begins_with_zeros(keepers, around_keeps))
            }
        }
    }

    /// Returns true if this array or one in it keeps parity.
    pub fn has_parity(&self) -> bool {
        let below = match self {
            Self::Disk { .. } => false,
            Self::Array { members, .. } => members.iter().any(Self::has_parity),
        };
        self.keeps_parity() || below
    }

    /// Returns true if the array keeps parity itself.
    pub fn keeps_parity(&self) -> bool {
        match self {
            Self::Disk { .. } => false,
            Self::Array { level, .. } => matches!(level.redundancy, Redundancy::Parity(_)),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { bytes } => write!(f, "{}K", bytes / 1024),
            Self::Array {
                level,
                layout,
                chunk_blocks,
                members,
            } => {
                write!(f, "{level}")?;
                if !layout.is_empty() {
                    write!(f, ":{layout}")?;
                }
                write!(f, "/{chunk_blocks}(")?;
                for (index, member) in members.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{member}")?;
                }
                f.write_str(")")
            }
        }
    }
}

/// Selects the arrays that keep checksums of their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keepers {
    /// None.
    None,
    /// Arrays of disks, but not arrays of arrays, as created by an earlier version.
    ArraysOfDisks,
    /// The arrays for which `create` selects them.
    AsCreated,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The array is closed normally.
    Close,
    /// The process dies; disks keep their caches.
    ProcessCrash,
    /// Disks lose their caches, and writes in flight are torn.
    PowerLoss,
}

impl Ending {
    /// Returns its name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::ProcessCrash => "process crash",
            Self::PowerLoss => "power loss",
        }
    }
}

/// A session, from opening to ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Requests before it ends.
    pub requests: u32,
    /// How it ends.
    pub ending: Ending,
    /// Number of requests after which the clients pause for a while; `None` if they don't.
    pub quiet_after: Option<u32>,
    /// The names of the faults, each with the number of requests after which it strikes.
    pub faults: Vec<(&'static str, u32)>,
}

/// The mix of client requests, as weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub read: u32,
    /// Writes.
    pub write: u32,
    /// Flushes.
    pub flush: u32,
    /// Discards.
    pub discard: u32,
    /// Write-zeroes.
    pub write_zeroes: u32,
    /// Percent of the writes that must be durable when answered.
    pub fua_percent: u32,
    /// Percent of the requests that go to the same few blocks.
    pub hot_percent: u32,
}

/// The size of a disk. A run without any has all disks as in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSize {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Bytes of the disk that its array was created on.
    pub created_bytes: u64,
    /// Logical sector in bytes: the unit that may tear.
    pub sector_bytes: u32,
}

/// All choices of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of everything random.
    pub seed: u64,
    /// The array.
    pub tree: Tree,
    /// The disks, from left to right, if they differ from the tree.
    pub disks: Vec<DiskSize>,
    /// Block size of the array.
    pub block_size: BlockSize,
    /// Logical sector of the disks, in bytes: the unit that may tear.
    pub sector_bytes: u32,
    /// The disk model.
    pub model: &'static Model,
    /// Groups in a region of arrays with redundancy. 0: no bitmaps; 1: the choice of `create`.
    pub region_groups: u32,
    /// Contents of the disks before the first write.
    pub initial: Initial,
    /// Most requests in flight.
    pub depth: u32,
    /// Most requests that the engine accepts; below `depth`, it is busy now and then.
    pub limit_requests: u32,
    /// Number of the engine's stripe ranges.
    pub limit_columns: u32,
    /// Most reads that the engine hedges at once.
    pub limit_hedges: u32,
    /// Blocks of a stripe range of the engine.
    pub limit_column_blocks: u32,
    /// Set if blocks have checksums, in the arrays that keep them.
    pub checksums: bool,
    /// The arrays that keep them.
    pub checksums_kept_by: Keepers,
    /// Checksum pages in memory.
    pub checksum_pages: u32,
    /// Bytes of dirty regions on each disk, above which no region is marked ahead of writes.
    pub dirty_bytes: u64,
    /// Bytes of the longest write to a journal with FUA.
    pub fua_bytes_max: u32,
    /// Members of every array whose disks write zeros without moving bytes.
    pub zeroes_without_moving_bytes: MemberSet,
    /// Members of every array whose disks allocate space only for written blocks.
    pub thin: MemberSet,
    /// The longest request, in blocks.
    pub request_blocks_max: u32,
    /// The mix of client requests.
    pub mix: Mix,
    /// A workload that runs before the random requests; `None` for no workload.
    pub workload: Option<&'static Kind>,
    /// Selects the copy that reads use.
    pub read_policy: &'static ReadPolicy,
    /// The consistency policy; `None` for each level's default.
    pub consistency: Option<&'static Policy>,
    /// Guaranteed rate of jobs while clients are active, in bytes of each member per second.
    pub job_rate: u64,
    /// Limits on errors and slowness, above which the engine reacts.
    pub faults: FaultLimits,
    /// Blank disks that replace lost ones automatically.
    pub spares: u32,
    /// Set if the outermost array has a journal disk of its own, provided that it keeps a journal.
    pub journal_device: bool,
    /// Bytes of the stage on each disk; 0 for none.
    pub stage_bytes: u64,
    /// Blocks of memory for staged writes.
    pub staged_blocks: u32,
    /// Bytes reserved on each disk for growing.
    pub headroom_bytes: u64,
    /// Set if faults may exceed what the array survives. Requests may fail then, but wrong bytes
    /// are still findings.
    pub beyond: bool,
    /// The sessions. After them the array is opened once more and checked as a whole.
    pub sessions: Vec<Session>,
    /// A planted fault.
    pub planted: Planted,
}

impl Options {
    /// Returns the contents of the array before the first write.
    pub fn contents(&self) -> Initial {
        if self.region_groups > 0 && self.tree.begins_with_zeros(self.keepers(), false) {
            return Initial::Zeros;
        }
        self.initial
    }
}

impl Options {
    /// Returns the policy of an array; `logs` is set if it keeps parity or checksums.
    pub(crate) fn policy(&self, logs: bool) -> &'static Policy {
        self.consistency
            .unwrap_or_else(|| Policy::default_for(logs))
    }

    /// Returns true if writes are logged in arrays that keep parity or checksums.
    fn logs(&self) -> bool {
        self.policy(true).write_hole == WriteHole::Closed
    }

    /// Returns which arrays keep checksums.
    pub(crate) fn keepers(&self) -> Keepers {
        if self.sums() {
            self.checksums_kept_by
        } else {
            Keepers::None
        }
    }

    /// Returns true if blocks have checksums. Without a log of the writes in flight, checksums are
    /// inexact after a crash; then only runs without crashes have them.
    pub(crate) fn sums(&self) -> bool {
        self.checksums && self.region_groups > 0 && (self.logs() || self.is_free_of_crashes())
    }

    /// Returns true if checksums are exact after a crash, or there are none.
    pub(crate) fn sums_exactly(&self) -> bool {
        !self.sums() || self.logs()
    }

    /// Returns true if every session is closed normally.
    pub(crate) fn is_free_of_crashes(&self) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.all(|session| session.ending == Ending::Close)
    }

    /// Returns true if disks may run out of space for unwritten blocks.
    pub(crate) fn may_run_out_of_space(&self) -> bool {
        let mut faults = self.sessions.iter().flat_map(|session| &session.faults);
        faults.any(|(name, _)| *name == "no_space")
    }

    /// Returns true if parity may disagree with data after a crash. No member may be missing then.
    pub(crate) fn doubts_parity(&self) -> bool {
        self.tree.has_parity()
            && (self.policy(true).write_hole != WriteHole::Closed
                || self.initial == Initial::Unknown)
    }
}

/// Adds the headroom to all disks of the tree.
pub(crate) fn with_room(tree: &mut Tree, bytes: u64) {
    match tree {
        Tree::Disk { bytes: of_disk } => *of_disk += bytes,
        Tree::Array { members, .. } => members.iter_mut().for_each(|tree| with_room(tree, bytes)),
    }
}

/// Returns true if the run starts from disks with unknown contents.
pub(crate) fn starts_unclean(options: &Options) -> bool {
    options.initial == Initial::Unknown
}
