//! The areas of fresh members and of devices that join an array.

use core::fmt;
use spindles_block::{BlockSize, MemberIndex};

use crate::checksum_area::checksum_area_bytes;
use crate::device_record::{AREAS_MAX, superblock_bytes};
use crate::{
    Area, AreaKind, ArrayRecord, BITMAPS, ChecksumKind, DeviceRecord, MEMBER_BLOCKS_MAX,
    SLOT_BYTES, SharedAreas,
};

/// Error: a device has no room for the metadata and a block of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSmall {
    /// The device's length.
    pub device_bytes: u64,
    /// The minimum length.
    pub needed_bytes: u64,
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a member needs at least {} bytes, the device has {}",
            self.needed_bytes, self.device_bytes
        )
    }
}

impl core::error::Error for TooSmall {}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The size of a device is this multiple of its headroom.
const HEADROOM_PART: u64 = 256;
/// The largest headroom, in bytes.
const HEADROOM_MAX_BYTES: u64 = 64 * MIB;

/// Returns the size in bytes of a device with this much headroom; `None` if no device has that
/// much.
#[must_use]
pub fn device_bytes_for_headroom(headroom_bytes: u64) -> Option<u64> {
    (headroom_bytes <= HEADROOM_MAX_BYTES).then_some(headroom_bytes * HEADROOM_PART)
}

/// The smallest device that can be a member, with any block size.
pub(crate) const DEVICE_BYTES_MIN: u64 = 128 * KIB;

/// Returns the areas of a fresh member. Everything that later features need is reserved at once, in
/// proportion to the device, so no data has to move for them. On devices from 64 MiB on, data
/// begins and ends at a multiple of 1 MiB. No more than `MEMBER_BLOCKS_MAX` of a device is used.
pub fn areas_for(
    device_bytes: u64,
    block_size: BlockSize,
    member: MemberIndex,
) -> Result<DeviceRecord, TooSmall> {
    let shared = SharedAreas::default();
    let alignment = alignment_for(device_bytes);
    areas_with(device_bytes, block_size, member, &shared, alignment)
}

/// The alignment of the start and the end of a fresh member's data, in bytes.
fn alignment_for(device_bytes: u64) -> u64 {
    match device_bytes {
        ..0x40_0000 => superblock_bytes(),
        0x40_0000..0x400_0000 => 64 * KIB,
        _ => MIB,
    }
}

/// Returns the areas of a device that joins an existing array with room for this much data. Each
/// area is large enough for the bytes that the array uses of that area. If the alignment of a fresh
/// member of that size leaves too little room, data is aligned as on smaller devices. So a device
/// can replace any device of the same or a smaller size.
pub fn areas_to_hold(
    array: &ArrayRecord,
    device_bytes: u64,
    member: MemberIndex,
    data_blocks: u64,
) -> Result<DeviceRecord, TooSmall> {
    let data_bytes = data_blocks * u64::from(array.block_size.bytes());
    let alignments = [MIB, 64 * KIB, superblock_bytes()];
    let areas = |device_bytes| {
        let first = alignment_for(device_bytes);
        let finer = alignments.into_iter().filter(move |&other| other < first);
        let all = core::iter::once(first).chain(finer);
        all.map(move |alignment| {
            areas_with(
                device_bytes,
                array.block_size,
                member,
                &array.shared,
                alignment,
            )
        })
    };
    let holds = |device: &DeviceRecord| device.data_blocks() >= data_blocks;
    let fitting = areas(device_bytes).flatten().find(holds);
    fitting.ok_or_else(|| TooSmall {
        device_bytes,
        needed_bytes: least_device(data_bytes, |device_bytes| {
            let lacking =
                areas(device_bytes).map(|areas| lacking(data_bytes, device_bytes, &areas));
            lacking.min().expect("there is one alignment at least")
        }),
    })
}

/// Returns how many bytes at least a device with these areas lacks for this much data.
fn lacking(data_bytes: u64, device_bytes: u64, areas: &Result<DeviceRecord, TooSmall>) -> u64 {
    match areas {
        Ok(device) => {
            let data = device.area(AreaKind::DATA);
            data_bytes.saturating_sub(data.map_or(0, |data| data.length_bytes))
        }
        Err(small) => small.needed_bytes.saturating_sub(device_bytes).max(1),
    }
}

