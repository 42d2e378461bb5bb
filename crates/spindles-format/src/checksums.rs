//! Checksums of blocks: pages of entries in an area of their own, apart from the blocks they cover.
//!
//! A page consists of parts of the smallest sector size, so a crash leaves each part old or new,
//! never a mixture. Each entry is independent, so a mixture of old and new *parts* is as good as
//! any order that the journal could enforce. A part does not store the array's identity, but its
//! checksum covers it.

use crate::crc32c::crc32c_of;
use crate::{RowSum, Uuid};

/// The length of a page, the unit of reads and writes.
pub const CHECKSUM_PAGE_BYTES: usize = 4096;
/// The length of a part of a page.
pub const CHECKSUM_PART_BYTES: usize = 512;

/// No checksum was kept: the block's contents are unknown.
pub const CHECKSUM_NONE: u32 = 0;
/// The entry of a block that was never written, in a row that reads as zeros. No block has this
/// checksum.
pub const CHECKSUM_BLANK: u32 = u32::MAX - 1;
/// The entry of a block whose checksum was lost. No block has this checksum.
pub const CHECKSUM_LOST: u32 = u32::MAX;

const PARTS: usize = CHECKSUM_PAGE_BYTES / CHECKSUM_PART_BYTES;
const NUMBER_AT: usize = 500;
const GENERATION_AT: usize = NUMBER_AT + 4;
const SUM_AT: usize = GENERATION_AT + 4;

const _: () = assert!(SUM_AT + 4 == CHECKSUM_PART_BYTES);

/// Every field of a part, in order: offset, length, name. The table of `docs/reference/format.md`.
pub const CHECKSUM_FIELDS: &[(usize, usize, &str)] = &[
    (0, NUMBER_AT, "entries"),
    (500, 4, "number"),
    (504, 4, "generation"),
    (508, 4, "sum"),
];

/// The contents of a member's checksum area for each block of its data area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// The block's checksum.
    Checksums,
    /// The block's checksum and, for parity blocks, the row sum: both are written at once.
    WithRowSums,
}

