//! Blank rows: rows of a written region that were never written. In place of a checksum the members
//! keep a mark. The rows read as zeros, whatever the members hold.
//!
//! ```text
//!            first write of the region           first write of the row
//!  unwritten ─────────────────────────▶ blank ─────────────────────────▶ written
//!            checksums removed, flushed        all of the row is logged
//!            marked some seconds later
//! ```
//!
//! Until its marks are durable a region is *begun*, and dirty. In such a region a block with
//! neither checksum nor mark counts as marked. Anywhere else such a block has lost its checksum.
//!
//! The mark on one member is not enough, since a write of its checksums may be lost. A row is blank
//! if some member has the mark, and none has a checksum. So a stripe range whose first block has no
//! checksum looks at those of the whole row before it continues. Levels that read a block from one
//! member alone have no blank rows.
//!
//! The first write to a row writes the whole row: its remaining data as zeros, and parity. These
//! blocks form a single record of the log, so that after a crash the row is either blank or
//! completely written. If no member logs it, the checksums follow when the blocks are durable.

use crate::{
    Engine, Mutation, RangeId,
    checksums::{Pages, entries::is_known},
    plan::{Ask, Plan},
    slots::SlotSet,
    stripe::{Next, Owner, RowState, Stage, StripeRange},
};
use spindles_format::{CHECKSUM_BLANK, CHECKSUM_NONE};

impl Engine {
    /// Returns true if rows without checksums may be blank.
    fn knows_blank_rows(&self, range: &StripeRange) -> bool {
        let pages = self.pages.as_ref();
        range.shape.may_be_blank()
            && pages.is_some_and(Pages::is_complete)
            && !self.grow.is_staged(range.group)
    }

    /// Returns true if a stripe range, about to read or write, must find out whether its rows are
    /// blank. The pages are pinned.
    #[inline]
    pub(super) fn may_be_blank(&mut self, id: RangeId) -> bool {
        let unknown = self.ranges[id].rows.state == RowState::Unknown;
        unknown && self.has_checksums() && !self.shape.copies && self.lacks_checksum(id)
    }

    /// Returns true if, in some row, the first block that can be read has no checksum or a lost
    /// one, or if no block can be read.
    #[inline(never)]
    fn lacks_checksum(&mut self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        // A growth writes to staged places, which the checksums do not describe.
        let moves = range.ask == Ask::Write && range.owner == Owner::Request(self.own_request());
        if moves || !self.knows_blank_rows(range) {
            return false;
        }
        let (low, blocks) = (range.low, range.blocks);
        let slots = range.plan.reads.or(range.plan.writes);
        if slots.is_empty() {
            return false;
        }
        let held = slots.minus(self.slots_not_held(id, low + blocks));
        let Some(slot) = held.first() else {
            return true;
        };
        let pages = self.pages.as_ref().expect("blocks have checksums");
        let first = self.ranges.block_of_slot(id, slot);
        let known = pages.all_known(&self.metadata_buffer, (id.0, slot), first, blocks);
        if known {
            self.ranges[id].rows.state = RowState::Written;
        }
        !known
    }

    /// Returns true if a read that goes straight to a member asks for blocks that may be in blank
    /// rows.
    pub(crate) fn reads_blank(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let Some(pages) = self.pages.as_ref().filter(|pages| pages.is_complete()) else {
            return false;
        };
        let kept = |at: u32| {
            let block = range.direct.offset.plus(u64::from(at));
            pages.kept_at(&self.metadata_buffer, (id.0, 0, range.direct.offset), block)
        };
        range.shape.may_be_blank() && (0..range.blocks).any(|at| !is_known(kept(at)))
    }

    /// Looks at the checksums of the current rows on all members, once their pages are pinned.
    pub(super) fn look_at_rows(&mut self, id: RangeId) -> Next {
        self.ranges[id].rows.state = RowState::Looking;
        if !self.pin_pages(id) {
            self.ranges[id].move_to(Stage::Paging);
            return Next::Wait;
        }
        self.looked_at_rows(id)
    }

