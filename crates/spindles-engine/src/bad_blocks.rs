//! The list of bad blocks: blocks of the array whose contents a crash took, which answer errors
//! until they are written, and blocks of members that refused to be written, which are not read.
//!
//! Arrays with a list keep the same list on all members, in pages
//! (`docs/reference/format.md`). It is read at opening. Changes are written durably before anything
//! that depends on them is acknowledged, one block of the list at a time.

use crate::{
    RangeId,
    config::Persistence,
    durable::{DurableBlocks, Loading},
    index,
    requests::Requests,
    slots::SlotSet,
    stripe::Ranges,
    system_io::{MetadataBuffer, Place},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::Operation;
use spindles_block::{BlockIndex, BlockSize, MemberIndex, MemberSet};
use spindles_format::{
    BAD_BLOCKS_PAGE_BYTES, BAD_BLOCKS_PAGE_ENTRIES, BadBlockKind, BadBlocks, Uuid,
    decode_bad_blocks, encode_bad_blocks,
};
use spindles_layout::Geometry;

/// A device that could not be filled everywhere becomes active if it lacks at most this many
/// blocks, or one in `UNFILLED_SHARE` blocks of the array. A device that lacks more can't be relied
/// on: its source members are failing.
const UNFILLED_MIN: u64 = 64;
const UNFILLED_SHARE: u64 = 1 << 16;
#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::BufferId;

    fn list(pages: usize) -> BadList {
        let mut buffer = MetadataBuffer::new(BufferId(0), BlockSize::B4096, 1);
        let mut list = BadList::new(None, BlockSize::B4096, &mut buffer);
        list.pages.truncate(pages);
        list
    }

    fn blocks(list: &BadList) -> Vec<u64> {
        let mut all: Vec<u64> = list
            .entries()
            .flat_map(|entry| entry.start.0..entry.end().0)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn runs_grow_shrink_and_split() {
        let mut list = list(1);
        let kind = BadBlockKind::Lost;
        assert!(list.add(kind, 10..14));
        assert!(list.add(kind, 14..16) && list.add(kind, 12..18));
        assert_eq!(list.entries().count(), 1, "neighbours are one run");
        assert_eq!(list.remove(kind, &(12..13)), Change::Done);
        assert_eq!(blocks(&list), [10, 11, 13, 14, 15, 16, 17]);
        assert!(!list.overlaps(kind, &(12..13)) && list.overlaps(kind, &(12..14)));
        let member = BadBlockKind::Unread(MemberIndex(1));
        assert!(!list.overlaps(member, &(0..100)) && list.add(member, 10..11));
        list.forget_member(MemberIndex(1));
        assert_eq!(list.remove(kind, &(0..100)), Change::Done);
        assert!(!list.any_lost() && !list.any_unread());
    }

    /// If a page has no room for the second half of a split run, another page gets it first.
    #[test]
    fn nothing_is_forgotten_where_room_is_scarce() {
        let mut list = list(2);
        let kind = BadBlockKind::Lost;
        for run in 0..BAD_BLOCKS_PAGE_ENTRIES as u64 {
            assert!(list.add(kind, run * 10..run * 10 + 3));
        }
        assert_eq!(list.remove(kind, &(11..12)), Change::Wait);
        assert!(list.overlaps(kind, &(11..12)), "still there");
        assert!(list.pages[1].entries.len() == 1, "and half of it twice");
        assert_eq!(list.remove(kind, &(11..12)), Change::Done);
        assert!(!list.overlaps(kind, &(11..12)));
        assert!(list.overlaps(kind, &(10..11)) && list.overlaps(kind, &(12..13)));
        for run in 0..BAD_BLOCKS_PAGE_ENTRIES as u64 - 1 {
            assert!(list.add(kind, 1000 + run * 10..1000 + run * 10 + 3));
        }
        let before = blocks(&list);
        assert!(!list.add(kind, 5000..5001));
        assert_eq!(list.remove(kind, &(21..22)), Change::Full);
        assert_eq!(blocks(&list), before);
    }
}

/// The number of pages of a list that is kept in memory only.
const PAGES_IN_MEMORY: u32 = 9;

#[derive(Clone, Debug)]
struct Page {
    sequence: u64,
    /// Limited by the capacity of a page.
    entries: Vec<BadBlocks>,
}

/// The outcome of a change of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Done,
    /// The members must store another change first: try again.
    Wait,
    /// The list is full.
    Full,
}

