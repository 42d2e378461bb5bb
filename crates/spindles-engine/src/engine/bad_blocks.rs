//! Reads the list of bad blocks at opening, and writes it before anything that depends on it.

use crate::{
    Engine, RangeId,
    bad_blocks::{Change, Loading},
    index,
    output::OutReason,
    plan::Ask,
    ranges::Owner,
    slots::SlotSet,
    system_io::Purpose,
    waits::WaitFor,
};
use core::ops::Range;
use spindles_block::{BlockIndex, MemberError, MemberIndex, MemberResult, MemberSet, Operation};
use spindles_format::{
    AreaKind, BAD_BLOCKS_PAGE_BYTES, BadBlockKind, decode_bad_blocks, encode_bad_blocks,
};

impl Engine {
    // ---- writing ------------------------------------------------------------------------------

    /// Returns true if the members store the list as it is in memory. Until then no request is
    /// acknowledged.
    #[inline]
    pub(crate) fn bad_blocks_are_stored(&self) -> bool {
        !self.bad.is_busy() || self.metadata.is_broken()
    }

    /// Begins to write a changed block of the list.
    pub(crate) fn write_bad_blocks(&mut self) {
        let list = &mut self.bad;
        if !list.stored || list.loading.is_some() || list.flying.is_some() {
            return;
        }
        let Some(block) = list.wanted.iter().position(|wanted| *wanted) else {
            return;
        };
        let active = MemberSet::all(self.geometry.members()).difference(self.missing);
        if active.is_empty() {
            return self.stop_writing();
        }
        if list.any() && !self.metadata.lists_bad_blocks() {
            return self.want_update(); // The update announces the list first.
        }
        list.wanted[block] = false;
        let persistence = self.metadata.persistence().expect("stored");
        let array = persistence.array.uuid;
        let block = u32::try_from(block).expect("few");
        let out = self.metadata_buffer.bytes_mut(list.place, 0);
        let first = block * list.pages_per_block;
        for (page, out) in (first..).zip(out.as_chunks_mut().0) {
            let of = &mut list.pages[index(page)];
            of.sequence += 1;
            encode_bad_blocks(array, page, of.sequence, &of.entries, out);
        }
        list.flying = Some(block);
        let written = u64::from(block)..u64::from(block) + 1;
        self.inspection.note_write(AreaKind::BAD_BLOCKS, written);
        list.pending = active.count();
        let place = list.place;
        for member in active.iter() {
            let at = self
                .area_block(member, AreaKind::BAD_BLOCKS)
                .plus(u64::from(block));
            self.system_io(
                Purpose::BadBlocks,
                member,
                Operation::Write { fua: true },
                at,
                1,
                self.metadata_buffer.slice(place, 0),
            );
        }
        if let Some(replacement) = self.replacement_told_of_bitmaps() {
            let area = replacement.area(AreaKind::BAD_BLOCKS);
            let area = area.expect("looked at before");
            let start = area.offset_bytes / u64::from(self.block_size.bytes());
            self.bad.pending += 1;
            self.replacement_system_io(
                Purpose::BadBlocks,
                Operation::Write { fua: true },
                BlockIndex(start).plus(u64::from(block)),
                1,
                self.metadata_buffer.slice(place, 0),
            );
        }
    }

    /// Handles the result of a write of the list.
    pub(crate) fn bad_blocks_written(&mut self, member: MemberIndex, result: MemberResult) {
        self.system_flush_failed(member, result);
        self.bad.pending -= 1;
        if self.bad.pending > 0 {
            return;
        }
        self.bad.flying = None;
        self.write_bad_blocks();
        if self.bad_blocks_are_stored() {
            self.wake(WaitFor::BadBlocks);
            self.begin_update();
            self.replay_listed();
            self.try_to_serve();
        }
    }

    // ---- comparing ----------------------------------------------------------------------------

    /// Returns the number of blocks of the area that hold pages of the list.
    pub(crate) fn bad_blocks_blocks(&self) -> u64 {
        u64::try_from(self.bad.wanted.len()).expect("few")
    }

    /// Returns the block of the list that is being written, if any.
    pub(crate) fn bad_blocks_being_written(&self) -> Range<u64> {
        let flying = self.bad.flying.map(u64::from);
        flying.map_or(0..0, |block| block..block + 1)
    }

