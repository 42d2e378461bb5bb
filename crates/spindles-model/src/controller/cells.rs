//! The blocks in the cache of a controller, and those of them that the disks lack.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of a block of the cache.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Blocks of a cell: one bit each.
const CELL_BLOCKS: u64 = 64;

/// Neighbouring blocks, a bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// In the cache.
    valid: u64,
    /// Changed, and no write to the disks has begun since.
    dirty: u64,
    /// Being written to the disks.
    going: u64,
    /// Number of the last use.
    used: u64,
    /// Moment of the first change that is not on the disks.
    since: u64,
}

/// The blocks in the cache.
#[derive(Debug, Default)]
pub(super) struct Cells {
    by_number: BTreeMap<u64, Cell>,
    /// Cells by number of the last use.
    lru: BTreeSet<(u64, u64)>,
    /// Cells with dirty blocks, by the moment of the first change.
    oldest: BTreeSet<(u64, u64)>,
    /// Cells with dirty blocks, by place.
    places: BTreeSet<u64>,
    used: u64,
    valid_blocks: u64,
    /// Blocks that are dirty, or being written.
    unwritten_blocks: u64,
}

/// Returns the bits of a cell that a range of blocks covers.
fn mask(cell: u64, blocks: &Range<u64>) -> u64 {
    let first = blocks.start.max(cell * CELL_BLOCKS) - cell * CELL_BLOCKS;
    let end = blocks.end.min((cell + 1) * CELL_BLOCKS) - cell * CELL_BLOCKS;
    if first >= end {
        return 0;
    }
    let low = u64::MAX << first;
    if end == CELL_BLOCKS {
        low
    } else {
        low & ((1 << end) - 1)
    }
}

fn blocks_of_cell(cell: u64) -> Range<u64> {
    cell * CELL_BLOCKS..(cell + 1) * CELL_BLOCKS
}

fn cells_of(blocks: &Range<u64>) -> Range<u64> {
    blocks.start / CELL_BLOCKS..blocks.end.div_ceil(CELL_BLOCKS)
}

impl Cells {
    pub(super) const fn unwritten_blocks(&self) -> u64 {
        self.unwritten_blocks
    }

    /// Returns how many blocks of a range are not yet dirty or being written.
    pub(super) fn new_blocks(&self, blocks: &Range<u64>) -> u64 {
        let cells = cells_of(blocks);
        let missing = cells.map(|at| {
            let cell = self.by_number.get(&at).copied().unwrap_or_default();
            u64::from((mask(at, blocks) & !(cell.dirty | cell.going)).count_ones())
        });
        missing.sum()
    }

    /// Puts blocks into the cache, as they are on the disks.
    pub(super) fn fill(&mut self, blocks: &Range<u64>) {
        for at in cells_of(blocks) {
            let bits = mask(at, blocks);
            let cell = self.touch(at);
            let new = bits & !cell.valid;
            cell.valid |= bits;
            self.valid_blocks += u64::from(new.count_ones());
        }
    }

    /// Puts changed blocks into the cache.
    pub(super) fn change(&mut self, blocks: &Range<u64>, now: u64) {
        self.fill(blocks);
        for at in cells_of(blocks) {
            let bits = mask(at, blocks);
            let cell = self.by_number.get_mut(&at).expect("just filled");
            if cell.dirty == 0 {
                cell.since = now;
                self.oldest.insert((now, at));
                self.places.insert(at);
            }
            let new = bits & !(cell.dirty | cell.going);
            cell.dirty |= bits;
            self.unwritten_blocks += u64::from(new.count_ones());
        }
    }

    /// Returns the parts of a range that are not in the cache.
    pub(super) fn missing(&self, blocks: &Range<u64>) -> Vec<Range<u64>> {
        let is_absent = |block: u64| {
            let cell = self.by_number.get(&(block / CELL_BLOCKS));
            cell.is_none_or(|cell| cell.valid >> (block % CELL_BLOCKS) & 1 == 0)
        };
        runs(blocks.clone(), is_absent)
    }

    /// Notes a use of blocks.
    pub(super) fn use_again(&mut self, blocks: &Range<u64>) {
        for at in cells_of(blocks) {
            if self.by_number.contains_key(&at) {
                self.touch(at);
            }
        }
    }

    /// Returns the moment of the first change that is not on the disks, of blocks whose writing has
    /// not begun.
    pub(super) fn changed_since(&self) -> Option<u64> {
        self.oldest.first().map(|(since, _)| *since)
    }

    /// Returns the dirty cells as ranges of blocks, the first changed first.
    pub(super) fn by_age(&self) -> impl Iterator<Item = Range<u64>> {
        self.oldest.iter().map(|(_, at)| blocks_of_cell(*at))
    }