impl Entries {
    /// The length of an entry, in bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Checksums => 4,
            Self::WithRowSums => 12,
        }
    }

    /// Blocks of the data area whose entries are in one page.
    #[inline]
    #[must_use]
    pub const fn page_blocks(self) -> u64 {
        (PARTS * self.part_blocks()) as u64
    }

    /// The number of pages with the entries of this many blocks.
    #[must_use]
    pub const fn pages(self, blocks: u64) -> u64 {
        blocks.div_ceil(self.page_blocks())
    }

    /// Blocks whose entries are in one part.
    #[inline]
    const fn part_blocks(self) -> usize {
        match self {
            Self::Checksums => NUMBER_AT / Self::Checksums.bytes(),
            Self::WithRowSums => NUMBER_AT / Self::WithRowSums.bytes(),
        }
    }

    /// Returns the page of the area that holds the entry of a block of the data area, and the place
    /// there.
    #[inline]
    #[must_use]
    pub fn find(self, block: u64) -> (u64, usize) {
        // Each arm divides by a constant.
        let (page, place) = match self {
            Self::Checksums => {
                const BLOCKS: u64 = Entries::Checksums.page_blocks();
                (block / BLOCKS, block % BLOCKS)
            }
            Self::WithRowSums => {
                const BLOCKS: u64 = Entries::WithRowSums.page_blocks();
                (block / BLOCKS, block % BLOCKS)
            }
        };
        (page, usize::try_from(place).expect("less than 1000"))
    }

    /// Returns the offset in the page of the entry at `place`.
    #[inline]
    fn at(self, place: usize) -> usize {
        let (part, place) = self.split(place);
        part * CHECKSUM_PART_BYTES + place * self.bytes()
    }

    /// Returns the part of the page that holds the entry at `place`, and the place in that part.
    #[inline]
    fn split(self, place: usize) -> (usize, usize) {
        match self {
            Self::Checksums => {
                const BLOCKS: usize = Entries::Checksums.part_blocks();
                (place / BLOCKS, place % BLOCKS)
            }
            Self::WithRowSums => {
                const BLOCKS: usize = Entries::WithRowSums.part_blocks();
                (place / BLOCKS, place % BLOCKS)
            }
        }
    }

    /// Returns the checksum at `place` of the page.
    #[inline]
    #[must_use]
    pub fn checksum_in(self, page: &[u8], place: usize) -> u32 {
        let bytes = page[self.at(place)..].first_chunk();
        u32::from_le_bytes(*bytes.expect("a place within the page"))
    }

    /// Sets the checksum at `place` of the page and leaves the row sum next to it unchanged.
    #[inline]
    pub fn set_checksum_in(self, page: &mut [u8], place: usize, checksum: u32) {
        let at = self.at(place);
        page[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Returns the row sum at `place` of the page; 0 if none was kept or entries have none.
    #[inline]
    #[must_use]
    pub fn row_sum_in(self, page: &[u8], place: usize) -> RowSum {
        if self == Self::Checksums {
            return RowSum(0);
        }
        let bytes = page[self.at(place) + 4..].first_chunk();
        RowSum(u64::from_le_bytes(*bytes.expect("a place within the page")))
    }

    /// Sets the whole entry at `place` of the page, without the row sum if entries have none.
    #[inline]
    pub fn set_in(self, page: &mut [u8], place: usize, checksum: u32, row_sum: RowSum) {
        let at = self.at(place);
        self.put(&mut page[at..at + self.bytes()], checksum, row_sum);
    }

    /// Fills the bytes of one entry.
    #[inline]
    fn put(self, entry: &mut [u8], checksum: u32, row_sum: RowSum) {
        let (of_block, of_row) = entry.split_at_mut(4);
        of_block.copy_from_slice(&checksum.to_le_bytes());
        if self == Self::WithRowSums {
            of_row.copy_from_slice(&row_sum.0.to_le_bytes());
        }
    }

    /// Sets `count` whole entries from `place` of the page on, as `set_in` sets one. `entry(i)`
    /// returns the checksum and the row sum of entry `place + i`.
    #[inline]
    pub fn set_run_in(
        self,
        page: &mut [u8],
        place: usize,
        count: usize,
        entry: impl Fn(usize) -> (u32, RowSum),
    ) {
        let mut done = 0;
        while done < count {
            let (part, first) = self.split(place + done);
            let here = (self.part_blocks() - first).min(count - done);
            let at = part * CHECKSUM_PART_BYTES + first * self.bytes();
            let entries = page[at..at + here * self.bytes()].chunks_exact_mut(self.bytes());
            for (bytes, row) in entries.zip(done..) {
                let (checksum, row_sum) = entry(row);
                self.put(bytes, checksum, row_sum);
            }
            done += here;
        }
    }

    /// Marks every entry of an unreadable page as lost.
    pub fn lose(self, page: &mut [u8]) {
        for part in parts(page) {
            self.lose_part(part);
        }
    }

    fn lose_part(self, part: &mut [u8; CHECKSUM_PART_BYTES]) {
        part.fill(0);
        for place in 0..self.part_blocks() {
            self.set_checksum_in(part, place, CHECKSUM_LOST);
        }
    }
}

/// The checksum algorithm of an array's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// No checksums.
    #[default]
    None,
    /// CRC-32C (Castagnoli) of each block, as `block_checksum` computes it.
    Crc32c,
}

impl ChecksumKind {
    /// Every kind with its name for users. The index is the kind's number in superblocks.
    pub const NAMES: [(Self, &'static str); 2] = [(Self::None, "none"), (Self::Crc32c, "crc32c")];

    /// Returns the kind with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find(|(_, of)| *of == name).map(|(kind, _)| *kind)
    }

    /// The name that users type.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.number())].1
    }

    /// The kind's number in superblocks.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Crc32c => 1,
        }
    }

    /// Returns the kind with this number in superblocks.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        let mut kinds = Self::NAMES.iter().map(|(kind, _)| *kind);
        kinds.find(|kind| kind.number() == number)
    }
}

/// Maps a checksum to the value stored: three values have special meanings.
#[inline]
#[must_use]
pub const fn stored_checksum(crc: u32) -> u32 {
    match crc {
        CHECKSUM_NONE | CHECKSUM_BLANK | CHECKSUM_LOST => 1,
        crc => crc,
    }
}

/// A set of parts of a page, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageParts(u8);

impl PageParts {
    /// No parts.
    pub const NONE: Self = Self(0);
    /// All parts.
    pub const ALL: Self = Self(u8::MAX);

    /// Adds the parts with `count` entries, at least one, from `place` of the page on.
    #[inline]
    pub fn add(&mut self, entries: Entries, place: usize, count: usize) {
        let (first, last) = (entries.split(place).0, entries.split(place + count - 1).0);
        self.0 |= u8::MAX << first & u8::MAX >> (PARTS - 1 - last);
    }
}

const _: () = assert!(PARTS == 8, "a bit for each part");

