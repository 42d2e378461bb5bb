//! Where the bitmaps of an array are on its members.

use spindles_block::BlockIndex;
use spindles_format::{
    AreaKind, ArrayRecord, BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, BitmapPage, Uuid,
};
use spindles_layout::{Geometry, GroupIndex};

/// The location of an array's bitmaps.
#[derive(Clone, Debug)]
pub struct Regions {
    /// Groups in a region.
    pub groups: u32,
    /// The bit of the first region.
    pub first: u64,
    /// While the array grows: the first group of the older map, the groups in a region of it, and
    /// the bit of its first region.
    pub older: Option<(u64, u32, u64)>,
    /// UUID of the array.
    pub array: Uuid,
    /// The first block of the dirty bitmap on each member.
    pub dirty: Vec<BlockIndex>,
    /// The first block of the written bitmap on each member.
    pub written: Vec<BlockIndex>,
}

/// The page of a region's bit, and the position of the bit in it.
pub(super) struct Bit {
    pub(super) page: BitmapPage,
    pub(super) word: usize,
    pub(super) mask: u64,
    /// The block of the area, and the byte in it at which the page begins.
    pub(super) block: u64,
    pub(super) at: usize,
}

impl Regions {
    /// Updates itself from the record of an array with that map.
    pub(crate) fn follow(&mut self, record: &ArrayRecord, geometry: &Geometry) {
        if geometry.older().is_some() && record.growth.older.is_none() {
            return; // The growth is about to end.
        }
        self.groups = record.region_groups;
        self.first = record.growth.region.into();
        self.older = geometry.older().map(|old| {
            let older = record.growth.older.expect("it grows");
            let first_group = geometry.groups() - old.groups();
            (first_group, older.region_groups, older.region.into())
        });
    }

    pub(super) fn of(&self, group: GroupIndex) -> u64 {
        match self.older {
            Some((first, groups, region)) if group.0 >= first => {
                region + (group.0 - first) / u64::from(groups)
            }
            _ => self.first + group.0 / u64::from(self.groups),
        }
    }

    pub(super) fn bit(&self, kind: AreaKind, region: u64, block_bytes: usize) -> Bit {
        let page = region / BITMAP_PAGE_REGIONS;
        let bit = region % BITMAP_PAGE_REGIONS;
        let byte = usize::try_from(page).expect("few") * BITMAP_PAGE_BYTES;
        Bit {
            page: BitmapPage {
                array: self.array,
                kind,
                page: u32::try_from(page).expect("few"),
            },
            word: usize::try_from(bit / 64).expect("small"),
            mask: 1 << (bit % 64),
            block: u64::try_from(byte / block_bytes).expect("small"),
            at: byte % block_bytes,
        }
    }

    /// Sets where a bitmap begins on a member. Returns the old place.
    pub(crate) fn put_place(
        &mut self,
        kind: AreaKind,
        member: usize,
        place: BlockIndex,
    ) -> BlockIndex {
        let places = match kind {
            AreaKind::DIRTY_BITMAP => &mut self.dirty,
            _ => &mut self.written,
        };
        places.resize(places.len().max(member + 1), BlockIndex(0));
        std::mem::replace(&mut places[member], place)
    }

    pub(super) fn areas(&self, kind: AreaKind) -> &[BlockIndex] {
        if kind == AreaKind::DIRTY_BITMAP {
            &self.dirty
        } else {
            &self.written
        }
    }
}