/// The list.
#[derive(Clone, Debug)]
pub(crate) struct BadList {
    pages: Vec<Page>,
    pages_per_block: u32,
    /// True if the members keep the list.
    stored: bool,
    /// True if a part of the list that may have entries could not be read from any member: the list
    /// may contain any block.
    unknown: bool,
    /// Blocks of the area.
    blocks: DurableBlocks,
    place: Place,
    /// The number of entries of each kind.
    lost: u32,
    unread: u32,
}

impl BadList {
    /// Creates the list of an array, and reserves the buffers to read and write it.
    pub(crate) fn new(
        persistence: Option<&Persistence>,
        block_size: BlockSize,
        buffer: &mut MetadataBuffer,
    ) -> Self {
        let pages = persistence.map_or(0, |persistence| persistence.array.bad_blocks_pages());
        let stored = pages > 0;
        let page_bytes = u32::try_from(BAD_BLOCKS_PAGE_BYTES).expect("512");
        let pages_per_block = block_size.bytes() / page_bytes;
        let blocks = pages / pages_per_block;
        let page = || Page {
            sequence: 0,
            entries: Vec::with_capacity(BAD_BLOCKS_PAGE_ENTRIES),
        };
        let pages = if stored { pages } else { PAGES_IN_MEMORY };
        Self {
            pages: (0..pages).map(|_| page()).collect(),
            pages_per_block,
            stored,
            unknown: false,
            blocks: DurableBlocks::new(u64::from(blocks), 1),
            place: buffer.reserve(u8::from(stored), 1),
            lost: 0,
            unread: 0,
        }
    }

    /// Returns true if the members keep the list.
    pub(crate) fn is_kept(&self) -> bool {
        self.stored
    }

