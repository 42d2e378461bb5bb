//! The pages of checksums that are in memory: a bounded cache, shared by all columns.
//!
//! ```text
//!  empty ──wanted──▶ loading ──▶ clean ──set──▶ dirty ──▶ being written ──▶ clean
//!    ▲                             │              ▲              │
//!    └──── another is wanted ──────┘              └──set anew────┘
//! ```
//!
//! Who needs pages, the *holder*, gets all of them at once or waits in line holding none, so that
//! nobody waits for somebody who waits. A page that is held stays. Pages that changed are written
//! when room is short, and before a flush that others build on.

use crate::{
    Engine, Mutation, NEWCOMER, PAGE_IO, SYSTEM_IO,
    config::Persistence,
    index,
    output::{OutReason, Output},
    slots::SlotSet,
    system_io::{MetadataBuffer, Place, Purpose},
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use spindles_block::{
    BlockIndex, BlockSize, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::{
    AreaKind, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, Entries, RowSum, Uuid,
    block_checksum, open_checksums, seal_checksums, stored_checksum,
};

/// No frame, or the end of a list.
const NONE: u32 = u32::MAX;
/// Pages that are written at once.
const WRITES_MAX: u32 = 16;
/// Flushes of the engine that may wait for pages at once: one of each purpose.
const DEFERRED_MAX: usize = 16;

/// Pages that have the entries of `ROWS_MAX` rows of a member, at most.
const HELD_MAX: usize = 3;

/// Room for a page.
#[derive(Clone, Copy, Debug)]
struct Frame {
    member: MemberIndex,
    page: u64,
    /// The next in the bucket.
    next: u32,
    state: State,
    /// How many hold it.
    pins: u32,
    /// When it became dirty, as a number that rises; 0 while it is not.
    dirty: u64,
    /// What `dirty` was when the write under way began; 0 while there is none.
    writing: u64,
    /// Writes of it under way: to its member, and to the device that is to replace that.
    flying: u8,
    /// Somebody wanted it since the hand came by.
    referenced: bool,
    /// The first of the holders that wait for it.
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
        flying: 0,
        referenced: false,
        waiter: NONE,
    };

    /// Whether another page may have the room.
    fn is_spare(&self) -> bool {
        self.pins == 0 && self.dirty == 0 && self.writing == 0
    }
}

/// Pages that a holder needs for one slot: of one member, at most `HELD_MAX`.
#[derive(Clone, Copy, Debug)]
struct Want {
    slot: u8,
    member: MemberIndex,
    first: u64,
    last: u64,
}

/// Who needs pages: a column, or a member whose rows are being made zeros.
#[derive(Clone, Copy, Debug)]
struct Holder {
    /// The slots of which it has pages.
    slots: SlotSet,
    /// The next that waits for the same page.
    next: u32,
}

/// A flush that waits until pages that changed before it are written.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    flush: Flush,
    /// Changes up to this one come first.
    changes: u64,
}

/// Whose flush it is.
#[derive(Clone, Copy, Debug)]
enum Flush {
    /// The engine's, of these members.
    System(Purpose, MemberSet),
    /// A column's, of all members.
    Column(u32),
}

/// The pages in memory.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    array: Uuid,
    pub(crate) entries: Entries,
    /// Where the checksums of each member begin.
    starts: Vec<BlockIndex>,
    /// Blocks of a page on the member.
    page_blocks: u32,
    place: Place,
    frames: Vec<Frame>,
    /// Of buckets, by member and page.
    heads: Vec<u32>,
    shift: u32,
    /// Where the search for room goes on.
    hand: usize,
    /// Frames that are empty, or may be given to another page.
    spare: u32,
    /// Frames that are dirty, the longest first.
    dirty: VecDeque<u32>,
    changes: u64,
    /// Writes under way.
    writes: u32,
    deferred: VecDeque<Deferred>,
    holders: Vec<Holder>,
    /// Holders that wait for room, in line.
    waiting: VecDeque<u32>,
    /// Something changed for who waits for room.
    room: bool,
    /// For each holder and slot.
    held: Vec<[u32; HELD_MAX]>,
    slots: usize,
    wanted: Vec<Want>,
    loads: Vec<u32>,
    /// The checksum of a block of zeros.
    pub(crate) of_zeros: u32,
    /// Whether a block without a checksum can't be.
    pub(crate) complete: bool,
}

/// What an attempt to hold pages came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    All,
    /// Some are on their way.
    Loading,
    /// There is no room.
    NoRoom,
}

