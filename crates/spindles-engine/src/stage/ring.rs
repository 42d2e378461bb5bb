//! The rings of all holders, the batches in them, and the memory of their contents.
//!
//! Each holder has eight segments. A batch takes a part of one segment on each of its holders.
//! Batches are released in their order, so a segment is free when the tail is above its last batch.
//!
//! ```text
//! segment   becomes    when
//! Free      Filling    the segment before it lacks room for a column
//! Filling   Full       it lacks room itself
//! Filling   Free       the tail is above its last batch, durably on all holders
//! Full      Free       the same
//!
//! release    waits for                                      then
//! Resting    batches whose blocks are all placed            flushes places and holders: Flushing
//! Flushing   this flush                                     writes the tail: Recording
//! Recording  a header with the tail, durable on all holders frees space: Resting
//! ```

use crate::index;
use alloc::{collections::VecDeque, vec, vec::Vec};
use spindles_block::{Instant, MemberIndex, MemberSet};
use spindles_format::{STAGE_SEGMENTS, StageColumn, StageLayout};

const SEGMENTS: usize = STAGE_SEGMENTS as usize;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentState {
    Free,
    Filling,
    Full,
}

/// What happens to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentMove {
    Open,
    Close,
    Release,
}

impl SegmentState {
    /// Every legal move. `None` if the move is illegal.
    const fn after(self, step: SegmentMove) -> Option<Self> {
        match (self, step) {
            (Self::Free, SegmentMove::Open) => Some(Self::Filling),
            (Self::Filling, SegmentMove::Close) => Some(Self::Full),
            (Self::Filling | Self::Full, SegmentMove::Release) => Some(Self::Free),
            (Self::Free, SegmentMove::Close | SegmentMove::Release)
            | (Self::Filling, SegmentMove::Open)
            | (Self::Full, SegmentMove::Open | SegmentMove::Close) => None,
        }
    }
}

/// A segment of one holder.
#[derive(Clone, Copy, Debug)]
struct Segment {
    state: SegmentState,
    /// The number of its last batch.
    last: u64,
}

impl Segment {
    const FREE: Self = Self {
        state: SegmentState::Free,
        last: 0,
    };

    fn take(&mut self, step: SegmentMove) {
        let next = self.state.after(step);
        self.state = next.unwrap_or_else(|| panic!("{step:?} in state {:?}", self.state));
    }
}

/// The ring of one holder.
#[derive(Clone, Copy, Debug)]
struct HolderRing {
    segments: [Segment; SEGMENTS],
    current: usize,
    /// Blocks of the current segment that are taken.
    used: u32,
}

impl HolderRing {
    /// An empty ring, in which segment 0 is the next.
    const EMPTY: Self = Self {
        segments: [Segment::FREE; SEGMENTS],
        current: SEGMENTS - 1,
        used: 0,
    };

    /// Returns the blocks that any sequence of columns of up to `longest` blocks can take.
    fn room(&self, segment_blocks: u32, longest: u32) -> u32 {
        let usable = |blocks: u32| (blocks + 1).saturating_sub(longest);
        let rest = match self.segments[self.current].state {
            SegmentState::Filling => usable(segment_blocks - self.used),
            SegmentState::Free | SegmentState::Full => 0,
        };
        rest + self.free_next() * usable(segment_blocks)
    }

    /// Returns the number of free segments that follow the current one.
    fn free_next(&self) -> u32 {
        let next = (1..=SEGMENTS).map(|step| (self.current + step) % SEGMENTS);
        let free = next.take_while(|at| self.segments[*at].state == SegmentState::Free);
        u32::try_from(free.count()).expect("eight at most")
    }

    /// Returns the number of free segments.
    fn free(&self) -> u32 {
        let segments = self.segments.iter();
        let free = segments.filter(|segment| segment.state == SegmentState::Free);
        u32::try_from(free.count()).expect("eight at most")
    }

    /// Returns true if a single column of this many blocks fits.
    fn fits(&self, segment_blocks: u32, blocks: u32) -> bool {
        let is_filling = self.segments[self.current].state == SegmentState::Filling;
        is_filling && segment_blocks - self.used >= blocks || self.free_next() > 0
    }

