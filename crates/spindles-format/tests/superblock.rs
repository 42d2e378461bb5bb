//! Round trips, the fixtures of every version, and bytes that are no superblock.

use proptest::prelude::*;
use spindles_block::{BlockIndex, BlockSize, MemberIndex};
use spindles_format::versions::VERSIONS;
use spindles_format::{
    AreaKind, ArrayRecord, ChecksumKind, DecodeError, DeviceRecord, Features, GrowthRecord,
    JournalRecord, MemberRecord, MemberState, OlderMap, PastSession, SUPERBLOCK_BYTES, SharedAreas,
    Text, Uuid, areas_for, crc32c, decode, encode, give_checksums, give_regions,
};

/// The records in the fixture of version 1.
fn sample() -> (ArrayRecord, DeviceRecord) {
    let device = areas_for(256 << 20, BlockSize::B4096, MemberIndex(2)).unwrap();
    let mut member = [MemberRecord::NONE; 64];
    for (index, record) in (0_u8..).zip(member.iter_mut().take(4)) {
        *record = MemberRecord {
            device_uuid: Uuid::from_random([0xd0 + index; 16]),
            data_blocks: device.data_blocks(),
            state: MemberState::Active,
        };
    }
    member[1].state = MemberState::Missing {
        out_since: 6,
        held_out: false,
    };
    let array = ArrayRecord {
        uuid: Uuid::from_random([0xa5; 16]),
        parent: Uuid::from_random([0x5a; 16]),
        name: Text::new("märz").unwrap(),
        created_s: 1_795_302_738,
        last_written_s: 0,
        last_scrub_s: 0,
        scrub_left_blocks: 0,
        generation: 7,
        session: 0,
        past: Default::default(),
        block_size: BlockSize::B4096,
        level: Text::new("raid5").unwrap(),
        layout: Text::new("left-symmetric").unwrap(),
        chunk_blocks: 16,
        region_groups: 0,
        members: 4,
        clean: true,
        degraded_writes: false,
        consistency: Text::new("resync").unwrap(),
        journal: JournalRecord::default(),
        scrub_mark: BlockIndex(0),
        growth: GrowthRecord::default(),
        checksum: ChecksumKind::None,
        row_sums: false,
        bad_blocks_listed: false,
        staged: false,
        write_back_auto: false,
        shared: SharedAreas::of(&[device]),
        features: Features::default(),
        member,
    };
    (array, device)
}

fn encoded(array: &ArrayRecord, device: &DeviceRecord) -> [u8; SUPERBLOCK_BYTES] {
    let mut bytes = [0xee; SUPERBLOCK_BYTES];
    encode(array, device, &mut bytes);
    bytes
}

