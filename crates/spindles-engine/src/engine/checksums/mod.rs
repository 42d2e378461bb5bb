//! Checksums of every block, kept on the members, apart from the blocks
//! (`docs/reference/format.md`).
//!
//! Blocks read for a client or a job are verified before they are used. Blocks to be written are
//! checksummed first, and their checksums change under the same lock that orders reads and writes
//! of the rows. A read without a lock may meet a write half-way. Blocks that do not fit then are
//! read again under the lock, and only those that do not fit there are rotten.

mod entries;
mod flushing;
mod pages;
mod row_sums;

use crate::{
    Engine, Mutation, RangeId,
    checksums::{ChecksumsOf, RowSums, entries::Entry},
    index,
    output::{Event, Output},
    plan::{Ask, Step},
    slots::SlotSet,
    stripe::Next,
};
use core::ops::Range;
use spindles_block::{MemberError, MemberIndex};
use spindles_format::{CHECKSUM_LOST, CHECKSUM_NONE, RowSum};

impl Engine {
    /// Returns where rows of a member's data area lie on its device, and the pages with their
    /// checksums. A write of the rows changes these blocks, in addition to the log and the bitmaps.
    pub fn places_of_rows(&self, member: MemberIndex, rows: Range<u64>) -> [Range<u64>; 2] {
        let start = self.members.data_start(member).0;
        let pages = match &self.pages {
            Some(pages) if !rows.is_empty() => pages.places(member, &rows),
            _ => 0..0,
        };
        [start + rows.start..start + rows.end, pages]
    }

    /// Returns the number of blocks at the start of a member's device with its superblocks,
    /// bitmaps, lists and log: everything in front of checksums and data.
    pub fn head_blocks(&self, member: MemberIndex) -> u64 {
        let checksums = self.pages.as_ref().map(|pages| pages.start_on(member));
        let data = self.members.data_start(member);
        checksums.map_or(data, |checksums| checksums.min(data)).0
    }

    /// Uses the blocks that were read if they fit their checksums.
    pub(crate) fn verified(&mut self, id: RangeId) -> Next {
        let range = &self.ranges[id];
        let blind = self.mutated(Mutation::SkipVerify);
        if range.rows.settling.is_under_way() {
            return Next::SettlingVerified;
        }
        let rotten = if blind {
            SlotSet::EMPTY
        } else {
            self.rotten_slots(id)
        };
        if rotten.is_empty() {
            if !self.may_use_old_contents(id) {
                return self.ranges[id].leave_old_contents();
            }
            return Next::After(Step::Verify);
        }
        let range = &mut self.ranges[id];
        if !range.is_locked() {
            range.seen.unlocked_read_failed = true;
            self.unpin_pages(id);
            return Next::Plan;
        }
        if self.ranges[id].halve() {
            return Next::Plan;
        }
        if !rotten.and(self.ranges[id].rows.old_contents).is_empty() {
            // Their checksums may not have reached the member before it went out.
            return self.ranges[id].leave_old_contents();
        }
        self.found_rotten(id, rotten);
        Next::Plan
    }

    /// Notes that these slots of the current row hold other bytes than were written.
    pub(crate) fn found_rotten(&mut self, id: RangeId, rotten: SlotSet) {
        for slot in rotten.iter() {
            self.ranges[id].chunk_is_rotten(slot);
            if self.has_lost_checksums(id, slot) {
                let rows = &mut self.ranges[id].rows;
                rows.checksum_lost = rows.checksum_lost.with(slot);
            }
            self.note_rot(id, slot);
        }
        self.ranges[id].seen.corrupt = true;
    }

    /// Returns true if the checksums of a slot's current rows were corrupt, and not its blocks.
    fn has_lost_checksums(&self, id: RangeId, slot: u8) -> bool {
        (0..self.ranges[id].blocks).all(|row| {
            let kept = self.entry(id, slot, row).checksum;
            [CHECKSUM_LOST, CHECKSUM_NONE].contains(&kept)
        })
    }