    /// Takes blocks for a column of a batch. Returns its segment, and the block in that.
    fn append(&mut self, number: u64, segment_blocks: u32, blocks: u32) -> (u32, u32) {
        let is_filling = self.segments[self.current].state == SegmentState::Filling;
        if !is_filling || segment_blocks - self.used < blocks {
            if is_filling {
                self.segments[self.current].take(SegmentMove::Close);
            }
            self.current = (self.current + 1) % SEGMENTS;
            self.segments[self.current].take(SegmentMove::Open);
            self.used = 0;
        }
        let at = self.used;
        self.used += blocks;
        self.segments[self.current].last = number;
        (u32::try_from(self.current).expect("eight"), at)
    }

    /// Frees the segments whose batches are all below the tail.
    fn release(&mut self, tail: u64) {
        for segment in &mut self.segments {
            if segment.state != SegmentState::Free && segment.last < tail {
                segment.take(SegmentMove::Release);
            }
        }
    }

    /// Notes a batch of an earlier opening in a segment.
    fn holds(&mut self, segment: u32, number: u64) {
        let at = index(segment);
        let found = &mut self.segments[at];
        if found.state == SegmentState::Free {
            found.take(SegmentMove::Open);
            found.take(SegmentMove::Close);
        }
        found.last = found.last.max(number);
        if number >= self.segments[self.current].last {
            self.current = at;
        }
    }
}

/// A batch that is not released.
#[derive(Clone, Copy, Debug)]
struct Batch {
    number: u64,
    holders: MemberSet,
    /// Blocks that placing still has to write from this batch.
    claims: u32,
    /// The last batch with newer contents of a block that was not placed from this one.
    heir: u64,
    answered: bool,
    durable: bool,
    /// When it was answered; `None` until then, and if a holder failed first.
    since: Option<Instant>,
    /// The length of its memory in blocks, skipped blocks included.
    memory: u32,
}

/// Progress of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Resting,
    /// All batches below this number are placed. The flush makes those up to `mark` durable.
    Flushing {
        below: u64,
        mark: u64,
    },
    Recording {
        tail: u64,
    },
}

/// The memory of staged contents: blocks that are taken and freed in turn.
#[derive(Clone, Copy, Debug)]
struct Memory {
    blocks: u32,
    next: u32,
    used: u32,
}

/// Contents in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The first block.
    pub slot: u32,
    /// The blocks taken, with those skipped at the end of the memory.
    pub takes: u32,
}

impl Memory {
    /// Takes adjacent blocks. `None` if there are too few.
    fn take(&mut self, blocks: u32) -> Option<Room> {
        let left = self.blocks - self.next;
        let skipped = if left < blocks { left } else { 0 };
        let takes = skipped + blocks;
        if takes > self.blocks - self.used {
            return None;
        }
        let slot = if skipped > 0 { 0 } else { self.next };
        self.next = (slot + blocks) % self.blocks.max(1);
        self.used += takes;
        Some(Room { slot, takes })
    }
}

/// A header that records a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailHeader {
    /// The number of the header.
    pub number: u64,
    /// The tail.
    pub tail: u64,
}

/// The batches that are not released, and their places.
#[derive(Clone, Debug)]
pub struct Ring {
    layout: StageLayout,
    rings: Vec<HolderRing>,
    batches: VecDeque<Batch>,
    batches_max: usize,
    memory: Memory,
    /// Blocks of each ring, and batches, that are reserved for writes that wait.
    reserved: u32,
    reserved_batches: usize,
    /// The number of the last header.
    number: u64,
    /// The first batch that counts.
    tail: u64,
    /// Batches up to this number are durable.
    durable: u64,
    /// Holders that write their next tail to slot 1; others write it to slot 0.
    slots: MemberSet,
    release: Release,
}

impl Ring {
    /// Creates empty rings of this many holders. Numbers follow `number`. Up to `batches_max`
    /// batches are kept, with `memory_blocks` blocks of contents.
    #[must_use]
    pub fn new(
        layout: StageLayout,
        holders: u8,
        number: u64,
        memory_blocks: u32,
        batches_max: u32,
    ) -> Self {
        Self {
            layout,
            rings: vec![HolderRing::EMPTY; holders.into()],
            batches: VecDeque::with_capacity(index(batches_max)),
            batches_max: index(batches_max),
            memory: Memory {
                blocks: memory_blocks,
                next: 0,
                used: 0,
            },
            reserved: 0,
            reserved_batches: 0,
            number,
            tail: number + 1,
            durable: 0,
            slots: MemberSet::EMPTY,
            release: Release::Resting,
        }
    }

