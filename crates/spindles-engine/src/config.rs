//! What an engine is opened with.

use crate::{consistency::Policy, extension::Extent, read_policies::ReadPolicy};
use alloc::{boxed::Box, vec::Vec};
use core::fmt;
use spindles_block::{BlockIndex, BlockSize, BufferId, MemberSet};
use spindles_format::{ArrayRecord, DeviceRecord, JournalDevice};
use spindles_layout::Geometry;

/// Sizes of the pools, reserved at open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests taken and not answered; one more is `Busy`.
    pub requests: u32,
    /// Stripe ranges under way for requests, at least one. More let one large request use all members.
    pub ranges: u32,
    /// Reads hedged at once: from when redundancy is asked until both are back.
    pub hedges: u32,
    /// Length of a stripe range that needs scratch space, in blocks.
    pub range_blocks: u32,
    /// Pages of checksums kept in memory, 4 KiB each, for 1000 blocks of a member each, or 328 where rows have sums.
    pub checksum_pages: u32,
    /// Bytes of each member in regions that are dirty: so much may have to be read after a crash.
    /// Beyond it no region is marked before a write comes to it.
    pub dirty_bytes: u64,
}

/// What a disk reads in half a minute.
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
        }
    }
}

/// Where the array keeps what it must not forget. Scratch arrays have none.
#[derive(Clone, Debug)]
pub struct Persistence {
    /// What the superblocks of all members say alike, as the truth at opening.
    pub array: Box<ArrayRecord>,
    /// Whether something of it is new: they don't say so yet.
    pub changed: bool,
    /// What the array was, where `array` is larger than the superblocks say.
    pub extends: Option<Extent>,
    /// Each member's own part; `None` for a missing member.
    pub devices: Vec<Option<DeviceRecord>>,
    /// The device of its own that the array has for its journal, where that is there: attached as
    /// `JOURNAL_DEVICE`.
    pub journal_device: Option<JournalDevice>,
    /// Drawn at random for each opening: what nobody who writes to the array can know.
    pub nonce: u64,
    /// When it is opened, in seconds since 1970; where that is not known, the superblocks keep the
    /// times that they have.
    pub opened_s: Option<u64>,
}

/// What a member may do wrong before something is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultLimits {
    /// So many reads that failed in different places within `errors_window_ns` put a member out,
    /// where the level survives it and no other has them too; 0 for never.
    pub errors_max: u32,
    /// See `errors_max`; in nanoseconds.
    pub errors_window_ns: u64,
    /// A member is slow whose reads take more than so many times what those of the member in the
    /// middle of its peers take, for `slow_after_ns`; 0 for never.
    pub slow_factor: u32,
    /// And no less than so many nanoseconds.
    pub slow_min_ns: u64,
    /// See `slow_factor`; in nanoseconds.
    pub slow_after_ns: u64,
    /// Reads that may compute what a slow member holds, at once. More wait for the member.
    pub around_max: u32,
    /// A member stalls while a read waits at it for more than so many times what those of the
    /// member in the middle of its peers take; 0 for never.
    pub stall_factor: u32,
    /// And for no less than so many nanoseconds.
    pub stall_min_ns: u64,
    /// One of so many reads may be hedged, beyond the first `Limits::hedges`.
    pub hedge_share: u32,
}

impl FaultLimits {
    /// Twenty errors in ten minutes: as many as md takes, in less time than it does. Five times as
    /// slow for five seconds, and a millisecond at least. A read that waits ten times as long, and
    /// 20 ms at least, may be hedged, as one of twenty.
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

/// What an engine is opened with.
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
    /// Whether members write less than a block at once, so that a crash may leave a block torn.
    pub tears: bool,
    /// Members for which write-zeroes is no work, however long it is.
    pub zeroes_without_moving_bytes: MemberSet,
    /// Members that take space only for what is written: what was never written is discarded there.
    pub thin: MemberSet,
    /// Members that are not there.
    pub missing: MemberSet,
    /// First block of each member's data area, counted from the start of its device.
    pub data_start: Vec<BlockIndex>,
    /// The superblocks.
    pub persistence: Option<Persistence>,
    /// Whether redundancy is known to agree with data.
    pub clean: bool,
    /// Whether nothing may be written, metadata included.
    pub read_only: bool,
    /// Opened for reading only to see whether it can be opened: what a journal would put in order
    /// is taken as it is. Whatever is read must carry a checksum of its own.
    pub look_only: bool,
    /// Open for reading only, though more members are missing than the level survives: what they alone
    /// held answers errors. Has no effect on an array that was not closed in order.
    pub beyond_tolerance: bool,
    /// Only what a crash left is put in order: no growth, no rebuild goes on by itself.
    pub only_recovers: bool,
    /// Open an array that is unclean and degraded: what was in flight at the crash may then be
    /// wrong in places that were not written.
    pub force: bool,
    /// What is done about crashes.
    pub consistency: &'static Policy,
    /// Which copy reads take.
    pub read_policy: &'static ReadPolicy,
    /// Members that are read only when no other copy is left.
    pub write_mostly: MemberSet,
    /// Sizes of the pools.
    pub limits: Limits,
    /// What jobs are guaranteed beside clients, in bytes of each member per second; 0 for nothing.
    pub job_rate: u64,
    /// What members may do wrong.
    pub faults: FaultLimits,
    /// The driver's buffer of `Engine::scratch_blocks` blocks for the engine's use.
    pub scratch: BufferId,
    /// The driver's name for `Engine::metadata`.
    pub metadata: BufferId,
    /// The planted fault.
    #[cfg(feature = "canary")]
    pub mutation: crate::mutation::Mutation,
}

/// Why an array can't be opened.
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
