//! The pages of checksums in memory: a bounded cache, shared by all stripe ranges.
//!
//! ```text
//!  empty ──wanted──▶ loading ──▶ clean ──set──▶ dirty ──▶ being written ──▶ clean
//!    ▲                             │              ▲              │
//!    └──── another is wanted ──────┘              └──set again───┘
//! ```
//!
//! A *holder* pins the pages that it needs. Pin all pages or none, so that holders cannot deadlock:
//! a holder that gets only some waits in line without any. A pinned page stays in memory. Changed
//! pages are written when room is short, before a flush that others build on, and some seconds
//! after the change. So after a crash only recently written blocks have old checksums on the
//! members.

use crate::{
    RangeId,
    checksums::entries::{Entry, is_known},
    config::Persistence,
    index,
    slots::SlotSet,
    system_io::{MetadataBuffer, Place, Purpose},
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BlockIndex, BlockSize, BufferSlice, Instant, MemberIndex, MemberSet};
use spindles_format::{
    AreaKind, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Entries, PageParts, RowSum, Uuid,
    block_checksum, open_checksums, seal_checksums, stored_checksum,
};

/// No frame, or the end of a list.
const NONE: u32 = u32::MAX;

/// A changed page is written after this time, and before twice this time.
const AGE_NS: u64 = 5_000_000_000;

/// Pages that are written at once.
const WRITES_MAX: usize = 16;

/// Maximum number of engine flushes waiting for pages at once: one flush per purpose.
const DEFERRED_MAX: usize = 16;

/// The most pages that hold the entries of `ROWS_MAX` rows of a member.
const PINNED_MAX: usize = 3;

/// A frame: room for a page.
#[derive(Clone, Copy, Debug)]
struct Frame {
    member: MemberIndex,
    page: u64,
    /// The next frame in the bucket.
    next: u32,
    state: State,
    /// The number of holders that pin it.
    pins: u32,
    /// The number of the change that made it dirty; 0 while it is clean.
    dirty: u64,
    /// The value of `dirty` when the current write began; 0 while there is none.
    writing: u64,
    /// Parts that changed since they were sealed.
    changed: PageParts,
    /// Writes of it under way: to its member, and to the device that is to replace the member.
    flying: u8,
    /// True while a scrub compares the frame with its page on the member. A write of the page
    /// clears it.
    checked: bool,
    /// True if it was wanted since the clock hand last passed it.
    referenced: bool,
    /// The first of the holders that wait for it to load.
    waiter: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Loading,
    Good,
}

impl Frame {
    const EMPTY: Self = Self {
        member: MemberIndex(0),
        page: 0,
        next: NONE,
        state: State::Empty,
        pins: 0,
        dirty: 0,
        writing: 0,
        changed: PageParts::NONE,
        flying: 0,
        checked: false,
        referenced: false,
        waiter: NONE,
    };

    /// Returns true if the frame may be given to another page.
    fn is_spare(&self) -> bool {
        self.pins == 0 && self.dirty == 0 && self.writing == 0
    }
}

/// Pages that a holder needs for one slot: of one member, at most `PINNED_MAX`.
#[derive(Clone, Copy, Debug)]
struct Want {
    slot: u8,
    member: MemberIndex,
    first: u64,
    last: u64,
}

/// A user of pages: a stripe range, or a member whose rows are being zeroed.
#[derive(Clone, Copy, Debug)]
struct Holder {
    /// The slots whose pages it has pinned.
    slots: SlotSet,
    /// The next holder that waits for the same page.
    next: u32,
}

/// A flush that waits until earlier changes of pages are written.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    flush: Flush,
    /// The number of the last change that must be written first.
    changes: u64,
}

/// The owner of a flush.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flush {
    /// The engine's, of these members.
    System(Purpose, MemberSet),
    /// A stripe range's, of all members.
    StripeRange(RangeId),
}