    /// The blocks of memory that are taken.
    #[must_use]
    pub fn memory_used(&self) -> u32 {
        self.memory.used
    }

    // ---- space --------------------------------------------------------------------------------

    /// Reserves space for a write of this many blocks on every holder, and takes memory. `None` if
    /// there is too little: nothing is taken.
    pub fn reserve(&mut self, blocks: u32) -> Option<Room> {
        let takes = self.layout.header_blocks() + blocks;
        let longest = self.layout.header_blocks() + self.layout.column_blocks_max();
        assert!(takes <= longest, "a write is no longer than a column");
        // All that waits could become a single column.
        let longest = longest.min(self.reserved + takes);
        let segment_blocks = self.layout.segment_blocks();
        let fits = |ring: &HolderRing| match self.reserved {
            0 => ring.fits(segment_blocks, takes),
            reserved => reserved + takes <= ring.room(segment_blocks, longest),
        };
        let has_batch = self.batches.len() + self.reserved_batches < self.batches_max;
        if !has_batch || !self.rings.iter().all(fits) {
            return None;
        }
        let room = self.memory.take(blocks)?;
        self.reserved += takes;
        self.reserved_batches += 1;
        Some(room)
    }

    /// Gives back what one write reserved in the rings: the batch with it has its space.
    pub fn unreserve(&mut self, blocks: u32) {
        self.reserved -= self.layout.header_blocks() + blocks;
        self.reserved_batches -= 1;
    }

    /// Returns true if all these holders have room for columns of this many blocks.
    #[must_use]
    pub fn has_room(&self, holders: &[MemberIndex], blocks: u32) -> bool {
        let takes = self.layout.header_blocks() + blocks;
        let fits = |holder: &MemberIndex| {
            let ring = &self.rings[usize::from(holder.0)];
            ring.fits(self.layout.segment_blocks(), takes)
        };
        self.batches.len() < self.batches_max && holders.iter().all(fits)
    }

    /// Appends a batch whose columns have these holders and lengths. `memory` blocks of memory
    /// belong to it. Fills `columns` with their places, and returns the number of the batch.
    pub fn append(
        &mut self,
        holders: &[MemberIndex],
        length: impl Fn(u8) -> u32,
        memory: u32,
        columns: &mut [StageColumn],
    ) -> u64 {
        self.number += 1;
        for ((at, holder), column) in (0..).zip(holders).zip(columns) {
            let blocks = self.layout.header_blocks() + length(at);
            let ring = &mut self.rings[usize::from(holder.0)];
            let (segment, block) = ring.append(self.number, self.layout.segment_blocks(), blocks);
            *column = StageColumn {
                holder: *holder,
                place: self.layout.segment_place(segment) + block,
            };
        }
        assert!(self.batches.len() < self.batches_max, "space is reserved");
        self.batches.push_back(Batch {
            number: self.number,
            holders: holders.iter().copied().collect(),
            claims: 0,
            heir: 0,
            answered: false,
            durable: false,
            since: None,
            memory,
        });
        self.number
    }

    /// Moves the memory of a batch whose write failed to the batch that has its contents now. The
    /// former counts as answered, and as durable, only with the latter: no header may call a batch
    /// durable that a holder lacks.
    pub fn moved(&mut self, from: u64, to: u64) {
        let memory = core::mem::take(&mut self.batch(from).memory);
        let last = self.batches.back_mut().expect("it was appended");
        assert_eq!(last.number, to, "the last batch");
        last.memory += memory;
    }

    // ---- the state of batches -----------------------------------------------------------------

    fn batch(&mut self, number: u64) -> &mut Batch {
        let at = self.batches.partition_point(|batch| batch.number < number);
        let batch = self.batches.get_mut(at);
        batch
            .filter(|batch| batch.number == number)
            .expect("the batch is not released")
    }

    /// Notes that a block is to be placed from a batch.
    pub fn claim(&mut self, number: u64) {
        self.batch(number).claims += 1;
    }

    /// Notes that a block need not be placed from a batch, or not again.
    pub fn unclaim(&mut self, number: u64) {
        let claims = &mut self.batch(number).claims;
        *claims = claims.checked_sub(1).expect("a block is placed once");
    }

