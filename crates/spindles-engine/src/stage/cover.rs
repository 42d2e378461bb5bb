//! The index of staged blocks: the newest contents of each, and whether they are placed.
//!
//! ```text
//!                 ┌───────────── staged again ─────────────┐
//!                 ▼                                        │
//!  Released ──▶ Staged ──taken──▶ Placing ──done──▶ Placed ┴─tail──▶ Released
//!                 ▲                  │ │
//!                 └── given back ────┘ └─ staged again ──▶ Staged
//! ```
//!
//! The index is a table of fixed length, reserved at opening. It finds a block by its number, at
//! the first place that is free or has this block.

use alloc::{vec, vec::Vec};
use spindles_block::BlockIndex;

/// The state of a staged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Its place holds the newest contents, and no batch has older ones.
    Released,
    /// To be placed.
    Staged,
    /// Being placed.
    Placing,
    /// Its place holds the newest contents. They cover it until a release: a crash brings them
    /// back.
    Placed,
}

/// What happens to a staged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMove {
    /// Newer contents are answered.
    Stage,
    /// An ordinary write of the contents begins.
    Take,
    /// This write ended.
    Place,
    /// This write failed, or was given up.
    GiveBack,
    /// The tail is above all its batches.
    Release,
}

impl BlockState {
    /// Every legal move. `None` if the move is illegal.
    #[must_use]
    pub const fn after(self, step: BlockMove) -> Option<Self> {
        use BlockMove::{GiveBack, Place, Release, Stage, Take};
        match (self, step) {
            (Self::Released | Self::Staged | Self::Placing | Self::Placed, Stage)
            | (Self::Placing, GiveBack) => Some(Self::Staged),
            (Self::Staged, Take) => Some(Self::Placing),
            (Self::Placing, Place) => Some(Self::Placed),
            (Self::Placed, Release) => Some(Self::Released),
            (Self::Released, Take | Place | GiveBack | Release)
            | (Self::Staged, Place | GiveBack | Release)
            | (Self::Placing, Take | Release)
            | (Self::Placed, Take | Place | GiveBack) => None,
        }
    }
}

/// The staged contents of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A block of the stage's memory.
    Slot(u32),
    /// Zeros.
    Zeros,
}

impl Contents {
    /// Returns the contents that follow these by this many blocks.
    #[must_use]
    pub const fn plus(self, blocks: u32) -> Self {
        match self {
            Self::Slot(slot) => Self::Slot(slot + blocks),
            Self::Zeros => Self::Zeros,
        }
    }
}

/// The newest contents of a staged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The batch with these contents.
    pub number: u64,
    /// The contents.
    pub contents: Contents,
}

/// A piece of a request: blocks that are all covered, with contents that follow one another, or all
/// not covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first block.
    pub block: BlockIndex,
    /// The number of blocks.
    pub blocks: u32,
    /// The contents of the first block; `None` if the places have all of them.
    pub contents: Option<Contents>,
}

/// A batch that a block was in before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// The batch.
    pub number: u64,
    /// True if the block was to be placed from it, or is being placed.
    pub unplaced: bool,
    /// True if the batch no longer needs to wait for the block.
    pub unclaims: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    block: u64,
    newest: Newest,
    /// The batch from which the block is being placed; 0 for none. It differs from the newest if
    /// the block was staged again meanwhile.
    taken: u64,
    state: BlockState,
}

impl Entry {
    const NONE: Self = Self {
        block: u64::MAX,
        newest: Newest {
            number: 0,
            contents: Contents::Zeros,
        },
        taken: 0,
        state: BlockState::Released,
    };

    const fn is_free(&self) -> bool {
        matches!(self.state, BlockState::Released)
    }

    fn take(&mut self, step: BlockMove) {
        let next = self.state.after(step);
        self.state = next.unwrap_or_else(|| panic!("{step:?} in state {:?}", self.state));
    }
}

/// The index of staged blocks.
#[derive(Clone, Debug)]
pub struct Cover {
    table: Vec<Entry>,
    len: usize,
    reserved: usize,
    len_max: usize,
    /// Staged blocks in their order, while the next are sought.
    order: Vec<u64>,
}

