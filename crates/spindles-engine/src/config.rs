//! The configuration with which an engine is opened.

use crate::consistency::{POLICIES, Policy};
use crate::extension::Extent;
use crate::jobs::JOB_RATE;
use crate::mutation::Mutation;
use crate::read_policies::{READ_POLICIES, ReadPolicy};
use alloc::{boxed::Box, vec, vec::Vec};
use core::fmt;
use spindles_block::{BlockIndex, BlockSize, BufferId, MemberSet};
use spindles_format::{ArrayRecord, DeviceRecord, JournalDevice};
use spindles_layout::Geometry;

/// Sizes of the pools, reserved at open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests taken and not yet answered; one more is `Busy`.
    pub requests: u32,
    /// Stripe ranges under way for requests, at least one. With more, one large request can use all
    /// members.
    pub ranges: u32,
    /// Reads hedged at once. A read counts from the start of its hedge until both are back.
    pub hedges: u32,
    /// Length of a stripe range that needs scratch space, in blocks.
    pub range_blocks: u32,
    /// Pages of checksums kept in memory, 4 KiB each. A page covers 1000 blocks of a member, or 328
    /// if rows have checksums.
    pub checksum_pages: u32,
    /// Maximum bytes of each member in dirty regions, which a resync may have to read after a
    /// crash. Beyond this limit no region is marked ahead of writes.
    pub dirty_bytes: u64,
    /// The longest write to a journal with FUA, in bytes. Longer ones are followed by a flush.
    pub fua_bytes_max: u32,
}

/// The kernel splits longer writes, and a device without FUA is flushed after each part.
const FUA_BYTES_MAX: u32 = 1 << 20;
/// Bytes that a disk reads in half a minute.
const DIRTY_BYTES: u64 = 30 * (100 << 20);

impl Limits {
    /// Limits for `requests` in flight of an array with `block_size`.
    #[must_use]
    pub fn for_depth(requests: u32, block_size: BlockSize) -> Self {
        Self {
            requests,
            ranges: requests.clamp(32, 4096),
            hedges: requests.min(64),
            range_blocks: (64 * 1024) / block_size.bytes(),
            checksum_pages: 2048,
            dirty_bytes: DIRTY_BYTES,
            fua_bytes_max: FUA_BYTES_MAX,
        }
    }
}

/// The persistent metadata of an array. Scratch arrays have no persistent metadata.
#[derive(Clone, Debug)]
pub struct Persistence {
    /// The part that the superblocks of all members share, as it holds at opening.
    pub array: Box<ArrayRecord>,
    /// True if `array` contains changes that the superblocks do not have yet.
    pub changed: bool,
    /// The extent before, if `array` is larger than the superblocks say.
    pub extends: Option<Extent>,
    /// Each member's own part; `None` for a missing member.
    pub devices: Vec<Option<DeviceRecord>>,
    /// The journal's own device, attached as `JOURNAL_DEVICE`. `None` if the array has no journal
    /// device.
    pub journal_device: Option<JournalDevice>,
    /// A random number for each opening, which no client that writes to the array can know.
    pub nonce: u64,
    /// The time of opening, in seconds since 1970. `None` if unknown: the superblocks then keep
    /// their times.
    pub opened_s: Option<u64>,
}

/// Limits for the faults of members, beyond which the engine acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultLimits {
    /// Reads that may fail in different places within `errors_window_ns`. At this number a member
    /// is put out, if the level survives it and no other member has errors; 0 for never.
    pub errors_max: u32,
    /// The period for `errors_max`, in nanoseconds.
    pub errors_window_ns: u64,
    /// A member is slow if its reads take more than this many times the median of its peers, for
    /// `slow_after_ns`; 0 for never.
    pub slow_factor: u32,
    /// The least average read time of a slow member, in nanoseconds.
    pub slow_min_ns: u64,
    /// The period for `slow_factor`, in nanoseconds.
    pub slow_after_ns: u64,
    /// Reads that may compute the contents of a slow member at once. Further reads wait for the
    /// member.
    pub around_max: u32,
    /// A member stalls while a read waits at it for more than this many times the median read time
    /// of its peers; 0 for never.
    pub stall_factor: u32,
    /// The least wait at a stalled member, in nanoseconds.
    pub stall_min_ns: u64,
    /// One of this many reads may be hedged, beyond the first `Limits::hedges`.
    pub hedge_share: u32,
}

impl FaultLimits {
    /// Puts a member out after twenty errors in ten minutes: as many as md takes, in less time. A
    /// member is slow if it takes five times as long for five seconds, and at least a millisecond.
    /// A read may be hedged if it waits ten times as long, and at least 20 ms; one of twenty reads
    /// may.
    pub const DEFAULT: Self = Self {
        errors_max: 20,
        errors_window_ns: 600_000_000_000,
        slow_factor: 5,
        slow_min_ns: 1_000_000,
        slow_after_ns: 5_000_000_000,
        around_max: 8,
        stall_factor: 10,
        stall_min_ns: 20_000_000,
        hedge_share: 20,
    };
}