/// The pages in memory.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    array: Uuid,
    entries: Entries,
    /// The first block of each member's checksums.
    starts: Vec<BlockIndex>,
    /// Blocks of a page on the member.
    page_blocks: u32,
    place: Place,
    frames: Vec<Frame>,
    /// Heads of the hash buckets, by member and page.
    heads: Vec<u32>,
    shift: u32,
    /// The frame at which the search for room continues.
    hand: usize,
    /// The number of frames that are empty, or may be given to another page.
    spare: u32,
    /// Dirty frames, in the order in which they became dirty.
    dirty: VecDeque<u32>,
    changes: u64,
    /// When to look for aged changes; `None` if no look is scheduled.
    look: Option<Instant>,
    /// The last change before the previous look. The next look sets `changes_aged` to it, which is
    /// the last change to write because of its age.
    changes_seen: u64,
    changes_aged: u64,
    /// Frames being written, at most `WRITES_MAX`.
    written: Vec<u32>,
    deferred: VecDeque<Deferred>,
    holders: Vec<Holder>,
    /// Holders that wait for room, in line.
    waiting: VecDeque<u32>,
    /// True if a holder that waits for room may find some now.
    room: bool,
    /// The pinned frames, for each holder and slot.
    held: Vec<[u32; PINNED_MAX]>,
    slots: usize,
    wanted: Vec<Want>,
    loads: Vec<u32>,
    /// The checksum of a block of zeros.
    of_zeros: u32,
    /// True if every block must have a checksum.
    complete: bool,
}

/// The outcome of an attempt to pin pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    All,
    /// Missing pages are being loaded.
    Loading,
    /// Too few frames are free, or another holder waits longer.
    NoRoom,
}

impl Pages {
    /// Returns the blocks on a member's device that hold the checksums of these rows.
    pub(crate) fn places(&self, member: MemberIndex, rows: &Range<u64>) -> Range<u64> {
        let page = |row| self.entries.find(row).0;
        let start = self.starts[usize::from(member.0)].0;
        let blocks = u64::from(self.page_blocks);
        start + page(rows.start) * blocks..start + (page(rows.end - 1) + 1) * blocks
    }

    /// Creates a cache of `pages` pages, or as many as one holder may need. `None` if blocks have
    /// no checksums.
    pub(crate) fn new(
        persistence: &Persistence,
        block_size: BlockSize,
        slots: u8,
        ranges: u32,
        pages: u32,
        buffer: &mut MetadataBuffer,
    ) -> Option<Self> {
        if persistence.array.checksum == ChecksumKind::None {
            return None;
        }
        let members = persistence.devices.len();
        let page_bytes = u32::try_from(CHECKSUM_PAGE_BYTES).expect("4096");
        let page_blocks = page_bytes / block_size.bytes();
        let holder_max = PINNED_MAX * usize::from(slots);
        let frames = pages.max(u32::try_from(holder_max).expect("few"));
        let buckets = frames.next_power_of_two().max(2);
        let holders = index(ranges) + members;
        let starts = persistence.devices.iter();
        let zeros = vec![0; index(block_size.bytes())];
        Some(Self {
            array: persistence.array.uuid,
            entries: persistence.array.entries(),
            starts: starts.map(|device| start(device.as_ref())).collect(),
            page_blocks,
            place: buffer.reserve(1, frames * page_blocks),
            frames: vec![Frame::EMPTY; index(frames)],
            heads: vec![NONE; index(buckets)],
            shift: 64 - buckets.trailing_zeros(),
            hand: 0,
            spare: frames,
            dirty: VecDeque::with_capacity(index(frames)),
            changes: 0,
            look: None,
            changes_seen: 0,
            changes_aged: 0,
            written: Vec::with_capacity(WRITES_MAX),
            deferred: VecDeque::with_capacity(DEFERRED_MAX + index(ranges)),
            holders: vec![
                Holder {
                    slots: SlotSet::EMPTY,
                    next: NONE
                };
                holders
            ],
            waiting: VecDeque::with_capacity(holders),
            room: false,
            held: vec![[NONE; PINNED_MAX]; holders * usize::from(slots)],
            slots: usize::from(slots),
            wanted: Vec::with_capacity(usize::from(slots)),
            loads: Vec::with_capacity(holder_max),
            of_zeros: block_checksum(&zeros),
            complete: persistence.array.region_groups > 0,
        })
    }

