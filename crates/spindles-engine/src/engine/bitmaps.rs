//! Reads the bitmaps at opening, and writes them before anything that depends on them.

use crate::{
    Engine,
    bitmaps::{Bitmap, Loading},
    index,
    output::OutReason,
    system_io::Purpose,
    waits::WaitFor,
};
use core::ops::Range;
use spindles_block::{
    BlockIndex, BufferSlice, MemberError, MemberIndex, MemberResult, MemberSet, Operation,
};
use spindles_format::{
    AreaKind, BITMAP_PAGE_BYTES, BITMAP_PAGE_WORDS, BITMAPS, BitmapPage, decode_bitmap,
    encode_bitmap,
};

impl Engine {
    fn active(&self) -> MemberSet {
        MemberSet::all(self.geometry.members()).difference(self.missing)
    }

    fn bitmap(&mut self, kind: AreaKind) -> &mut Bitmap {
        if kind == AreaKind::DIRTY_BITMAP {
            &mut self.regions.dirty
        } else {
            &mut self.regions.written
        }
    }

    /// Returns the first block of an area on the device of a member.
    pub(crate) fn area_block(&self, member: MemberIndex, kind: AreaKind) -> BlockIndex {
        let persistence = self.metadata.persistence().expect("stored");
        let device = persistence.devices[usize::from(member.0)]
            .as_ref()
            .expect("an active member has a device record");
        let area = device.area(kind).expect("checked when it was decoded");
        BlockIndex(area.offset_bytes / u64::from(self.block_size.bytes()))
    }

    // ---- writing ------------------------------------------------------------------------------

    /// Begins to write the changed blocks of each bitmap without a write under way.
    pub(crate) fn write_bitmaps(&mut self) {
        let stops = self.metadata.is_broken();
        if !self.regions.are_stored() || stops || self.opening.loading().is_some() {
            return;
        }
        for kind in BITMAPS {
            let dirty_first = !self.missing.is_empty() || self.makes_rows_blank();
            if kind == AreaKind::WRITTEN_BITMAP
                && dirty_first
                && !self.regions.dirty.is_all_stored()
            {
                // The dirty bit is durable before the region counts as written. A missing member
                // lacks the coming writes, or the marks of blank rows are not durable yet.
                return;
            }
            while self.bitmap(kind).flying.is_empty() && self.write_bitmap(kind) {}
        }
    }

    /// Begins the next write of a bitmap. Returns false if no block needs a write.
    fn write_bitmap(&mut self, kind: AreaKind) -> bool {
        let Some(blocks) = self.bitmap(kind).next_write() else {
            return false;
        };
        let active = self.active();
        if active.is_empty() {
            self.stop_writing();
            return false;
        }
        let persistence = self.metadata.persistence().expect("stored");
        let (array, generation) = (persistence.array.uuid, persistence.array.generation);
        let bitmap = match kind {
            AreaKind::DIRTY_BITMAP => &mut self.regions.dirty,
            _ => &mut self.regions.written,
        };
        let words = bitmap.words_of(blocks.clone());
        for block in blocks.clone() {
            bitmap.wanted.clear(block);
        }
        bitmap.snapshot.clear();
        bitmap
            .snapshot
            .extend_from_slice(&bitmap.bits.words()[words.clone()]);
        // Bits that are being cleared are not relied on from now on.
        let durable = &mut bitmap.durable.words_mut()[words];
        for (durable, &now) in durable.iter_mut().zip(&bitmap.snapshot) {
            *durable &= now;
        }
        let first_page = blocks.start * bitmap.pages_per_block;
        let pages = bitmap.snapshot.as_chunks::<BITMAP_PAGE_WORDS>().0;
        let count = u32::try_from(blocks.end - blocks.start).expect("at most a transfer");
        let place = bitmap.place;
        let out = self.metadata_buffer.bytes_mut(place, 0);
        let out = out.as_chunks_mut::<BITMAP_PAGE_BYTES>().0;
        let out_pages = index(count) * usize::try_from(bitmap.pages_per_block).expect("8");
        for (at, out) in out[..out_pages].iter_mut().enumerate() {
            let page = BitmapPage {
                array,
                kind,
                page: u32::try_from(first_page).expect("few") + u32::try_from(at).expect("few"),
            };
            // The last block may have room for more pages than there are.
            let words = pages.get(at).unwrap_or(&[0; BITMAP_PAGE_WORDS]);
            encode_bitmap(&page, generation, words, out);
        }
        bitmap.pending = active.count();
        bitmap.flying = blocks.clone();
        self.inspection.note_write(kind, blocks.clone());
        for member in active.iter() {
            let block = self.area_block(member, kind).plus(blocks.start);
            self.system_io(
                purpose(kind),
                member,
                Operation::Write { fua: true },
                block,
                count,
                self.metadata_buffer.slice(place, 0),
            );
        }
        if let Some(replacement) = self.replacement_told_of_bitmaps() {
            let area = replacement.area(kind).expect("looked at before");
            let start = area.offset_bytes / u64::from(self.block_size.bytes());
            let block = BlockIndex(start + blocks.start);
            self.bitmap(kind).pending += 1;
            self.replacement_system_io(
                purpose(kind),
                Operation::Write { fua: true },
                block,
                count,
                self.metadata_buffer.slice(place, 0),
            );
        }
        true
    }

