//! Metadata that must be durable before other work continues: its writes, their order, and the work
//! that they wake.
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
//!                 bitmaps, flushes,     dirty before written  superblocks that
//!                 the list, the stamp   if a member lacks it  announce the list
//! is repeated     in the other slot, if no                    no
//!                 members changed
//! an error        puts the member out,  the same              the same
//!                 or stops writing
//! after a stop    is not written        is not written        is written
//! waiters go on   after the last        after each write      after the last
//!                 wanted write                                wanted write
//! ```
//!
//! Two kinds do not fit. A page of checksums belongs to one member. It is written without FUA, next
//! to 15 others, and a later flush makes it durable. The stamp of the journal's own device is
//! written once for each log, block after block. An error moves the log to the members.

mod blocks;
mod flushes;
mod loading;

use crate::{
    agenda::Due::{self as Work, Releases, Serve, Update, Zeroing},
    system_io::Purpose,
};
use Waiter::{
    BadOut, Bitmaps, Due, Extension, Growth, Journal, List, Listed, Logging, OnAny, OnList,
    OnRegion, OnUpdate, OtherSlot, Rebuilt, Replace, Replay,
};
pub(crate) use blocks::DurableBlocks;
pub(crate) use flushes::OwnFlushes;
pub(crate) use loading::{Loading, transfer_blocks};
use spindles_format::AreaKind;

/// Continue when writing stops: the events that they wait for never come.
pub(crate) const AFTER_STOP: &[Waiter] = &[
    OnAny,
    Due(Releases),
    Logging,
    Replay,
    Replace,
    Growth,
    Due(Zeroing),
    Due(Serve),
];

/// A superblock update may wait for both bitmaps, and a stripe range for one bit.
const AFTER_BITMAPS: &[Waiter] = &[Bitmaps, Due(Update), OnRegion, Due(Releases), Due(Serve)];

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

/// Work that continues when metadata is durable. `Engine::wake_all` says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// Work that other parts of the engine ask for too.
    Due(Work),
    /// The next writes of bitmaps, and the list of bad blocks.
    Bitmaps,
    List,
    /// The current update in the other slot.
    OtherSlot,
    /// Stripe ranges that wait for a reason of `WaitFor`.
    OnUpdate,
    OnRegion,
    OnList,
    OnAny,
    /// Stripe ranges that are to be logged.
    Logging,
    /// The list's entries of members that the superblocks record as out.
    BadOut,
    Journal,
    Replay,
    /// A replay that waits for the list of bad blocks.
    Listed,
    Replace,
    Growth,
    Extension,
    /// Reports of rebuilt members.
    Rebuilt,
}

/// The metadata with one machine.
pub(crate) static ROWS: [Row; 4] = [
    Row {
        area: AreaKind::SUPERBLOCK,
        purpose: Purpose::Superblock,
        next: &[Replace, Due(Update)],
        wakes: &[
            BadOut,
            Journal,
            Replay,
            Growth,
            Extension,
            Due(Serve),
            Rebuilt,
            OnUpdate,
            Due(Zeroing),
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
        next: &[List],
        wakes: &[OnList, Due(Update), Listed, Due(Serve)],
    },
];

impl Row {
    /// Returns the row of an area.
    pub(crate) fn of(area: AreaKind) -> &'static Self {
        ROWS.iter().find(|row| row.area == area).expect("a row")
    }
}
