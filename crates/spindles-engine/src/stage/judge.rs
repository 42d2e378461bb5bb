//! Which batches count after a crash (rule 6).
//!
//! The caller reads the stages of all holders that are there, and hands over each header that is
//! intact. It then reads the blocks of the batches that are `sought`, and reports those that fit
//! their checksums. The verdict is a value; nothing is written before it is complete.
//!
//! ```text
//! batch above the tail             whole on the holders  fate
//! redundancy gives its contents    yes                   counts
//! redundancy gives its contents    no                    counts; made whole in its place first
//! it does not, and a header of     -                     lost: its blocks are listed
//!   the same opening calls it
//!   durable
//! it does not                      -                     never answered as durable: made void,
//!                                                        so that no later opening counts it
//! ```
//!
//! Making void is for blocks that can't be read for a time. A later opening could read them, and
//! the batch would replace contents that this opening serves. For the same reason other blocks that
//! can't be read are overwritten.

use crate::index;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};
use core::ops::Range;
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{StageBatch, StageColumn, StageHeader, StageLayout, StageRun};

/// The contents of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The part of a fixed length.
    pub batch: StageBatch,
    /// The columns: data columns, then parity columns.
    pub columns: Vec<StageColumn>,
    /// The blocks of the array.
    pub runs: Vec<StageRun>,
    /// The checksums of all blocks, column after column.
    pub checksums: Vec<u32>,
}

impl Directory {
    /// Copies a header that was read.
    #[must_use]
    pub fn of(header: &StageHeader<'_>) -> Self {
        let columns = 0..header.batch.shape.columns();
        Self {
            batch: header.batch,
            columns: header.columns().collect(),
            runs: header.runs().collect(),
            checksums: columns
                .flat_map(|column| header.checksums(column))
                .collect(),
        }
    }

    /// Returns the column that lies on this holder, at this place.
    fn column(&self, holder: MemberIndex, place: u32) -> Option<usize> {
        let here = StageColumn { holder, place };
        self.columns.iter().position(|column| *column == here)
    }

    /// The indices of a column's checksums.
    #[must_use]
    pub fn checksums_of(&self, column: u8) -> Range<usize> {
        let shape = self.batch.shape;
        let before: u32 = (0..column).map(|column| shape.blocks_of(column)).sum();
        index(before)..index(before + shape.blocks_of(column))
    }

    fn blocks(&self) -> impl Iterator<Item = BlockIndex> {
        let blocks = |run: &StageRun| {
            let first = run.block;
            (0..run.blocks).map(move |at| first.plus(at.into()))
        };
        self.runs.iter().flat_map(blocks)
    }
}

/// A batch of which a header is intact.
#[derive(Clone, Debug)]
struct Found {
    directory: Directory,
    /// For each column: true if its header is intact.
    headers: Vec<bool>,
    /// True for each block that fits its checksum, column after column.
    good: Vec<bool>,
}

/// What the holders hold.
#[derive(Clone, Debug)]
pub struct Evidence {
    layout: StageLayout,
    present: MemberSet,
    batches: BTreeMap<u64, Found>,
    /// The highest tail of any header.
    tail: u64,
    /// For each holder: the tail in each slot, and the number of its header.
    slots: BTreeMap<MemberIndex, [(u64, u64); 2]>,
    /// For each opening: the batch up to which one of its headers calls all batches durable.
    durable: BTreeMap<u64, u64>,
    /// Blocks that could not be read.
    unreadable: Vec<StageColumn>,
}

/// The opening that wrote a header.
const fn opening(number: u64) -> u64 {
    number >> 32
}

impl Evidence {
    /// Starts without headers. Superblocks durably record all other holders as out.
    #[must_use]
    pub fn new(layout: StageLayout, present: MemberSet) -> Self {
        Self {
            layout,
            present,
            batches: BTreeMap::new(),
            tail: 0,
            slots: BTreeMap::new(),
            durable: BTreeMap::new(),
            unreadable: Vec::new(),
        }
    }

    /// Notes that a block of a holder's stage can't be read.
    pub fn unreadable(&mut self, holder: MemberIndex, place: u32) {
        self.unreadable.push(StageColumn { holder, place });
    }

