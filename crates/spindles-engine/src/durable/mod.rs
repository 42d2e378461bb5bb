//! Metadata that must be durable before something else: what it waits for, and what waits for it.
//!
//! The bitmaps and the list of bad blocks lie on all members alike. They share one machine,
//! [`DurableBlocks`], and differ in a row of [`ROWS`].

mod blocks;

use crate::{system_io::Purpose, waits::WaitFor};
use Waiter::{Opening, Ranges, Releases, ReplayListed, Write};
pub(crate) use blocks::DurableBlocks;
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
    /// A replay that waits for the list of bad blocks.
    ReplayListed,
    /// An opening that may be complete.
    Opening,
    /// Discarded regions.
    Releases,
}

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
pub(crate) static ROWS: [Row; 3] = [
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
