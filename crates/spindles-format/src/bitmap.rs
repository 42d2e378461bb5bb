//! The bitmaps: one bit for each region of the array, in pages that can't tear.
//!
//! A page has the smallest sector size, so a crash leaves it old or new, never a mixture. Each bit
//! is independent, so a mixture of old and new *pages* is as good as any. All members hold the same
//! bitmaps. The union over the good pages of the members that take part counts: a surplus bit costs
//! work, a missing bit costs data.

use crate::{
    AreaKind, ArrayRecord, BITMAP_PAGE_BYTES, BITMAP_PAGE_REGIONS, DeviceRecord, Features,
    SUPERBLOCK_BYTES, Uuid, crc32c,
};
use alloc::{vec, vec::Vec};

/// 64-bit words of bits in a page.
pub const BITMAP_PAGE_WORDS: usize = 58;

/// The kinds of areas that hold a bitmap.
pub const BITMAPS: [AreaKind; 2] = [AreaKind::DIRTY_BITMAP, AreaKind::WRITTEN_BITMAP];

/// The first bytes of every page.
const MAGIC: [u8; 8] = *b"SPINDMAP";
const BITS_AT: usize = 40;
const CHECKSUM_AT: usize = BITMAP_PAGE_BYTES - 4;

const _: () = assert!(BITS_AT + 8 * BITMAP_PAGE_WORDS == CHECKSUM_AT - 4);

/// Every field of a page, in order: offset, length, name. The table of `docs/reference/format.md`.
pub const BITMAP_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 16, "array UUID"),
    (24, 8, "generation"),
    (32, 4, "page"),
    (36, 2, "kind"),
    (38, 2, "reserved"),
    (40, 464, "bits"),
    (504, 4, "reserved"),
    (508, 4, "checksum"),
];

/// The identity of a bitmap page: its array, its bitmap and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitmapPage {
    /// The array's identity.
    pub array: Uuid,
    /// The kind of the area.
    pub kind: AreaKind,
    /// The page's number in the area, from 0.
    pub page: u32,
}

/// Returns the redundancy groups in a region of a new array, a power of two: 4 MiB of the array or
/// a little more, or a 64th of it on small arrays. Regions are larger if their bits would exceed
/// `regions_max`. `None` if superblocks can't hold the number.
#[must_use]
pub fn region_groups_for(groups: u64, group_bytes: u64, regions_max: u64) -> Option<u32> {
    const REGION_BYTES: u64 = 4 << 20;
    let sensible = REGION_BYTES.div_ceil(group_bytes.max(1)).min(groups / 64);
    let needed = groups.div_ceil(regions_max.max(1));
    let power = sensible.max(needed).max(1).checked_next_power_of_two()?;
    u32::try_from(power).ok().filter(|_| regions_max > 0)
}

/// Gives a new array regions of `groups` redundancy groups, each of `group_bytes` of the array. The
/// caller must then write `blank_bitmap` to the bitmap areas of all members. Returns false, and
/// changes nothing, if they have no room for it.
#[must_use]
pub fn give_regions(
    array: &mut ArrayRecord,
    devices: &mut [DeviceRecord],
    groups: u64,
    group_bytes: u64,
) -> bool {
    let fitting = region_groups_for(groups, group_bytes, array.shared.regions());
    let Some(region_groups) = fitting else {
        return false;
    };
    for device in devices {
        for kind in BITMAPS {
            device.set_version(kind, 1);
        }
    }
    array.region_groups = region_groups;
    array.features.refuse |= Features::REGIONS;
    true
}

/// Returns a bitmap area with no bit set, for `regions` regions, in whole blocks.
#[must_use]
pub fn blank_bitmap(array: Uuid, kind: AreaKind, regions: u64) -> Vec<u8> {
    uniform_bitmap(array, kind, regions, false)
}

/// Returns a bitmap area with no bit set, or with all bits set.
#[must_use]
pub fn uniform_bitmap(array: Uuid, kind: AreaKind, regions: u64, set: bool) -> Vec<u8> {
    let bits = [if set { u64::MAX } else { 0 }; BITMAP_PAGE_WORDS];
    let pages = usize::try_from(regions.div_ceil(BITMAP_PAGE_REGIONS)).expect("a bitmap is small");
    let bytes = (pages * BITMAP_PAGE_BYTES).next_multiple_of(SUPERBLOCK_BYTES);
    let mut area = vec![0; bytes];
    for (number, out) in (0..).zip(area.as_chunks_mut().0) {
        let page = BitmapPage {
            array,
            kind,
            page: number,
        };
        encode_bitmap(&page, 1, &bits, out);
    }
    area
}