    /// Returns true if a block read from a member equals memory. `None` if it waits to be written
    /// anyway.
    pub(crate) fn bad_blocks_agree(&self, block: u64, bytes: &[u8]) -> Option<bool> {
        if self.bad.wanted[usize::try_from(block).expect("few")] {
            return None;
        }
        let array = self.metadata.persistence().expect("stored").array.uuid;
        let first = u32::try_from(block).expect("few") * self.bad.pages_per_block;
        let bytes = bytes.as_chunks::<BAD_BLOCKS_PAGE_BYTES>().0;
        Some((first..).zip(bytes).all(|(number, bytes)| {
            let expected = &self.bad.pages[index(number)];
            let read = decode_bad_blocks(array, number, bytes);
            read.is_some_and(|(sequence, entries)| {
                let same = entries.eq(expected.entries.iter().copied());
                sequence == expected.sequence && same
            })
        }))
    }

    /// Writes a block of the list, which is corrupt on a member, to all members.
    pub(crate) fn rewrite_bad_blocks(&mut self, block: u64) {
        self.bad.wanted[usize::try_from(block).expect("few")] = true;
        self.write_bad_blocks();
    }

    // ---- reading ------------------------------------------------------------------------------

    /// Reads the next part of the list from all members, or goes on to the bitmaps.
    pub(crate) fn load_bad_blocks(&mut self) {
        let Some(mut loading) = self.bad.loading else {
            return self.load_bitmaps();
        };
        // The list on a device being filled may be out of date.
        let active = MemberSet::all(self.geometry.members()).difference(self.lost);
        let left = u32::try_from(self.bad.wanted.len()).expect("few") - loading.block;
        if left == 0 || active.is_empty() {
            if self.bad.unknown || active.is_empty() {
                self.bad.lose_all(self.geometry.blocks());
            }
            self.bad.loading = None;
            self.bad_blocks_loaded();
            self.load_bitmaps();
            return self.opening_goes_on();
        }
        loading.blocks = left.min(loading.place.blocks);
        loading.pending = active.count();
        self.bad.loading = Some(loading);
        for member in active.iter() {
            let area = self.area_block(member, AreaKind::BAD_BLOCKS);
            self.metadata_buffer
                .bytes_mut(loading.place, member.0)
                .fill(0);
            let slice = self.metadata_buffer.slice(loading.place, member.0);
            self.system_io(
                Purpose::BadBlocksRead,
                member,
                Operation::Read,
                area.plus(u64::from(loading.block)),
                loading.blocks,
                slice,
            );
        }
    }

    /// Handles the result of a read of the list.
    pub(crate) fn bad_blocks_read(&mut self, member: MemberIndex, result: MemberResult) {
        let mut loading = self.bad.loading.expect("the list is read");
        if let Err(error) = result {
            if error == MemberError::Gone {
                self.put_out(member, OutReason::Error(error));
            }
            // Unreadable pages of a present member are written again.
            self.metadata_buffer
                .bytes_mut(loading.place, member.0)
                .fill(0);
        }
        loading.pending -= 1;
        if loading.pending == 0 {
            self.merge_bad_blocks(&loading);
            loading.block += loading.blocks;
        }
        self.bad.loading = Some(loading);
        if loading.pending == 0 {
            self.load_bad_blocks();
        }
    }

    /// Takes the newest good copy of each page. If there is none, the page had no entries, or the
    /// list is unknown.
    fn merge_bad_blocks(&mut self, loading: &Loading) {
        let persistence = self.metadata.persistence().expect("stored");
        let (array, listed) = (persistence.array.uuid, persistence.array.bad_blocks_listed);
        let active = MemberSet::all(self.geometry.members()).difference(self.lost);
        let all_told = self.rebuilding().is_empty();
        let list = &mut self.bad;
        let first = loading.block * list.pages_per_block;
        let pages = loading.blocks * list.pages_per_block;
        for at in 0..pages {
            let number = first + at;
            let page = &mut list.pages[index(number)];
            let (mut oldest, mut newest) = (u64::MAX, 0);
            for member in active.iter() {
                let bytes = self.metadata_buffer.bytes(loading.place, member.0);
                let bytes = &bytes.as_chunks::<BAD_BLOCKS_PAGE_BYTES>().0[index(at)];
                let Some((sequence, entries)) = decode_bad_blocks(array, number, bytes) else {
                    oldest = 0;
                    continue;
                };
                if sequence > newest {
                    page.entries.clear();
                    page.entries.extend(entries);
                    newest = sequence;
                }
                oldest = oldest.min(sequence);
            }
            page.sequence = newest;
            list.unknown |= newest == 0 && listed;
            if oldest != newest || !all_told {
                list.wanted[index(number / list.pages_per_block)] = true;
            }
        }
    }