    /// Notes that the batch `heir` has newer contents of a block that was not placed.
    pub fn superseded(&mut self, number: u64, heir: u64) {
        let batch = self.batch(number);
        batch.heir = batch.heir.max(heir);
    }

    /// Notes that all holders of the last batch answered. With `fua` their columns are durable.
    pub fn answered(&mut self, number: u64, fua: bool, now: Instant) {
        self.batch(number).since = Some(now);
        // Also those whose contents it has because a holder failed.
        let unanswered = self.batches.iter_mut().filter(|batch| !batch.answered);
        for batch in unanswered {
            (batch.answered, batch.durable) = (true, fua);
        }
        self.count_durable();
    }

    /// Returns when the first batch was answered that is not released.
    #[must_use]
    pub fn oldest(&self) -> Option<Instant> {
        self.batches.iter().find_map(|batch| batch.since)
    }

    /// Returns when the first batch was answered that is not durable.
    #[must_use]
    pub fn oldest_volatile(&self) -> Option<Instant> {
        let mut volatile = self.batches.iter().filter(|batch| !batch.durable);
        volatile.find_map(|batch| batch.since)
    }

    fn count_durable(&mut self) {
        let later = self
            .batches
            .iter()
            .filter(|batch| batch.number > self.durable);
        let durable = later.take_while(|batch| batch.durable);
        self.durable = durable.last().map_or(self.durable, |batch| batch.number);
    }

    /// Returns the holders to flush so that all answered batches are durable, and the last of
    /// them.
    #[must_use]
    pub fn flush(&self) -> (MemberSet, u64) {
        let mut answered = self.batches.iter().filter(|batch| batch.answered);
        let volatile = answered.clone().filter(|batch| !batch.durable);
        let holders = volatile.fold(MemberSet::EMPTY, |all, batch| all.union(batch.holders));
        let last = answered.next_back();
        (holders, last.map_or(0, |batch| batch.number))
    }

    /// Handles the end of such a flush.
    pub fn flushed(&mut self, mark: u64) {
        for batch in self.batches.iter_mut().filter(|batch| batch.answered) {
            batch.durable |= batch.number <= mark;
        }
        self.count_durable();
    }

    /// Returns the number up to which batches are durable; 0 for none.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the number of the last header.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the first batch that counts.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Returns true if no batch is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the largest of three shares in use, in 256ths: of the memory, of the fullest ring,
    /// and of the room for batches.
    #[must_use]
    pub fn fill(&self) -> u32 {
        let share = |used: u64, all: u64| {
            let share = used * 256 / all.max(1);
            u32::try_from(share).expect("at most 256")
        };
        let segments = |ring: &HolderRing| u64::from(STAGE_SEGMENTS - ring.free());
        let fullest = self.rings.iter().map(segments).max().unwrap_or(0);
        let batches = self.batches.len() as u64;
        let memory = share(self.memory.used.into(), self.memory.blocks.into());
        let ring = share(fullest, STAGE_SEGMENTS.into());
        memory
            .max(ring)
            .max(share(batches, self.batches_max as u64))
    }

    /// Returns the tail that is being recorded.
    #[must_use]
    pub fn recording(&self) -> u64 {
        let Release::Recording { tail } = self.release else {
            panic!("no tail in state {:?}", self.release);
        };
        tail
    }

    /// Returns true if no release is under way.
    #[must_use]
    pub fn rests(&self) -> bool {
        self.release == Release::Resting
    }

    // ---- release ------------------------------------------------------------------------------

    /// Begins to release the first batches, if all their blocks are placed. If not `all`, only if
    /// that frees a segment. Returns the holders to flush with all places, and their entries.
    pub fn begin_release(&mut self, all: bool) -> Option<MemberSet> {
        if self.release != Release::Resting {
            return None;
        }
        let placed = self.placed_below(|_| true)?;
        let frees = |ring: &HolderRing| {
            let full = |segment: &Segment| segment.state == SegmentState::Full;
            let mut segments = ring.segments.iter();
            segments.any(|segment| full(segment) && segment.last < placed)
        };
        if !all && !self.rings.iter().any(frees) {
            return None;
        }
        let (holders, mark) = self.flush();
        self.release = Release::Flushing {
            below: placed,
            mark,
        };
        Some(holders)
    }