/// Returns the sample's bytes with one range replaced and the checksum recomputed.
fn with(at: usize, field: &[u8]) -> [u8; SUPERBLOCK_BYTES] {
    let (array, device) = sample();
    let mut bytes = encoded(&array, &device);
    bytes[at..at + field.len()].copy_from_slice(field);
    let checksum = crc32c(&bytes[..4092]);
    bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn fixtures_of_earlier_versions_round_trip() {
    for version in VERSIONS {
        let (array, device) = decode(version.fixture).unwrap();
        let mut bytes = [0xee; SUPERBLOCK_BYTES];
        (version.encode)(&array, &device, &mut bytes);
        assert!(bytes == *version.fixture, "version {}", version.number);
    }
    assert_eq!(decode(VERSIONS[0].fixture), Ok(sample()));
}

/// The checksum covers every byte: every wrong value is refused at every place.
#[test]
fn every_wrong_byte_is_found() {
    let (array, device) = sample();
    let good = encoded(&array, &device);
    let mut bytes = good;
    for at in 0..SUPERBLOCK_BYTES {
        for flip in 1..=255_u8 {
            bytes[at] = good[at] ^ flip;
            match decode(&bytes) {
                Err(DecodeError::NotOurs) if at < 8 => {}
                Err(DecodeError::Version { .. }) if (8..12).contains(&at) => {}
                Err(DecodeError::Checksum { .. }) if at >= 12 => {}
                other => panic!("byte {at} ^ {flip:#x}: {other:?}"),
            }
        }
        bytes[at] = good[at];
    }
}

#[test]
fn every_truncation_is_detected() {
    let (array, device) = sample();
    let good = encoded(&array, &device);
    for length in 0..SUPERBLOCK_BYTES {
        let short = DecodeError::Short { bytes: length };
        assert_eq!(decode(&good[..length]), Err(short));
        // The device continues with other bytes.
        let mut torn = [0; SUPERBLOCK_BYTES];
        torn[..length].copy_from_slice(&good[..length]);
        assert!(decode(&torn).is_err(), "torn after {length} bytes");
    }
}

/// Checks that the sample with one range replaced, and the right checksum, breaks this rule.
fn check_refused(at: usize, field: &[u8], what: &'static str) {
    assert_eq!(decode(&with(at, field)), Err(DecodeError::Invalid { what }));
}

/// Returns the offset of a row of the area table.
fn area(index: usize) -> usize {
    256 + 32 * index
}

/// Returns the offset of a row of the member table.
fn member(index: usize) -> usize {
    768 + 48 * index
}

#[test]
fn impossible_journals_and_checksums_are_refused() {
    check_refused(
        4040,
        &[7],
        "its journal has a device without the feature, or the other way round",
    );
    check_refused(
        32,
        &[1 << 4],
        "its journal has a device without the feature, or the other way round",
    );
    check_refused(
        4057,
        &[1],
        "its journal is neither on the members nor on a device",
    );
    let checksums = "it has checksums without the feature, or the other way round";
    check_refused(4056, &[1], checksums);
    check_refused(32, &[4], checksums);
    let kind = "its blocks have checksums of an unknown kind";
    check_refused(4056, &[2], kind);
    let row_sums = "its field for row sums is neither 0 nor 1";
    check_refused(4059, &[2], row_sums);
    check_refused(4059, &[1], "it has row sums without checksums");
}

/// Every rule of the decoder about the fields before the area table.
#[test]
fn impossible_heads_are_refused() {
    check_refused(12, &[1], "it states another size");
    check_refused(40, &[0], "its generation is 0");
    check_refused(48, &[0; 16], "the array's UUID is zero");
    check_refused(64, &[0xff], "the array's name is no text");
    check_refused(64, b"a\0b", "the array's name is no text");
    check_refused(128, b"ra\nid", "the level is no text");
    check_refused(128, &[0; 16], "it names no level");
    check_refused(144, &[0x80], "the layout is no text");
    check_refused(176, &[0; 16], "it names no consistency policy");
    check_refused(176, &[0xc0], "the consistency policy is no text");
    let own = sample().0.uuid.0;
    check_refused(224, &own, "the array is its own parent");
    check_refused(192, &[0, 4], "its block is neither 512 nor 4096 bytes");
    check_refused(196, &[0; 4], "its chunks have no blocks");
    check_refused(200, &[0], "it has no members, or more than 64");
    check_refused(200, &[65], "it has no members, or more than 64");
    check_refused(201, &[2], "it is neither clean nor unclean");
    check_refused(202, &[4], "its position is beyond the array's members");
    check_refused(203, &[16], "it has more than 15 areas");
    check_refused(203, &[8], "there isn't exactly one data area");
    check_refused(204, &[3], "its regions are no power of two of groups");
    let other = "it has regions without the feature, or the other way round";
    check_refused(204, &[4], other);
    check_refused(32, &[1], other);
    check_refused(208, &[0; 8], "an area ends beyond the device");
}

/// Every rule of the decoder about the area table and the member table.
#[test]
fn impossible_areas_and_members_are_refused() {
    check_refused(area(2), &[0; 2], "an area has no kind");
    check_refused(
        area(0) + 8,
        &[0, 0x20],
        "the superblock slots are in other places than they must be",
    );
    check_refused(member(3), &[0; 16], "a member's UUID is zero");
    let first = sample().0.member[0].device_uuid.0;
    check_refused(member(3), &first, "two members have the same UUID");
    check_refused(member(0) + 24, &[4], "a member's state is unknown");
    let rebuilding = "it rebuilds a member without the feature, or the other way round";
    check_refused(member(0) + 24, &[3], rebuilding);
    check_refused(32, &[2], rebuilding);
    check_refused(
        member(0) + 16 + 5,
        &[3],
        "a member is longer than any may be",
    );
    for at in [4080, 4082, 4084, 4086] {
        let what = "its areas are shorter than the array uses them";
        check_refused(at, &[0xff; 2], what);
    }
    check_refused(member(0) + 32, &[1], "a member's state is unknown");
    check_refused(member(1) + 32, &[0], "a member's state is unknown");
    check_refused(member(1) + 32, &[8], "a member's state is unknown");
    check_refused(202, &[1], "it calls its own device missing");
    check_refused(
        member(2) + 16,
        &[1],
        "its data area is shorter than the array counts on",
    );
}

#[test]
fn checksums_without_space_are_refused() {
    let (mut array, mut device) = sample();
    give_checksums(
        &mut array,
        std::slice::from_mut(&mut device),
        ChecksumKind::Crc32c,
        true,
    );
    let decoded = decode(&encoded(&array, &device));
    assert_eq!(decoded, Ok((array.clone(), device)));
    let mut bytes = encoded(&array, &device);
    let areas = device.areas().iter();
    let at = areas.take_while(|area| area.kind != AreaKind::CHECKSUMS);
    bytes[256 + 32 * at.count() + 2] = 0;
    let checksum = crc32c(&bytes[..4092]);
    bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
    let what = "it has checksums but no space for them, so it was made before version 0.1.0 and \
        can't be opened: create it again";
    assert_eq!(decode(&bytes), Err(DecodeError::Invalid { what }));
}

#[test]
fn features_determine_what_a_reader_may_do() {
    let unknown = 1 << 6;
    assert_eq!(
        decode(&with(32, &[1 << 6])),
        Err(DecodeError::Features { unknown })
    );
    let (array, device) = decode(&with(24, &[1 << 6])).unwrap();
    assert!(array.features.must_read_only());
    assert!(!sample().0.features.must_read_only());
    assert_eq!(decode(&encoded(&array, &device)).unwrap().0, array);
    // Unknown ignorable features are read, but not written back.
    let (array, device) = decode(&with(16, &[1 << 6])).unwrap();
    assert_eq!(array.features.ignorable, unknown);
    let (again, _) = decode(&encoded(&array, &device)).unwrap();
    assert_eq!(again.features.ignorable, 0);
}

#[test]
fn foreign_bytes_are_not_recognized() {
    assert_eq!(decode(&[0; SUPERBLOCK_BYTES]), Err(DecodeError::NotOurs));
    assert_eq!(decode(&[0xff; SUPERBLOCK_BYTES]), Err(DecodeError::NotOurs));
    let later = with(8, &[2]);
    assert_eq!(decode(&later), Err(DecodeError::Version { version: 2 }));
}

/// Returns the state of a member from a random number; the device's own is never missing.
fn member_state(out: Option<u64>, own: bool, generation: u64) -> MemberState {
    match out {
        Some(since) if since % 3 == 0 => MemberState::Rebuilding {
            mark: BlockIndex(since / 3),
            missed_since: since % generation,
        },
        Some(since) if !own => MemberState::Missing {
            out_since: since % generation + 1,
            held_out: since % 2 == 0,
        },
        _ => MemberState::Active,
    }
}

/// Returns a past session made of the random numbers of an array.
fn past_session(created_s: u64, generation: u64, index: u64) -> PastSession {
    PastSession {
        nonce: created_s ^ index,
        generation: generation.saturating_sub(index),
    }
}

/// Returns a record of growth made of the random numbers of an array.
fn growth(array: &ArrayRecord) -> GrowthRecord {
    let ArrayRecord {
        chunk_blocks,
        created_s,
        generation,
        ..
    } = *array;
    GrowthRecord {
        region: chunk_blocks % 77,
        older: (created_s % 5 == 0).then_some(OlderMap {
            level: Text::new("raid5").unwrap(),
            layout: Text::new("right-asymmetric").unwrap(),
            chunk_blocks,
            members: 1,
            region_groups: 1 << (generation % 32),
            region: !chunk_blocks,
            mark: BlockIndex(created_s.rotate_left(5)),
            staged_blocks: chunk_blocks.rotate_left(9),
        }),
    }
}

/// Adds regions, growth and checksums to the records, as the random numbers in them say.
fn add_features(array: &mut ArrayRecord, device: &mut DeviceRecord) {
    let created_s = array.created_s;
    if created_s.is_multiple_of(2) {
        let groups = device.device_bytes / 4096 / u64::from(array.chunk_blocks);
        let device = std::slice::from_mut(device);
        assert!(give_regions(array, device, groups, 4096));
    }
    if created_s.is_multiple_of(2) && created_s % 5 < 3 {
        array.growth = growth(array);
        array.note_growth();
    }
    if created_s.is_multiple_of(3) {
        let devices = std::slice::from_mut(device);
        give_checksums(
            array,
            devices,
            ChecksumKind::Crc32c,
            created_s.is_multiple_of(2),
        );
    }
}

prop_compose! {
    fn records()(
        uuids in prop::collection::hash_set(any::<[u8; 16]>(), 2..=65),
        out in any::<[Option<u64>; 32]>(),
        name in "[^\\p{Cc}]{0,16}",
        level in "[a-z0-9]{1,16}",
        layout in "[a-z0-9 -]{0,32}",
        chunk_blocks in 1..u32::MAX,
        (generation, created_s) in (1..u64::MAX, any::<u64>()),
        (clean, small_block, own) in (any::<bool>(), any::<bool>(), any::<prop::sample::Index>()),
        device_bytes in (128_u64 << 10)..(1 << 45),
        read_only in any::<u64>(),
    ) -> (ArrayRecord, DeviceRecord) {
        let block_size = if small_block { BlockSize::B512 } else { BlockSize::B4096 };
        let members = u8::try_from(uuids.len() - 1).unwrap();
        let own = u8::try_from(own.index(usize::from(members))).unwrap();
        let mut device = areas_for(device_bytes, block_size, MemberIndex(own)).unwrap();
        let mut member = [MemberRecord::NONE; 64];
        let mut uuids = uuids.into_iter().map(Uuid::from_random).collect::<Vec<_>>();
        uuids.sort_unstable();
        uuids.dedup();
        prop_assume_len(&uuids, usize::from(members));
        for (index, (record, uuid)) in member.iter_mut().zip(&uuids).enumerate()
            .take(usize::from(members)) {
            let own = index == usize::from(own);
            record.device_uuid = *uuid;
            let drawn = (created_s ^ generation) >> 23;
            record.data_blocks = if own { device.data_blocks() } else { drawn };
            record.state = member_state(out[index % 32], own, generation);
        }
        let mut array = ArrayRecord {
            uuid: *uuids.last().unwrap(),
            parent: if clean { Uuid::NIL } else { uuids[0] },
            name: Text::new(&name).unwrap_or(Text::EMPTY),
            created_s,
            last_written_s: created_s.rotate_left(17),
            last_scrub_s: created_s.rotate_left(23),
            scrub_left_blocks: created_s.rotate_left(29),
            generation,
            session: created_s.rotate_left(5),
            past: std::array::from_fn(|index| past_session(created_s, generation, index as u64)),
            block_size,
            level: Text::new(&level).unwrap(),
            layout: Text::new(&layout).unwrap(),
            chunk_blocks,
            region_groups: 0,
            members,
            clean,
            degraded_writes: created_s % 11 < 5,
            consistency: Text::new("none").unwrap(),
            journal: JournalRecord {
                tail: created_s.rotate_left(7),
                nonce: !created_s,
                device: if created_s % 7 < 3 && created_s % 3 > 0 { uuids[0] } else { Uuid::NIL },
                on_device: created_s % 7 == 0 && created_s % 3 > 0,
            },
            scrub_mark: BlockIndex(created_s.rotate_left(13)),
            growth: GrowthRecord::default(),
            checksum: ChecksumKind::None,
            row_sums: false,
            bad_blocks_listed: false,
            staged: false,
            write_back_auto: false,
            shared: SharedAreas::of(&[device]),
            features: Features { read_only, ..Features::default() },
            member,
        };
        array.note_rebuilding();
        array.note_journal_device();
        add_features(&mut array, &mut device);
        (array, device)
    }
}

/// Random version 4 identities don't collide.
fn prop_assume_len(uuids: &[Uuid], members: usize) {
    assert!(uuids.len() > members);
}

proptest! {
    #[test]
    fn encoding_round_trips((array, device) in records()) {
        prop_assert_eq!(decode(&encoded(&array, &device)), Ok((array, device)));
    }
}
