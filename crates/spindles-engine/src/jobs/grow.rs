//! The window of a growth: its place, and the progress of its move.

use crate::{
    config::Persistence,
    growth::{staging_rows, unit_rows},
    members::Members,
    membership::Growing,
    system_io::{MetadataBuffer, Place as MetadataPlace},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{BlockIndex, BlockSize, BufferSlice, MemberIndex, MemberSet};
use spindles_format::{
    AreaKind, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Entries, GrowthRecord,
};
use spindles_layout::{Geometry, GroupIndex};

/// Bytes of the array that are moved at once, unless the members have less headroom.
const WINDOW_BYTES: u64 = 4 << 20;

/// The stage of the current window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No window exists.
    Idle,
    /// The superblocks do not say yet that the array grows.
    Beginning,
    /// Waiting for everything under way to end.
    Waiting,
    /// The window was staged before this opening. Waiting for everything under way to end.
    Found,
    /// Preparing the regions of the window for writes.
    Readying,
    Reading,
    Staging,
    /// Writing the checksums of the staged blocks behind them.
    Checksumming {
        pending: u32,
    },
    Hardening,
    /// Writing to the superblocks that the window is staged.
    Recording,
    /// Reading the checksums of the staged blocks.
    Loading {
        pending: u32,
    },
    Rereading,
    Placing,
    Settling,
    /// Writing to the superblocks that the window is moved.
    Marking,
    /// The window can't be moved. Growth continues in another opening.
    Stuck,
}

/// The engine's state of a growth.
#[derive(Clone, Debug)]
pub(crate) struct Grow {
    pub(crate) stage: Stage,
    /// The growth record that the superblocks have, or get with the next update.
    pub(crate) record: GrowthRecord,
    /// The blocks of the window. Blocks beyond the end of the array are zeros.
    pub(crate) window: Range<u64>,
    /// Groups of the new map that lie in the headroom instead of their places.
    pub(crate) staged: Range<u64>,
    /// The row in each member's data area where the first staged group begins.
    pub(crate) first_row: u64,
    pub(crate) buffer: BufferSlice,
    pub(crate) buffer_blocks: u32,
    /// The first block of each member's headroom, counted from the start of its device.
    pub(crate) headroom: Vec<BlockIndex>,
    /// Blocks of the headroom that may be staged at once.
    pub(crate) staging_rows: u64,
    /// Pages for the checksums of staged blocks. `None` if blocks have no checksums.
    pub(crate) sums: Option<MetadataPlace>,
}

impl Grow {
    /// Creates the state of a growth as the superblocks record it.
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
            // An earlier window is as long as the headroom allowed then.
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

    /// Returns the growth record that the superblocks have, or get with the next update.
    pub(crate) fn record(&self) -> GrowthRecord {
        self.record
    }

    /// Blocks of buffer that a growth needs behind the scratch space.
    pub(crate) fn buffer_blocks(&self) -> u32 {
        self.buffer_blocks
    }

    /// Returns true if clients wait for a window, or must.
    pub(crate) fn holds_back(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Stuck)
    }

    /// Returns true if no I/O of a window is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(
            self.stage,
            Stage::Idle | Stage::Waiting | Stage::Found | Stage::Stuck
        )
    }

    /// Returns true if the superblocks do not say yet that the array grows.
    pub(crate) fn begins(&self) -> bool {
        self.stage == Stage::Beginning
    }

    /// Returns true during the array's own writes, which need no journal.
    #[inline]
    pub(crate) fn is_moving(&self) -> bool {
        matches!(self.stage, Stage::Staging | Stage::Placing)
    }

    /// Returns true if a group lies in the headroom.
    #[inline]
    pub(crate) fn is_staged(&self, group: GroupIndex) -> bool {
        self.staged.contains(&group.0)
    }

    /// Returns the stage of the growth, on which changes of devices depend.
    pub(crate) fn phase(&self, geometry: &Geometry) -> Growing {
        match (geometry.older(), &self.record.older) {
            (None, _) => Growing::No,
            (Some(old), Some(older)) if older.mark.0 == 0 && older.staged_blocks == 0 => {
                let old = MemberSet::all(old.members());
                Growing::Begins(MemberSet::all(geometry.members()).difference(old))
            }
            (Some(_), _) => Growing::Moves,
        }
    }

    /// Returns where a staged block lies on its device. `offset` is its later place in the data
    /// area.
    pub(crate) fn staged_place(&self, member: MemberIndex, offset: BlockIndex) -> BlockIndex {
        let row = offset.0 - self.first_row;
        self.headroom[usize::from(member.0)].plus(row)
    }

    /// Notes the headroom of a device that takes a position.
    pub(crate) fn joined(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.headroom[usize::from(member.0)] = headroom(Some(device));
    }

    /// Returns true if added devices are missing and no window was moved yet. The growth waits for
    /// them then.
    pub(crate) fn lacks_added(&self, geometry: &Geometry, members: &Members) -> bool {
        let (Some(older), Some(old)) = (self.record.older, geometry.older()) else {
            return true;
        };
        let old = MemberSet::all(old.members());
        let added = MemberSet::all(geometry.members()).difference(old);
        older.mark.0 == 0 && added.difference(members.lost()) != added
    }

    /// Returns the rows of each member in the next window.
    pub(crate) fn window_rows(&self, geometry: &Geometry) -> u32 {
        let unit = geometry.growth_unit().expect("it grows");
        let rows = unit_rows(geometry).expect("it grows");
        let units = (self.staging_rows / rows).min(u64::from(self.buffer_blocks) / unit);
        u32::try_from(units.max(1) * rows).expect("as long as the buffer")
    }
}

/// Blocks of a page of checksums.
pub(crate) fn page_blocks(block_size: BlockSize) -> u32 {
    u32::try_from(CHECKSUM_PAGE_BYTES).expect("4096") / block_size.bytes()
}

/// Pages for the checksums of `rows` rows.
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