/// Encodes a page. Bit i of word w belongs to region `64 w + i` of the page.
pub fn encode_bitmap(
    page: &BitmapPage,
    generation: u64,
    bits: &[u64; BITMAP_PAGE_WORDS],
    out: &mut [u8; BITMAP_PAGE_BYTES],
) {
    out.fill(0);
    out[..8].copy_from_slice(&MAGIC);
    out[8..24].copy_from_slice(&page.array.0);
    out[24..32].copy_from_slice(&generation.to_le_bytes());
    out[32..36].copy_from_slice(&page.page.to_le_bytes());
    out[36..38].copy_from_slice(&page.kind.0.to_le_bytes());
    let (places, _) = out[BITS_AT..CHECKSUM_AT].as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(bits) {
        *place = word.to_le_bytes();
    }
    let checksum = crc32c(&out[..CHECKSUM_AT]);
    out[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the bits of a page; `None` if the bytes are not an intact copy of that page of that
/// array.
#[must_use]
pub fn decode_bitmap(
    page: &BitmapPage,
    bytes: &[u8; BITMAP_PAGE_BYTES],
) -> Option<[u64; BITMAP_PAGE_WORDS]> {
    let checksum = crc32c(&bytes[..CHECKSUM_AT]).to_le_bytes();
    let good = bytes[..8] == MAGIC
        && bytes[8..24] == page.array.0
        && bytes[32..36] == page.page.to_le_bytes()
        && bytes[36..38] == page.kind.0.to_le_bytes()
        && bytes[CHECKSUM_AT..] == checksum;
    let (places, _) = bytes[BITS_AT..CHECKSUM_AT].as_chunks::<8>();
    good.then(|| {
        let mut bits = [0; BITMAP_PAGE_WORDS];
        for (word, place) in bits.iter_mut().zip(places) {
            *word = u64::from_le_bytes(*place);
        }
        bits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: BitmapPage = BitmapPage {
        array: Uuid([0xa5; 16]),
        kind: AreaKind::DIRTY_BITMAP,
        page: 3,
    };

    fn sample() -> ([u64; BITMAP_PAGE_WORDS], [u8; BITMAP_PAGE_BYTES]) {
        let bits = core::array::from_fn(|word| {
            0x0123_4567_89ab_cdef_u64.wrapping_mul(2 * u64::try_from(word).unwrap() + 1)
        });
        let mut bytes = [0xee; BITMAP_PAGE_BYTES];
        encode_bitmap(&PAGE, 7, &bits, &mut bytes);
        (bits, bytes)
    }

    #[test]
    fn encoding_round_trips() {
        let (bits, bytes) = sample();
        assert_eq!(decode_bitmap(&PAGE, &bytes), Some(bits));
        let other = Uuid([0xa4; 16]);
        let kind = AreaKind::WRITTEN_BITMAP;
        for wrong in [
            BitmapPage { page: 2, ..PAGE },
            BitmapPage { kind, ..PAGE },
            BitmapPage {
                array: other,
                ..PAGE
            },
        ] {
            assert_eq!(decode_bitmap(&wrong, &bytes), None, "{wrong:?}");
        }
    }

    /// Every wrong value is refused at every place.
    #[test]
    fn every_wrong_byte_is_found() {
        let (_, good) = sample();
        let mut bytes = good;
        for at in 0..BITMAP_PAGE_BYTES {
            for flip in 1..=255 {
                bytes[at] = good[at] ^ flip;
                assert_eq!(decode_bitmap(&PAGE, &bytes), None, "byte {at} ^ {flip:#x}");
            }
            bytes[at] = good[at];
        }
        assert_eq!(decode_bitmap(&PAGE, &[0; BITMAP_PAGE_BYTES]), None);
        assert_eq!(decode_bitmap(&PAGE, &[0xff; BITMAP_PAGE_BYTES]), None);
    }

    #[test]
    fn regions_fit_the_bitmap_and_have_a_sensible_size() {
        for (groups, group_bytes, regions_max, expected) in [
            (1 << 20, 256 << 10, 950_272, 16),   // 256 GiB in regions of 4 MiB
            (1 << 30, 256 << 10, 950_272, 2048), // 256 TiB
            (1 << 30, 1 << 30, 950_272, 2048),
            (100, 1024, 29_696, 1),
            (1000, 1024, 29_696, 16),
            (1, 512, 29_696, 1),
            (0, 512, 29_696, 1),
        ] {
            let region = region_groups_for(groups, group_bytes, regions_max).unwrap();
            assert_eq!(region, expected, "{groups} groups of {group_bytes}");
            assert!(groups.div_ceil(u64::from(region)) <= regions_max);
        }
        assert_eq!(region_groups_for(1 << 47, 4096, 29_696), None);
        assert_eq!(region_groups_for(u64::MAX, 4096, 1), None);
        assert_eq!(region_groups_for(1, 4096, 0), None);
    }
}