    /// Takes an intact header of this stage that was read from a holder. It does not count unless
    /// the header names this place.
    pub fn header(&mut self, holder: MemberIndex, place: u32, directory: &Directory) {
        let Some(column) = directory.column(holder, place) else {
            return;
        };
        let batch = directory.batch;
        self.tail = self.tail.max(batch.tail);
        let durable = self.durable.entry(opening(batch.number)).or_insert(0);
        *durable = (*durable).max(batch.durable);
        if batch.shape.data == 0 {
            let slots = self.slots.entry(holder).or_default();
            for (slot, newest) in (0..).zip(slots) {
                if self.layout.tail_place(slot) == place {
                    *newest = (*newest).max((batch.tail, batch.number));
                }
            }
            return;
        }
        let found = self.batches.entry(batch.number).or_insert_with(|| Found {
            headers: vec![false; directory.columns.len()],
            good: vec![false; directory.checksums.len()],
            directory: directory.clone(),
        });
        if found.directory == *directory {
            found.headers[column] = true;
        }
    }

    /// Yields the columns to be read: those of batches above the tail on holders that are there.
    pub fn sought(&self) -> impl Iterator<Item = (&Directory, u8)> {
        let above = self.batches.range(self.tail..);
        above.flat_map(|(_, found)| {
            let columns = (0..).zip(&found.directory.columns);
            let here = columns.filter(|(_, column)| self.present.contains(column.holder));
            here.map(|(at, _)| (&found.directory, at))
        })
    }

    /// Notes that a block of a column fits its checksum. `row` counts from the start of the column.
    pub fn fits(&mut self, number: u64, column: u8, row: u32) {
        if let Some(found) = self.batches.get_mut(&number) {
            let at = found.directory.checksums_of(column).start + index(row);
            found.good[at] = true;
        }
    }

    /// Decides.
    #[must_use]
    pub fn judge(self) -> Verdict {
        let Self {
            layout,
            present,
            tail,
            durable,
            batches,
            slots,
            unreadable,
            ..
        } = self;
        let above = batches.into_iter().filter(|(number, _)| *number >= tail);
        let judge = |(number, found): (u64, Found)| {
            let called = durable.get(&opening(number));
            let is_called_durable = called.is_some_and(|durable| number <= *durable);
            found.judged(present, is_called_durable, layout.header_blocks())
        };
        let mut batches: Vec<Judged> = above.map(judge).collect();
        find_superseded(&mut batches);
        let is_kept = |block: &StageColumn| batches.iter().any(|judged| judged.keeps(*block));
        let unreadable = unreadable.into_iter().filter(|block| !is_kept(block));
        let second = slots.iter().filter(|(_, slots)| slots[0] >= slots[1]);
        Verdict {
            tail,
            slots: second.map(|(holder, _)| *holder).collect(),
            unreadable: unreadable.collect(),
            batches,
        }
    }
}

/// Marks the batches of which no block is the newest.
fn find_superseded(batches: &mut [Judged]) {
    let mut later = BTreeSet::new();
    for judged in batches.iter_mut().rev() {
        if matches!(judged.fate, Fate::Void { .. }) {
            continue;
        }
        judged.is_superseded = true;
        for block in judged.directory.blocks() {
            judged.is_superseded &= !later.insert(block);
        }
    }
}

/// What becomes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It counts. These columns are made whole in their places first, durably.
    Counts {
        /// Columns on holders that are there, and that are not whole.
        repairs: Vec<u8>,
    },
    /// It was durable, and redundancy does not give its contents.
    Lost,
    /// The batch is void. The opening first overwrites the headers in these places, durably.
    Void {
        /// The places.
        headers: Vec<StageColumn>,
    },
}

/// A batch with its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The batch.
    pub directory: Directory,
    /// Its fate.
    pub fate: Fate,
    /// True if later batches that count, or are lost, have all its blocks: so has a batch that was
    /// written again because a holder failed.
    pub is_superseded: bool,
    good: Vec<bool>,
    header_blocks: u32,
}

