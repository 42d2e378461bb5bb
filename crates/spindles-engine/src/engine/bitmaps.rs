//! Reads the bitmaps at opening, and writes them before anything that depends on them.

use crate::{Engine, bitmaps::Loading, output::OutReason, system_io::Purpose};
use spindles_block::{BufferSlice, MemberError, MemberIndex, MemberResult, MemberSet, Operation};
use spindles_format::{AreaKind, BITMAPS};

impl Engine {
    // ---- reading ------------------------------------------------------------------------------

    /// Reads the next blocks of the bitmaps from all members.
    pub(crate) fn load_bitmaps(&mut self) {
        let Some(mut loading) = self.opening.loading() else {
            return;
        };
        loop {
            let Some(&kind) = BITMAPS.get(loading.bitmap) else {
                self.opening.set_loading(None);
                return self.bitmaps_loaded();
            };
            let left = self.blocks_of(kind).count() - loading.block;
            if left == 0 {
                loading.bitmap += 1;
                loading.block = 0;
                continue;
            }
            let active = self.present();
            if active.is_empty() {
                // No member is left to read from, so any region may have been written. Requests are
                // answered with errors.
                let written = &mut self.regions.written.bits;
                written.words_mut().fill(u64::MAX);
                written.trim();
                self.stop_writing();
                self.opening.set_loading(None);
                return self.bitmaps_loaded();
            }
            loading.blocks = u32::try_from(left)
                .map_or(loading.place.blocks, |left| left.min(loading.place.blocks));
            loading.pending = active.count();
            loading.read = MemberSet::EMPTY;
            self.opening.set_loading(Some(loading));
            for member in active.iter() {
                let block = self.area_block(member, kind).plus(loading.block);
                let slice: BufferSlice = self.metadata_buffer.slice(loading.place, member.0);
                self.system_io(
                    Purpose::BitmapRead,
                    member,
                    Operation::Read,
                    block,
                    loading.blocks,
                    slice,
                );
            }
            return;
        }
    }

    /// Handles the result of a read of a bitmap.
    pub(crate) fn bitmap_read(&mut self, member: MemberIndex, result: MemberResult) {
        // Unreadable blocks of a present member are written again.
        if let Err(error @ MemberError::Gone) = result {
            self.put_out(member, OutReason::Error(error));
        }
        let mut loading = self.opening.loading().expect("bitmaps are read");
        loading.pending -= 1;
        if result.is_ok() {
            loading.read = loading.read.with(member);
        }
        self.opening.set_loading(Some(loading));
        if loading.pending > 0 {
            return;
        }
        self.merge_bitmap(&loading);
        loading.block += u64::from(loading.blocks);
        self.opening.set_loading(Some(loading));
        self.load_bitmaps();
    }

    /// Takes the union of the copies of the blocks that were read.
    fn merge_bitmap(&mut self, loading: &Loading) {
        let array = self.metadata.persistence().expect("stored").array.uuid;
        let (present, buffer) = (self.present(), &self.metadata_buffer);
        let regions = &mut self.regions;
        let bitmap = match BITMAPS[loading.bitmap] {
            AreaKind::DIRTY_BITMAP => &mut regions.dirty,
            _ => &mut regions.written,
        };
        bitmap.merge(array, loading, present, buffer, &mut regions.unsettled);
    }

    /// Continues when both bitmaps are read: finds the regions that a crash left unsettled.
    fn bitmaps_loaded(&mut self) {
        self.blank_new_regions();
        self.take_in_regions();
        let regions = &mut self.regions;
        regions.dirty.loaded();
        regions.written.loaded();
        regions.note_all_written();
        self.find_unsettled(!self.all_settled);
        self.regions.want_sweep();
        self.write_bitmaps();
        self.opening_goes_on();
    }

    /// Finds the unsettled regions: written regions not known to be settled, and with `dirty_too`
    /// also the dirty regions. Begins a resync if a region is unsettled.
    pub(crate) fn find_unsettled(&mut self, dirty_too: bool) {
        let regions = &mut self.regions;
        let dirty = regions.dirty.bits.words().iter();
        let words = dirty.zip(regions.written.bits.words());
        for (unsettled, (dirty, written)) in regions.unsettled.words_mut().iter_mut().zip(words) {
            if dirty_too {
                *unsettled |= dirty;
            }
            *unsettled &= written;
        }
        let places = regions.begun.words_mut().iter_mut();
        for (begun, unsettled) in places.zip(regions.unsettled.words()) {
            *begun |= unsettled;
        }
        self.all_settled = self.regions.unsettled.is_empty();
        if !self.all_settled {
            self.begin_resync();
        }
    }
}