    /// Returns the dirty cells of a range as ranges of blocks, from a block on, then from the
    /// front.
    pub(super) fn by_place(&self, from: u64, of: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (from, of) = (from / CELL_BLOCKS, cells_of(&of));
        let from = from.clamp(of.start, of.end);
        let places = self.places.range(from..of.end);
        let places = places.chain(self.places.range(of.start..from));
        places.map(|at| blocks_of_cell(*at))
    }

    /// Returns true if a block of the range is dirty.
    pub(super) fn is_dirty(&self, blocks: &Range<u64>) -> bool {
        let mut cells = cells_of(blocks);
        cells.any(|at| {
            let cell = self.by_number.get(&at);
            cell.is_some_and(|cell| cell.dirty & mask(at, blocks) != 0)
        })
    }

    /// Takes the dirty blocks of a range for writing, as runs.
    pub(super) fn take(&mut self, blocks: &Range<u64>) -> Vec<Range<u64>> {
        let is_dirty = |block: u64| {
            let cell = self.by_number.get(&(block / CELL_BLOCKS));
            cell.is_some_and(|cell| cell.dirty >> (block % CELL_BLOCKS) & 1 == 1)
        };
        let taken = runs(blocks.clone(), is_dirty);
        for at in cells_of(blocks) {
            let Some(cell) = self.by_number.get_mut(&at) else {
                continue;
            };
            let bits = cell.dirty & mask(at, blocks);
            if bits == 0 {
                continue;
            }
            cell.dirty &= !bits;
            cell.going |= bits;
            if cell.dirty == 0 {
                self.oldest.remove(&(cell.since, at));
                self.places.remove(&at);
            }
        }
        taken
    }

    /// Notes that blocks are on the disks.
    pub(super) fn written(&mut self, blocks: &Range<u64>) {
        for at in cells_of(blocks) {
            let cell = self
                .by_number
                .get_mut(&at)
                .expect("it stays while it is written");
            let bits = cell.going & mask(at, blocks);
            cell.going &= !bits;
            // Blocks that changed meanwhile are still to be written.
            self.unwritten_blocks -= u64::from((bits & !cell.dirty).count_ones());
        }
    }

    /// Drops the cells that were not used for the longest time, until `most` blocks are left.
    pub(super) fn evict(&mut self, most: u64) {
        /// Cells looked at that must stay.
        const LOOK_MAX: usize = 64;
        while self.valid_blocks > most {
            let idle = |cell: &Cell| cell.dirty | cell.going == 0;
            let first = self.lru.iter().take(LOOK_MAX);
            let found = first.copied().find(|(_, at)| idle(&self.by_number[at]));
            let Some((used, at)) = found else {
                return;
            };
            self.lru.remove(&(used, at));
            let cell = self.by_number.remove(&at).expect("it is listed");
            self.valid_blocks -= u64::from(cell.valid.count_ones());
        }
    }

    fn touch(&mut self, at: u64) -> &mut Cell {
        self.used += 1;
        let cell = self.by_number.entry(at).or_default();
        self.lru.remove(&(cell.used, at));
        cell.used = self.used;
        self.lru.insert((cell.used, at));
        cell
    }
}

/// Returns the runs of blocks of a range for which `is_in` is true.
fn runs(blocks: Range<u64>, is_in: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks.filter(|block| is_in(*block)) {
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_change_while_they_are_written_are_written_again() {
        let mut cells = Cells::default();
        cells.change(&(60..70), 5);
        assert_eq!(
            (cells.unwritten_blocks(), cells.new_blocks(&(0..65))),
            (10, 60)
        );
        assert_eq!(cells.changed_since(), Some(5));
        assert_eq!(cells.take(&(0..64)), vec![60..64]);
        assert!(!cells.is_dirty(&(63..64)) && cells.is_dirty(&(63..65)));
        assert_eq!(cells.by_place(0, 0..200).collect::<Vec<_>>(), vec![64..128]);
        cells.change(&(60..61), 9);
        cells.written(&(60..64));
        assert_eq!(cells.unwritten_blocks(), 7);
        assert_eq!(cells.take(&(0..128)), vec![60..61, 64..70]);
        cells.written(&(60..70));
        assert_eq!((cells.unwritten_blocks(), cells.changed_since()), (0, None));
    }

    #[test]
    fn the_cell_that_was_not_used_for_the_longest_time_is_dropped() {
        let mut cells = Cells::default();
        cells.fill(&(0..64));
        cells.fill(&(64..128));
        cells.change(&(128..192), 1);
        cells.use_again(&(0..1));
        cells.evict(128);
        assert_eq!(cells.missing(&(0..200)), vec![64..128, 192..200]);
        cells.use_again(&(0..1));
        // A cell that is not on the disks stays.
        cells.evict(64);
        assert_eq!(cells.missing(&(0..192)), vec![0..128]);
    }
}
