//! Writes the metadata that lies on all members alike, and wakes the work that waits for it.

use crate::{
    Engine, Mutation,
    agenda::Due,
    durable::{DurableBlocks, Row},
    output::{Event, Output},
};
use spindles_block::Operation;
use spindles_format::{AreaKind, BITMAPS};

impl Engine {
    pub(crate) fn blocks_of_mut(&mut self, area: AreaKind) -> &mut DurableBlocks {
        match area {
            AreaKind::BAD_BLOCKS => self.bad.blocks_kept_mut(),
            bitmap => self.regions.bitmap_mut(bitmap).blocks_mut(),
        }
    }

    // ---- writing ------------------------------------------------------------------------------

    /// Begins to write both bitmaps, if they changed.
    pub(crate) fn write_bitmaps(&mut self) {
        for area in BITMAPS {
            self.write_area(area);
        }
    }

    /// Writes the bitmaps and the list of bad blocks as a whole, because another device needs them.
    pub(crate) fn write_all_areas(&mut self) {
        for area in BITMAPS {
            self.blocks_of_mut(area).want_all();
        }
        self.write_bitmaps();
        self.blocks_of_mut(AreaKind::BAD_BLOCKS).want_all();
        self.write_area(AreaKind::BAD_BLOCKS);
    }

    /// Writes a block, which is corrupt on a member, to all members.
    pub(crate) fn rewrite_block(&mut self, area: AreaKind, block: u64) {
        self.blocks_of_mut(area).want(block);
        match area {
            AreaKind::BAD_BLOCKS => self.write_area(area),
            _ => self.write_bitmaps(),
        }
    }

    /// Returns true if nothing must come before the next write of an area.
    fn may_write_area(&self, area: AreaKind) -> bool {
        if area == AreaKind::BAD_BLOCKS {
            return self.bad.is_kept() && !self.opening.is_reading(area);
        }
        // The dirty bit is durable before the region counts as written. A missing member lacks the
        // coming writes, or the marks of blank rows are not durable yet.
        let after_dirty = area == AreaKind::WRITTEN_BITMAP
            && (!self.members.missing().is_empty() || self.makes_rows_blank());
        let waits = after_dirty && !self.blocks_of(AreaKind::DIRTY_BITMAP).are_stored();
        let is_read = self.regions.are_stored() && self.opening.loading().is_none();
        is_read && !self.metadata.is_broken() && !waits
    }

    /// Begins the next write of an area, if a block changed and nothing must come before.
    pub(crate) fn write_area(&mut self, area: AreaKind) {
        if !self.may_write_area(area) || !self.blocks_of(area).is_due() {
            return;
        }
        let present = self.present();
        if present.is_empty() {
            return self.stop_writing();
        }
        let is_list = area == AreaKind::BAD_BLOCKS;
        if is_list && self.bad.any() && !self.metadata.lists_bad_blocks() {
            return self.want_update(); // The update announces the list first.
        }
        let persistence = self.metadata.persistence().expect("stored");
        let (array, generation) = (persistence.array.uuid, persistence.array.generation);
        let buffer = &mut self.metadata_buffer;
        let (blocks, place) = if is_list {
            self.bad.begin_write(array, buffer)
        } else {
            let bitmap = self.regions.bitmap_mut(area);
            bitmap.begin_write(array, generation, buffer)
        };
        self.inspection.note_write(area, blocks.clone());
        let count = u32::try_from(blocks.end - blocks.start).expect("at most a transfer");
        let hidden = self.replace.device_of_bitmaps().map(|_| self.replacement());
        for member in present.iter().chain(hidden) {
            self.blocks_of_mut(area).issued();
            self.system_io(
                Row::of(area).purpose,
                member,
                Operation::Write { fua: true },
                self.area_block(member, area).plus(blocks.start),
                count,
                self.metadata_buffer.slice(place, 0),
            );
        }
    }

    // ---- reading ------------------------------------------------------------------------------

    // ---- comparing ----------------------------------------------------------------------------

    /// Returns the number of blocks of an area that the members keep.
    pub(crate) fn area_blocks(&self, area: AreaKind) -> u64 {
        if area == AreaKind::BAD_BLOCKS || self.regions.are_stored() {
            self.blocks_of(area).count()
        } else {
            0
        }
    }

    /// Returns true if a block read from a member equals memory. `None` if it waits to be written
    /// anyway.
    pub(crate) fn area_agrees(&self, area: AreaKind, block: u64, bytes: &[u8]) -> Option<bool> {
        if self.blocks_of(area).is_wanted(block) {
            return None;
        }
        let array = self.metadata.persistence().expect("stored").array.uuid;
        Some(match area {
            AreaKind::BAD_BLOCKS => self.bad.agrees(array, block, bytes),
            bitmap => self.regions.bitmap(bitmap).agrees(array, block, bytes),
        })
    }

    /// Asks for an update, because the contents of the superblocks changed.
    pub(crate) fn want_update(&mut self) {
        // Once writing has stopped nothing may wait for an update: none will come.
        if self.metadata.persistence().is_some() && !self.metadata.is_broken() {
            self.metadata.slot_mut().want(0);
            self.agenda.add(Due::Update);
        }
    }

    /// Stops writing, because a change that must be durable before further writes can't be made
    /// durable. Wakes every stripe range, job and replay that waits for that change.
    pub(crate) fn stop_writing(&mut self) {
        if !self.metadata.is_broken() && !self.has_failed() {
            // Otherwise it was reported before.
            self.outbox.put(Output::Event(Event::WritingStopped));
        }
        self.metadata.stop();
        self.agenda.add(Due::Stopped);
    }

    /// Clears all dirty bits after the flush of a close, if all members are present and everything
    /// is settled.
    pub(crate) fn clear_all_bits(&mut self) {
        let settled = self.settled.everywhere() || self.mutated(Mutation::ClearBitUnsettled);
        if !settled || !self.may_clear() {
            return;
        }
        self.regions.clear_all_dirty();
    }
}
