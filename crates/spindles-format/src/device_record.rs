//! The record of one device, with its typed area table: the places of everything on the device.

use crate::{SLOT_BYTES, SUPERBLOCK_BYTES};
use spindles_block::{BlockIndex, BlockSize, MemberIndex};

/// The number of areas that the table has room for.
pub(crate) const AREAS_MAX: usize = 15;

/// The purpose of an area. Kinds that this version doesn't know are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AreaKind(pub u16);

impl AreaKind {
    /// One of the two superblock slots.
    pub const SUPERBLOCK: Self = Self(1);
    /// The intent bitmap: regions whose redundancy may not match.
    pub const DIRTY_BITMAP: Self = Self(2);
    /// Regions that were ever written.
    pub const WRITTEN_BITMAP: Self = Self(3);
    /// The journal.
    pub const JOURNAL: Self = Self(4);
    /// Checksums of the blocks of the data area.
    pub const CHECKSUMS: Self = Self(5);
    /// The list of blocks that must not be read.
    pub const BAD_BLOCKS: Self = Self(6);
    /// Room to move the data's start while the array is reshaped.
    pub const HEADROOM: Self = Self(7);
    /// The member's part of the array.
    pub const DATA: Self = Self(8);

    /// The kinds and their names.
    pub const NAMES: [(Self, &'static str); 8] = [
        (Self::SUPERBLOCK, "superblock"),
        (Self::DIRTY_BITMAP, "dirty bitmap"),
        (Self::WRITTEN_BITMAP, "written bitmap"),
        (Self::JOURNAL, "journal"),
        (Self::CHECKSUMS, "checksums"),
        (Self::BAD_BLOCKS, "bad blocks"),
        (Self::HEADROOM, "headroom"),
        (Self::DATA, "data"),
    ];

    /// The kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("unknown", |(_, name)| name)
    }
}

/// A range of a device with a purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its purpose.
    pub kind: AreaKind,
    /// The version of its contents; 0 for an unused area.
    pub version: u16,
    /// Its start.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

impl Area {
    pub(crate) const NONE: Self = Self {
        kind: AreaKind(0),
        version: 0,
        offset_bytes: 0,
        length_bytes: 0,
    };

    /// Returns the end of the area; `None` if the end overflows 64 bits.
    #[must_use]
    pub const fn end_bytes(&self) -> Option<u64> {
        self.offset_bytes.checked_add(self.length_bytes)
    }
}

/// Errors of one device since it became a member, or since they were cleared. Counters stop at
/// their largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read_errors: u64,
    /// Blocks that were read and did not match their checksums.
    pub corrupt_blocks: u64,
    /// Blocks that were rewritten from redundancy.
    pub repaired_blocks: u64,
    /// Hedged reads, and times at which the device became slow.
    pub slow_answers: u64,
}

impl ErrorCounts {
    /// No errors.
    pub const NONE: Self = Self {
        read_errors: 0,
        corrupt_blocks: 0,
        repaired_blocks: 0,
        slow_answers: 0,
    };

    /// True if all counters are 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// True if all counters but that of slow answers are 0.
    #[must_use]
    pub fn is_only_slow(&self) -> bool {
        let slow_answers = self.slow_answers;
        *self
            == Self {
                slow_answers,
                ..Self::NONE
            }
    }

    /// Adds other counts.
    pub fn add(&mut self, more: &Self) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.read_errors, more.read_errors);
        add(&mut self.corrupt_blocks, more.corrupt_blocks);
        add(&mut self.repaired_blocks, more.repaired_blocks);
        add(&mut self.slow_answers, more.slow_answers);
    }
}

/// The most blocks used of a member, so that the bytes of 64 members can be numbered in 64 bits.
pub const MEMBER_BLOCKS_MAX: u64 = 1 << 41;

/// The record of one device: its position, its areas, and its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRecord {
    /// Its position in the array.
    pub member: MemberIndex,
    /// The array's block size, in which positions on the device are returned.
    pub block_size: BlockSize,
    /// The device's length when it became a member.
    pub device_bytes: u64,
    /// Its errors.
    pub errors: ErrorCounts,
    areas: [Area; AREAS_MAX],
    area_count: u8,
}

