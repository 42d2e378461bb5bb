//! The list of bad blocks: blocks of the array whose contents are lost, and blocks of members that
//! failed to be written. An array with redundancy has one list, the same on all members.
//!
//! A page of the list has the smallest sector size, so a crash leaves it old or new. Every entry is
//! independent. The newest good copy of each page counts.

use crate::{
    AreaKind, ArrayRecord, BAD_BLOCKS_PAGE_BYTES, DeviceRecord, Features, SUPERBLOCK_BYTES, Uuid,
    crc32c,
};
use alloc::{vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BlockIndex, MemberIndex};

/// The number of entries that a page has room for.
pub const BAD_BLOCKS_PAGE_ENTRIES: usize = 29;

/// The first bytes of every page.
const MAGIC: [u8; 8] = *b"SPINDBAD";
const ENTRIES_AT: usize = 40;
const ENTRY_BYTES: usize = 16;
const CHECKSUM_AT: usize = BAD_BLOCKS_PAGE_BYTES - 4;

const _: () = assert!(ENTRIES_AT + ENTRY_BYTES * BAD_BLOCKS_PAGE_ENTRIES == CHECKSUM_AT - 4);

/// Every field of a page, in order: offset, length, name. The table of `docs/reference/format.md`.
pub const BAD_BLOCKS_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 16, "array UUID"),
    (24, 8, "sequence number"),
    (32, 4, "page"),
    (36, 2, "entries"),
    (38, 2, "reserved"),
    (40, 464, "entries, 16 bytes each"),
    (504, 4, "reserved"),
    (508, 4, "checksum"),
];

/// The kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBlockKind {
    /// Blocks of the array whose contents a crash destroyed. Reads fail until they are written.
    Lost,
    /// Blocks of this member's data area that must not be read: writing them failed, or they could
    /// not be filled when the member took its place.
    Unread(MemberIndex),
}

/// A run of bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlocks {
    /// The kind of damage, and whether these are blocks of the array or of a member.
    pub kind: BadBlockKind,
    /// The first block.
    pub start: BlockIndex,
    /// The number of blocks; at least one.
    pub blocks: u32,
}

impl BadBlocks {
    /// The first block after the run.
    #[must_use]
    pub const fn end(&self) -> BlockIndex {
        BlockIndex(self.start.0 + self.blocks as u64)
    }
}

/// Returns the listed blocks of the array that a crash destroyed: sorted, and merged where runs
/// touch.
pub fn lost_runs<'a>(listed: impl IntoIterator<Item = &'a BadBlocks>) -> Vec<Range<BlockIndex>> {
    let lost = listed
        .into_iter()
        .filter(|run| run.kind == BadBlockKind::Lost);
    let mut runs: Vec<_> = lost.map(|run| run.start..run.end()).collect();
    runs.sort_unstable_by_key(|run| run.start);
    runs.dedup_by(|next, run| {
        let touches = next.start <= run.end;
        if touches {
            run.end = run.end.max(next.end);
        }
        touches
    });
    runs
}

/// Gives a new array a list of bad blocks. The caller must then write `blank_bad_blocks` to the
/// areas of all members.
pub fn give_bad_blocks(array: &mut ArrayRecord, devices: &mut [DeviceRecord]) {
    for device in devices {
        device.set_version(AreaKind::BAD_BLOCKS, 1);
    }
    array.features.refuse |= Features::BAD_BLOCKS;
}

/// Returns an empty list, padded to whole blocks.
#[must_use]
pub fn blank_bad_blocks(array: Uuid, pages: u32) -> Vec<u8> {
    let bytes = usize::try_from(pages).expect("an area is small") * BAD_BLOCKS_PAGE_BYTES;
    let mut area = vec![0; bytes.next_multiple_of(SUPERBLOCK_BYTES)];
    for (page, out) in (0..pages).zip(area.as_chunks_mut().0) {
        encode_bad_blocks(array, page, 1, &[], out);
    }
    area
}