impl Cover {
    /// Reserves room for this many blocks.
    #[must_use]
    pub fn new(len_max: u32) -> Self {
        let len_max = crate::index(len_max);
        Self {
            table: vec![Entry::NONE; (2 * len_max).next_power_of_two()],
            len: 0,
            reserved: 0,
            len_max,
            order: Vec::with_capacity(len_max),
        }
    }

    /// Returns true if no block is staged.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of blocks in it.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Reserves entries for blocks about to be staged. Returns false if there are too few.
    pub fn reserve(&mut self, blocks: u32) -> bool {
        let reserved = self.reserved + crate::index(blocks);
        let fits = self.len + reserved <= self.len_max;
        if fits {
            self.reserved = reserved;
        }
        fits
    }

    /// Gives back reserved entries.
    pub fn unreserve(&mut self, blocks: u32) {
        self.reserved -= crate::index(blocks);
    }

    fn home(&self, block: u64) -> usize {
        let mixed = block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        usize::try_from(mixed).expect("32 bits") & (self.table.len() - 1)
    }

    /// Returns the place of a block in the table, or the free place where it belongs.
    fn find(&self, block: u64) -> usize {
        let mut at = self.home(block);
        while !self.table[at].is_free() && self.table[at].block != block {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    // ---- reading ------------------------------------------------------------------------------

    /// Returns the newest contents of a block; `None` if it is not staged.
    #[must_use]
    pub fn newest(&self, block: BlockIndex) -> Option<Newest> {
        if self.is_empty() {
            return None;
        }
        let entry = &self.table[self.find(block.0)];
        (!entry.is_free()).then_some(entry.newest)
    }

    /// Returns true if a block is in a batch that is not released. A write, zeros or a discard of
    /// it must be staged too: a crash would bring the batch's contents back.
    #[must_use]
    pub fn touches(&self, first: BlockIndex, blocks: u32) -> bool {
        let mut all = (0..u64::from(blocks)).map(|at| first.plus(at));
        !self.is_empty() && all.any(|block| self.newest(block).is_some())
    }

    /// Cuts blocks at the edges of the cover.
    pub fn cut(&self, first: BlockIndex, blocks: u32) -> impl Iterator<Item = Cut> + '_ {
        let mut done = 0;
        core::iter::from_fn(move || {
            let left = blocks - done;
            let block = first.plus(done.into());
            if left == 0 {
                return None;
            }
            if self.is_empty() {
                done = blocks;
                return Some(Cut {
                    block,
                    blocks: left,
                    contents: None,
                });
            }
            let contents_at = |at: u32| {
                let newest = self.newest(block.plus(at.into()));
                newest.map(|newest| newest.contents)
            };
            let contents = contents_at(0);
            let goes_on =
                |at: &u32| contents_at(*at) == contents.map(|contents| contents.plus(*at));
            let more = (1..left).take_while(goes_on).count();
            let blocks = 1 + u32::try_from(more).expect("less than the request");
            done += blocks;
            Some(Cut {
                block,
                blocks,
                contents,
            })
        })
    }

    // ---- staging ------------------------------------------------------------------------------

    /// Takes newer contents of a block, for which an entry is reserved. Returns the batch that it
    /// was in.
    pub fn stage(&mut self, block: BlockIndex, newest: Newest) -> Option<Superseded> {
        self.reserved = self.reserved.checked_sub(1).expect("an entry is reserved");
        let at = self.find(block.0);
        let entry = &mut self.table[at];
        let before = (!entry.is_free()).then_some(Superseded {
            number: entry.newest.number,
            unplaced: entry.state != BlockState::Placed,
            unclaims: entry.state == BlockState::Staged,
        });
        entry.take(BlockMove::Stage);
        (entry.block, entry.newest) = (block.0, newest);
        if before.is_none() {
            entry.taken = 0;
            self.len += 1;
        }
        before
    }

    // ---- placing ------------------------------------------------------------------------------

    /// Fills `out` with the staged blocks that follow `from`, up to `most`, in their order. Those
    /// before `from` come after the last.
    pub fn staged_from(&mut self, from: BlockIndex, most: usize, out: &mut Vec<BlockIndex>) {
        let may_go = |entry: &&Entry| entry.state == BlockState::Staged && entry.taken == 0;
        self.order.clear();
        let staged = self.table.iter().filter(may_go);
        self.order.extend(staged.map(|entry| entry.block));
        let key = |block: &u64| block.wrapping_sub(from.0);
        self.order.sort_unstable_by_key(key);
        out.clear();
        let next = self.order.iter().take(most);
        out.extend(next.map(|block| BlockIndex(*block)));
    }

    /// Returns the contents of a block that `take` would return.
    #[must_use]
    pub fn placeable(&self, block: BlockIndex) -> Option<Newest> {
        let entry = &self.table[self.find(block.0)];
        let may_go = entry.state == BlockState::Staged && entry.taken == 0;
        may_go.then_some(entry.newest)
    }

    /// Returns the batch from which a block is being placed; 0 for none.
    #[must_use]
    pub fn taken(&self, block: BlockIndex) -> u64 {
        let entry = &self.table[self.find(block.0)];
        if entry.is_free() { 0 } else { entry.taken }
    }

    /// Takes a staged block to be placed. `None` if it is not staged, or older contents of it are
    /// still being placed.
    pub fn take(&mut self, block: BlockIndex) -> Option<Newest> {
        let at = self.find(block.0);
        let entry = &mut self.table[at];
        if entry.state != BlockState::Staged || entry.taken != 0 {
            return None;
        }
        entry.take(BlockMove::Take);
        entry.taken = entry.newest.number;
        Some(entry.newest)
    }

    /// Handles the end of placing the contents that batch `number` has. `is_placed` says that the
    /// place holds them. Returns true if the batch no longer needs to wait for the block: it is
    /// placed, or was staged again.
    pub fn ended(&mut self, block: BlockIndex, number: u64, is_placed: bool) -> bool {
        let at = self.find(block.0);
        let entry = &mut self.table[at];
        assert!(entry.taken == number && number > 0, "it was taken");
        entry.taken = 0;
        if entry.newest.number != number {
            return true; // Staged again meanwhile: stays staged.
        }
        entry.take(if is_placed {
            BlockMove::Place
        } else {
            BlockMove::GiveBack
        });
        is_placed
    }

    /// Removes a block without a release: its newest contents are lost, and listed as that. Returns
    /// the batch that the block was to be placed from.
    pub fn forget(&mut self, block: BlockIndex) -> Option<u64> {
        let at = self.find(block.0);
        let entry = self.table[at];
        if entry.is_free() {
            return None;
        }
        assert_eq!(entry.taken, 0, "nothing is placed at opening");
        self.remove(at);
        Some(entry.newest.number)
    }

    /// Removes all blocks whose batches are below the tail. They are placed.
    pub fn release(&mut self, tail: u64) {
        for at in 0..self.table.len() {
            // A removal may move another entry to this place.
            while !self.table[at].is_free() && self.table[at].newest.number < tail {
                self.table[at].take(BlockMove::Release);
                self.remove(at);
            }
        }
    }

    /// Frees a place of the table, and moves entries behind it to where they are found.
    fn remove(&mut self, at: usize) {
        let mask = self.table.len() - 1;
        let mut hole = at;
        let mut next = (at + 1) & mask;
        while !self.table[next].is_free() {
            let sought_from = self.home(self.table[next].block);
            // It may move if it is still found in the hole.
            if (next.wrapping_sub(sought_from) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.table[hole] = self.table[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.table[hole] = Entry::NONE;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn blocks_have_no_other_moves() {
        use BlockMove::{GiveBack, Place, Release, Stage, Take};
        use BlockState::{Placed, Placing, Released, Staged};
        let table = [
            (Released, [Some(Staged), None, None, None, None]),
            (Staged, [Some(Staged), Some(Placing), None, None, None]),
            (
                Placing,
                [Some(Staged), None, Some(Placed), Some(Staged), None],
            ),
            (Placed, [Some(Staged), None, None, None, Some(Released)]),
        ];
        for (state, after) in table {
            let moves = [Stage, Take, Place, GiveBack, Release];
            assert_eq!(moves.map(|step| state.after(step)), after, "{state:?}");
        }
    }

    fn newest(number: u64, slot: u32) -> Newest {
        Newest {
            number,
            contents: Contents::Slot(slot),
        }
    }

    fn stage(cover: &mut Cover, block: u64, newest: Newest) -> Option<Superseded> {
        assert!(cover.reserve(1));
        cover.stage(BlockIndex(block), newest)
    }

    #[test]
    fn requests_are_cut_at_the_edges_of_the_cover() {
        let mut cover = Cover::new(16);
        let cuts = |cover: &Cover, first, blocks| {
            let cuts = cover.cut(BlockIndex(first), blocks);
            cuts.map(|cut| (cut.block.0, cut.blocks, cut.contents))
                .collect::<Vec<_>>()
        };
        assert_eq!(cuts(&cover, 3, 9), [(3, 9, None)]);
        assert!(!cover.touches(BlockIndex(3), 9));
        for (block, slot) in [(5, 0), (6, 1), (7, 5)] {
            stage(&mut cover, block, newest(1, slot));
        }
        for block in [8, 9] {
            let zeros = Newest {
                number: 2,
                contents: Contents::Zeros,
            };
            stage(&mut cover, block, zeros);
        }
        let slot = |slot| Some(Contents::Slot(slot));
        let zeros = Some(Contents::Zeros);
        let expected = [
            (3, 2, None),
            (5, 2, slot(0)),
            (7, 1, slot(5)),
            (8, 2, zeros),
            (10, 2, None),
        ];
        assert_eq!(cuts(&cover, 3, 9), expected);
        assert_eq!(cuts(&cover, 6, 1), [(6, 1, slot(1))]);
        assert_eq!(cuts(&cover, 6, 0), []);
        assert!(cover.touches(BlockIndex(9), 4) && !cover.touches(BlockIndex(10), 4));
    }

    /// A block that is staged again while it is placed stays staged, and only one of its contents
    /// is placed at a time.
    #[test]
    fn a_block_staged_again_while_it_is_placed_stays_staged() {
        let mut cover = Cover::new(4);
        let block = BlockIndex(7);
        assert_eq!(stage(&mut cover, 7, newest(1, 0)), None);
        assert_eq!(cover.take(block), Some(newest(1, 0)));
        assert_eq!(cover.take(block), None);
        let before = stage(&mut cover, 7, newest(2, 1));
        let superseded = |number, unplaced, unclaims| {
            Some(Superseded {
                number,
                unplaced,
                unclaims,
            })
        };
        assert_eq!(before, superseded(1, true, false));
        assert_eq!(cover.take(block), None, "older contents are being placed");
        let mut out = Vec::with_capacity(4);
        cover.staged_from(BlockIndex(0), 8, &mut out);
        assert_eq!(out, []);
        assert!(cover.ended(block, 1, true));
        assert_eq!(cover.newest(block), Some(newest(2, 1)));
        assert_eq!(cover.take(block), Some(newest(2, 1)));
        assert!(!cover.ended(block, 2, false), "it is to be placed still");
        assert_eq!(
            stage(&mut cover, 7, newest(3, 2)),
            superseded(2, true, true)
        );
        assert_eq!(cover.take(block), Some(newest(3, 2)));
        assert!(cover.ended(block, 3, true));
        assert!(cover.touches(block, 1), "placed, and not released");
        assert_eq!(
            stage(&mut cover, 7, newest(4, 3)),
            superseded(3, false, false)
        );
        assert_eq!(cover.take(block), Some(newest(4, 3)));
        assert!(cover.ended(block, 4, true));
        cover.release(4);
        assert_eq!(cover.len(), 1);
        cover.release(5);
        assert!(cover.is_empty() && !cover.touches(block, 1));
    }

    #[test]
    fn staged_blocks_are_found_in_order_from_any_block_on() {
        let mut cover = Cover::new(16);
        for block in [9, 2, 7, 30, 4] {
            stage(&mut cover, block, newest(1, 0));
        }
        let mut out = Vec::with_capacity(4);
        cover.take(BlockIndex(30));
        for (from, expected) in [(0, [2, 4, 7, 9]), (5, [7, 9, 2, 4]), (10, [2, 4, 7, 9])] {
            cover.staged_from(BlockIndex(from), 4, &mut out);
            assert_eq!(out, expected.map(BlockIndex), "{from}");
        }
    }

    #[test]
    fn entries_are_reserved_before_they_are_used() {
        let mut cover = Cover::new(3);
        assert!(cover.reserve(2) && !cover.reserve(2) && cover.reserve(1));
        cover.stage(BlockIndex(1), newest(1, 0));
        cover.stage(BlockIndex(1), newest(1, 1));
        assert!(!cover.reserve(2) && cover.reserve(1), "one block twice");
        cover.unreserve(2);
        assert!(cover.reserve(2));
    }

    /// All operations at random, against a map.
    #[test]
    fn the_cover_is_a_map_of_blocks() {
        let mut seed = 1_u64;
        let mut below = |end: u64| {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (seed >> 33) % end
        };
        let mut cover = Cover::new(40);
        let mut map: BTreeMap<u64, (Newest, BlockState, u64)> = BTreeMap::new();
        let (mut number, mut released, mut full) = (0, 0, 0);
        for _ in 0..200_000 {
            // Blocks that collide in the table, and others.
            let block = below(30) * [1, 1 << 40][usize::try_from(below(2)).expect("0 or 1")];
            match below(6) {
                0 | 1 => {
                    if !cover.reserve(1) {
                        assert_eq!(map.len(), 40);
                        full += 1;
                        continue;
                    }
                    number += 1;
                    let new = newest(number, u32::try_from(number).expect("few"));
                    let before = cover.stage(BlockIndex(block), new);
                    let entry = map.entry(block);
                    let was = match entry {
                        std::collections::btree_map::Entry::Occupied(ref entry) => {
                            Some(*entry.get())
                        }
                        std::collections::btree_map::Entry::Vacant(_) => None,
                    };
                    let taken = was.map_or(0, |(_, _, taken)| taken);
                    let found = before.map(|before| (before.number, before.unplaced));
                    let expected =
                        was.map(|(newest, state, _)| (newest.number, state != BlockState::Placed));
                    assert_eq!(found, expected);
                    map.insert(block, (new, BlockState::Staged, taken));
                }
                2 | 3 => {
                    let Some((new, state, taken)) = map.get_mut(&block) else {
                        assert_eq!(cover.newest(BlockIndex(block)), None);
                        continue;
                    };
                    let may_go = *state == BlockState::Staged && *taken == 0;
                    assert_eq!(cover.take(BlockIndex(block)), may_go.then_some(*new));
                    if may_go {
                        (*state, *taken) = (BlockState::Placing, new.number);
                    }
                }
                4 => {
                    let mut taken = map.iter_mut().filter(|(_, entry)| entry.2 > 0);
                    let Some((block, (new, state, taken))) = taken.next() else {
                        continue;
                    };
                    let is_placed = below(4) > 0;
                    cover.ended(BlockIndex(*block), *taken, is_placed);
                    if new.number == *taken {
                        *state = if is_placed {
                            BlockState::Placed
                        } else {
                            BlockState::Staged
                        };
                    }
                    *taken = 0;
                }
                _ => {
                    let unplaced = map.values().filter(|entry| entry.1 != BlockState::Placed);
                    let tail = unplaced.map(|entry| entry.0.number).min();
                    let tail = tail.unwrap_or(number + 1);
                    cover.release(tail);
                    let before = map.len();
                    map.retain(|_, entry| entry.0.number >= tail);
                    released += before - map.len();
                }
            }
            assert_eq!(cover.len(), map.len());
            let found = map
                .iter()
                .all(|(block, entry)| cover.newest(BlockIndex(*block)) == Some(entry.0));
            assert!(found);
        }
        assert!(released > 5_000 && full > 10, "{released} {full}");
    }
}