    /// Returns the slots of a stripe range that were read, and hold other bytes than were written.
    pub(crate) fn rotten_slots(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        let is_rotten = |&slot: &u8| {
            let first = self.ranges.block_of_slot(id, slot);
            let sums = &self.workspace.checksums()[self.workspace.checksums_range(
                &self.ranges,
                id,
                ChecksumsOf::Read,
                slot,
            )];
            if self.grow.is_staged(range.group) {
                let is_good = |(row, &sum)| self.entry(id, slot, row).is_of(sum);
                return !(0..).zip(sums).all(is_good);
            }
            let pages = self.pages.as_ref();
            pages
                .is_some_and(|pages| !pages.agree(&self.metadata_buffer, (id.0, slot), first, sums))
        };
        let rotten = range.rows.read_checksums.iter().filter(is_rotten);
        rotten.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// Handles a rotten place of a member that a client met, or a job other than a scrub.
    #[cold]
    fn note_rot(&mut self, id: RangeId, slot: u8) {
        let range = &self.ranges[id];
        if range.ask == Ask::Scrub {
            return; // The scrub reports and repairs it.
        }
        let member = self.ranges.member(id, slot);
        let error = MemberError::Corrupt;
        self.outbox
            .put(Output::Event(Event::MemberFault { member, error }));
        self.repair_rot(id, slot);
    }

    /// Pins all pages that a stripe range needs. Returns false if the stripe range must wait. It
    /// continues when all pages are pinned, except pages of members that went missing.
    pub(crate) fn pin_pages(&mut self, id: RangeId) -> bool {
        self.pin_pages_for(id.0)
    }

    /// Unpins the pages of a stripe range.
    #[inline]
    pub(crate) fn unpin_pages(&mut self, id: RangeId) {
        if let Some(pages) = &mut self.pages {
            pages.unpin_all(id.0);
        }
    }

    /// Returns where the checksums of a stripe range's write to a slot are.
    pub(crate) fn written_checksums(&self, id: RangeId, slot: u8) -> Range<usize> {
        let slots = self.ranges[id].rows.new_checksums;
        let slot = if slots.contains(slot) { slot } else { 0 };
        self.workspace
            .checksums_range(&self.ranges, id, ChecksumsOf::New, slot)
    }

    /// Sets the entries of the blocks that a stripe range is about to write to their places.
    pub(crate) fn keep_checksums(&mut self, id: RangeId, writes: SlotSet) {
        let range = &self.ranges[id];
        let (ask, reads, blocks) = (range.ask, range.plan.reads, range.blocks);
        if !self.has_checksums() || range.rows.settling.is_under_way() {
            return;
        }
        let (shape, of_zeros) = (self.ranges[id].shape, self.checksum_of_zeros());
        let staged = self.grow.is_staged(self.ranges[id].group);
        for slot in writes.iter() {
            let of_data = self.ranges[id].written.data.contains(slot);
            let sums = of_data.then(|| self.written_checksums(id, slot));
            // A copied block keeps its entry: the page goes to the new device.
            let copied = ask == Ask::Replace && reads.contains(slot);
            let parity = !shape.copies && slot >= shape.data;
            let row_sums = if parity {
                self.row_sums(id)
            } else {
                RowSums::Alike(RowSum::NONE)
            };
            if !(staged || copied) {
                let of = (id.0, slot, self.ranges.block_of_slot(id, slot));
                let sums = sums.map(|sums| &self.workspace.checksums()[sums]);
                let sum = |row: usize| sums.map_or(of_zeros, |sums| sums[row]);
                let (computed, alike) = row_sums.in_rows(self.workspace.row_sums());
                let row_sum =
                    |row: usize| computed.map_or(alike, |rows| rows[row].unwrap_or(RowSum::NONE));
                let pages = self.pages.as_mut().expect("looked at");
                pages.set_run(&mut self.metadata_buffer, of, blocks, |row| {
                    Entry::of(sum(row), row_sum(row))
                });
                continue;
            }
            for row in 0..blocks {
                let row_sum = if copied {
                    self.entry(id, slot, row).row_sum
                } else {
                    row_sums.of(self.workspace.row_sums(), index(row))
                };
                let sum = match &sums {
                    Some(sums) => self.workspace.checksums()[sums.clone()][index(row)],
                    None => of_zeros,
                };
                self.set_entry(id, slot, row, sum, row_sum);
            }
        }
    }
}