    /// Continues with the leading rows that are all blank, or all written. The pages are pinned.
    pub(crate) fn looked_at_rows(&mut self, id: RangeId) -> Next {
        let range = &self.ranges[id];
        let (shape, end, blocks) = (range.shape, range.low + range.blocks, range.blocks);
        let held = shape.all().minus(self.slots_not_held(id, end));
        let begun = self.regions.is_begun(range.group);
        let is_blank = |row| {
            let kept = |slot| self.entry(id, slot, row).checksum;
            let is_marked = |kept| kept == CHECKSUM_BLANK || kept == CHECKSUM_NONE && begun;
            held.iter().any(|slot| is_marked(kept(slot)))
                && !held.iter().any(|slot| is_known(kept(slot)))
        };
        let blank = is_blank(0);
        let alike = (0..blocks).take_while(|&row| is_blank(row) == blank);
        let alike = u32::try_from(alike.count()).expect("rows of a range");
        let range = &mut self.ranges[id];
        range.blocks = alike;
        range.rows.state = if blank {
            RowState::Blank
        } else {
            RowState::Written
        };
        if blank {
            self.keep_blank(id);
        }
        Next::Plan
    }

    /// Marks blank rows on devices that are being filled or copied to, and on members that lost
    /// their checksums.
    fn keep_blank(&mut self, id: RangeId) {
        let range = &self.ranges[id];
        let looks = self.only_looks(id) || !range.is_locked();
        if looks || self.writes_nothing() {
            return;
        }
        // Set their marks again: changed pages are written to the replacement device too.
        let copied = match range.ask {
            Ask::Replace => range.touched,
            Ask::Read | Ask::Write | Ask::Settle | Ask::Rebuild | Ask::Scrub => SlotSet::EMPTY,
        };
        let there = range
            .shape
            .all()
            .minus(self.ranges.missing_slots(&self.members, id));
        for row in 0..range.blocks {
            for slot in there.iter() {
                let marked = self.entry(id, slot, row).checksum == CHECKSUM_BLANK;
                if !marked || copied.contains(slot) {
                    self.blank_entry(id, slot, row);
                }
            }
        }
    }

    /// Returns true if a stripe range writes to blank rows. Zeros need no write, since blank rows
    /// read as zeros. If the bad-block list has entries, they are written: that removes blocks from
    /// the list.
    pub(super) fn fills_blank_rows(&self, id: RangeId) -> bool {
        let asks = self.ranges[id].ask == Ask::Write;
        asks && (!self.requests.writes_zeros(&self.ranges, id) || self.bad.any())
    }

    /// Plans zeros for the data that a stripe range does not touch, except for bad blocks.
    pub(super) fn fill_blank_rows(&mut self, id: RangeId, plan: &mut Plan) {
        let shape = self.ranges[id].shape;
        let untouched = shape.all_data().minus(self.ranges[id].touched);
        let refused = if self.bad.any_unread() {
            self.bad
                .bad_slots(&self.ranges, id, self.grow.is_staged(self.ranges[id].group))
                .and(untouched)
        } else {
            SlotSet::EMPTY
        };
        plan.set_writes(plan.writes.minus(refused));
        plan.writes_always = plan.writes;
        self.ranges[id].rows.zeros = untouched;
    }

    /// Returns true if a stripe range is the first to write its rows, so that all of them must be
    /// logged.
    #[cold]
    pub(super) fn logs_first_write(&self, id: RangeId) -> bool {
        let blank = self.ranges[id].rows.state == RowState::Blank;
        blank && !self.mutated(Mutation::FirstWriteUnlogged)
    }

    /// Returns true if the checksums of a write follow after the write is durable: for the first
    /// write to its rows, unless the members log the write.
    pub(super) fn checksums_follow(&self, id: RangeId) -> bool {
        let logged = self.ranges[id].is_logged() && !self.log.is_on_device();
        !logged && self.logs_first_write(id)
    }

    /// Keeps the checksums of a stripe range whose blocks are durable, if its checksums were to
    /// follow. Returns true if checksums were kept: they must become durable too.
    pub(super) fn keep_late_checksums(&mut self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        if range.rows.state != RowState::Placed || range.error.is_some() {
            return false;
        }
        let writes = range
            .written
            .slots
            .minus(self.ranges.missing_slots(&self.members, id));
        self.ranges[id].rows.state = RowState::Written;
        self.keep_checksums(id, writes);
        true
    }
}