    /// Clears the list of wanted pages.
    pub(crate) fn want_nothing(&mut self) {
        self.wanted.clear();
    }

    /// Adds the checksums of `blocks` blocks of a member's data area from `first` on to the wanted
    /// pages.
    pub(crate) fn want(&mut self, slot: u8, member: MemberIndex, first: BlockIndex, blocks: u32) {
        let last = first.0 + u64::from(blocks) - 1;
        let want = Want {
            slot,
            member,
            first: self.entries.find(first.0).0,
            last: self.entries.find(last).0,
        };
        let pages = usize::try_from(want.last - want.first).map(|further| further + 1);
        assert!(pages.is_ok_and(|pages| pages <= PINNED_MAX), "few rows");
        self.wanted.push(want);
    }

    fn bucket(&self, member: MemberIndex, page: u64) -> usize {
        let key = page << 8 | u64::from(member.0);
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        usize::try_from(hash).expect("less than the number of buckets")
    }

    fn find(&self, member: MemberIndex, page: u64) -> Option<u32> {
        let mut at = self.heads[self.bucket(member, page)];
        while at != NONE {
            let frame = &self.frames[index(at)];
            if frame.page == page && frame.member == member {
                return Some(at);
            }
            at = frame.next;
        }
        None
    }

    fn pin(&mut self, at: u32) {
        let frame = &mut self.frames[index(at)];
        self.spare -= u32::from(frame.is_spare());
        frame.pins += 1;
        frame.referenced = true;
    }

    fn unpin(&mut self, at: u32) {
        let frame = &mut self.frames[index(at)];
        frame.pins -= 1;
        self.may_be_spare(at);
    }

    /// Begins the write of a dirty frame.
    fn write_begins(&mut self, at: u32) {
        let frame = &mut self.frames[index(at)];
        assert!(frame.dirty > 0 && frame.writing == 0, "one write at a time");
        frame.writing = core::mem::take(&mut frame.dirty);
        frame.flying = 1;
        frame.checked = false;
        self.written.push(at);
    }

    /// Ends the write of a frame on all its devices.
    fn write_ended(&mut self, at: u32) {
        self.frames[index(at)].writing = 0;
        let place = self.written.iter().position(|&written| written == at);
        self.written
            .swap_remove(place.expect("it is being written"));
        self.may_be_spare(at);
    }

    /// Returns true if the page on the member must equal this frame: no change waits to be written,
    /// and the page was read as a whole.
    pub(crate) fn may_be_checked(&self, at: u32) -> bool {
        let frame = &self.frames[index(at)];
        let written = frame.dirty == 0 && frame.writing == 0;
        frame.state == State::Good && written && frame.changed == PageParts::NONE
    }

    /// Pins a frame that is about to be compared with the page on its member.
    pub(crate) fn begin_check(&mut self, at: u32) {
        self.pin(at);
        self.frames[index(at)].checked = true;
    }

    /// Unpins a frame whose page was read. Returns true if nothing changed meanwhile.
    pub(crate) fn end_check(&mut self, at: u32) -> bool {
        let checked = core::mem::take(&mut self.frames[index(at)].checked);
        let same = checked && self.may_be_checked(at);
        self.unpin(at);
        same
    }

    /// Makes a frame dirty whose page differs on its member, so that it is written again.
    pub(crate) fn rewrite(&mut self, at: u32) {
        let frame = &mut self.frames[index(at)];
        self.spare -= u32::from(frame.is_spare());
        self.changes += 1;
        frame.dirty = self.changes;
        self.dirty.push_back(at);
    }

    /// Counts a frame as spare if nothing keeps it any longer.
    fn may_be_spare(&mut self, at: u32) {
        if self.frames[index(at)].is_spare() {
            self.spare += 1;
            self.room |= !self.waiting.is_empty();
        }
    }

    fn unlink(&mut self, at: u32) {
        let Frame {
            member, page, next, ..
        } = self.frames[index(at)];
        let bucket = self.bucket(member, page);
        let mut before = NONE;
        let mut here = self.heads[bucket];
        while here != at {
            before = here;
            here = self.frames[index(here)].next;
        }
        match before {
            NONE => self.heads[bucket] = next,
            before => self.frames[index(before)].next = next,
        }
    }