impl Pages {
    /// The pages of an array whose blocks have checksums, with room for so many pages, or for what
    /// one holder may need.
    pub(crate) fn new(
        persistence: &Persistence,
        block_size: BlockSize,
        slots: u8,
        columns: u32,
        pages: u32,
        buffer: &mut MetadataBuffer,
    ) -> Option<Self> {
        if persistence.array.checksum == ChecksumKind::None {
            return None;
        }
        let members = persistence.devices.len();
        let page_bytes = u32::try_from(CHECKSUM_PAGE_BYTES).expect("4096");
        let page_blocks = page_bytes / block_size.bytes();
        let holder_max = HELD_MAX * usize::from(slots);
        let frames = pages.max(u32::try_from(holder_max).expect("few"));
        let buckets = frames.next_power_of_two().max(2);
        let holders = index(columns) + members;
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
            writes: 0,
            deferred: VecDeque::with_capacity(DEFERRED_MAX + index(columns)),
            holders: vec![
                Holder {
                    slots: SlotSet::EMPTY,
                    next: NONE
                };
                holders
            ],
            waiting: VecDeque::with_capacity(holders),
            room: false,
            held: vec![[NONE; HELD_MAX]; holders * usize::from(slots)],
            slots: usize::from(slots),
            wanted: Vec::with_capacity(usize::from(slots)),
            loads: Vec::with_capacity(holder_max),
            of_zeros: block_checksum(&zeros),
            complete: persistence.array.region_groups > 0,
        })
    }

    /// Forgets what was wanted.
    fn want_nothing(&mut self) {
        self.wanted.clear();
    }

    /// The checksums of `blocks` blocks of a member's data area from `first` on are wanted.
    fn want(&mut self, slot: u8, member: MemberIndex, first: BlockIndex, blocks: u32) {
        let last = first.0 + u64::from(blocks) - 1;
        let want = Want {
            slot,
            member,
            first: self.entries.find(first.0).0,
            last: self.entries.find(last).0,
        };
        let pages = usize::try_from(want.last - want.first).map(|further| further + 1);
        assert!(pages.is_ok_and(|pages| pages <= HELD_MAX), "few rows");
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

    /// Something ended that kept a frame.
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

    /// Room for a page; there is some.
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

    /// Tries to hold what is wanted. Pages that are to be read are in `loads` then.
    fn hold(&mut self, holder: u32, in_line: bool) -> Held {
        self.let_go(holder);
        self.loads.clear();
        let mut missing = 0;
        for at in 0..self.wanted.len() {
            let want = self.wanted[at];
            let mut held = [NONE; HELD_MAX];
            for (held, page) in held.iter_mut().zip(want.first..=want.last) {
                match self.find(want.member, page) {
                    Some(frame) => {
                        self.pin(frame);
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
                self.let_go(holder);
                return Held::NoRoom;
            }
            self.make_room(holder);
        }
        if self.wait_for_next(holder) {
            Held::Loading
        } else {
            Held::All
        }
    }

    /// Takes room for the pages that are wanted and not there.
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

    /// Puts a holder in line for the first of its pages that is on its way. Whether there is one.
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

    /// A holder needs its pages no more.
    #[inline(never)]
    pub(crate) fn let_go(&mut self, holder: u32) {
        let slots = core::mem::take(&mut self.holders[index(holder)].slots);
        for slot in slots.iter() {
            let place = self.place_of(holder, slot);
            for at in core::mem::replace(&mut self.held[place], [NONE; HELD_MAX]) {
                if at != NONE {
                    self.unpin(at);
                }
            }
        }
    }

    /// The frame that has the entry of a block, and where in it; `first` is the first that is held.
    fn find_held(&self, holder: u32, slot: u8, first: u64, block: u64) -> (u32, usize) {
        let (page, place) = self.entries.find(block);
        let which = usize::try_from(page - self.entries.find(first).0).expect("few");
        (self.held[self.place_of(holder, slot)][which], place)
    }

    fn start_of(&self, at: u32) -> u32 {
        at * self.page_blocks
    }

    /// Whether all these blocks have these checksums, as far as they have any.
    #[inline]
    pub(crate) fn agree(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot): (u32, u8),
        first: BlockIndex,
        sums: &[u32],
    ) -> bool {
        (first.0..)
            .map(BlockIndex)
            .zip(sums)
            .all(|(block, &sum)| self.agrees_at(buffer, (holder, slot, first), block, sum))
    }

    /// As `agree`, of one of the blocks from `first` on that are held.
    #[inline]
    pub(crate) fn agrees_at(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
        sum: u32,
    ) -> bool {
        let kept = self.kept_at(buffer, (holder, slot, first), block);
        kept == stored_checksum(sum) || kept == 0 && !self.complete
    }

    /// What is kept of one of the blocks from `first` on that are held.
    #[inline]
    pub(crate) fn kept_at(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
    ) -> u32 {
        let (at, place) = self.find_held(holder, slot, first.0, block.0);
        let bytes = buffer.bytes_at(self.place, self.start_of(at), self.page_blocks);
        self.entries.checksum_in(bytes, place)
    }

    /// The row sum that is kept beside that checksum.
    pub(crate) fn row_sum_at(
        &self,
        buffer: &MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
    ) -> RowSum {
        let (at, place) = self.find_held(holder, slot, first.0, block.0);
        let bytes = buffer.bytes_at(self.place, self.start_of(at), self.page_blocks);
        self.entries.row_sum_in(bytes, place)
    }

    /// Keeps the checksum of one of the blocks from `first` on that are held, and the sum of its row.
    #[inline]
    pub(crate) fn set_at(
        &mut self,
        buffer: &mut MetadataBuffer,
        (holder, slot, first): (u32, u8, BlockIndex),
        block: BlockIndex,
        sum: u32,
        row_sum: RowSum,
    ) {
        let (at, place) = self.find_held(holder, slot, first.0, block.0);
        let bytes = buffer.bytes_at_mut(self.place, self.start_of(at), self.page_blocks);
        self.entries
            .set_in(bytes, place, stored_checksum(sum), row_sum);
        let frame = &mut self.frames[index(at)];
        assert_eq!(frame.state, State::Good, "a page that is held is there");
        if frame.dirty == 0 {
            self.changes += 1;
            frame.dirty = self.changes;
            self.dirty.push_back(at);
        }
    }

    /// Which change is not on its member yet, of all the oldest.
    fn oldest_change(&self) -> u64 {
        let waits = self.dirty.front().map(|&at| self.frames[index(at)].dirty);
        let writing = || {
            let frames = self.frames.iter();
            frames
                .map(|frame| frame.writing)
                .filter(|&change| change > 0)
        };
        let flies = if self.writes > 0 {
            writing().min()
        } else {
            None
        };
        waits.into_iter().chain(flies).min().unwrap_or(u64::MAX)
    }

    /// Whether pages are to be written now.
    fn wants_writes(&self) -> bool {
        let Some(&first) = self.dirty.front() else {
            return false;
        };
        let asked = self.deferred.back().map_or(0, |deferred| deferred.changes);
        self.frames[index(first)].dirty <= asked
            || !self.waiting.is_empty()
            || self.dirty.len() > self.frames.len() / 2
    }

    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.writes == 0 && self.deferred.is_empty() && self.waiting.is_empty()
    }

    /// Whether `pump_all` has something to do for pages.
    #[inline(never)]
    pub(crate) fn wants_pump(&self) -> bool {
        self.room
            || (self.writes < WRITES_MAX && !self.dirty.is_empty() && self.wants_writes())
            || self.has_flush_to_send()
    }

    /// Whether the pages are written that the first flush waits for.
    fn has_flush_to_send(&self) -> bool {
        let first = self.deferred.front();
        first.is_some_and(|first| self.oldest_change() > first.changes)
    }

    /// A member is out: what changed is not written to it any more.
    pub(crate) fn give_up(&mut self, member: MemberIndex) {
        for at in (0..).take(self.frames.len()) {
            let frame = &mut self.frames[index(at)];
            if frame.member == member && core::mem::take(&mut frame.dirty) > 0 {
                self.may_be_spare(at);
            }
        }
        let frames = &self.frames;
        self.dirty.retain(|&at| frames[index(at)].dirty > 0);
    }

    /// Another device is the member, and holds the same pages.
    pub(crate) fn moves(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.starts[usize::from(member.0)] = start(Some(device));
    }

    /// Another device takes a position; nobody holds a page of it.
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

/// Where the checksums of a device begin.
fn start(device: Option<&DeviceRecord>) -> BlockIndex {
    let area = device.and_then(|device| {
        let area = device.area(AreaKind::CHECKSUMS)?;
        Some(area.offset_bytes / u64::from(device.block_size.bytes()))
    });
    BlockIndex(area.unwrap_or(0))
}

impl Engine {
    /// Whether a holder has all pages that it needs. Otherwise it is told when it has, save where
    /// its members are missing then.
    #[inline(never)]
    pub(crate) fn hold_pages(&mut self, holder: u32) -> bool {
        match self.try_to_hold(holder, false) {
            Held::All => true,
            Held::Loading => false,
            Held::NoRoom => {
                let pages = self.pages.as_mut().expect("the caller looked");
                pages.waiting.push_back(holder);
                // Its pages may be in the way, being dirty.
                pages.room = true;
                false
            }
        }
    }

    fn try_to_hold(&mut self, holder: u32, in_line: bool) -> Held {
        self.want_pages(holder);
        let pages = self.pages.as_mut().expect("the caller looked");
        let held = pages.hold(holder, in_line);
        for load in 0..pages.loads.len() {
            self.load_page(load);
        }
        held
    }

    /// Notes which pages a holder needs.
    fn want_pages(&mut self, holder: u32) {
        let pages = self.pages.as_mut().expect("the caller looked");
        pages.want_nothing();
        if let Some(member) = index(holder).checked_sub(self.columns.len()) {
            let (first, blocks) = self.zeroing.next_sums(member);
            let member = MemberIndex(u8::try_from(member).expect("at most 64"));
            return pages.want(0, member, first, blocks);
        }
        let column = &self.columns[index(holder)];
        if column.direct {
            return pages.want(0, column.member, column.offset, column.blocks);
        }
        let slots = self.groups[index(holder)].slots();
        for slot in column.plan.reads.or(column.plan.writes).iter() {
            let place = &slots[usize::from(slot)];
            if !self.missing.contains(place.member) {
                let first = place.offset.plus(u64::from(column.low));
                pages.want(slot, place.member, first, column.blocks);
            }
        }
    }

    fn load_page(&mut self, load: usize) {
        let pages = self.pages.as_ref().expect("the caller looked");
        self.page_io(pages.loads[load], Operation::Read);
    }

    fn page_io(&mut self, at: u32, operation: Operation) {
        let pages = self.pages.as_ref().expect("there are pages");
        let frame = &pages.frames[index(at)];
        let start = pages.starts[usize::from(frame.member.0)];
        let page = frame.page * u64::from(pages.page_blocks);
        let io = MemberIo {
            id: MemberIoId(SYSTEM_IO | PAGE_IO | at),
            member: frame.member,
            operation,
            block: start.plus(page),
            blocks: pages.page_blocks,
            buffer: (self.metadata_buffer).slice_at(pages.place, pages.start_of(at)),
        };
        self.output(Output::Member(io));
    }

    /// A page that is written to a member goes to the device too that is to replace it.
    fn page_beside(&mut self, at: u32, member: MemberIndex) {
        let Some(device) = self.secret_newcomer(member) else {
            return;
        };
        let first = start(Some(device));
        let newcomer = self.newcomer();
        let pages = self.pages.as_mut().expect("there are pages");
        let frame = &mut pages.frames[index(at)];
        frame.flying += 1;
        let io = MemberIo {
            id: MemberIoId(SYSTEM_IO | PAGE_IO | NEWCOMER | at),
            member: newcomer,
            operation: Operation::Write { fua: false },
            block: first.plus(frame.page * u64::from(pages.page_blocks)),
            blocks: pages.page_blocks,
            buffer: (self.metadata_buffer).slice_at(pages.place, pages.start_of(at)),
        };
        self.output(Output::Member(io));
    }

    /// Where the page goes that this read brings.
    pub(crate) fn page_read(&self, at: u32) -> Option<(Place, u32, u32)> {
        let pages = self.pages.as_ref()?;
        let loading = pages.frames[index(at)].state == State::Loading;
        loading.then(|| (pages.place, pages.start_of(at), pages.page_blocks))
    }

    /// A page was read, or written.
    pub(crate) fn page_io_done(&mut self, at: u32, result: MemberResult) {
        let pages = self.pages.as_mut().expect("there are pages");
        let frame = &mut pages.frames[index(at)];
        if frame.state == State::Loading {
            return self.page_loaded(at, result);
        }
        let member = frame.member;
        frame.flying -= 1;
        if frame.flying == 0 {
            frame.writing = 0;
            pages.writes -= 1;
            pages.may_be_spare(at);
        }
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.nothing_more();
        }
        self.flush_deferred();
    }

    fn page_loaded(&mut self, at: u32, result: MemberResult) {
        let pages = self.pages.as_mut().expect("there are pages");
        let start = pages.start_of(at);
        let page = (self.metadata_buffer).bytes_at_mut(pages.place, start, pages.page_blocks);
        let frame = &mut pages.frames[index(at)];
        frame.state = State::Good;
        if result.is_ok() {
            open_checksums(pages.entries, pages.array, frame.page, page);
        } else {
            pages.entries.lose(page);
        }
        let member = frame.member;
        let mut holder = core::mem::replace(&mut frame.waiter, NONE);
        if let Err(error @ spindles_block::MemberError::Gone) = result {
            self.put_out(member, OutReason::Error(error));
        }
        while holder != NONE {
            let pages = self.pages.as_mut().expect("there are pages");
            let next = core::mem::replace(&mut pages.holders[index(holder)].next, NONE);
            if !pages.wait_for_next(holder) {
                self.pages_held(holder);
            }
            holder = next;
        }
    }

    /// A holder has all pages that it waited for.
    fn pages_held(&mut self, holder: u32) {
        match index(holder).checked_sub(self.columns.len()) {
            None => self.ready.push_back(holder),
            Some(member) => {
                self.zero_run(MemberIndex(u8::try_from(member).expect("at most 64")));
            }
        }
    }

    /// Lets those that wait for room have it. Whether anybody got all of its pages.
    #[cold]
    pub(crate) fn pump_waiting_for_pages(&mut self) -> bool {
        let mut any = false;
        while let Some(pages) = &mut self.pages
            && core::mem::take(&mut pages.room)
            && let Some(&holder) = pages.waiting.front()
        {
            let held = self.try_to_hold(holder, true);
            if held == Held::NoRoom {
                break;
            }
            let pages = self.pages.as_mut().expect("looked at");
            pages.waiting.pop_front();
            pages.room = true;
            if held == Held::All {
                self.pages_held(holder);
                any = true;
            }
        }
        any
    }

    /// Writes pages that are to be written, as the last thing that an input causes: what is written
    /// must not change before the driver took it.
    #[cold]
    pub(crate) fn write_pages(&mut self) {
        let generation = self.metadata.generation();
        while let Some(pages) = &mut self.pages
            && pages.writes < WRITES_MAX
            && pages.wants_writes()
            && let Some(&at) = pages.dirty.front()
        {
            let start = pages.start_of(at);
            let frame = &mut pages.frames[index(at)];
            if frame.writing > 0 {
                return; // One write of a page at a time.
            }
            pages.dirty.pop_front();
            assert!(!self.missing.contains(frame.member), "it was given up");
            frame.writing = core::mem::take(&mut frame.dirty);
            frame.flying = 1;
            pages.writes += 1;
            let member = frame.member;
            let page = (self.metadata_buffer).bytes_at_mut(pages.place, start, pages.page_blocks);
            seal_checksums(pages.array, frame.page, generation, page);
            self.page_io(at, Operation::Write { fua: false });
            self.page_beside(at, member);
        }
        self.flush_deferred();
    }

    /// Whether a flush waits for pages that changed: then it is sent when they are written.
    pub(crate) fn defers_flush(&mut self, members: MemberSet, purpose: Purpose) -> bool {
        let careless = purpose == Purpose::JournalRelease
            && self.mutated(Mutation::ReuseJournalWithoutChecksums);
        let Some(pages) = &mut self.pages else {
            return false;
        };
        if !purpose.needs_pages() || pages.oldest_change() == u64::MAX || careless {
            return false;
        }
        pages.deferred.push_back(Deferred {
            flush: Flush::System(purpose, members),
            changes: pages.changes,
        });
        true
    }

    /// The same for the flush of a column: what was written is durable only with its checksums.
    pub(crate) fn defers_flush_of_column(&mut self, id: u32) -> bool {
        let careless = self.mutated(Mutation::SkipPagesOfDurable)
            && !self.columns[index(id)].settling.is_under_way();
        let Some(pages) = &mut self.pages else {
            return false;
        };
        if careless || pages.oldest_change() == u64::MAX {
            return false;
        }
        pages.deferred.push_back(Deferred {
            flush: Flush::Column(id),
            changes: pages.changes,
        });
        true
    }

    /// Sends the flushes that waited for pages that are written now.
    fn flush_deferred(&mut self) {
        while let Some(pages) = &mut self.pages
            && pages.has_flush_to_send()
            && let Some(first) = pages.deferred.pop_front()
        {
            match first.flush {
                Flush::System(purpose, members) => self.send_flush(members, purpose),
                Flush::Column(id) => self.send_flush_of_column(id),
            }
        }
    }
}
