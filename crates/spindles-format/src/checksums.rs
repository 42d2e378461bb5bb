//! Checksums of blocks: pages of them in an area of their own, apart from what they cover.
//!
//! A page is made of parts as long as the smallest sector, so a crash leaves each part old or new,
//! never a mixture. Each checksum stands for itself, so a mixture of old and new *parts* is as good as
//! any that the journal can put in order. The identity of the array is not in a part, but in its
//! sum.

use crate::crc32c::{SEED, crc32c_on};
use crate::{AreaKind, ArrayRecord, DeviceRecord, Features, Uuid};

/// The length of a page: what is read and written at once.
pub const CHECKSUM_PAGE_BYTES: usize = 4096;
/// Blocks of the data area whose checksums are in one page.
pub const CHECKSUM_PAGE_BLOCKS: u64 = 1000;
/// The length of a part of a page.
pub const CHECKSUM_PART_BYTES: usize = 512;
/// Blocks whose checksums are in one part.
const CHECKSUM_PART_BLOCKS: usize = 125;

/// The checksum of a block that was never written; what such a block holds is not known.
pub const CHECKSUM_NONE: u32 = 0;
/// The checksum of a block whose checksum was lost: no block has it.
pub const CHECKSUM_LOST: u32 = u32::MAX;

const PARTS: usize = CHECKSUM_PAGE_BYTES / CHECKSUM_PART_BYTES;
const NUMBER_AT: usize = 4 * CHECKSUM_PART_BLOCKS;
const GENERATION_AT: usize = NUMBER_AT + 4;
const SUM_AT: usize = GENERATION_AT + 4;

const _: () = assert!(SUM_AT + 4 == CHECKSUM_PART_BYTES);
const _: () = assert!((PARTS * CHECKSUM_PART_BLOCKS) as u64 == CHECKSUM_PAGE_BLOCKS);

/// Every field of a part, in order: offset, length, name. The table of `docs/format.md`.
pub const CHECKSUM_FIELDS: &[(usize, usize, &str)] = &[
    (0, 500, "checksums"),
    (500, 4, "number"),
    (504, 4, "generation"),
    (508, 4, "sum"),
];

/// How the blocks of an array are summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// Not at all.
    #[default]
    None,
    /// CRC-32C (Castagnoli) of each block, as `block_checksum` takes it.
    Crc32c,
}

impl ChecksumKind {
    /// Every kind, with what users type. The place is what superblocks hold.
    pub const NAMES: [(Self, &'static str); 2] = [(Self::None, "none"), (Self::Crc32c, "crc32c")];

    /// The kind of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find(|(_, of)| *of == name).map(|(kind, _)| *kind)
    }

    /// What users type.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.number())].1
    }

    /// What superblocks hold.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Crc32c => 1,
        }
    }

    /// The kind that superblocks mean.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        let mut kinds = Self::NAMES.iter().map(|(kind, _)| *kind);
        kinds.find(|kind| kind.number() == number)
    }
}

/// Gives a new array checksums. The checksum areas of all members are then to be made zeros.
pub fn give_checksums(array: &mut ArrayRecord, devices: &mut [DeviceRecord], kind: ChecksumKind) {
    if kind == ChecksumKind::None {
        return;
    }
    for device in devices {
        device.set_version(AreaKind::CHECKSUMS, 1);
    }
    array.checksum = kind;
    array.features.refuse |= Features::CHECKSUMS;
}

/// Whether the checksum area of a device has room for all blocks of its data area.
#[must_use]
pub fn room_for_checksums(device: &DeviceRecord) -> bool {
    let pages = device.data_blocks().div_ceil(CHECKSUM_PAGE_BLOCKS);
    let area = device.area(AreaKind::CHECKSUMS);
    area.is_some_and(|area| area.length_bytes / CHECKSUM_PAGE_BYTES as u64 >= pages)
}

/// How a checksum is kept: two values have meanings of their own.
#[inline]
#[must_use]
pub const fn stored_checksum(crc: u32) -> u32 {
    match crc {
        CHECKSUM_NONE | CHECKSUM_LOST => 1,
        crc => crc,
    }
}

/// Where in its page the checksum of the block at `place` of the page's blocks is.
#[inline]
fn at(place: usize) -> usize {
    place / CHECKSUM_PART_BLOCKS * CHECKSUM_PART_BYTES + place % CHECKSUM_PART_BLOCKS * 4
}

/// The checksum of the block at `place` of the page's blocks.
#[inline]
#[must_use]
pub fn checksum_in(page: &[u8], place: usize) -> u32 {
    let bytes = page[at(place)..].first_chunk();
    u32::from_le_bytes(*bytes.expect("a place within the page"))
}