    /// Returns true if the list has entries.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any_lost() || self.any_unread()
    }

    /// Returns true if any block of the array is lost.
    #[inline]
    pub(crate) fn any_lost(&self) -> bool {
        self.lost > 0
    }

    /// Returns true if any block of a member is not to be read.
    #[inline]
    pub(crate) fn any_unread(&self) -> bool {
        self.unread > 0
    }

    /// Every entry.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &BadBlocks> {
        self.pages.iter().flat_map(|page| &page.entries)
    }

    /// Returns the number of bad blocks of this kind.
    pub(crate) fn blocks(&self, kind: BadBlockKind) -> u64 {
        let of_kind = self.entries().filter(|entry| entry.kind == kind);
        of_kind.map(|entry| u64::from(entry.blocks)).sum()
    }

    /// Returns the members with blocks that are not to be read.
    pub(crate) fn members(&self) -> MemberSet {
        let members = self.entries().filter_map(|entry| match entry.kind {
            BadBlockKind::Unread(member) => Some(member),
            BadBlockKind::Lost => None,
        });
        members.fold(MemberSet::EMPTY, MemberSet::with)
    }

    /// Returns true if a block in the range is bad in this way.
    pub(crate) fn overlaps(&self, kind: BadBlockKind, range: &Range<u64>) -> bool {
        self.first(kind, range).is_some()
    }

    /// Returns page and place of the first entry that overlaps the range.
    fn first(&self, kind: BadBlockKind, range: &Range<u64>) -> Option<(usize, usize)> {
        let meets = |entry: &BadBlocks| {
            entry.kind == kind && entry.start.0 < range.end && range.start < entry.end().0
        };
        (0..).zip(&self.pages).find_map(|(page, of)| {
            let place = of.entries.iter().position(meets)?;
            Some((page, place))
        })
    }

    /// Returns the blocks of the list's area.
    pub(crate) fn blocks_kept(&self) -> &DurableBlocks {
        &self.blocks
    }

    /// Like `blocks_kept`, mutable.
    pub(crate) fn blocks_kept_mut(&mut self) -> &mut DurableBlocks {
        &mut self.blocks
    }

    fn changed(&mut self, page: usize) {
        let block = page / index(self.pages_per_block);
        if self.stored {
            self.blocks.want(u64::try_from(block).expect("few"));
        }
        self.count();
    }

    fn count(&mut self) {
        let kind = |kind: fn(&BadBlockKind) -> bool| {
            let count = self.entries().filter(|entry| kind(&entry.kind)).count();
            u32::try_from(count).expect("few")
        };
        let lost = kind(|kind| matches!(kind, BadBlockKind::Lost));
        let unread = kind(|kind| matches!(kind, BadBlockKind::Unread(_)));
        (self.lost, self.unread) = (lost, unread);
    }

    /// Adds blocks that are not in the list yet. Returns false if there is no room.
    pub(crate) fn add(&mut self, kind: BadBlockKind, range: Range<u64>) -> bool {
        let mut start = range.start;
        while start < range.end {
            if let Some((page, place)) = self.first(kind, &(start..start + 1)) {
                start = self.pages[page].entries[place].end().0;
                continue;
            }
            let mut end = start + 1;
            while end < range.end && self.first(kind, &(end..end + 1)).is_none() {
                end += 1;
            }
            if !self.add_new(kind, start..end) {
                return false;
            }
            start = end;
        }
        true
    }

    /// Marks every block of an array of `blocks` blocks lost. Blocks that can't be written will be
    /// found again.
    fn lose_all(&mut self, blocks: u64) {
        self.unknown = false;
        for page in &mut self.pages {
            page.entries.clear();
        }
        let mut start = 0;
        while start < blocks {
            let run = u32::try_from(blocks - start).unwrap_or(u32::MAX);
            let there_is_room = self.push(
                None,
                BadBlocks {
                    kind: BadBlockKind::Lost,
                    start: BlockIndex(start),
                    blocks: run,
                },
            );
            assert!(there_is_room, "a page holds more than any array has");
            start += u64::from(run);
        }
        self.blocks.want_all();
        self.count();
    }

    /// Adds a run of blocks, none of which is in the list.
    fn add_new(&mut self, kind: BadBlockKind, range: Range<u64>) -> bool {
        let blocks = u32::try_from(range.end - range.start).expect("a run is short");
        for at in 0..self.pages.len() {
            let mut entries = self.pages[at].entries.iter_mut();
            let before = entries.find(|entry| {
                let longer = entry.blocks.checked_add(blocks);
                entry.kind == kind && entry.end().0 == range.start && longer.is_some()
            });
            if let Some(entry) = before {
                entry.blocks += blocks;
                self.changed(at);
                return true;
            }
        }
        let start = BlockIndex(range.start);
        self.push(
            None,
            BadBlocks {
                kind,
                start,
                blocks,
            },
        )
    }

    /// Adds an entry to a page other than `not`.
    fn push(&mut self, not: Option<usize>, entry: BadBlocks) -> bool {
        let room = |(at, page): &(usize, &Page)| {
            Some(*at) != not && page.entries.len() < BAD_BLOCKS_PAGE_ENTRIES
        };
        let found = self.pages.iter().enumerate().find(room);
        let Some(at) = found.map(|(at, _)| at) else {
            return false;
        };
        self.pages[at].entries.push(entry);
        self.changed(at);
        true
    }

    /// Removes blocks from the list.
    pub(crate) fn remove(&mut self, kind: BadBlockKind, range: &Range<u64>) -> Change {
        let mut change = Change::Done;
        for at in 0..self.pages.len() {
            let mut place = 0;
            while let Some(&entry) = self.pages[at].entries.get(place) {
                place += 1;
                let (start, end) = (entry.start.0, entry.end().0);
                if entry.kind != kind || start >= range.end || end <= range.start {
                    continue;
                }
                let part = |range: Range<u64>| BadBlocks {
                    kind,
                    start: BlockIndex(range.start),
                    blocks: u32::try_from(range.end - range.start).expect("of a run"),
                };
                let left = (start < range.start).then(|| part(start..range.start));
                let right = (range.end < end).then(|| part(range.end..end));
                let full = self.pages[at].entries.len() == BAD_BLOCKS_PAGE_ENTRIES;
                match (left, right) {
                    (None, None) => {
                        place -= 1;
                        self.pages[at].entries.swap_remove(place);
                    }
                    (Some(only), None) | (None, Some(only)) => {
                        self.pages[at].entries[place - 1] = only;
                    }
                    (Some(left), Some(right)) if !full => {
                        self.pages[at].entries[place - 1] = left;
                        self.pages[at].entries.push(right);
                    }
                    (Some(left), Some(right)) => {
                        // The members must have the right half in another page before it goes from
                        // this one.
                        let elsewhere = |(other, page): (usize, &Page)| {
                            let covers = |entry: &BadBlocks| {
                                entry.kind == kind
                                    && entry.start <= right.start
                                    && entry.end() >= right.end()
                            };
                            other != at && page.entries.iter().any(covers)
                        };
                        if self.pages.iter().enumerate().any(elsewhere) {
                            self.pages[at].entries[place - 1] = left;
                        } else if self.push(Some(at), right) {
                            change = Change::Wait;
                            continue;
                        } else {
                            return Change::Full;
                        }
                    }
                }
                self.changed(at);
            }
        }
        change
    }

    /// Removes all entries of a member's blocks.
    pub(crate) fn forget_member(&mut self, member: MemberIndex) {
        for at in 0..self.pages.len() {
            let before = self.pages[at].entries.len();
            let of_member = |entry: &BadBlocks| entry.kind == BadBlockKind::Unread(member);
            self.pages[at].entries.retain(|entry| !of_member(entry));
            if self.pages[at].entries.len() < before {
                self.changed(at);
            }
        }
    }

    // ---- writing ------------------------------------------------------------------------------

    fn pages_of(&self, block: u64) -> Range<u32> {
        let first = u32::try_from(block).expect("few") * self.pages_per_block;
        first..first + self.pages_per_block
    }

    /// Begins the next write: encodes its pages. Returns its block, and the place of the bytes.
    pub(crate) fn begin_write(
        &mut self,
        array: Uuid,
        buffer: &mut MetadataBuffer,
    ) -> (Range<u64>, Place) {
        let blocks = self.blocks.begin();
        let out = buffer.bytes_mut(self.place, 0).as_chunks_mut().0;
        for (number, out) in self.pages_of(blocks.start).zip(out) {
            let page = &mut self.pages[index(number)];
            page.sequence += 1;
            encode_bad_blocks(array, number, page.sequence, &page.entries, out);
        }
        (blocks, self.place)
    }

    /// Returns true if a block read from a member equals memory.
    pub(crate) fn agrees(&self, array: Uuid, block: u64, bytes: &[u8]) -> bool {
        let bytes = bytes.as_chunks::<BAD_BLOCKS_PAGE_BYTES>().0;
        self.pages_of(block).zip(bytes).all(|(number, bytes)| {
            let expected = &self.pages[index(number)];
            let read = decode_bad_blocks(array, number, bytes);
            read.is_some_and(|(sequence, entries)| {
                let same = entries.eq(expected.entries.iter().copied());
                sequence == expected.sequence && same
            })
        })
    }

    // ---- reading ------------------------------------------------------------------------------

    /// Takes the newest good copy of each page of a part. If there is none, the page had no
    /// entries, or the list is unknown. Writes pages that differ again, or all of them.
    pub(crate) fn merge(
        &mut self,
        (array, listed): (Uuid, bool),
        loading: &Loading,
        members: MemberSet,
        writes_all: bool,
        buffer: &MetadataBuffer,
    ) {
        let first = self.pages_of(loading.block).start;
        for at in 0..loading.blocks * self.pages_per_block {
            let number = first + at;
            let page = &mut self.pages[index(number)];
            let (mut oldest, mut newest) = (u64::MAX, 0);
            for member in members.iter() {
                let bytes = buffer.bytes(loading.place, member.0);
                let bytes = &bytes.as_chunks::<BAD_BLOCKS_PAGE_BYTES>().0[index(at)];
                let read = decode_bad_blocks(array, number, bytes);
                let Some((sequence, entries)) = read.filter(|_| loading.read.contains(member))
                else {
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
            self.unknown |= newest == 0 && listed;
            if oldest != newest || writes_all {
                let block = number / self.pages_per_block;
                self.blocks.want(u64::from(block));
            }
        }
    }

    /// Ends reading. If the list is unknown or `unread`, every block of the array is lost.
    pub(crate) fn loaded(&mut self, unread: bool, array_blocks: u64) {
        if self.unknown || unread {
            self.lose_all(array_blocks);
        }
        self.count();
    }

    /// Adds blocks of a device being filled to the list of bad blocks. Returns false if the members
    /// keep no list, it is full, or the device lacks too many blocks to count as a member.
    pub(crate) fn may_add_unfilled(
        &mut self,
        geometry: &Geometry,
        member: MemberIndex,
        range: Range<u64>,
    ) -> bool {
        let kind = BadBlockKind::Unread(member);
        let most = (geometry.blocks() / UNFILLED_SHARE).max(UNFILLED_MIN);
        let lacks = self.blocks(kind) + (range.end - range.start);
        self.is_kept() && lacks <= most && self.add(kind, range)
    }

    /// Returns true if the list has any block of a data slot in the current rows as lost.
    pub(crate) fn is_listed_lost(&self, ranges: &Ranges, id: RangeId, slot: u8) -> bool {
        let blocks = ranges.array_blocks(id, slot);
        self.overlaps(BadBlockKind::Lost, &blocks)
    }

    /// Returns true if a request reads a lost block.
    #[cold]
    pub(crate) fn reads_lost(&self, requests: &Requests, request: u32) -> bool {
        let slot = &requests[request];
        let blocks = slot.block.0..slot.end.0;
        slot.operation == Operation::Read && self.overlaps(BadBlockKind::Lost, &blocks)
    }

    /// Returns the slots of a stripe range with bad blocks in the current rows. Empty for a group
    /// that a growth staged: staged blocks are elsewhere, and the bad-block list does not apply.
    pub(crate) fn bad_slots(&self, ranges: &Ranges, id: RangeId, is_staged: bool) -> SlotSet {
        let range = &ranges[id];
        if is_staged {
            return SlotSet::EMPTY;
        }
        let slots = (0..).zip(ranges.group(id).slots());
        let is_bad = |&(_, place): &(u8, &spindles_layout::Slot)| {
            let start = place.offset.0 + u64::from(range.low);
            let range = start..start + u64::from(range.blocks);
            let kind = BadBlockKind::Unread(place.member);
            self.overlaps(kind, &range)
        };
        slots
            .filter(is_bad)
            .fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot))
    }

    /// Removes blocks of rows from the list of lost ones, in memory.
    pub(crate) fn remove_lost(&mut self, ranges: &Ranges, id: RangeId, slots: SlotSet) {
        if self.any_lost() {
            for slot in slots.and(ranges[id].shape.all_data()).iter() {
                let blocks = ranges.array_blocks(id, slot);
                self.remove(BadBlockKind::Lost, &blocks);
            }
        }
    }
}