    fn bad_blocks_loaded(&mut self) {
        self.bad.count();
        self.choose_direct();
        self.write_bad_blocks();
    }

    // ---- contents of the list -----------------------------------------------------------------

    /// Returns the blocks of the array in the current rows of a data slot of a stripe range.
    pub(crate) fn array_blocks(&self, id: RangeId, slot: u8) -> Range<u64> {
        let (range, group) = (&self.ranges[id], &self.groups[id.index()]);
        let first = group.first_block.0 + u64::from(slot) * u64::from(group.blocks);
        let first = first + u64::from(range.low);
        first..first + u64::from(range.blocks)
    }

    /// Returns the data slots whose blocks of the array get new contents from a stripe range. A
    /// growth moves blocks without changing them.
    fn renewed(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        if range.owner == Owner::Request(self.own_request()) {
            return SlotSet::EMPTY;
        }
        match (range.ask, range.shape.copies) {
            (Ask::Write, true) => SlotSet::one(0),
            (Ask::Write, false) => range.touched,
            _ => SlotSet::EMPTY,
        }
    }

    /// Returns the slots that a stripe range wrote and that have blocks in the list.
    fn rewritten(&self, id: RangeId) -> SlotSet {
        let range = &self.ranges[id];
        let written = range.plan.writes.minus(self.missing_slots(id));
        self.bad_slots(id).and(written.minus(range.rows.refused))
    }

    /// Returns true if a stripe range wrote blocks in the list. The blocks are removed when the
    /// write is durable.
    #[cold]
    pub(crate) fn wrote_bad_blocks(&self, id: RangeId) -> bool {
        self.renews_lost(id) || !self.rewritten(id).is_empty()
    }

    /// Returns true if a stripe range writes rows that have a block in the list.
    #[cold]
    pub(crate) fn writes_bad_blocks(&self, id: RangeId) -> bool {
        self.renews_lost(id) || !self.bad_slots(id).is_empty()
    }

    fn renews_lost(&self, id: RangeId) -> bool {
        let lost = |slot| self.is_listed_lost(id, slot);
        self.renewed(id).iter().any(lost)
    }

    /// Returns true if the list has any block of a data slot in the current rows as lost.
    pub(crate) fn is_listed_lost(&self, id: RangeId, slot: u8) -> bool {
        let blocks = self.array_blocks(id, slot);
        self.bad.overlaps(BadBlockKind::Lost, &blocks)
    }

    /// Removes blocks from the list that a stripe range wrote durably.
    #[cold]
    pub(crate) fn take_from_bad_blocks(&mut self, id: RangeId) -> Change {
        let mut all = Change::Done;
        let mut remove = |engine: &mut Self, kind, blocks: Range<u64>| {
            let change = engine.bad.remove(kind, &blocks);
            if all != Change::Full && change != Change::Done {
                all = change;
            }
        };
        for slot in self.renewed(id).iter() {
            remove(self, BadBlockKind::Lost, self.array_blocks(id, slot));
        }
        for slot in self.rewritten(id).iter() {
            let place = self.groups[id.index()].slots()[usize::from(slot)];
            let range = &self.ranges[id];
            let start = place.offset.0 + u64::from(range.low);
            let blocks = start..start + u64::from(range.blocks);
            remove(self, BadBlockKind::Unread(place.member), blocks);
        }
        self.choose_direct();
        self.write_bad_blocks();
        all
    }

    /// Returns true if a stripe range reads, for a client, blocks that were found lost since the
    /// request.
    #[cold]
    pub(crate) fn asks_for_lost(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let own = Owner::Request(self.own_request());
        let client = matches!(range.owner, Owner::Request(_)) && range.owner != own;
        let lost = |slot| self.is_listed_lost(id, slot);
        client && range.ask == Ask::Read && range.touched.iter().any(lost)
    }

    /// Returns true if a request reads a lost block.
    #[cold]
    pub(crate) fn reads_lost(&self, request: u32) -> bool {
        let slot = &self.requests[index(request)];
        let blocks = slot.block.0..slot.end.0;
        slot.operation == Operation::Read && self.bad.overlaps(BadBlockKind::Lost, &blocks)
    }
}