    /// Returns the number below which all batches are placed, and `may_go`. `None` if the first is
    /// not.
    fn placed_below(&self, may_go: impl Fn(&Batch) -> bool) -> Option<u64> {
        let goes = |batch: &&Batch| batch.answered && batch.claims == 0 && may_go(batch);
        let last = self.batches.iter().take_while(goes).last()?;
        Some(last.number + 1)
    }

    /// Handles the end of the flush before a release. `with_holders` says that it covered the
    /// holders too. Batches whose blocks lie in newer batches go only if these are durable.
    /// Returns true if there is a tail to record.
    pub fn release_flushed(&mut self, with_holders: bool) -> bool {
        let Release::Flushing { below, mark } = self.release else {
            panic!("flushed in state {:?}", self.release);
        };
        if with_holders {
            self.flushed(mark);
        }
        let durable = self.durable;
        let may_go = |batch: &Batch| batch.number < below && batch.heir <= durable;
        let tail = self.placed_below(may_go);
        self.release = match tail {
            Some(tail) => Release::Recording { tail },
            None => Release::Resting,
        };
        tail.is_some()
    }

    /// Begins to record a tail above all numbers, even if the ring is empty. Requires that all
    /// batches are placed, durably.
    pub fn void(&mut self) {
        assert_eq!(self.release, Release::Resting, "one release at a time");
        assert!(
            self.batches
                .iter()
                .all(|batch| batch.answered && batch.claims == 0)
        );
        self.release = Release::Recording {
            tail: self.number + 1,
        };
    }

    /// Begins to write the tail that was found at opening on all holders, once more.
    pub fn renew_tail(&mut self) {
        assert_eq!(self.release, Release::Resting, "one release at a time");
        self.release = Release::Recording { tail: self.tail };
    }

    /// Returns the header that records the new tail, and fills its places on these holders. Each
    /// holder keeps its newest tail in the other slot, because the write may tear.
    pub fn tail_header(&mut self, holders: MemberSet, columns: &mut [StageColumn]) -> TailHeader {
        let Release::Recording { tail } = self.release else {
            panic!("a tail in state {:?}", self.release);
        };
        self.number += 1;
        for (column, holder) in columns.iter_mut().zip(holders.iter()) {
            let place = self.layout.tail_place(self.slots.contains(holder).into());
            *column = StageColumn { holder, place };
        }
        let next = holders.difference(self.slots);
        self.slots = self.slots.difference(holders).union(next);
        TailHeader {
            number: self.number,
            tail,
        }
    }