/// Returns the areas of a fresh member. Areas that all members use alike are no shorter than
/// `shared`.
fn areas_with(
    device_bytes: u64,
    block_size: BlockSize,
    member: MemberIndex,
    shared: &SharedAreas,
    alignment: u64,
) -> Result<DeviceRecord, TooSmall> {
    if device_bytes < DEVICE_BYTES_MIN {
        return Err(TooSmall {
            device_bytes,
            needed_bytes: DEVICE_BYTES_MIN,
        });
    }
    let whole_bytes = device_bytes;
    let device_bytes = device_bytes.min(MEMBER_BLOCKS_MAX * u64::from(block_size.bytes()));
    let page = superblock_bytes();
    // Space that data can't use reserves nothing: otherwise a slightly larger device might hold
    // less.
    let device_bytes = device_bytes / alignment * alignment;

    let mut areas = [Area::NONE; AREAS_MAX];
    let mut count = 0;
    let mut push = |kind, offset_bytes, length_bytes| {
        areas[count] = Area {
            kind,
            version: u16::from(matches!(kind, AreaKind::SUPERBLOCK | AreaKind::DATA)),
            offset_bytes,
            length_bytes,
        };
        count += 1;
        offset_bytes + length_bytes
    };
    push(AreaKind::SUPERBLOCK, SLOT_BYTES[0], page);
    let mut free_from = push(AreaKind::SUPERBLOCK, SLOT_BYTES[1], page);
    for (kind, length_bytes) in reserved_lengths(device_bytes, block_size) {
        let end_bytes = free_from + length_bytes.max(shared.bytes(kind));
        // The headroom takes the space left before the data's aligned start.
        let end_bytes = match kind {
            AreaKind::HEADROOM => end_bytes.next_multiple_of(alignment),
            _ => end_bytes,
        };
        free_from = push(kind, free_from, end_bytes - free_from);
    }
    let data_end = device_bytes;
    if data_end <= free_from {
        return Err(TooSmall {
            device_bytes,
            needed_bytes: free_from + alignment,
        });
    }
    push(AreaKind::DATA, free_from, data_end - free_from);
    Ok(
        DeviceRecord::new(member, block_size, whole_bytes, &areas[..count])
            .expect("the areas are in order, whole pages and end within the device"),
    )
}

/// Returns the areas between the superblock slots and the data, in order, with their lengths in
/// bytes.
fn reserved_lengths(device_bytes: u64, block_size: BlockSize) -> [(AreaKind, u64); 6] {
    let page = superblock_bytes();
    // A share of the device, in whole pages and within bounds.
    let part = |divisor: u64, bytes_min: u64, bytes_max: u64| {
        (device_bytes / divisor / page * page).clamp(bytes_min, bytes_max)
    };
    let checksums = checksum_area_bytes(device_bytes / u64::from(block_size.bytes()));
    [
        (AreaKind::DIRTY_BITMAP, part(2048, page, 128 * KIB)),
        (AreaKind::WRITTEN_BITMAP, part(2048, page, 128 * KIB)),
        (AreaKind::BAD_BLOCKS, part(4096, page, 64 * KIB)),
        (AreaKind::JOURNAL, part(64, 4 * page, 256 * MIB)),
        (AreaKind::CHECKSUMS, checksums),
        (
            AreaKind::HEADROOM,
            part(HEADROOM_PART, page, HEADROOM_MAX_BYTES),
        ),
    ]
}

/// Returns the size of the smallest device, to the page, that holds this much data as a fresh
/// member. It is a whole number of MiB if that is enough too.
#[must_use]
pub fn device_bytes_for(data_bytes: u64, block_size: BlockSize) -> u64 {
    least_device(data_bytes, |device_bytes| {
        let areas = areas_for(device_bytes, block_size, MemberIndex(0));
        lacking(data_bytes, device_bytes, &areas)
    })
}

/// Returns the smallest device size, to the page or to the MiB, that lacks nothing. Larger devices
/// reserve more, so the size is approached step by step.
fn least_device(data_bytes: u64, lacks: impl Fn(u64) -> u64) -> u64 {
    let mut device_bytes = DEVICE_BYTES_MIN.max(data_bytes);
    loop {
        let lacking = lacks(device_bytes);
        let (Some(next), 1..) = (device_bytes.checked_add(lacking), lacking) else {
            break;
        };
        let Some(next) = next.checked_next_multiple_of(superblock_bytes()) else {
            break; // No device is this large.
        };
        device_bytes = next;
    }
    match device_bytes.checked_next_multiple_of(MIB) {
        Some(round) if device_bytes >= MIB && lacks(round) == 0 => round,
        _ => device_bytes,
    }
}