/// Changes the checksum of the block at `place` of the page's blocks.
#[inline]
pub fn set_checksum_in(page: &mut [u8], place: usize, checksum: u32) {
    page[at(place)..at(place) + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// Makes a page ready to be written: page `number` of the area of a member.
pub fn seal_checksums(array: Uuid, number: u32, generation: u64, page: &mut [u8]) {
    let generation = generation.to_le_bytes();
    for (part, number) in parts(page).iter_mut().zip(numbers(number)) {
        part[NUMBER_AT..GENERATION_AT].copy_from_slice(&number.to_le_bytes());
        part[GENERATION_AT..SUM_AT].copy_from_slice(&generation[..4]);
        let sum = sum(array, part).to_le_bytes();
        part[SUM_AT..].copy_from_slice(&sum);
    }
}

/// Looks at a page that was read: what is not as it was written, or another page's, is lost. Whether
/// all was good. A part of zeros is one that was never written.
pub fn open_checksums(array: Uuid, number: u32, page: &mut [u8]) -> bool {
    let mut good = true;
    for (part, number) in parts(page).iter_mut().zip(numbers(number)) {
        let is_good = part[NUMBER_AT..GENERATION_AT] == number.to_le_bytes()
            && part[SUM_AT..] == sum(array, part).to_le_bytes();
        if !is_good && *part != [0; CHECKSUM_PART_BYTES] {
            good = false;
            part[..NUMBER_AT].fill(0xff);
        }
    }
    good
}

fn parts(page: &mut [u8]) -> &mut [[u8; CHECKSUM_PART_BYTES]] {
    assert_eq!(page.len(), CHECKSUM_PAGE_BYTES, "a whole page");
    page.as_chunks_mut().0
}

/// The numbers of the parts of a page.
fn numbers(page: u32) -> impl Iterator<Item = u32> {
    let first = page.wrapping_mul(u32::try_from(PARTS).expect("8"));
    (0..).map(move |part| first.wrapping_add(part))
}

/// What a part that begins with these bytes ends with.
fn sum(array: Uuid, part: &[u8; CHECKSUM_PART_BYTES]) -> u32 {
    !crc32c_on(crc32c_on(SEED, &array.0), &part[..SUM_AT])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: Uuid = Uuid([0xa5; 16]);
    const LAST: usize = PARTS * CHECKSUM_PART_BLOCKS - 1;

    fn page() -> [u8; CHECKSUM_PAGE_BYTES] {
        let mut page = [0; CHECKSUM_PAGE_BYTES];
        for (place, checksum) in (0..=LAST).zip(7..) {
            set_checksum_in(&mut page, place, checksum);
        }
        seal_checksums(ARRAY, 3, 9, &mut page);
        page
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = page();
        assert!(open_checksums(ARRAY, 3, &mut bytes));
        for (place, checksum) in (0..=LAST).zip(7..) {
            assert_eq!(checksum_in(&bytes, place), checksum);
        }
        let mut blank = [0; CHECKSUM_PAGE_BYTES];
        assert!(open_checksums(ARRAY, 3, &mut blank));
        assert_eq!(checksum_in(&blank, LAST), CHECKSUM_NONE);
    }

    #[test]
    fn other_pages_and_arrays_are_lost() {
        for (array, number) in [(ARRAY, 2), (Uuid([0xa4; 16]), 3)] {
            let mut bytes = page();
            assert!(!open_checksums(array, number, &mut bytes));
            for place in 0..=LAST {
                assert_eq!(checksum_in(&bytes, place), CHECKSUM_LOST);
            }
        }
    }

    /// Every wrong byte is found, and costs the part that it is in.
    #[test]
    fn every_wrong_byte_is_found() {
        let good = page();
        for at in 0..CHECKSUM_PAGE_BYTES {
            for flip in [1, 0x80, 0xff] {
                let mut bytes = good;
                bytes[at] ^= flip;
                assert!(!open_checksums(ARRAY, 3, &mut bytes), "{at} ^ {flip:#x}");
                for (place, checksum) in (0..=LAST).zip(7..) {
                    let is_hit = place / CHECKSUM_PART_BLOCKS == at / CHECKSUM_PART_BYTES;
                    let expected = if is_hit { CHECKSUM_LOST } else { checksum };
                    assert_eq!(checksum_in(&bytes, place), expected);
                }
            }
        }
    }

    #[test]
    fn no_checksum_has_a_meaning_of_its_own() {
        for crc in [CHECKSUM_NONE, CHECKSUM_LOST] {
            assert_eq!(stored_checksum(crc), 1);
        }
        assert_eq!(stored_checksum(77), 77);
    }

    #[test]
    fn names_are_found() {
        for (kind, name) in ChecksumKind::NAMES {
            assert_eq!(ChecksumKind::by_name(name), Some(kind));
            assert_eq!(kind.name(), name);
            assert_eq!(ChecksumKind::of_number(kind.number()), Some(kind));
        }
        assert_eq!(ChecksumKind::by_name("md5"), None);
        assert_eq!(ChecksumKind::of_number(2), None);
    }
}