    /// Frees the batches below the new tail, which is durable on all holders. Returns the tail.
    pub fn recorded(&mut self) -> u64 {
        let Release::Recording { tail } = self.release else {
            panic!("recorded in state {:?}", self.release);
        };
        self.release = Release::Resting;
        self.tail = tail;
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.number < tail) {
            self.memory.used -= batch.memory;
        }
        for ring in &mut self.rings {
            ring.release(tail);
        }
        tail
    }

    // ---- opening ------------------------------------------------------------------------------

    /// Continues after an earlier opening: its tail, and the holders that write the next one to
    /// slot 1.
    pub fn resume(&mut self, tail: u64, slots: MemberSet) {
        (self.tail, self.slots) = (tail, slots);
    }

    /// Takes a batch that an earlier opening left: its columns, each with the length. `blocks` are
    /// loaded into memory, at the room that is returned.
    pub fn load(
        &mut self,
        number: u64,
        columns: impl Iterator<Item = (StageColumn, u32)>,
        blocks: u32,
        now: Instant,
    ) -> Option<Room> {
        let mut holders = MemberSet::EMPTY;
        for (column, blocks) in columns {
            let blocks = self.layout.header_blocks() + blocks;
            let segment = self.layout.segment_of(column.place, blocks)?;
            let ring = self.rings.get_mut(usize::from(column.holder.0))?;
            ring.holds(segment, number);
            holders = holders.with(column.holder);
        }
        let room = self.memory.take(blocks)?;
        if self.batches.len() == self.batches_max {
            return None;
        }
        self.batches.push_back(Batch {
            number,
            holders,
            claims: 0,
            heir: 0,
            answered: true,
            durable: true,
            since: Some(now),
            memory: room.takes,
        });
        self.count_durable();
        Some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::BlockSize;
    use std::collections::BTreeMap;

    const NOW: Instant = Instant(0);

    fn ring(holders: u8, memory_blocks: u32) -> Ring {
        let bytes = (16 << 10) + 8 * ((4 << 10) + (128 << 10)) + (32 << 10);
        let layout = StageLayout::new(bytes, BlockSize::B4096).expect("long enough");
        Ring::new(layout, holders, 1 << 32, memory_blocks, 200)
    }

    #[test]
    fn segments_have_no_other_moves() {
        use SegmentMove::{Close, Open, Release};
        use SegmentState::{Filling, Free, Full};
        let table = [
            (Free, [Some(Filling), None, None]),
            (Filling, [None, Some(Full), Some(Free)]),
            (Full, [None, None, Some(Free)]),
        ];
        for (state, after) in table {
            assert_eq!([Open, Close, Release].map(|step| state.after(step)), after);
        }
    }

    #[test]
    fn memory_is_taken_in_turn_and_never_split() {
        let mut memory = Memory {
            blocks: 10,
            next: 0,
            used: 0,
        };
        let room = |slot, takes| Some(Room { slot, takes });
        assert_eq!(memory.take(4), room(0, 4));
        assert_eq!(memory.take(4), room(4, 4));
        assert_eq!(memory.take(3), None, "2 are left");
        memory.used -= 4;
        assert_eq!(memory.take(3), room(0, 5));
        assert_eq!(memory.take(2), None);
        assert_eq!(memory.take(1), room(3, 1));
        assert_eq!(memory.take(0), room(4, 0));
    }

    /// Writes the tail on all holders. Returns the header, and its places.
    fn tail(ring: &mut Ring) -> (TailHeader, Vec<u32>) {
        let holders = u8::try_from(ring.rings.len()).expect("few");
        let mut columns = vec![StageColumn::NONE; ring.rings.len()];
        let header = ring.tail_header(MemberSet::all(holders), &mut columns);
        let places = columns.iter().map(|column| column.place);
        (header, places.collect())
    }

    /// Appends a batch with columns of `blocks` blocks on these holders.
    fn append(ring: &mut Ring, holders: &[u8], blocks: u32) -> (u64, Vec<StageColumn>) {
        let room = ring.reserve(blocks).expect("room");
        let holders: Vec<MemberIndex> = holders.iter().copied().map(MemberIndex).collect();
        let mut columns = vec![StageColumn::NONE; holders.len()];
        let number = ring.append(&holders, |_| blocks, room.takes, &mut columns);
        ring.unreserve(blocks);
        (number, columns)
    }

    #[test]
    fn a_prefix_is_released_when_placed_and_its_heirs_are_durable() {
        let mut ring = ring(3, 100);
        let (first, _) = append(&mut ring, &[0, 1], 1);
        ring.claim(first);
        ring.answered(first, true, NOW);
        assert_eq!(ring.durable(), first);
        assert_eq!(ring.begin_release(true), None, "not placed");
        let (second, _) = append(&mut ring, &[1, 2], 1);
        ring.claim(second);
        ring.answered(second, false, NOW);
        ring.unclaim(first);
        ring.superseded(first, second);
        assert_eq!(ring.begin_release(false), None, "no segment is full");
        let holders = [1, 2].into_iter().map(MemberIndex).collect();
        assert_eq!(ring.flush(), (holders, second));
        assert_eq!(ring.begin_release(true), Some(holders));
        assert_eq!(ring.begin_release(true), None, "one at a time");
        assert!(!ring.release_flushed(false), "the heir is not durable");
        assert_eq!(ring.begin_release(true), Some(holders));
        assert!(ring.release_flushed(true));
        let (header, places) = tail(&mut ring);
        assert_eq!((header.tail, header.number), (first + 1, second + 1));
        assert_eq!(places, [1, 1, 1]);
        assert_eq!(ring.recorded(), second);
        assert_eq!(ring.begin_release(true), None, "not placed");
        ring.unclaim(second);
        assert!(ring.begin_release(true).is_some() && ring.release_flushed(true));
        assert_eq!(tail(&mut ring).1, [2, 2, 2], "the other slot");
        ring.recorded();
        assert!(ring.is_empty() && ring.fill() == 0);
        ring.void();
        let (header, places) = tail(&mut ring);
        assert!(header.tail > second && places == [1, 1, 1]);
    }

    /// A batch that is written again counts as durable with the batch that has its contents.
    #[test]
    fn a_batch_that_a_holder_lacks_is_durable_with_the_next() {
        for fua in [false, true] {
            let mut ring = ring(3, 100);
            let (first, _) = append(&mut ring, &[0, 1], 1);
            ring.answered(first, true, NOW);
            let (failed, _) = append(&mut ring, &[0, 1], 1);
            let (again, _) = append(&mut ring, &[0, 2], 1);
            ring.moved(failed, again);
            let (_, mark) = ring.flush();
            ring.flushed(mark);
            assert_eq!((mark, ring.durable()), (first, first));
            ring.answered(again, fua, NOW);
            let (_, mark) = ring.flush();
            let durable = if fua { again } else { first };
            assert_eq!((mark, ring.durable()), (again, durable));
            ring.flushed(mark);
            assert_eq!(ring.durable(), again);
        }
    }

    /// Batches at random: no column overlaps one that is not released, and what is reserved fits.
    #[test]
    fn space_is_used_again_only_after_a_release() {
        let mut ring = ring(4, 1_000);
        let mut seed = 1_u64;
        let mut below = |end: usize| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            usize::try_from(seed >> 33).expect("31 bits") % end
        };
        let mut live: BTreeMap<u64, Vec<(StageColumn, u32)>> = BTreeMap::new();
        let (mut waiting, mut wraps, mut refused) = (VecDeque::new(), 0, 0);
        for _ in 0..60_000 {
            match below(5) {
                0 | 1 => {
                    let blocks = u32::try_from(below(32) + 1).expect("few");
                    match ring.reserve(blocks) {
                        Some(room) => waiting.push_back((blocks, room)),
                        None => refused += 1,
                    }
                }
                2 => {
                    let Some((blocks, room)) = waiting.pop_front() else {
                        continue;
                    };
                    let first = u8::try_from(below(4)).expect("a few");
                    let holders = [MemberIndex(first), MemberIndex((first + 1) % 4)];
                    assert!(ring.has_room(&holders, blocks), "reserved");
                    let mut columns = [StageColumn::NONE; 2];
                    let number = ring.append(&holders, |_| blocks, room.takes, &mut columns);
                    ring.unreserve(blocks);
                    ring.answered(number, false, NOW);
                    for column in columns {
                        let taken = live.values().flatten();
                        let mut same = taken.filter(|(other, _)| other.holder == column.holder);
                        assert!(same.all(|(other, length)| {
                            other.place + 1 + length <= column.place
                                || column.place + 1 + blocks <= other.place
                        }));
                        wraps += u32::from(column.place == 4);
                    }
                    live.insert(number, columns.map(|column| (column, blocks)).to_vec());
                }
                _ => {
                    if below(8) == 0 && ring.begin_release(below(2) == 0).is_some() {
                        assert!(ring.release_flushed(true));
                        tail(&mut ring);
                        live = live.split_off(&ring.recorded());
                    }
                }
            }
        }
        assert!(wraps > 50 && refused > 1_000, "{wraps} {refused}");
    }

    /// After an opening the rings continue behind the batches that count.
    #[test]
    fn loaded_batches_keep_their_segments() {
        let mut before = ring(2, 200);
        let mut columns = Vec::new();
        for _ in 0..20 {
            columns.push(append(&mut before, &[0, 1], 8));
        }
        let mut after = ring(2, 200);
        after.resume(columns[15].0, MemberSet::EMPTY.with(MemberIndex(1)));
        for (number, columns) in &columns[15..] {
            let columns = columns.iter().map(|column| (*column, 8));
            assert!(after.load(*number, columns, 8, NOW).is_some());
        }
        let (_, next) = append(&mut after, &[0, 1], 8);
        let places = columns[15..].iter().map(|(_, columns)| columns[0].place);
        let segment = |place| after.layout.segment_of(place, 9).expect("whole");
        let mut segments = places.map(segment);
        assert!(segments.all(|live| live != segment(next[0].place)));
        assert_eq!(after.tail(), columns[15].0);
        after.renew_tail();
        assert_eq!(
            tail(&mut after).1,
            [1, 2],
            "each holder has a slot of its own"
        );
        after.recorded();
        after.renew_tail();
        assert_eq!(tail(&mut after).1, [2, 1]);
    }
}
