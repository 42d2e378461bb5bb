//! Access to the bitmaps of an array without the engine, for the checkers.

use crate::stack::{Below, Stack, View};
use spindles_block::{BlockIndex, MemberIndex};
use spindles_format::{
    AreaKind, ArrayRecord, BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, BITMAP_PAGE_WORDS, BitmapPage,
    RowSum, Uuid, block_checksum, decode_bitmap, encode_bitmap, stored_checksum,
};
use spindles_layout::{Geometry, Group, GroupIndex};

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
struct Bit {
    page: BitmapPage,
    word: usize,
    mask: u64,
    /// The block of the area, and the byte in it at which the page begins.
    block: u64,
    at: usize,
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

    fn of(&self, group: GroupIndex) -> u64 {
        match self.older {
            Some((first, groups, region)) if group.0 >= first => {
                region + (group.0 - first) / u64::from(groups)
            }
            _ => self.first + group.0 / u64::from(self.groups),
        }
    }

    fn bit(&self, kind: AreaKind, region: u64, block_bytes: usize) -> Bit {
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

    fn areas(&self, kind: AreaKind) -> &[BlockIndex] {
        if kind == AreaKind::DIRTY_BITMAP {
            &self.dirty
        } else {
            &self.written
        }
    }
}

impl Stack {
    /// Returns a region's bit: the union over the members that are not lost. Set if no member has a
    /// readable one, and in arrays without bitmaps.
    fn region_bit(&self, array: usize, kind: AreaKind, group: GroupIndex, view: View) -> bool {
        let this = &self.arrays[array];
        let Some(regions) = &this.regions else {
            return true;
        };
        let bit = regions.bit(kind, regions.of(group), self.block_bytes);
        let mut found = None;
        let members = (0..this.geometry.members()).map(MemberIndex);
        for (member, area) in members.zip(regions.areas(kind)) {
            if this.lost.contains(member) {
                continue;
            }
            let mut bytes = vec![0; self.block_bytes];
            let block = area.plus(bit.block);
            if !self.raw_block(array, member, block, view, &mut bytes) {
                continue;
            }
            let page = bytes[bit.at..].first_chunk().expect("a page in a block");
            if let Some(words) = decode_bitmap(&bit.page, page) {
                found = Some(found.unwrap_or(false) || (words[bit.word] & bit.mask != 0));
            }
        }
        found.unwrap_or(true)
    }

    /// Returns true if the contents of this group are on the members.
    pub fn is_written(&self, array: usize, group: GroupIndex, view: View) -> bool {
        let live = self.arrays[array].geometry.live_groups();
        live.iter().any(|live| live.contains(&group.0))
            && !self.arrays[array].staged.contains(&group.0)
            && self.region_bit(array, AreaKind::WRITTEN_BITMAP, group, view)
    }

    /// Returns true if the group's region is marked dirty.
    pub fn is_dirty(&self, array: usize, group: GroupIndex, view: View) -> bool {
        self.region_bit(array, AreaKind::DIRTY_BITMAP, group, view)
    }

    /// Prepares a region for writing, in an array that no engine has open.
    pub(crate) fn use_region(&mut self, array: usize, group: GroupIndex) {
        if self.is_written(array, group, View::Current) {
            return;
        }
        let this = self.arrays[array].clone();
        let regions = this.regions.as_ref().expect("it has an unwritten region");
        let region = group.0 / u64::from(regions.groups);
        let first = region * u64::from(regions.groups);
        let end = (first + u64::from(regions.groups)).min(this.geometry.groups());
        let zeros = vec![0; self.block_bytes];
        let of_zeros = stored_checksum(block_checksum(&zeros));
        let row_sum = RowSum::of_zeros(this.geometry.data_chunks(), of_zeros);
        let mut rows = Group::empty();
        for group in (first..end).map(GroupIndex) {
            this.geometry.group_into(group, &mut rows);
            for slot in rows.slots() {
                let start = this.data_start[usize::from(slot.member.0)].plus(slot.offset.0);
                for row in 0..u64::from(rows.blocks) {
                    self.put_raw(array, slot.member, start.plus(row), &zeros);
                    let offset = slot.offset.plus(row);
                    self.put_checksum(array, slot.member, offset, &zeros, row_sum);
                }
            }
        }
        let bit = regions.bit(AreaKind::WRITTEN_BITMAP, region, self.block_bytes);
        for (member, area) in (0..).map(MemberIndex).zip(&regions.written) {
            let block = area.plus(bit.block);
            let mut bytes = vec![0; self.block_bytes];
            assert!(self.raw_block(array, member, block, View::Current, &mut bytes));
            let page: &mut [u8; BITMAP_PAGE_BYTES] = bytes[bit.at..]
                .first_chunk_mut()
                .expect("a page in a block");
            let mut words: [u64; BITMAP_PAGE_WORDS] =
                decode_bitmap(&bit.page, page).expect("it was made blank");
            words[bit.word] |= bit.mask;
            encode_bitmap(&bit.page, 1, &words, page);
            self.put_raw(array, member, block, &bytes);
        }
    }

    /// Durably writes a block of a member, counted from its start.
    pub(crate) fn put_raw(
        &mut self,
        array: usize,
        member: MemberIndex,
        block: BlockIndex,
        bytes: &[u8],
    ) {
        match self.arrays[array].members[usize::from(member.0)] {
            Below::Disk(disk) => self.put_disk_block(disk, block, bytes),
            Below::Array(below) => self.put_array_block(below, block, bytes),
        }
    }
}
