//! Access to the bitmaps of an array without the engine, for the checkers.

use super::{Below, Spot, Stack, group_of};
use crate::disk::View;
use spindles_block::{BlockIndex, MemberIndex};
use spindles_format::{
    AreaKind, BITMAP_PAGE_BYTES, BITMAP_PAGE_WORDS, RowSum, block_checksum, decode_bitmap,
    encode_bitmap, stored_checksum,
};
use spindles_layout::GroupIndex;

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
            let Some(bytes) = self.raw_block(array, member, area.plus(bit.block), view) else {
                continue;
            };
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
        for group in (first..end).map(GroupIndex) {
            let rows = group_of(&this.geometry, group);
            for slot in rows.slots() {
                let start = this.data_start[usize::from(slot.member.0)].plus(slot.offset.0);
                for row in 0..u64::from(rows.blocks) {
                    self.put_raw(array, slot.member, start.plus(row), &zeros);
                    self.put_checksum(Spot::of(array, slot, row), &zeros, row_sum);
                }
            }
        }
        let bit = regions.bit(AreaKind::WRITTEN_BITMAP, region, self.block_bytes);
        for (member, area) in (0..).map(MemberIndex).zip(&regions.written) {
            let block = area.plus(bit.block);
            let bytes = self.raw_block(array, member, block, View::Current);
            let mut bytes = bytes.expect("nothing is lost yet");
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