/// Prepares page `number` of a member's area for writing. Only `changed` parts are sealed again;
/// the others are still valid.
pub fn seal_checksums(
    array: Uuid,
    number: u64,
    generation: u64,
    page: &mut [u8],
    changed: PageParts,
) {
    let generation = generation.to_le_bytes();
    for (at, (part, number)) in parts(page).iter_mut().zip(numbers(number)).enumerate() {
        if changed.0 >> at & 1 == 0 {
            continue;
        }
        part[NUMBER_AT..GENERATION_AT].copy_from_slice(&number.to_le_bytes());
        part[GENERATION_AT..SUM_AT].copy_from_slice(&generation[..4]);
        let sum = sum(array, part).to_le_bytes();
        part[SUM_AT..].copy_from_slice(&sum);
    }
}

/// Checks a page that was read. Marks the entries of corrupt or misplaced parts as lost and returns
/// these parts. A part of zeros was never written and is good.
pub fn open_checksums(entries: Entries, array: Uuid, number: u64, page: &mut [u8]) -> PageParts {
    let mut lost = PageParts::NONE;
    for (at, (part, number)) in parts(page).iter_mut().zip(numbers(number)).enumerate() {
        let is_good = part[NUMBER_AT..GENERATION_AT] == number.to_le_bytes()
            && part[SUM_AT..] == sum(array, part).to_le_bytes();
        if !is_good && *part != [0; CHECKSUM_PART_BYTES] {
            lost.0 |= 1 << at;
            entries.lose_part(part);
        }
    }
    lost
}

fn parts(page: &mut [u8]) -> &mut [[u8; CHECKSUM_PART_BYTES]] {
    assert_eq!(page.len(), CHECKSUM_PAGE_BYTES, "a whole page");
    page.as_chunks_mut().0
}

/// The numbers of the parts of a page, of 32 bits: enough to distinguish neighbours.
fn numbers(page: u64) -> impl Iterator<Item = u32> {
    let first = page.wrapping_mul(PARTS as u64);
    (first..).take(PARTS).map(|part| {
        let [a, b, c, d, ..] = part.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    })
}