impl DeviceRecord {
    /// Creates a record of these areas, in rising order of their offsets. Returns an error if they
    /// break a rule.
    pub fn new(
        member: MemberIndex,
        block_size: BlockSize,
        device_bytes: u64,
        areas: &[Area],
    ) -> Result<Self, &'static str> {
        if areas.len() > AREAS_MAX {
            return Err("more areas than the table has room for");
        }
        let block = u64::from(block_size.bytes());
        let mut free_from = SLOT_BYTES[0];
        for area in areas {
            if area.kind.0 == 0 {
                return Err("an area has no kind");
            }
            if area.length_bytes == 0 {
                return Err("an area is empty");
            }
            if area.offset_bytes % block != 0 || area.length_bytes % block != 0 {
                return Err("an area isn't made of whole blocks");
            }
            if area.offset_bytes < free_from {
                return Err("areas overlap");
            }
            free_from = area.end_bytes().ok_or("an area ends beyond any address")?;
            if free_from > device_bytes {
                return Err("an area ends beyond the device");
            }
        }
        let of = |kind| areas.iter().filter(move |area| area.kind == kind);
        let slots = of(AreaKind::SUPERBLOCK).map(|area| (area.offset_bytes, area.length_bytes));
        if !slots.eq(SLOT_BYTES.map(|offset| (offset, superblock_bytes()))) {
            return Err("the superblock slots are in other places than they must be");
        }
        if of(AreaKind::DATA).count() != 1 {
            return Err("there isn't exactly one data area");
        }
        if of(AreaKind::DATA).any(|area| area.length_bytes / block > MEMBER_BLOCKS_MAX) {
            return Err("its data area is longer than any may be");
        }
        let mut all = [Area::NONE; AREAS_MAX];
        all[..areas.len()].copy_from_slice(areas);
        Ok(Self {
            member,
            block_size,
            device_bytes,
            errors: ErrorCounts::NONE,
            areas: all,
            area_count: u8::try_from(areas.len()).expect("at most AREAS_MAX"),
        })
    }

    /// The areas in rising order of their offsets.
    #[must_use]
    pub fn areas(&self) -> &[Area] {
        &self.areas[..usize::from(self.area_count)]
    }

    /// The first area of this kind.
    #[must_use]
    pub fn area(&self, kind: AreaKind) -> Option<&Area> {
        self.areas().iter().find(|area| area.kind == kind)
    }

    /// Marks the areas of this kind as in use, with contents of this version.
    pub fn set_version(&mut self, kind: AreaKind, version: u16) {
        let areas = self.areas[..usize::from(self.area_count)].iter_mut();
        for area in areas.filter(|area| area.kind == kind) {
            area.version = version;
        }
    }

    /// The first block of the member's part of the array, counted from the start of the device.
    #[must_use]
    pub fn data_start(&self) -> BlockIndex {
        let data = self.area(AreaKind::DATA).expect("checked when it was made");
        BlockIndex(data.offset_bytes / u64::from(self.block_size.bytes()))
    }

    /// The number of blocks of the member's part of the array.
    #[must_use]
    pub fn data_blocks(&self) -> u64 {
        let data = self.area(AreaKind::DATA).expect("checked when it was made");
        data.length_bytes / u64::from(self.block_size.bytes())
    }

    /// The first block of the slot for the superblock of this generation.
    #[must_use]
    pub fn slot_block(&self, generation: u64) -> BlockIndex {
        let slot_bytes = SLOT_BYTES[usize::from(generation % 2 == 1)];
        BlockIndex(slot_bytes / u64::from(self.block_size.bytes()))
    }

    /// The number of blocks of a superblock.
    #[must_use]
    pub fn slot_blocks(&self) -> u32 {
        u32::try_from(SUPERBLOCK_BYTES).expect("4096") / self.block_size.bytes()
    }
}

pub(crate) fn superblock_bytes() -> u64 {
    u64::try_from(SUPERBLOCK_BYTES).expect("4096")
}