impl Judged {
    /// Returns true if a block of a column is known: it fits its checksum, or it is one of the
    /// zeros that complete the last data column.
    #[must_use]
    pub fn knows(&self, column: u8, row: u32) -> bool {
        knows(&self.directory, &self.good, column, row)
    }

    /// Returns true if this block is in a column of a batch that counts, or that is lost.
    fn keeps(&self, block: StageColumn) -> bool {
        let directory = &self.directory;
        let mut columns = (0..).zip(&directory.columns);
        let is_kept = !matches!(self.fate, Fate::Void { .. });
        is_kept
            && columns.any(|(at, column)| {
                let length = self.header_blocks + directory.batch.shape.blocks_of(at);
                let at = block.place.checked_sub(column.place);
                column.holder == block.holder && at.is_some_and(|at| at < length)
            })
    }

    /// Yields the columns from which the other blocks of a row are computed.
    pub fn sources(&self, row: u32) -> impl Iterator<Item = u8> + '_ {
        let shape = self.directory.batch.shape;
        let known = (0..shape.columns()).filter(move |column| self.knows(*column, row));
        known.take(shape.data.into())
    }
}

fn knows(directory: &Directory, good: &[bool], column: u8, row: u32) -> bool {
    let checksums = directory.checksums_of(column);
    let is_zeros = index(row) >= checksums.len();
    is_zeros || good[checksums.start + index(row)]
}

impl Found {
    fn judged(self, present: MemberSet, is_called_durable: bool, header_blocks: u32) -> Judged {
        let Self {
            directory,
            headers,
            good,
        } = self;
        let shape = directory.batch.shape;
        let known = |row| {
            let columns = 0..shape.columns();
            let known = columns.filter(|column| knows(&directory, &good, *column, row));
            known.count() >= usize::from(shape.data)
        };
        let here = |at: u8| present.contains(directory.columns[usize::from(at)].holder);
        let fate = if (0..shape.column_blocks()).all(known) {
            let is_whole = |at: u8| {
                headers[usize::from(at)] && directory.checksums_of(at).all(|block| good[block])
            };
            let columns = 0..shape.columns();
            let repairs = columns.filter(|at| here(*at) && !is_whole(*at));
            Fate::Counts {
                repairs: repairs.collect(),
            }
        } else if is_called_durable {
            Fate::Lost
        } else {
            let columns = (0..shape.columns()).zip(&directory.columns);
            let places = columns.filter(|(at, _)| here(*at));
            Fate::Void {
                headers: places.map(|(_, column)| *column).collect(),
            }
        };
        Judged {
            directory,
            fate,
            is_superseded: false,
            good,
            header_blocks,
        }
    }
}

/// The work of an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The tail, to be made durable on all holders before anything else is written.
    pub tail: u64,
    /// Holders whose newest tail is in slot 0, so that they write the next one to slot 1.
    pub slots: MemberSet,
    /// Blocks that can't be read, and belong to no batch that counts or is lost. They are
    /// overwritten first, durably: a header may lie there.
    pub unreadable: Vec<StageColumn>,
    /// All batches above the tail, in the order of their numbers.
    pub batches: Vec<Judged>,
}

