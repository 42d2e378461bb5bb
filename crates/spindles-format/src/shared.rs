//! The bytes that an array uses of the areas that all members use alike. They are fixed when the
//! array is created, and kept in its superblocks. Devices differ in size, and so do their areas;
//! the size in use must not depend on the members present.

use crate::{
    AreaKind, BAD_BLOCKS_PAGE_BYTES, BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, DeviceRecord,
};

/// The unit of lengths: each is encoded in two bytes.
const UNIT_BYTES: u32 = 4096;

/// Bytes in use of each area that all members use alike, a multiple of 4 KiB below 256 MiB.
/// Checksums are not included: each member has as many as its own data area needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedAreas {
    /// Of the dirty and of the written bitmap, each.
    pub bitmap_bytes: u32,
    /// Of the list of bad blocks.
    pub bad_blocks_bytes: u32,
    /// Of the journal.
    pub journal_bytes: u32,
    /// Of the headroom.
    pub headroom_bytes: u32,
    /// Of the journal area, behind the log: the stage. 0 without one.
    pub stage_bytes: u32,
}

impl SharedAreas {
    /// Limit on the bytes used in each journal, because replay reads the whole journal.
    pub const JOURNAL_BYTES_MAX: u32 = 32 << 20;

    /// The length of its encoding.
    pub(crate) const BYTES: usize = 10;

    /// The longest length.
    pub(crate) const BYTES_MAX: u32 = u16::MAX as u32 * UNIT_BYTES;

    /// The most that all of these devices have room for, which a new array on them uses.
    #[must_use]
    pub fn of(devices: &[DeviceRecord]) -> Self {
        let least = |kind| {
            let lengths = devices.iter().map(|device| length_bytes(device, kind));
            let units = lengths.min().unwrap_or(0) / u64::from(UNIT_BYTES);
            u32::from(u16::try_from(units).unwrap_or(u16::MAX)) * UNIT_BYTES
        };
        Self {
            bitmap_bytes: least(AreaKind::DIRTY_BITMAP).min(least(AreaKind::WRITTEN_BITMAP)),
            bad_blocks_bytes: least(AreaKind::BAD_BLOCKS),
            journal_bytes: least(AreaKind::JOURNAL).min(Self::JOURNAL_BYTES_MAX),
            headroom_bytes: least(AreaKind::HEADROOM),
            stage_bytes: 0,
        }
    }

    /// The bytes in use of an area of this kind; 0 if members don't use it alike.
    #[must_use]
    pub fn bytes(&self, kind: AreaKind) -> u64 {
        u64::from(match kind {
            AreaKind::DIRTY_BITMAP | AreaKind::WRITTEN_BITMAP => self.bitmap_bytes,
            AreaKind::BAD_BLOCKS => self.bad_blocks_bytes,
            AreaKind::JOURNAL => self.journal_bytes + self.stage_bytes,
            AreaKind::HEADROOM => self.headroom_bytes,
            _ => 0,
        })
    }

    /// The number of regions that a bitmap has bits for.
    #[must_use]
    pub fn regions(&self) -> u64 {
        u64::from(self.bitmap_bytes) / BITMAP_PAGE_BYTES as u64 * BITMAP_PAGE_REGIONS
    }

    /// The number of pages of a list of bad blocks.
    #[must_use]
    pub fn bad_blocks_pages(&self) -> u32 {
        self.bad_blocks_bytes / u32::try_from(BAD_BLOCKS_PAGE_BYTES).expect("512")
    }

    /// Returns true if every area of a device has room for what the array uses.
    #[must_use]
    pub fn fit(&self, device: &DeviceRecord) -> bool {
        let mut kinds = AreaKind::NAMES.iter().map(|(kind, _)| *kind);
        kinds.all(|kind| length_bytes(device, kind) >= self.bytes(kind))
    }

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let fields = [
            self.bitmap_bytes,
            self.bad_blocks_bytes,
            self.journal_bytes,
            self.headroom_bytes,
            self.stage_bytes,
        ];
        let mut bytes = [0; Self::BYTES];
        for (place, field) in bytes.as_chunks_mut().0.iter_mut().zip(fields) {
            let units = u16::try_from(field / UNIT_BYTES).expect("made of 16 bits of units");
            *place = units.to_le_bytes();
        }
        bytes
    }

    pub(crate) fn decode(bytes: [u8; Self::BYTES]) -> Self {
        let (fields, _) = bytes.as_chunks();
        let field = |at: usize| u32::from(u16::from_le_bytes(fields[at])) * UNIT_BYTES;
        Self {
            bitmap_bytes: field(0),
            bad_blocks_bytes: field(1),
            journal_bytes: field(2),
            headroom_bytes: field(3),
            stage_bytes: field(4),
        }
    }
}

fn length_bytes(device: &DeviceRecord, kind: AreaKind) -> u64 {
    device.area(kind).map_or(0, |area| area.length_bytes)
}
