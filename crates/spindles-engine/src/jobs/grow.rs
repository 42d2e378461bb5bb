//! The window of a growth: where it lies, and how far it is moved.

use crate::{
    config::Persistence,
    growth::staging_rows,
    system_io::{MetadataBuffer, Place as MetadataPlace},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{BlockIndex, BlockSize, BufferSlice};
use spindles_format::{
    AreaKind, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Entries, GrowthRecord,
};
use spindles_layout::{Geometry, GroupIndex};

/// About so much of the array is moved at once, unless its members have less headroom.
const WINDOW_BYTES: u64 = 4 << 20;

/// Where the window under way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// None is.
    Idle,
    /// It is not durable yet that the array grows.
    Beginning,
    /// What was under way comes to its end.
    Waiting,
    /// It was staged when the last opening ended, and waits until all is ready.
    Found,
    /// Its regions are made ready to be written.
    Readying,
    Reading,
    Staging,
    /// The checksums of what is staged are written beside it.
    Checksumming {
        pending: u32,
    },
    Hardening {
        pending: u32,
    },
    /// The superblocks are to say that it is staged.
    Recording,
    /// The checksums of what is staged are read.
    Loading {
        pending: u32,
    },
    Rereading,
    Placing,
    Settling {
        pending: u32,
    },
    /// The superblocks are to say that it is moved.
    Marking,
    /// It can't be moved, and nothing more is in this opening.
    Stuck,
}

/// What the engine keeps about growing.
#[derive(Clone, Debug)]
pub(crate) struct Grow {
    pub(crate) stage: Stage,
    /// What the superblocks say, or shall say with the next update.
    pub(crate) record: GrowthRecord,
    /// The blocks under way; the end may be beyond that of the array, which has zeros there.
    pub(crate) window: Range<u64>,
    /// Groups of the new map that lie in the headroom, not in their places.
    pub(crate) staged: Range<u64>,
    /// Where the first of them begins on each member, in its data area.
    pub(crate) first_row: u64,
    pub(crate) buffer: BufferSlice,
    pub(crate) buffer_blocks: u32,
    /// Where the headroom of each member begins, in blocks of its device.
    pub(crate) headroom: Vec<BlockIndex>,
    /// Blocks of it that may be staged at once.
    pub(crate) staging_rows: u64,
    /// Where blocks have checksums: pages of those of what is staged.
    pub(crate) sums: Option<MetadataPlace>,
}

impl Grow {
    /// What an array that is opened with that has to move.
    pub(crate) fn new(
        persistence: Option<&Persistence>,
        geometry: &Geometry,
        block_size: BlockSize,
        metadata: &mut MetadataBuffer,
    ) -> Self {
        let array = persistence.map(|persistence| &persistence.array);
        let record = array.map_or_else(GrowthRecord::default, |array| array.growth);
        let devices = persistence.map_or(&[][..], |persistence| &persistence.devices);
        let mut grow = Self {
            stage: Stage::Idle,
            record,
            window: 0..0,
            staged: 0..0,
            first_row: 0,
            buffer: BufferSlice::NONE,
            buffer_blocks: 0,
            headroom: devices
                .iter()
                .map(|device| headroom(device.as_ref()))
                .collect(),
            staging_rows: array.map_or(0, |array| staging_rows(array)),
            sums: None,
        };
        if let (Some(unit), Some(older)) = (geometry.growth_unit(), &record.older) {
            let room = WINDOW_BYTES / u64::from(block_size.bytes()) / unit * unit;
            // What was staged before is as long as the headroom allowed then.
            let blocks = room.max(unit).max(older.staged_blocks.into());
            let blocks = blocks.next_multiple_of(geometry.stripe_blocks());
            grow.buffer_blocks = u32::try_from(blocks).expect("looked at when it was planned");
            if array.is_some_and(|array| array.checksum != ChecksumKind::None) {
                let rows = blocks / u64::from(geometry.data_chunks());
                let entries = array
                    .map(|array| array.entries())
                    .expect("it has checksums");
                let blocks = pages_of_checksums(entries, rows) * page_blocks(block_size);
                grow.sums = Some(metadata.reserve(geometry.members(), blocks));
            }
            if array.is_some_and(|array| array.growth_is_planned()) {
                grow.stage = Stage::Beginning;
            } else if older.staged_blocks > 0 {
                grow.stage = Stage::Found;
            }
        }
        grow
    }

    /// What the superblocks say of it, or shall say with the next update.
    pub(crate) fn record(&self) -> GrowthRecord {
        self.record
    }

    /// Blocks of the buffer that it needs behind the scratch space.
    pub(crate) fn buffer_blocks(&self) -> u32 {
        self.buffer_blocks
    }

    /// Whether clients wait for a window, or have to.
    pub(crate) fn holds_back(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Stuck)
    }

    /// Whether nothing of a window is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(
            self.stage,
            Stage::Idle | Stage::Waiting | Stage::Found | Stage::Stuck
        )
    }

    /// Whether it is not durable yet that the array grows.
    pub(crate) fn begins(&self) -> bool {
        self.stage == Stage::Beginning
    }

    /// Whether a write of the array's own is under way, which needs no journal.
    #[inline]
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Staging | Stage::Placing)
    }

    /// Whether a group lies in the headroom.
    #[inline]
    pub(crate) fn is_staged(&self, group: GroupIndex) -> bool {
        self.staged.contains(&group.0)
    }
}

/// Blocks of a page of checksums.
pub(crate) fn page_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(CHECKSUM_PAGE_BYTES).expect("4096") / block_size.bytes()
}

/// Pages with the checksums of so many rows.
pub(crate) fn pages_of_checksums(entries: Entries, rows: u64) -> u32 {
    u32::try_from(entries.pages(rows)).expect("a window is short")
}

pub(crate) fn headroom(device: Option<&DeviceRecord>) -> BlockIndex {
    let area = device.and_then(|device| {
        let block_bytes = u64::from(device.block_size.bytes());
        Some(device.area(AreaKind::HEADROOM)?.offset_bytes / block_bytes)
    });
    BlockIndex(area.unwrap_or(0))
}