impl Verdict {
    /// Returns the blocks that are lost, in their order: no later batch that counts has them.
    #[must_use]
    pub fn lost(&self) -> Vec<BlockIndex> {
        let mut newest = BTreeMap::new();
        for judged in &self.batches {
            let lost = match judged.fate {
                Fate::Counts { .. } => false,
                Fate::Lost => true,
                Fate::Void { .. } => continue,
            };
            for block in judged.directory.blocks() {
                newest.insert(block, lost);
            }
        }
        let lost = newest.into_iter().filter(|(_, lost)| *lost);
        lost.map(|(block, _)| block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::BlockSize;
    use spindles_format::{StageKind, StageShape, Uuid};

    fn layout() -> StageLayout {
        let bytes = (16 << 10) + 8 * ((4 << 10) + (128 << 10));
        StageLayout::new(bytes, BlockSize::B4096).expect("long enough")
    }

    const FIRST: u64 = 5 << 32;

    fn header(number: u64, tail: u64, durable: u64, shape: StageShape) -> StageBatch {
        StageBatch {
            array: Uuid([1; 16]),
            nonce: 7,
            number: FIRST + number,
            tail: FIRST + tail,
            durable: FIRST + durable,
            shape,
        }
    }

    /// A batch of three blocks: two data columns, of which the second is shorter, and parity.
    fn batch(number: u64, block: u64, durable: u64) -> Directory {
        let shape = StageShape {
            blocks: 3,
            data: 2,
            parity: 1,
        };
        let place = u32::try_from(number).expect("few") * 3;
        let column = |holder| StageColumn {
            holder: MemberIndex(holder),
            place: 4 + place,
        };
        Directory {
            batch: header(number, 1, durable, shape),
            columns: (0..3).map(column).collect(),
            runs: vec![StageRun {
                block: BlockIndex(block),
                blocks: 3,
                kind: StageKind::Contents,
            }],
            checksums: vec![0; 5],
        }
    }

    /// Reports the headers of the columns named in `headers`, and the blocks `good`, each as column
    /// and row.
    fn report(evidence: &mut Evidence, directory: &Directory, headers: &[u8], good: &[(u8, u32)]) {
        for at in headers {
            let to = directory.columns[usize::from(*at)];
            evidence.header(to.holder, to.place, directory);
        }
        for &(column, row) in good {
            evidence.fits(directory.batch.number, column, row);
        }
    }

    /// Holders that are there, intact headers, good blocks, what a header calls durable, the fate.
    type Case<'a> = (u64, &'a [u8], &'a [(u8, u32)], u64, Fate);

    const ALL: [(u8, u32); 5] = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)];

    fn counts(repairs: &[u8]) -> Fate {
        let repairs = repairs.to_vec();
        Fate::Counts { repairs }
    }

    #[test]
    fn a_batch_counts_if_redundancy_gives_it() {
        let batch = batch(1, 10, 0);
        let all = [0, 1, 2];
        let void = |holders: &[u8]| {
            let headers = holders.iter().map(|at| batch.columns[usize::from(*at)]);
            let headers = headers.collect();
            Fate::Void { headers }
        };
        let table: [Case; 10] = [
            (0b111, &all, &ALL, 0, counts(&[])),
            (0b111, &[2], &ALL, 0, counts(&[0, 1])),
            (0b011, &[0, 1], &[(0, 0), (0, 1), (1, 0)], 0, counts(&[])),
            // The second row has one block of data and zeros: parity gives it.
            (0b111, &all, &[(0, 0), (1, 0), (2, 1)], 0, counts(&[0, 2])),
            (0b110, &[1, 2], &[(1, 0), (2, 0), (2, 1)], 0, counts(&[])),
            (0b111, &all, &[(1, 0), (2, 0)], 0, void(&all)),
            (0b111, &all, &[(0, 0), (0, 1)], 0, void(&all)),
            (0b011, &[0], &[(0, 0), (0, 1)], 0, void(&[0, 1])),
            (0b111, &all, &[(1, 0), (2, 0)], 1, Fate::Lost),
            (0b111, &[0], &[], 3, Fate::Lost),
        ];
        for (present, headers, good, durable, fate) in table {
            let mut evidence = Evidence::new(layout(), MemberSet::from_bits(present));
            report(&mut evidence, &batch, headers, good);
            let later = super::tests::batch(2, 20, durable);
            report(&mut evidence, &later, &[0], &[]);
            let verdict = evidence.judge();
            let what = std::format!("{present:b} {headers:?} {good:?} {durable}");
            assert_eq!(verdict.batches[0].fate, fate, "{what}");
            if matches!(fate, Fate::Counts { .. }) {
                for row in 0..2 {
                    assert_eq!(verdict.batches[0].sources(row).count(), 2, "{what}");
                }
            }
        }
    }

    /// Only a header of the same opening says that a batch was durable.
    #[test]
    fn another_opening_says_nothing_of_durability() {
        let mut evidence = Evidence::new(layout(), MemberSet::all(3));
        let torn = batch(1, 10, 0);
        report(&mut evidence, &torn, &[0], &[]);
        let mut later = batch(2, 20, 9);
        later.batch.number += 1 << 32;
        later.batch.durable += 1 << 32;
        report(&mut evidence, &later, &[0, 1, 2], &ALL);
        let verdict = evidence.judge();
        assert!(matches!(verdict.batches[0].fate, Fate::Void { .. }));
        assert_eq!(verdict.batches[1].fate, counts(&[]));
        assert_eq!(verdict.lost(), []);
    }