    /// Takes a spare frame; there must be one.
    fn take_room(&mut self) -> u32 {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len();
            let frame = &mut self.frames[at];
            if !frame.is_spare() || core::mem::take(&mut frame.referenced) {
                continue;
            }
            let at = u32::try_from(at).expect("frames are counted in 32 bits");
            if self.frames[index(at)].state != State::Empty {
                self.unlink(at);
            }
            return at;
        }
    }

    /// Tries to pin the wanted pages. The pages to load are in `loads` afterwards.
    pub(crate) fn hold(&mut self, holder: u32, in_line: bool) -> Pinned {
        if !self.holders[index(holder)].slots.is_empty() {
            self.unpin_all(holder);
        }
        self.loads.clear();
        let (mut missing, mut loading) = (0, false);
        for at in 0..self.wanted.len() {
            let want = self.wanted[at];
            let mut held = [NONE; PINNED_MAX];
            for (held, page) in held.iter_mut().zip(want.first..=want.last) {
                match self.find(want.member, page) {
                    Some(frame) => {
                        self.pin(frame);
                        loading |= self.frames[index(frame)].state == State::Loading;
                        *held = frame;
                    }
                    None => missing += 1,
                }
            }
            let place = self.place_of(holder, want.slot);
            self.held[place] = held;
            let slots = &mut self.holders[index(holder)].slots;
            *slots = slots.with(want.slot);
        }
        if missing > 0 {
            let overtakes = !in_line && !self.waiting.is_empty();
            if missing > self.spare || overtakes {
                self.unpin_all(holder);
                return Pinned::NoRoom;
            }
            self.make_room(holder);
        }
        if (loading || missing > 0) && self.wait_for_next(holder) {
            Pinned::Loading
        } else {
            Pinned::All
        }
    }

    /// Takes frames for the wanted pages that are not in memory.
    #[inline(never)]
    fn make_room(&mut self, holder: u32) {
        for want in 0..self.wanted.len() {
            let want = self.wanted[want];
            let place = self.place_of(holder, want.slot);
            for (which, page) in (want.first..=want.last).enumerate() {
                if self.held[place][which] != NONE {
                    continue;
                }
                let at = self.take_room();
                let bucket = self.bucket(want.member, page);
                self.frames[index(at)] = Frame {
                    member: want.member,
                    page,
                    next: self.heads[bucket],
                    state: State::Loading,
                    ..Frame::EMPTY
                };
                self.heads[bucket] = at;
                self.pin(at);
                self.held[place][which] = at;
                self.loads.push(at);
            }
        }
    }

    /// Puts a holder in line for the first of its pages that is loading. Returns true if a page is
    /// loading.
    #[inline(never)]
    fn wait_for_next(&mut self, holder: u32) -> bool {
        for slot in self.holders[index(holder)].slots.iter() {
            for at in self.held[self.place_of(holder, slot)] {
                if at != NONE && self.frames[index(at)].state == State::Loading {
                    let frame = &mut self.frames[index(at)];
                    self.holders[index(holder)].next = frame.waiter;
                    frame.waiter = holder;
                    return true;
                }
            }
        }
        false
    }

    fn place_of(&self, holder: u32, slot: u8) -> usize {
        index(holder) * self.slots + usize::from(slot)
    }

    /// Unpins all pages of a holder.
    #[inline(never)]
    pub(crate) fn unpin_all(&mut self, holder: u32) {
        let slots = core::mem::take(&mut self.holders[index(holder)].slots);
        for slot in slots.iter() {
            let place = self.place_of(holder, slot);
            for at in core::mem::replace(&mut self.held[place], [NONE; PINNED_MAX]) {
                if at != NONE {
                    self.unpin(at);
                }
            }
        }
    }

    /// Returns the frame that has the entry of a block, and the place in it. `first` is the first
    /// block whose page is pinned.
    fn find_pinned(&self, holder: u32, slot: u8, first: u64, block: u64) -> (u32, usize) {
        let (page, place) = self.entries.find(block);
        let which = usize::try_from(page - self.entries.find(first).0).expect("few");
        (self.held[self.place_of(holder, slot)][which], place)
    }

    fn start_of(&self, at: u32) -> u32 {
        at * self.page_blocks
    }

    /// Returns true if the blocks from `first` on have these checksums. Unless every block must
    /// have a checksum, blocks without one count as equal.
    #[inline]
    pub(crate) fn agree(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot): (u32, u8),
        first: BlockIndex,
        sums: &[u32],
    ) -> bool {
        let held = self.held[self.place_of(holder, slot)];
        let (mut place, mut rest) = (self.entries.find(first.0).1, sums);
        for at in held {
            let (here, further) = rest.split_at(rest.len().min(self.left_of_page(place)));
            let bytes = |at| buffer.bytes_at(self.place, self.start_of(at), self.page_blocks);
            let agrees = |(place, &sum): (usize, &u32), page: &[u8]| {
                let kept = self.entries.checksum_in(page, place);
                kept == stored_checksum(sum) || kept == 0 && !self.complete
            };
            let page = bytes(at);
            if !(place..).zip(here).all(|entry| agrees(entry, page)) {
                return false;
            }
            if further.is_empty() {
                return true;
            }
            (place, rest) = (0, further);
        }
        panic!("pages of all blocks are held");
    }

    /// Returns true if each of `blocks` blocks from `first` on has a checksum.
    pub(crate) fn all_known(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot): (u32, u8),
        first: BlockIndex,
        blocks: u32,
    ) -> bool {
        let held = self.held[self.place_of(holder, slot)];
        let (mut place, mut left) = (self.entries.find(first.0).1, index(blocks));
        for at in held {
            let here = left.min(self.left_of_page(place));
            let page = buffer.bytes_at(self.place, self.start_of(at), self.page_blocks);
            let kept = |place| self.entries.checksum_in(page, place);
            if !(place..place + here).map(kept).all(is_known) {
                return false;
            }
            left -= here;
            if left == 0 {
                return true;
            }
            place = 0;
        }
        panic!("pages of all blocks are pinned");
    }

    /// Returns the number of entries of a page from `place` on.
    fn left_of_page(&self, place: usize) -> usize {
        let blocks = usize::try_from(self.entries.page_blocks()).expect("at most 1000");
        blocks - place
    }

    /// Returns the checksum kept of `block`, one of the pinned blocks from `first` on.
    #[inline]
    pub(crate) fn kept_at(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
    ) -> u32 {
        let (at, place) = self.find_pinned(holder, slot, first.0, block.0);
        let bytes = buffer.bytes_at(self.place, self.start_of(at), self.page_blocks);
        self.entries.checksum_in(bytes, place)
    }

    /// Returns the row sum kept of `block`, one of the pinned blocks from `first` on.
    pub(crate) fn row_sum_at(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
    ) -> RowSum {
        let (at, place) = self.find_pinned(holder, slot, first.0, block.0);
        let bytes = buffer.bytes_at(self.place, self.start_of(at), self.page_blocks);
        self.entries.row_sum_in(bytes, place)
    }

    /// Sets the checksum and the row sum of `block`, one of the pinned blocks from `first` on.
    #[inline]
    pub(crate) fn set_at(
        &mut self,
        buffer: &mut MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
        entry: Entry,
    ) {
        let (at, place) = self.find_pinned(holder, slot, first.0, block.0);
        let bytes = buffer.bytes_at_mut(self.place, self.start_of(at), self.page_blocks);
        self.entries
            .set_in(bytes, place, entry.checksum, entry.row_sum);
        self.changes(at, place, 1);
    }

    /// Like `set_at`, for `count` blocks from `first` on.
    #[inline]
    pub(crate) fn set_run(
        &mut self,
        buffer: &mut MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        count: u32,
        entry: impl Fn(usize) -> Entry,
    ) {
        let held = self.held[self.place_of(holder, slot)];
        let (mut place, mut done) = (self.entries.find(first.0).1, 0);
        for at in held {
            let here = (index(count) - done).min(self.left_of_page(place));
            let bytes = buffer.bytes_at_mut(self.place, self.start_of(at), self.page_blocks);
            self.entries.set_run_in(bytes, place, here, |row| {
                let entry = entry(done + row);
                (entry.checksum, entry.row_sum)
            });
            self.changes(at, place, here);
            done += here;
            if done == index(count) {
                return;
            }
            place = 0;
        }
        panic!("pages of all blocks are held");
    }

    /// Notes that `count` entries from `place` on of a pinned frame have changed.
    #[inline]
    fn changes(&mut self, at: u32, place: usize, count: usize) {
        let frame = &mut self.frames[index(at)];
        assert_eq!(frame.state, State::Good, "a page that is held is there");
        frame.changed.add(self.entries, place, count);
        if frame.dirty == 0 {
            self.changes += 1;
            frame.dirty = self.changes;
            self.dirty.push_back(at);
        }
    }

    /// Returns the number of the oldest change that is not on its member yet; `u64::MAX` if there
    /// is none.
    fn oldest_change(&self) -> u64 {
        let waits = self.dirty.front().map(|&at| self.frames[index(at)].dirty);
        let written = self.written.iter();
        let flies = written.map(|&at| self.frames[index(at)].writing);
        waits.into_iter().chain(flies).min().unwrap_or(u64::MAX)
    }

    /// Returns the time of the next look for aged changes; `None` while no page is dirty.
    pub(crate) fn wake(&self) -> Option<Instant> {
        (!self.dirty.is_empty()).then_some(self.look.unwrap_or(Instant(0)))
    }

    /// Looks for aged changes, if it is time to: their pages are then due to be written.
    pub(crate) fn look_at_age(&mut self, now: Instant) {
        if self.dirty.is_empty() {
            self.look = None;
            return;
        }
        match self.look {
            Some(at) if at > now => return,
            Some(_) => self.changes_aged = self.changes_seen,
            None => {}
        }
        self.changes_seen = self.changes;
        self.look = Some(now.plus_ns(AGE_NS));
    }

    /// Returns true if pages are to be written now.
    fn wants_writes(&self) -> bool {
        let Some(&first) = self.dirty.front() else {
            return false;
        };
        let asked = self.deferred.back().map_or(0, |deferred| deferred.changes);
        self.frames[index(first)].dirty <= asked.max(self.changes_aged)
            || !self.waiting.is_empty()
            || self.dirty.len() > self.frames.len() / 2
    }

    /// Returns true if no page is being written, and no flush and no holder waits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.written.is_empty() && self.deferred.is_empty() && self.waiting.is_empty()
    }

    /// Returns true if `pump_all` has something to do for pages.
    #[inline]
    pub(crate) fn wants_pump(&self) -> bool {
        if self.room || !self.deferred.is_empty() || !self.waiting.is_empty() {
            return self.room || self.wants_io();
        }
        // Most often only the age of changes matters.
        let first = self.dirty.front();
        first.is_some_and(|&first| {
            let due = self.frames[index(first)].dirty <= self.changes_aged;
            (due || self.dirty.len() > self.frames.len() / 2) && self.wants_io()
        })
    }

    #[inline(never)]
    fn wants_io(&self) -> bool {
        (self.written.len() < WRITES_MAX && !self.dirty.is_empty() && self.wants_writes())
            || self.has_flush_to_send()
    }

    /// Returns true if the pages that the first flush waits for are written.
    fn has_flush_to_send(&self) -> bool {
        let first = self.deferred.front();
        first.is_some_and(|first| self.oldest_change() > first.changes)
    }

    // ---- reads and writes of frames -----------------------------------------------------------

    /// Returns the pages that `hold` has to load: the frame of the one with this number; `None`
    /// after the last.
    pub(crate) fn load_at(&self, number: usize) -> Option<u32> {
        self.loads.get(number).copied()
    }

    /// Returns the number of frames.
    pub(crate) fn frame_count(&self) -> u32 {
        u32::try_from(self.frames.len()).expect("frames are counted in 32 bits")
    }

    /// Returns the member whose page a frame has.
    pub(crate) fn member_of(&self, at: u32) -> MemberIndex {
        self.frames[index(at)].member
    }

    /// Returns the first block of a frame's page, counted from the start of the device whose
    /// checksums begin at `start`.
    fn block_from(&self, at: u32, start: BlockIndex) -> BlockIndex {
        start.plus(self.frames[index(at)].page * u64::from(self.page_blocks))
    }

    /// Returns the first block of a frame's page on its member.
    pub(crate) fn block_of(&self, at: u32) -> BlockIndex {
        self.block_from(at, self.start_on(self.member_of(at)))
    }

    /// Returns the first block of a member's checksums.
    pub(crate) fn start_on(&self, member: MemberIndex) -> BlockIndex {
        self.starts[usize::from(member.0)]
    }

    /// Returns the number of blocks of a page on a member.
    pub(crate) fn page_blocks(&self) -> u32 {
        self.page_blocks
    }

    /// Returns the buffer of a frame.
    pub(crate) fn slice_of(&self, at: u32, buffer: &MetadataBuffer) -> BufferSlice {
        buffer.slice_at(self.place, self.start_of(at))
    }

    /// Returns the bytes of a frame.
    pub(crate) fn bytes_of<'buffer>(
        &self,
        at: u32,
        buffer: &'buffer MetadataBuffer,
    ) -> &'buffer [u8] {
        buffer.bytes_at(self.place, self.start_of(at), self.page_blocks)
    }

    /// Returns the room in the metadata buffer for the page that a frame loads: its first block,
    /// and the number of blocks. `None` if the frame is not loading.
    pub(crate) fn room_of_load(&self, at: u32) -> Option<(Place, u32, u32)> {
        let is_loading = self.frames[index(at)].state == State::Loading;
        is_loading.then(|| (self.place, self.start_of(at), self.page_blocks))
    }

    /// Takes a page that was read, or could not be read. Returns its member, and the first holder
    /// that waits for the page.
    pub(crate) fn loaded(
        &mut self,
        at: u32,
        is_read: bool,
        buffer: &mut MetadataBuffer,
    ) -> (MemberIndex, Option<u32>) {
        let page = buffer.bytes_at_mut(self.place, self.start_of(at), self.page_blocks);
        let frame = &mut self.frames[index(at)];
        frame.state = State::Good;
        if is_read {
            frame.changed = open_checksums(self.entries, self.array, frame.page, page);
        } else {
            self.entries.lose(page);
            frame.changed = PageParts::ALL;
        }
        let holder = core::mem::replace(&mut frame.waiter, NONE);
        (frame.member, some(holder))
    }

    /// Lets a holder go on that waited for a page. Returns true if all of its pages are there, and
    /// the next holder that waits for the same page.
    pub(crate) fn stops_waiting(&mut self, holder: u32) -> (bool, Option<u32>) {
        let next = core::mem::replace(&mut self.holders[index(holder)].next, NONE);
        (!self.wait_for_next(holder), some(next))
    }

    /// Begins the next write of a page that is due, and seals the page. Returns its frame.
    pub(crate) fn next_write(
        &mut self,
        generation: u64,
        missing: MemberSet,
        buffer: &mut MetadataBuffer,
    ) -> Option<u32> {
        if self.written.len() >= WRITES_MAX || !self.wants_writes() || self.waits_for_write() {
            return None;
        }
        let at = *self.dirty.front()?;
        let frame = &self.frames[index(at)];
        assert!(!missing.contains(frame.member), "it was given up");
        self.dirty.pop_front();
        self.write_begins(at);
        let page = buffer.bytes_at_mut(self.place, self.start_of(at), self.page_blocks);
        let frame = &mut self.frames[index(at)];
        let changed = core::mem::replace(&mut frame.changed, PageParts::NONE);
        seal_checksums(self.array, frame.page, generation, page, changed);
        Some(at)
    }

    /// Returns true if the next page to write is being written, with earlier contents: one write of
    /// a page at a time.
    pub(crate) fn waits_for_write(&self) -> bool {
        let first = self.dirty.front();
        let is_flying = first.is_some_and(|&at| self.frames[index(at)].writing > 0);
        is_flying && self.written.len() < WRITES_MAX && self.wants_writes()
    }

    /// Writes a page also to the device that is to replace its member. Returns the first block
    /// there.
    pub(crate) fn writes_to(&mut self, at: u32, device: &DeviceRecord) -> BlockIndex {
        self.frames[index(at)].flying += 1;
        self.block_from(at, start(Some(device)))
    }

    /// Handles the end of a write of a page to one of its devices. Returns the member.
    pub(crate) fn written(&mut self, at: u32) -> MemberIndex {
        let frame = &mut self.frames[index(at)];
        let member = frame.member;
        frame.flying -= 1;
        if frame.flying == 0 {
            self.write_ended(at);
        }
        member
    }

    // ---- waiting ------------------------------------------------------------------------------

    /// Puts a holder in line for room. Asks for writes, since dirty pages may be in the way.
    pub(crate) fn wait_for_room(&mut self, holder: u32) {
        self.waiting.push_back(holder);
        self.room = true;
    }

    /// Returns the first holder that waits for room, if there may be some now.
    pub(crate) fn next_waiting(&mut self) -> Option<u32> {
        let room = core::mem::take(&mut self.room);
        self.waiting.front().copied().filter(|_| room)
    }

    /// Notes that the first holder in line has got room.
    pub(crate) fn got_room(&mut self) {
        self.waiting.pop_front();
        self.room = true;
    }

    /// Defers a flush until the pages that changed before are written. Returns false if no
    /// page waits.
    pub(crate) fn defer(&mut self, flush: Flush) -> bool {
        let waits = self.oldest_change() != u64::MAX;
        if waits {
            let changes = self.changes;
            self.deferred.push_back(Deferred { flush, changes });
        }
        waits
    }

    /// Takes the next flush whose pages are written now.
    pub(crate) fn next_flush(&mut self) -> Option<Flush> {
        if !self.has_flush_to_send() {
            return None;
        }
        let first = self.deferred.pop_front();
        first.map(|deferred| deferred.flush)
    }

    // ---- entries ------------------------------------------------------------------------------

    /// Returns the format of the entries.
    pub(crate) fn entries(&self) -> Entries {
        self.entries
    }

    /// Returns the checksum of a block of zeros.
    #[inline]
    pub(crate) fn of_zeros(&self) -> u32 {
        self.of_zeros
    }

    /// Returns true if every block must have a checksum.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    // ---- members ------------------------------------------------------------------------------

    /// Drops the changes of a member that is out.
    pub(crate) fn abandon(&mut self, member: MemberIndex) {
        for at in (0..).take(self.frames.len()) {
            let frame = &mut self.frames[index(at)];
            if frame.member == member && core::mem::take(&mut frame.dirty) > 0 {
                self.may_be_spare(at);
            }
        }
        let frames = &self.frames;
        self.dirty.retain(|&at| frames[index(at)].dirty > 0);
    }

    /// Takes the checksum area of `device`, which is now the member and holds the same pages.
    pub(crate) fn moves(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.starts[usize::from(member.0)] = start(Some(device));
    }

    /// Drops the pages of a position that another device takes. No page may be pinned.
    pub(crate) fn forget(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.starts[usize::from(member.0)] = start(Some(device));
        for at in (0..).take(self.frames.len()) {
            let frame = &self.frames[index(at)];
            if frame.member != member || frame.state == State::Empty {
                continue;
            }
            assert_eq!((frame.pins, frame.writing), (0, 0), "nothing is under way");
            let was_spare = frame.is_spare();
            self.unlink(at);
            self.frames[index(at)] = Frame::EMPTY;
            self.spare += u32::from(!was_spare);
        }
        let frames = &self.frames;
        self.dirty.retain(|&at| frames[index(at)].dirty > 0);
    }
}

/// Returns a number in a list; `None` at its end.
fn some(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

/// Returns the first block of a device's checksums.
fn start(device: Option<&DeviceRecord>) -> BlockIndex {
    let area = device.and_then(|device| {
        let area = device.area(AreaKind::CHECKSUMS)?;
        Some(area.offset_bytes / u64::from(device.block_size.bytes()))
    });
    BlockIndex(area.unwrap_or(0))
}
