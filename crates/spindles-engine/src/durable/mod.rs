//! Metadata that must be durable before something else: what comes before its writes, and the work
//! that waits for them.
//!
//! Superblocks, both bitmaps and the list of bad blocks lie on all members alike. They share one
//! machine, [`DurableBlocks`], and differ in their contents and in a row of [`ROWS`]:
//!
//! ```text
//!                 superblocks           bitmaps               list of bad blocks
//! a write covers  one slot              up to 16 KiB          one block
//! goes to         present members       present members and   present members and
//!                                       a hidden replacement  a hidden replacement
//! with            FUA                   FUA                   FUA
//! comes after     the opening's state,  the opening's state;  the opening's state;
//!                 bitmaps, flushes,     the dirty bitmap      superblocks that
//!                 the list, the stamp   before the other      announce the list
//! is repeated     in the other slot, if no                    no
//!                 members changed
//! an error        puts the member out,  the same              the same
//!                 or stops writing
//! after a stop    is not written        is not written        is written
//! waiters go on   after the last        after each write      after the last
//!                 wanted write                                wanted write
//! ```
//!
//! Two kinds do not fit. A page of checksums belongs to one member, is written without FUA next to
//! 15 others, and becomes durable by a later flush. The stamp of the journal's own device is written
//! once for each log, block after block, and an error moves the log to the members.

mod blocks;
mod flushes;
mod loading;

use crate::{system_io::Purpose, waits::WaitFor};
use Waiter::{
    AllRanges, BadBlocksOut, Extension, Growth, Journal, Logging, Opening, OtherSlot, Ranges,
    Rebuilt, Releases, Replace, Replay, ReplayListed, Write, Zeroing,
};
pub(crate) use blocks::DurableBlocks;
pub(crate) use flushes::OwnFlushes;
pub(crate) use loading::{Loading, transfer_blocks};
use spindles_format::AreaKind;

/// Metadata that lies on all members alike.
#[derive(Debug)]
pub(crate) struct Row {
    /// Where it lies.
    pub(crate) area: AreaKind,
    /// The purpose of its writes.
    pub(crate) purpose: Purpose,
    /// Continue after each write, in this order.
    pub(crate) next: &'static [Waiter],
    /// Continue in this order when all changes are durable, or writing has stopped.
    pub(crate) wakes: &'static [Waiter],
}

/// Work that waits for metadata to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// The next write of an area.
    Write(AreaKind),
    /// The stripe ranges with this reason.
    Ranges(WaitFor),
    /// All stripe ranges that wait.
    AllRanges,
    /// Stripe ranges that wait to be logged.
    Logging,
    /// A replacement that the superblocks record.
    Replace,
    /// The journal's part of the superblocks.
    Journal,
    /// A replay that waits for the superblocks.
    Replay,
    /// A replay that waits for the list of bad blocks.
    ReplayListed,
    /// A growth.
    Growth,
    /// An extension.
    Extension,
    /// An opening that may be complete.
    Opening,
    /// The bad blocks of members that the superblocks record as out.
    BadBlocksOut,
    /// Reports of rebuilt members.
    Rebuilt,
    /// Zeroed regions.
    Zeroing,
    /// Discarded regions.
    Releases,
    /// The second slot of an update that is written to both.
    OtherSlot,
}

/// Continue when writing stops: the events that they wait for never come.
pub(crate) const AFTER_STOP: &[Waiter] = &[
    AllRanges, Releases, Logging, Replay, Replace, Growth, Zeroing, Opening,
];

/// A superblock update may wait for both bitmaps, and a stripe range for one bit.
const AFTER_BITMAPS: &[Waiter] = &[
    Write(AreaKind::DIRTY_BITMAP),
    Write(AreaKind::WRITTEN_BITMAP),
    Write(AreaKind::SUPERBLOCK),
    Ranges(WaitFor::Region),
    Releases,
    Opening,
];

/// The metadata with one machine.
pub(crate) static ROWS: [Row; 4] = [
    Row {
        area: AreaKind::SUPERBLOCK,
        purpose: Purpose::Superblock,
        next: &[Replace, Write(AreaKind::SUPERBLOCK)],
        wakes: &[
            BadBlocksOut,
            Journal,
            Replay,
            Growth,
            Extension,
            Opening,
            Rebuilt,
            Ranges(WaitFor::Superblocks),
            Zeroing,
            OtherSlot,
        ],
    },
    Row {
        area: AreaKind::DIRTY_BITMAP,
        purpose: Purpose::DirtyBitmap,
        next: AFTER_BITMAPS,
        wakes: &[],
    },
    Row {
        area: AreaKind::WRITTEN_BITMAP,
        purpose: Purpose::WrittenBitmap,
        next: AFTER_BITMAPS,
        wakes: &[],
    },
    Row {
        area: AreaKind::BAD_BLOCKS,
        purpose: Purpose::BadBlocks,
        next: &[Write(AreaKind::BAD_BLOCKS)],
        wakes: &[
            Ranges(WaitFor::BadBlocks),
            Write(AreaKind::SUPERBLOCK),
            ReplayListed,
            Opening,
        ],
    },
];

impl Row {
    /// Returns the row of an area.
    pub(crate) fn of(area: AreaKind) -> &'static Self {
        ROWS.iter().find(|row| row.area == area).expect("a row")
    }
}