/// Encodes a page.
pub fn encode_bad_blocks(
    array: Uuid,
    page: u32,
    sequence: u64,
    entries: &[BadBlocks],
    out: &mut [u8; BAD_BLOCKS_PAGE_BYTES],
) {
    assert!(
        entries.len() <= BAD_BLOCKS_PAGE_ENTRIES,
        "a page has room for 29"
    );
    out.fill(0);
    out[..8].copy_from_slice(&MAGIC);
    out[8..24].copy_from_slice(&array.0);
    out[24..32].copy_from_slice(&sequence.to_le_bytes());
    out[32..36].copy_from_slice(&page.to_le_bytes());
    let count = u16::try_from(entries.len()).expect("at most 29");
    out[36..38].copy_from_slice(&count.to_le_bytes());
    let (places, _) = out[ENTRIES_AT..CHECKSUM_AT].as_chunks_mut::<ENTRY_BYTES>();
    for (place, entry) in places.iter_mut().zip(entries) {
        assert!(entry.blocks > 0, "a run has blocks");
        let (kind, member) = match entry.kind {
            BadBlockKind::Lost => (1, 0),
            BadBlockKind::Unread(member) => (2, member.0),
        };
        place[..8].copy_from_slice(&entry.start.0.to_le_bytes());
        place[8..12].copy_from_slice(&entry.blocks.to_le_bytes());
        place[12] = kind;
        place[13] = member;
    }
    let checksum = crc32c(&out[..CHECKSUM_AT]);
    out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the sequence number and the entries of a page; `None` if the bytes are not an intact
/// copy of that page of that array.
#[must_use]
pub fn decode_bad_blocks(
    array: Uuid,
    page: u32,
    bytes: &[u8; BAD_BLOCKS_PAGE_BYTES],
) -> Option<(u64, impl Iterator<Item = BadBlocks>)> {
    let checksum = crc32c(&bytes[..CHECKSUM_AT]).to_le_bytes();
    let good = bytes[..8] == MAGIC
        && bytes[8..24] == array.0
        && bytes[32..36] == page.to_le_bytes()
        && bytes[CHECKSUM_AT..] == checksum;
    let count = usize::from(u16::from_le_bytes([bytes[36], bytes[37]]));
    let (places, _) = bytes[ENTRIES_AT..CHECKSUM_AT].as_chunks::<ENTRY_BYTES>();
    let places = places.get(..count).filter(|_| good)?;
    let entry = |place: &[u8; ENTRY_BYTES]| {
        let (start, rest) = place.split_first_chunk::<8>().expect("16 bytes");
        let (blocks, rest) = rest.split_first_chunk::<4>().expect("8 bytes");
        let entry = BadBlocks {
            kind: match rest[0] {
                1 => BadBlockKind::Lost,
                2 => BadBlockKind::Unread(MemberIndex(rest[1])),
                _ => return None,
            },
            start: BlockIndex(u64::from_le_bytes(*start)),
            blocks: u32::from_le_bytes(*blocks),
        };
        let sane = entry.blocks > 0 && entry.start.0.checked_add(entry.blocks.into()).is_some();
        sane.then_some(entry)
    };
    if places.iter().any(|place| entry(place).is_none()) {
        return None;
    }
    let sequence = u64::from_le_bytes(*bytes[24..].first_chunk().expect("8 bytes"));
    Some((sequence, places.iter().filter_map(entry)))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const ARRAY: Uuid = Uuid([0xa5; 16]);

    fn sample() -> (Vec<BadBlocks>, [u8; BAD_BLOCKS_PAGE_BYTES]) {
        let entries = (1..=29).map(|number| BadBlocks {
            kind: match number % 3 {
                0 => BadBlockKind::Lost,
                _ => BadBlockKind::Unread(MemberIndex(u8::try_from(number).unwrap())),
            },
            start: BlockIndex(u64::from(number) << 40),
            blocks: number,
        });
        let entries: Vec<BadBlocks> = entries.collect();
        let mut bytes = [0xee; BAD_BLOCKS_PAGE_BYTES];
        encode_bad_blocks(ARRAY, 3, 7, &entries, &mut bytes);
        (entries, bytes)
    }

    fn decode(
        array: Uuid,
        page: u32,
        bytes: &[u8; BAD_BLOCKS_PAGE_BYTES],
    ) -> Option<(u64, Vec<BadBlocks>)> {
        decode_bad_blocks(array, page, bytes)
            .map(|(sequence, entries)| (sequence, entries.collect()))
    }

    #[test]
    fn adjacent_runs_are_merged() {
        let run = |kind, start, blocks| BadBlocks {
            kind,
            start: BlockIndex(start),
            blocks,
        };
        let unread = BadBlockKind::Unread(MemberIndex(1));
        let listed = [(8, 2), (20, 1), (4, 4), (9, 3), (30, 5)];
        let mut listed = listed.map(|(start, blocks)| run(BadBlockKind::Lost, start, blocks));
        listed[4].kind = unread;
        let expected = [4..12, 20..21].map(|run| BlockIndex(run.start)..BlockIndex(run.end));
        assert_eq!(lost_runs(&listed), expected);
    }

    #[test]
    fn encoding_round_trips() {
        let (entries, bytes) = sample();
        assert_eq!(decode(ARRAY, 3, &bytes), Some((7, entries)));
        assert_eq!(decode(ARRAY, 2, &bytes), None);
        assert_eq!(decode(Uuid([0xa4; 16]), 3, &bytes), None);
        let blank = blank_bad_blocks(ARRAY, 8);
        assert_eq!(blank.len(), 4096);
        for (page, bytes) in (0..).zip(blank.as_chunks().0) {
            assert_eq!(decode(ARRAY, page, bytes), Some((1, Vec::new())));
        }
    }

    /// Every wrong value is refused at every place. Even under a right checksum nothing panics, and
    /// no nonsensical entry comes out.
    #[test]
    fn every_wrong_byte_is_found() {
        let (_, good) = sample();
        let mut bytes = good;
        for at in 0..BAD_BLOCKS_PAGE_BYTES {
            for flip in 1..=255 {
                bytes[at] = good[at] ^ flip;
                assert_eq!(decode(ARRAY, 3, &bytes), None, "byte {at} ^ {flip:#x}");
                if at < CHECKSUM_AT {
                    let checksum = crc32c(&bytes[..CHECKSUM_AT]).to_le_bytes();
                    bytes[CHECKSUM_AT..].copy_from_slice(&checksum);
                    let entries = decode(ARRAY, 3, &bytes).map_or(Vec::new(), |(_, all)| all);
                    assert!(entries.iter().all(|entry| entry.end() > entry.start));
                    bytes[CHECKSUM_AT..].copy_from_slice(&good[CHECKSUM_AT..]);
                }
            }
            bytes[at] = good[at];
        }
        assert_eq!(decode(ARRAY, 3, &[0; BAD_BLOCKS_PAGE_BYTES]), None);
        assert_eq!(decode(ARRAY, 3, &[0xff; BAD_BLOCKS_PAGE_BYTES]), None);
    }
}