    /// Blocks of a lost batch are not lost if a later one that counts has them.
    #[test]
    fn later_batches_replace_lost_blocks() {
        let mut evidence = Evidence::new(layout(), MemberSet::all(3));
        report(&mut evidence, &batch(1, 10, 0), &[0, 1, 2], &ALL);
        report(&mut evidence, &batch(2, 10, 0), &[1], &[]);
        report(&mut evidence, &batch(3, 12, 0), &[0, 1, 2], &ALL);
        report(&mut evidence, &batch(4, 30, 3), &[0], &[]);
        let verdict = evidence.judge();
        let fates: Vec<bool> = verdict
            .batches
            .iter()
            .map(|judged| judged.fate == Fate::Lost)
            .collect();
        assert_eq!(fates, [false, true, false, false]);
        let superseded = verdict.batches.iter().map(|judged| judged.is_superseded);
        assert!(superseded.eq([true, false, false, false]));
        assert_eq!(verdict.lost(), [10, 11].map(BlockIndex));
    }

    /// Batches below the highest tail are not looked at; each holder keeps its newest tail.
    #[test]
    fn the_highest_tail_of_any_header_counts() {
        let layout = layout();
        let mut evidence = Evidence::new(layout, MemberSet::all(3));
        for number in 1..4 {
            report(&mut evidence, &batch(number, 10, 0), &[0, 1, 2], &ALL);
        }
        let tail = |number, tail, places: [u8; 3]| {
            let column = |(holder, slot): (u8, u8)| StageColumn {
                holder: MemberIndex(holder),
                place: layout.tail_place(slot),
            };
            Directory {
                batch: header(
                    number,
                    tail,
                    0,
                    StageShape {
                        parity: 3,
                        ..StageShape::default()
                    },
                ),
                columns: (0..).zip(places).map(column).collect(),
                runs: Vec::new(),
                checksums: Vec::new(),
            }
        };
        report(&mut evidence, &tail(4, 2, [0, 0, 1]), &[0, 1, 2], &[]);
        report(&mut evidence, &tail(5, 3, [1, 1, 0]), &[1], &[]);
        // A header in another place than it names is an old copy.
        evidence.header(MemberIndex(2), 0, &tail(6, 9, [0, 0, 1]));
        let sought: Vec<(u64, u8)> = evidence
            .sought()
            .map(|(directory, column)| (directory.batch.number - FIRST, column))
            .collect();
        assert_eq!(sought, [(3, 0), (3, 1), (3, 2)]);
        let verdict = evidence.judge();
        assert_eq!(verdict.tail, FIRST + 3);
        let numbers = verdict
            .batches
            .iter()
            .map(|judged| judged.directory.batch.number);
        assert!(numbers.eq([FIRST + 3]));
        let next = MemberSet::EMPTY.with(MemberIndex(0));
        assert_eq!(
            verdict.slots, next,
            "others have their newest tail in slot 1"
        );
    }

    /// Blocks that can't be read are overwritten, but not in batches that count or are lost.
    #[test]
    fn unreadable_blocks_are_overwritten_outside_of_batches() {
        let mut evidence = Evidence::new(layout(), MemberSet::all(3));
        let (whole, torn) = (batch(1, 10, 0), batch(2, 20, 0));
        report(&mut evidence, &whole, &[0, 1, 2], &ALL[1..]);
        report(&mut evidence, &torn, &[0, 1, 2], &[]);
        let places = [(0, 8), (0, 11), (1, 9), (2, 7), (2, 200)];
        for (holder, place) in places {
            evidence.unreadable(MemberIndex(holder), place);
        }
        let verdict = evidence.judge();
        let left = verdict
            .unreadable
            .iter()
            .map(|block| (block.holder.0, block.place));
        assert!(left.eq([(0, 11), (1, 9), (2, 200)]));
        assert_eq!(verdict.batches[0].fate, counts(&[0]));
    }
}