/// The choice of writes to stage: to answer after one append, and to place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBackMode {
    /// None.
    Off,
    /// Parts of rows, while the stage has room for a burst of writes.
    Auto,
    /// Parts of rows, while the stage has room.
    On,
}

/// The use of an array's stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// The choice of writes to stage.
    pub mode: WriteBackMode,
    /// The memory for staged contents, in blocks.
    pub memory_blocks: u32,
}

impl WriteBack {
    /// Nothing is staged.
    pub const OFF: Self = Self {
        mode: WriteBackMode::Off,
        memory_blocks: 16 << 10,
    };
}

/// The configuration with which an engine is opened.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the opening"
)]
pub struct Config {
    /// The map.
    pub geometry: Geometry,
    /// The addressing unit.
    pub block_size: BlockSize,
    /// True if members write less than a block at once, so that a crash may leave a block torn.
    pub tears: bool,
    /// Members that write zeros without moving bytes, whatever the length.
    pub zeroes_without_moving_bytes: MemberSet,
    /// Thin members, which take space only for written blocks: they discard never-written blocks.
    pub thin: MemberSet,
    /// Positions without a device.
    pub missing: MemberSet,
    /// First block of each member's data area, counted from the start of its device.
    pub data_start: Vec<BlockIndex>,
    /// The superblocks; `None` for an array without.
    pub persistence: Option<Persistence>,
    /// True if redundancy is known to agree with data.
    pub clean: bool,
    /// True to open the array for reading only. It recovers like an array open for writing, so the
    /// members must accept writes; the driver keeps them in memory. No job begins by itself.
    pub read_only: bool,
    /// True to open the array read-only, just to see whether it can be opened. Reads return
    /// contents in doubt without a proof, so callers must read only contents that carry their own
    /// checksums.
    pub look_only: bool,
    /// True to open the array read-only although more members are missing than the level survives.
    /// Blocks that only those held answer errors. No effect on an array that was not closed in
    /// order.
    pub beyond_tolerance: bool,
    /// True to repair only what a crash left: no growth and no rebuild continues by itself.
    pub only_recovers: bool,
    /// True to open an array that is unclean and degraded. Writes in flight at the crash may then
    /// have made other places wrong, which were not written.
    pub force: bool,
    /// The consistency policy.
    pub consistency: &'static Policy,
    /// The policy that chooses the copy to read.
    pub read_policy: &'static ReadPolicy,
    /// Members that are read only when no other copy is left.
    pub write_mostly: MemberSet,
    /// Sizes of the pools.
    pub limits: Limits,
    /// The rate that jobs are guaranteed while clients are busy, in bytes of each member per
    /// second; 0 for none.
    pub job_rate: u64,
    /// The use of the array's stage.
    pub write_back: WriteBack,
    /// Limits for the faults of members.
    pub faults: FaultLimits,
    /// The driver's buffer of `Engine::scratch_blocks` blocks, for the engine's use.
    pub scratch: BufferId,
    /// The driver's id for `Engine::metadata`.
    pub metadata: BufferId,
    /// The planted fault. Only a build with the feature `canary` acts on it.
    pub mutation: Mutation,
}

impl Config {
    /// Returns the configuration of a clean array without superblocks, log or checksums, open for
    /// writing. The data of each member begins at its first block.
    #[must_use]
    pub fn bare(geometry: Geometry, block_size: BlockSize, requests_max: u32) -> Self {
        Self {
            data_start: vec![BlockIndex(0); geometry.members().into()],
            geometry,
            block_size,
            missing: MemberSet::EMPTY,
            zeroes_without_moving_bytes: MemberSet::EMPTY,
            thin: MemberSet::EMPTY,
            persistence: None,
            clean: true,
            read_only: false,
            look_only: false,
            beyond_tolerance: false,
            only_recovers: false,
            tears: false,
            force: false,
            consistency: POLICIES[0],
            read_policy: READ_POLICIES[0],
            write_mostly: MemberSet::EMPTY,
            job_rate: JOB_RATE,
            write_back: WriteBack::OFF,
            faults: FaultLimits::DEFAULT,
            limits: Limits::for_depth(requests_max, block_size),
            scratch: BufferId::NONE,
            metadata: BufferId::NONE,
            mutation: Mutation::None,
        }
    }
}

/// The reason why an array can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// More members are missing than the level survives.
    BeyondTolerance {
        /// The members that are missing.
        missing: MemberSet,
    },
    /// The array was not closed and members are missing: with parity, untouched data might be
    /// reconstructed wrong.
    UncleanDegraded {
        /// The members that are missing.
        missing: MemberSet,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondTolerance { missing } => {
                write!(
                    f,
                    "more members are missing than the level survives: {missing:?}"
                )
            }
            Self::UncleanDegraded { missing } => write!(
                f,
                "the array was not closed and members are missing: {missing:?}; parity may not \
                 match data, so reconstructed blocks could be wrong"
            ),
        }
    }
}

impl core::error::Error for OpenError {}