    /// Handles the result of a write of a bitmap.
    pub(crate) fn bitmap_written(
        &mut self,
        kind: AreaKind,
        member: MemberIndex,
        result: MemberResult,
    ) {
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.stop_writing();
        }
        let broken = self.metadata.is_broken();
        let bitmap = self.bitmap(kind);
        bitmap.pending -= 1;
        if bitmap.pending > 0 {
            return;
        }
        let blocks = core::mem::replace(&mut bitmap.flying, 0..0);
        if broken {
            // Some members may have the new bits, and others not.
            for block in blocks {
                bitmap.wanted.set(block);
            }
        } else {
            let words = bitmap.words_of(blocks);
            let durable = &mut bitmap.durable.words_mut()[words];
            durable.copy_from_slice(&bitmap.snapshot);
        }
        self.write_bitmaps();
        self.bitmaps_changed();
    }

    /// Wakes everything that waits for the bitmaps.
    fn bitmaps_changed(&mut self) {
        // A superblock update may have waited for both bitmaps.
        self.begin_update();
        self.wake(WaitFor::Region);
        self.pump_releases();
        self.try_to_serve();
    }

    /// Returns true if no bitmap is being written. Bits may be left to write that matter only when
    /// a member goes out.
    pub(crate) fn bitmaps_are_quiet(&self) -> bool {
        let regions = &self.regions;
        regions.dirty.flying.is_empty() && regions.written.flying.is_empty()
    }

    /// Returns true if the members store both bitmaps as they are in memory.
    pub(crate) fn bitmaps_are_stored(&self) -> bool {
        !self.regions.are_stored()
            || (self.regions.dirty.is_all_stored() && self.regions.written.is_all_stored())
    }

    // ---- comparing ----------------------------------------------------------------------------

    /// Returns the number of blocks of the area that hold pages of a bitmap.
    pub(crate) fn bitmap_blocks(&self, kind: AreaKind) -> u64 {
        if self.regions.are_stored() {
            self.bitmap_of(kind).blocks
        } else {
            0
        }
    }

    fn bitmap_of(&self, kind: AreaKind) -> &Bitmap {
        if kind == AreaKind::DIRTY_BITMAP {
            &self.regions.dirty
        } else {
            &self.regions.written
        }
    }

    /// Returns the blocks of a bitmap that are being written.
    pub(crate) fn bitmap_being_written(&self, kind: AreaKind) -> Range<u64> {
        self.bitmap_of(kind).flying.clone()
    }

    /// Returns true if a block read from a member equals memory. `None` if it waits to be written
    /// anyway, or no opening has written one.
    pub(crate) fn bitmap_agrees(&self, kind: AreaKind, block: u64, bytes: &[u8]) -> Option<bool> {
        let bitmap = self.bitmap_of(kind);
        if bitmap.wanted.get(block) {
            return None;
        }
        let array = self.metadata.persistence().expect("stored").array.uuid;
        let words = bitmap.words_of(block..block + 1);
        let words = words.step_by(BITMAP_PAGE_WORDS);
        let bytes = bytes.as_chunks::<BITMAP_PAGE_BYTES>().0;
        let mut pages = (block * bitmap.pages_per_block..).zip(words).zip(bytes);
        Some(pages.all(|((page, word), bytes)| {
            let page = u32::try_from(page).expect("few");
            let page = BitmapPage { array, kind, page };
            let bits = decode_bitmap(&page, bytes);
            bits.is_some_and(|bits| bitmap.bits.agrees(word, &bits))
        }))
    }

    /// Writes a block of a bitmap, which is corrupt on a member, to all members.
    pub(crate) fn rewrite_bitmap(&mut self, kind: AreaKind, block: u64) {
        self.bitmap(kind).wanted.set(block);
        self.write_bitmaps();
    }

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
            let left = self.bitmap(kind).blocks - loading.block;
            if left == 0 {
                loading.bitmap += 1;
                loading.block = 0;
                continue;
            }
            let active = self.active();
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
        self.merge_pages(&loading);
        loading.block += u64::from(loading.blocks);
        self.opening.set_loading(Some(loading));
        self.load_bitmaps();
    }

    /// Takes the union of the good copies of each page. Without a good copy, all bits are set.
    fn merge_pages(&mut self, loading: &Loading) {
        let kind = BITMAPS[loading.bitmap];
        let persistence = self.metadata.persistence().expect("stored");
        let array = persistence.array.uuid;
        let active = self.active();
        let regions = &mut self.regions;
        let bitmap = match kind {
            AreaKind::DIRTY_BITMAP => &mut regions.dirty,
            _ => &mut regions.written,
        };
        let per_block = usize::try_from(bitmap.pages_per_block).expect("8");
        let words = bitmap.words_of(loading.block..loading.block + u64::from(loading.blocks));
        for (at, first) in words.step_by(BITMAP_PAGE_WORDS).enumerate() {
            let block = loading.block + u64::try_from(at / per_block).expect("few");
            let page = BitmapPage {
                array,
                kind,
                page: u32::try_from(first / BITMAP_PAGE_WORDS).expect("few"),
            };
            let (mut all, mut any, mut good) = ([u64::MAX; _], [0; BITMAP_PAGE_WORDS], 0);
            for member in active.iter() {
                let bytes = self.metadata_buffer.bytes_mut(loading.place, member.0);
                let bytes = &bytes.as_chunks::<BITMAP_PAGE_BYTES>().0[at];
                let read = loading.read.contains(member);
                let Some(bits) = decode_bitmap(&page, bytes).filter(|_| read) else {
                    continue;
                };
                good += 1;
                for (word, bits) in bits.into_iter().enumerate() {
                    any[word] |= bits;
                    all[word] &= bits;
                }
            }
            if good == 0 {
                any = [u64::MAX; BITMAP_PAGE_WORDS];
                if kind == AreaKind::WRITTEN_BITMAP {
                    // Never-written regions hold any contents, and redundancy that does not belong
                    // to them.
                    let lost = &mut regions.unsettled.words_mut()[first..];
                    lost[..BITMAP_PAGE_WORDS].fill(u64::MAX);
                }
            }
            bitmap.bits.words_mut()[first..first + BITMAP_PAGE_WORDS].copy_from_slice(&any);
            if good < active.count() || any != all {
                bitmap.wanted.set(block);
            }
        }
        bitmap.bits.trim();
        regions.unsettled.trim();
    }

    /// Continues when both bitmaps are read: finds the regions that a crash left unsettled.
    fn bitmaps_loaded(&mut self) {
        self.blank_new_regions();
        self.take_in_regions();
        let regions = &mut self.regions;
        for bitmap in [&mut regions.dirty, &mut regions.written] {
            for block in 0..bitmap.blocks {
                if !bitmap.wanted.get(block) {
                    let words = bitmap.words_of(block..block + 1);
                    bitmap.durable.words_mut()[words.clone()]
                        .copy_from_slice(&bitmap.bits.words()[words]);
                }
            }
        }
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

fn purpose(kind: AreaKind) -> Purpose {
    if kind == AreaKind::DIRTY_BITMAP {
        Purpose::DirtyBitmap
    } else {
        Purpose::WrittenBitmap
    }
}
