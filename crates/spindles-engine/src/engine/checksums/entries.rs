//! The entries of a stripe range's current blocks: their checksums and row sums. They are in pages
//! or, while a growth moves a window, among the staged checksums.

use crate::{Engine, RangeId, checksums::entries::Entry, system_io::Place};
use core::ops::Range;
use spindles_block::BlockIndex;
use spindles_format::{Entries, RowSum};

impl Engine {
    /// Returns the entry of a slot's block in a row, counted from the first current row.
    pub(crate) fn entry(&self, id: RangeId, slot: u8, row: u32) -> Entry {
        let first = self.ranges.block_of_slot(id, slot);
        let block = first.plus(u64::from(row));
        let pages = self.pages.as_ref().expect("blocks have checksums");
        if self.grow.is_staged(self.ranges[id].group) {
            let member = self.ranges.member(id, slot);
            let (place, page, at) = self.staged_entry(block);
            let page = &self.metadata_buffer.bytes(place, member.0)[page];
            return Entry {
                checksum: pages.entries().checksum_in(page, at),
                row_sum: pages.entries().row_sum_in(page, at),
            };
        }
        let of = (id.0, slot, first);
        Entry {
            checksum: pages.kept_at(&self.metadata_buffer, of, block),
            row_sum: pages.row_sum_at(&self.metadata_buffer, of, block),
        }
    }

    /// Sets the checksum of a slot's block in a row, and the row sum next to it.
    pub(crate) fn set_entry(&mut self, id: RangeId, slot: u8, row: u32, sum: u32, row_sum: RowSum) {
        self.put_entry(id, slot, row, Entry::of(sum, row_sum));
    }

    /// Marks the checksum of a slot's block in a row as lost.
    pub(crate) fn lose_entry(&mut self, id: RangeId, slot: u8, row: u32) {
        self.put_entry(id, slot, row, Entry::LOST);
    }

    /// Marks the block of a slot in a blank row as never written.
    pub(crate) fn blank_entry(&mut self, id: RangeId, slot: u8, row: u32) {
        self.put_entry(id, slot, row, Entry::BLANK);
    }

    fn put_entry(&mut self, id: RangeId, slot: u8, row: u32, entry: Entry) {
        let first = self.ranges.block_of_slot(id, slot);
        let block = first.plus(u64::from(row));
        let pages = self.pages.as_ref().expect("blocks have checksums");
        if self.grow.is_staged(self.ranges[id].group) {
            let (entries, member) = (pages.entries(), self.ranges.member(id, slot));
            let (place, page, at) = self.staged_entry(block);
            let page = &mut self.metadata_buffer.bytes_mut(place, member.0)[page];
            return entries.set_in(page, at, entry.checksum, entry.row_sum);
        }
        let pages = self.pages.as_mut().expect("looked at");
        let of = (id.0, slot, first);
        pages.set_at(&mut self.metadata_buffer, of, block, entry);
    }

    /// Like `set_entry`, if the entry differs. Returns true if the entry changed.
    pub(crate) fn correct_entry(
        &mut self,
        id: RangeId,
        slot: u8,
        row: u32,
        sum: u32,
        row_sum: RowSum,
    ) -> bool {
        let entry = self.entry(id, slot, row);
        let parity = !self.ranges[id].shape.copies && slot >= self.ranges[id].shape.data;
        let differs = !entry.is_of(sum) || parity && entry.row_sum != row_sum;
        if differs {
            self.set_entry(id, slot, row, sum, row_sum);
        }
        differs
    }

    /// Returns the format of the entries in pages of checksums.
    pub(crate) fn entries(&self) -> Entries {
        let pages = self.pages.as_ref().expect("blocks have checksums");
        pages.entries()
    }

    /// Returns the location of a staged block's entry. `offset` is the block's later place in the
    /// data area of its member.
    pub(crate) fn staged_entry(&self, offset: BlockIndex) -> (Place, Range<usize>, usize) {
        self.grow.staged_entry(self.entries(), offset)
    }
}