/// Returns the areas of a device that takes a position in an existing array. Its data area is no
/// shorter than the array counts on, and the areas in use on the other members are marked as in
/// use. A larger device reserves its extra space like any other, so the array may grow on it.
pub fn areas_to_join(
    array: &ArrayRecord,
    device_bytes: u64,
    member: MemberIndex,
) -> Result<DeviceRecord, TooSmall> {
    let data_blocks = array.member[usize::from(member.0)].data_blocks;
    let mut device = areas_to_hold(array, device_bytes, member, data_blocks)?;
    if array.region_groups > 0 {
        for kind in BITMAPS {
            device.set_version(kind, 1);
        }
    }
    if array.checksum != ChecksumKind::None {
        device.set_version(AreaKind::CHECKSUMS, 1);
    }
    if array.has_bad_blocks() {
        device.set_version(AreaKind::BAD_BLOCKS, 1);
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use spindles_block::BlockIndex;

    /// From 4 MiB on, a larger device holds no less than any with the same alignment.
    #[test]
    fn larger_devices_hold_at_least_as_much() {
        let page = superblock_bytes();
        let sizes = [
            (4 * MIB..64 * MIB).step_by(usize::try_from(page).unwrap()),
            (64 * MIB..192 * MIB).step_by(usize::try_from(5 * page).unwrap()),
        ];
        for sizes in sizes {
            for block_size in [BlockSize::B512, BlockSize::B4096] {
                let blocks = |bytes| {
                    areas_for(bytes, block_size, MemberIndex(0))
                        .unwrap()
                        .data_blocks()
                };
                let mut held = 0;
                for device_bytes in sizes.clone() {
                    let now = blocks(device_bytes);
                    assert!(
                        now >= held,
                        "{device_bytes} bytes hold {now} blocks, less than {held}"
                    );
                    held = now;
                }
            }
        }
    }

    /// A device replaces any that is not larger, even if a fresh one of its size would be aligned
    /// otherwise. A device of the size named in a refusal is accepted.
    #[test]
    fn a_device_replaces_any_device_of_at_most_its_size() {
        let page = superblock_bytes();
        let edges = [MIB, 4 * MIB, 64 * MIB, 128 * MIB];
        let near = |edge: u64| (0..12).map(move |at| edge - 6 * page * 5 + at * page * 5);
        let sizes: std::vec::Vec<u64> = edges.into_iter().flat_map(near).collect();
        let (sample, _) = crate::decode(include_bytes!("versions/v1.bin")).unwrap();
        for block_size in [BlockSize::B512, BlockSize::B4096] {
            for (at, &held) in sizes.iter().enumerate() {
                let there = areas_for(held, block_size, MemberIndex(0)).unwrap();
                let array = ArrayRecord {
                    block_size,
                    shared: SharedAreas::of(core::slice::from_ref(&there)),
                    ..sample.clone()
                };
                let blocks = there.data_blocks();
                for &larger in &sizes[at..] {
                    let joins = areas_to_hold(&array, larger, MemberIndex(0), blocks);
                    let joins = joins.unwrap_or_else(|small| panic!("{held}, {larger}: {small}"));
                    assert!(joins.data_blocks() >= blocks);
                }
                let small = areas_to_hold(&array, held / 2, MemberIndex(0), blocks).unwrap_err();
                assert!(small.needed_bytes <= held.next_multiple_of(MIB), "{held}");
                areas_to_hold(&array, small.needed_bytes, MemberIndex(0), blocks).unwrap();
            }
        }
    }

    /// Devices of all sizes up to 80 MiB, and some larger ones.
    #[test]
    fn areas_fit_every_device() {
        let small = (DEVICE_BYTES_MIN..2 * MIB).step_by(512 * 7);
        let middle = (2 * MIB..80 * MIB).step_by(100_003);
        let large = (27..=63).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 4097]);
        for device_bytes in small.chain(middle).chain(large) {
            for block_size in [BlockSize::B512, BlockSize::B4096] {
                let device = areas_for(device_bytes, block_size, MemberIndex(3)).unwrap();
                for (kind, name) in AreaKind::NAMES {
                    assert!(device.area(kind).is_some(), "{name} on {device_bytes}");
                }
                let data = device.area(AreaKind::DATA).unwrap();
                let last = device.areas().last().unwrap();
                assert_eq!(last, data, "data comes last");
                let device_bytes = device_bytes.min(u64::from(block_size.bytes()) << 41);
                if device_bytes >= 64 * MIB {
                    assert_eq!(data.offset_bytes % MIB, 0);
                    let overhead = device_bytes - data.length_bytes;
                    assert!(overhead < device_bytes / 20 + 2 * MIB, "{device_bytes}");
                }
                if device_bytes >= 4 * MIB {
                    assert!(data.length_bytes >= device_bytes / 10 * 9, "{device_bytes}");
                }
            }
        }
    }

    /// The size named as needed is enough, and hardly more than that.
    #[test]
    fn the_minimum_device_size_is_exact() {
        let sizes = (12..=47).flat_map(|bit| [1_u64 << bit, (1 << bit) + 4096, 3 << bit]);
        for data_bytes in sizes.chain((0..9).map(|eighth| 4 * MIB + eighth * 123 * 4096)) {
            for block_size in [BlockSize::B512, BlockSize::B4096] {
                let least = device_bytes_for(data_bytes, block_size);
                let room = |bytes| {
                    let device = areas_for(bytes, block_size, MemberIndex(0));
                    device.map_or(0, |device| {
                        device.area(AreaKind::DATA).unwrap().length_bytes
                    })
                };
                assert!(room(least) >= data_bytes, "{data_bytes}: {least}");
                let less = least.saturating_sub(2 * MIB + data_bytes / 100);
                assert!(room(less) < data_bytes, "{data_bytes}: {least}");
            }
        }
    }

    #[test]
    fn too_small_devices_are_refused() {
        for device_bytes in [0, 1, 4096, DEVICE_BYTES_MIN - 1] {
            assert_eq!(
                areas_for(device_bytes, BlockSize::B4096, MemberIndex(0)),
                Err(TooSmall {
                    device_bytes,
                    needed_bytes: DEVICE_BYTES_MIN
                })
            );
        }
    }

    #[test]
    fn slots_alternate() {
        let device = areas_for(MIB, BlockSize::B512, MemberIndex(0)).unwrap();
        assert_eq!(device.slot_block(6), BlockIndex(8));
        assert_eq!(device.slot_block(7), BlockIndex(64));
        assert_eq!(device.slot_blocks(), 8);
    }

    /// Each rule of the table has its own reason.
    #[test]
    fn impossible_tables_are_refused() {
        let good = areas_for(MIB, BlockSize::B4096, MemberIndex(0)).unwrap();
        let check = |change: &dyn Fn(&mut std::vec::Vec<Area>), reason: &str| {
            let mut areas = good.areas().to_vec();
            change(&mut areas);
            let result = DeviceRecord::new(MemberIndex(0), BlockSize::B4096, MIB, &areas);
            assert_eq!(result.unwrap_err(), reason);
        };
        check(&|areas| areas[3].kind = AreaKind(0), "an area has no kind");
        check(&|areas| areas[3].length_bytes = 0, "an area is empty");
        check(
            &|areas| areas[3].length_bytes = 512,
            "an area isn't made of whole blocks",
        );
        check(&|areas| areas[3].offset_bytes -= 4096, "areas overlap");
        check(&|areas| areas.swap(3, 4), "areas overlap");
        check(&|areas| areas[0].offset_bytes = 0, "areas overlap");
        check(
            &|areas| areas[8].length_bytes = u64::MAX - 4095,
            "an area ends beyond any address",
        );
        check(
            &|areas| areas[8].length_bytes += 4096,
            "an area ends beyond the device",
        );
        let slots = "the superblock slots are in other places than they must be";
        check(&|areas| areas[0].kind = AreaKind(77), slots);
        check(&|areas| areas[0].length_bytes = 8192, slots);
        check(
            &|areas| areas[8].kind = AreaKind(77),
            "there isn't exactly one data area",
        );
        check(
            &|areas| areas[7].kind = AreaKind::DATA,
            "there isn't exactly one data area",
        );
        check(
            &|areas| areas.extend([areas[8]; 8]),
            "more areas than the table has room for",
        );
    }
}