/// Returns the checksum at the end of a part.
fn sum(array: Uuid, part: &[u8; CHECKSUM_PART_BYTES]) -> u32 {
    crc32c_of(&[&array.0, &part[..SUM_AT]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: Uuid = Uuid([0xa5; 16]);
    const GOOD: PageParts = PageParts::NONE;
    const ALL: [Entries; 2] = [Entries::Checksums, Entries::WithRowSums];

    /// Yields the places of a page, with the checksum and row sum that `page` writes there.
    fn filling(entries: Entries) -> impl Iterator<Item = (usize, u32, RowSum)> {
        let row_sum = move |place: u64| match entries {
            Entries::Checksums => RowSum(0),
            Entries::WithRowSums => RowSum(u64::MAX - place),
        };
        let places = (0..entries.page_blocks()).zip(7..);
        places.map(move |(place, checksum)| {
            let at = usize::try_from(place).expect("small");
            (at, checksum, row_sum(place))
        })
    }

    fn entry_in(entries: Entries, page: &[u8], place: usize) -> (u32, RowSum) {
        (
            entries.checksum_in(page, place),
            entries.row_sum_in(page, place),
        )
    }

    fn page(entries: Entries) -> [u8; CHECKSUM_PAGE_BYTES] {
        let mut page = [0; CHECKSUM_PAGE_BYTES];
        for (place, checksum, row_sum) in filling(entries) {
            entries.set_in(&mut page, place, checksum, row_sum);
        }
        seal_checksums(ARRAY, 3, 9, &mut page, PageParts::ALL);
        page
    }

    #[test]
    fn encoding_round_trips() {
        for entries in ALL {
            let mut bytes = page(entries);
            assert_eq!(open_checksums(entries, ARRAY, 3, &mut bytes), GOOD);
            for (place, checksum, row_sum) in filling(entries) {
                assert_eq!(entry_in(entries, &bytes, place), (checksum, row_sum));
                entries.set_checksum_in(&mut bytes, place, !checksum);
                assert_eq!(entry_in(entries, &bytes, place), (!checksum, row_sum));
            }
            let mut blank = [0; CHECKSUM_PAGE_BYTES];
            assert_eq!(open_checksums(entries, ARRAY, 3, &mut blank), GOOD);
            for (place, ..) in filling(entries) {
                assert_eq!(entry_in(entries, &blank, place), (CHECKSUM_NONE, RowSum(0)));
            }
        }
    }

    /// The other parts of the page stay valid.
    #[test]
    fn changed_parts_are_sealed() {
        for entries in ALL {
            for place in [0, entries.part_blocks() - 1, entries.part_blocks()] {
                let mut bytes = page(entries);
                entries.set_in(&mut bytes, place, 77, RowSum(0));
                let mut changed = PageParts::NONE;
                changed.add(entries, place, 1);
                assert_eq!(changed, PageParts(1 << (place / entries.part_blocks())));
                assert_eq!(
                    open_checksums(entries, ARRAY, 3, &mut bytes.clone()),
                    changed
                );
                seal_checksums(ARRAY, 3, 10, &mut bytes, changed);
                assert_eq!(open_checksums(entries, ARRAY, 3, &mut bytes), GOOD);
                assert_eq!(entries.checksum_in(&bytes, place), 77);
            }
        }
    }

    #[test]
    fn part_bits_of_a_run_are_computed() {
        for entries in ALL {
            let of_part = entries.part_blocks();
            for (place, count, parts) in [
                (0, 1, 1),
                (of_part - 1, 1, 1),
                (of_part - 1, 2, 3),
                (of_part, 2 * of_part, 6),
                (7 * of_part, of_part, 0x80),
                (0, 8 * of_part, 0xff),
            ] {
                let mut changed = PageParts::NONE;
                changed.add(entries, place, count);
                assert_eq!(changed, PageParts(parts), "{count} from {place}");
            }
        }
    }

    /// As `docs/reference/format.md` specifies.
    #[test]
    fn every_block_has_its_own_checksum_position() {
        for (entries, bytes, of_part, of_page) in [
            (Entries::Checksums, 4, 125, 1000),
            (Entries::WithRowSums, 12, 41, 328),
        ] {
            assert_eq!(entries.bytes(), bytes);
            assert_eq!(entries.page_blocks(), of_page);
            for block in (0..3 * of_page).chain([(1 << 41) - 1]) {
                let (page, place) = entries.find(block);
                assert_eq!(page * of_page + place as u64, block);
                let expected = place / of_part * 512 + place % of_part * bytes;
                assert_eq!(entries.at(place), expected);
                assert!(place / of_part < PARTS);
            }
        }
    }

    #[test]
    fn pages_of_other_positions_and_arrays_count_as_lost() {
        for entries in ALL {
            let is_lost = |page: &[u8]| {
                filling(entries)
                    .all(|(place, ..)| entry_in(entries, page, place) == (CHECKSUM_LOST, RowSum(0)))
            };
            let far = 3 + (1 << 29); // Its parts have the same 32-bit numbers.
            let opened = open_checksums(entries, ARRAY, far, &mut page(entries));
            assert_eq!(opened, GOOD);
            for (array, number) in [(ARRAY, 2), (ARRAY, 4), (Uuid([0xa4; 16]), 3)] {
                let mut bytes = page(entries);
                let opened = open_checksums(entries, array, number, &mut bytes);
                assert_eq!(opened, PageParts::ALL);
                assert!(is_lost(&bytes));
            }
            let mut bytes = page(entries);
            entries.lose(&mut bytes);
            assert!(is_lost(&bytes));
        }
    }

    /// Every wrong byte is found, and costs only its own part.
    #[test]
    fn every_wrong_byte_is_found() {
        for entries in ALL {
            let good = page(entries);
            for at in 0..CHECKSUM_PAGE_BYTES {
                for flip in [1, 0x80, 0xff] {
                    let mut bytes = good;
                    bytes[at] ^= flip;
                    let opened = open_checksums(entries, ARRAY, 3, &mut bytes);
                    let hit = PageParts(1 << (at / CHECKSUM_PART_BYTES));
                    assert_eq!(opened, hit, "{at} ^ {flip:#x}");
                    for (place, checksum, row_sum) in filling(entries) {
                        let is_hit = place / entries.part_blocks() == at / CHECKSUM_PART_BYTES;
                        let expected = if is_hit {
                            (CHECKSUM_LOST, RowSum(0))
                        } else {
                            (checksum, row_sum)
                        };
                        assert_eq!(entry_in(entries, &bytes, place), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn no_checksum_equals_a_reserved_value() {
        for crc in [CHECKSUM_NONE, CHECKSUM_BLANK, CHECKSUM_LOST] {
            assert_eq!(stored_checksum(crc), 1);
        }
        assert_eq!(stored_checksum(77), 77);
    }

    #[test]
    fn checksum_kinds_are_found_by_name() {
        for (kind, name) in ChecksumKind::NAMES {
            assert_eq!(ChecksumKind::by_name(name), Some(kind));
            assert_eq!(kind.name(), name);
            assert_eq!(ChecksumKind::of_number(kind.number()), Some(kind));
        }
        assert_eq!(ChecksumKind::by_name("md5"), None);
        assert_eq!(ChecksumKind::of_number(2), None);
    }
}
