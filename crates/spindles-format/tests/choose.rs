//! Selection of the current record: each reason to refuse a device, and a model of histories with
//! crashes in which no acknowledged write may ever be lost.

use proptest::prelude::*;
use spindles_block::{BlockIndex, BlockSize, MemberIndex, MemberSet};
use spindles_format::{
    ArrayRecord, AssembleError, Assembly, DecodeError, DeviceRecord, Features, Found, Half,
    JournalRecord, MemberRecord, MemberState, Reason, SLOT_BYTES, SUPERBLOCK_BYTES, Text, Uuid,
    areas_for, choose, crc32c, encode,
};

const DEVICE_BYTES: u64 = 1 << 20;

/// The contents of a device's slots.
#[derive(Clone)]
struct Device {
    name: String,
    bytes: u64,
    record: DeviceRecord,
    slots: [Vec<u8>; 2],
}

impl Device {
    fn write(&mut self, array: &ArrayRecord) {
        let slot = usize::from(array.generation % 2 == 1);
        encode(array, &self.record, &mut self.slots[slot]);
    }

    fn found(&self) -> Found {
        let [even, odd] = &self.slots;
        Found::new(self.name.clone(), self.bytes, [Ok(even), Ok(odd)])
    }
}

fn array(members: u8, identity: u8) -> ArrayRecord {
    let device = areas_for(DEVICE_BYTES, BlockSize::B4096, MemberIndex(0)).unwrap();
    let mut member = [MemberRecord::NONE; 64];
    for (index, record) in (0..members).zip(&mut member) {
        *record = MemberRecord {
            device_uuid: Uuid::from_random([identity ^ index; 16]),
            data_blocks: device.data_blocks(),
            state: MemberState::Active,
        };
    }
    ArrayRecord {
        uuid: Uuid::from_random([identity; 16]),
        parent: Uuid::NIL,
        name: Text::new(&format!("array{identity}")).unwrap(),
        created_s: 0,
        last_written_s: 0,
        last_scrub_s: 0,
        scrub_left_blocks: 0,
        generation: 1,
        session: 0,
        past: Default::default(),
        block_size: BlockSize::B4096,
        level: Text::new("raid1").unwrap(),
        layout: Text::EMPTY,
        chunk_blocks: 16,
        region_groups: 0,
        members,
        clean: true,
        degraded_writes: false,
        consistency: Text::new("resync").unwrap(),
        journal: JournalRecord::default(),
        scrub_mark: BlockIndex(0),
        growth: spindles_format::GrowthRecord::default(),
        checksum: spindles_format::ChecksumKind::None,
        row_sums: false,
        bad_blocks_listed: false,
        staged: false,
        write_back_auto: false,
        shared: spindles_format::SharedAreas::of(&[device]),
        features: Features::default(),
        member,
    }
}

/// Returns the devices a, b, c.. of a fresh array.
fn devices(array: &ArrayRecord) -> Vec<Device> {
    let members = (0..array.members).zip('a'..);
    members
        .map(|(index, name)| {
            let record = areas_for(DEVICE_BYTES, BlockSize::B4096, MemberIndex(index)).unwrap();
            let blank = vec![0; SUPERBLOCK_BYTES];
            let mut device = Device {
                name: name.to_string(),
                bytes: DEVICE_BYTES,
                record,
                slots: [blank.clone(), blank],
            };
            device.write(array);
            device
        })
        .collect()
}

/// Returns the record after `array` that calls these members missing.
fn without(array: &ArrayRecord, missing: &[usize]) -> ArrayRecord {
    let mut next = array.clone();
    next.generation += 1;
    for &member in missing {
        if next.member[member].state.takes_part() {
            next.member[member].state = MemberState::Missing {
                out_since: next.generation,
                held_out: false,
            };
        }
    }
    next.note_rebuilding();
    next
}

/// Returns the first record of another opening after `array` that calls these members missing.
fn opened(session: u64, array: &ArrayRecord, missing: &[usize]) -> ArrayRecord {
    let mut next = without(array, missing);
    next.generation = array.generation;
    next.begin_session(session);
    next.generation += 1;
    next
}

/// Returns the record after `array` in which a member has this state.
fn with_state(array: &ArrayRecord, member: usize, state: MemberState) -> ArrayRecord {
    let mut next = without(array, &[]);
    next.member[member].state = state;
    next.note_rebuilding();
    next
}

fn write_all(devices: &mut [Device], array: &ArrayRecord) {
    for device in devices {
        device.write(array);
    }
}

fn chosen(devices: &[&Device]) -> Result<Assembly, AssembleError> {
    let found: Vec<Found> = devices.iter().map(|device| device.found()).collect();
    choose(&found)
}

fn refused(assembly: &Assembly) -> Vec<(&str, &Reason)> {
    let refused = assembly.refused.iter();
    refused.map(|r| (r.name.as_str(), &r.reason)).collect()
}

fn set(members: &[u8]) -> MemberSet {
    members.iter().copied().map(MemberIndex).collect()
}

#[test]
fn any_order_gives_the_same_array() {
    let array = array(4, 7);
    let all = devices(&array);
    let [a, b, c, d] = all.each_ref_4();
    for order in [[a, b, c, d], [d, c, b, a], [c, a, d, b]] {
        let assembly = chosen(&order).unwrap();
        assert_eq!(assembly.array, array);
        assert!(assembly.missing.is_empty() && assembly.refused.is_empty());
        assert!(assembly.lagging.is_empty() && !assembly.read_only);
        for (member, device) in assembly.devices.iter().enumerate() {
            assert_eq!(order[device.unwrap()].name, all[member].name);
            assert_eq!(assembly.records[member], Some(all[member].record));
        }
    }
    assert_eq!(chosen(&[]), Err(AssembleError::NoDevices));
}

trait Four {
    fn each_ref_4(&self) -> [&Device; 4];
}

impl Four for Vec<Device> {
    fn each_ref_4(&self) -> [&Device; 4] {
        [&self[0], &self[1], &self[2], &self[3]]
    }
}

#[test]
fn a_degraded_array_reports_its_missing_members() {
    let array = array(4, 7);
    let all = devices(&array);
    let assembly = chosen(&[&all[3], &all[1]]).unwrap();
    assert_eq!(assembly.missing, set(&[0, 2]));
    assert_eq!(assembly.devices, [None, Some(1), None, Some(0)]);
}

/// The array went on without b.
#[test]
fn a_stale_member_is_refused() {
    let first = array(3, 7);
    let mut all = devices(&first);
    let second = without(&first, &[1]);
    all[0].write(&second);
    all[2].write(&second);
    let assembly = chosen(&[&all[1], &all[0], &all[2]]).unwrap();
    assert_eq!(assembly.array, second);
    assert_eq!(assembly.missing, set(&[1]));
    let reason = Reason::Stale {
        generation: 1,
        newest: 2,
        out_since: Some(2),
    };
    assert_eq!(refused(&assembly), [("b", &reason)]);
    assert!(assembly.refused[0].to_string().starts_with("b: stale: "));
    // On its own it can't know that, and is accepted.
    assert_eq!(chosen(&[&all[1]]).unwrap().array, first);
}

/// An old copy of b was put back, while the others count on b.
#[test]
fn a_member_rolled_back_to_an_old_copy_is_stale() {
    let mut record = array(3, 7);
    let mut all = devices(&record);
    let old = all[1].clone();
    for _ in 0..2 {
        record = without(&record, &[]);
        write_all(&mut all, &record);
    }
    let assembly = chosen(&[&all[0], &old, &all[2]]).unwrap();
    assert_eq!(assembly.array.generation, 3);
    let reason = Reason::Stale {
        generation: 1,
        newest: 3,
        out_since: None,
    };
    assert_eq!(refused(&assembly), [("b", &reason)]);
}

/// A crash between the superblock writes of the members, whatever was written.
#[test]
fn members_that_missed_the_last_write_lag() {
    let first = array(3, 7);
    for missing in [&[][..], &[2]] {
        let second = without(&first, missing);
        for written in [&[0][..], &[1], &[0, 1]] {
            let mut all = devices(&first);
            for &member in written {
                all[member].write(&second);
            }
            let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
            assert_eq!(assembly.array, second);
            let lagging: MemberSet = (0..3)
                .filter(|member| !written.contains(member) && !missing.contains(member))
                .map(|member| MemberIndex(u8::try_from(member).unwrap()))
                .collect();
            assert_eq!(assembly.lagging, lagging, "written {written:?}");
            assert_eq!(assembly.refused.len(), missing.len());
        }
    }
}

/// a got a write that never finished; b and c then went on without a.
#[test]
fn an_unfinished_record_is_discarded() {
    let first = array(3, 7);
    let mut all = devices(&first);
    all[0].write(&without(&first, &[]));
    let degraded = opened(2, &first, &[0]);
    all[1].write(&degraded);
    for both in [false, true] {
        if both {
            all[2].write(&degraded);
        }
        let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
        assert_eq!(assembly.array, degraded);
        assert_eq!(assembly.lagging, if both { set(&[]) } else { set(&[2]) });
        assert_eq!(assembly.missing, set(&[0]));
    }
}

/// Only a got a record that counts on both. b, which did not, went on without a, and another device
/// has its place now. No device is left to prove that the record was never finished.
#[test]
fn a_replaced_member_proves_no_unfinished_record() {
    let first = array(2, 7);
    let mut all = devices(&first);
    all[0].write(&without(&first, &[]));
    let mut later = without(&opened(2, &first, &[0]), &[]);
    later.member[1].device_uuid = Uuid::from_random([99; 16]);
    all[1].write(&later);
    let split = chosen(&[&all[0], &all[1]]).unwrap_err();
    assert!(matches!(split, AssembleError::SplitBrain { .. }), "{split}");
    assert_eq!(chosen(&[&all[1]]).unwrap().array, later);
}

/// Only a replacement has the record that puts it in the place of b, which goes on and is written.
#[test]
fn a_replacement_known_only_to_itself_is_never_authoritative() {
    for replacement_session in [2, 4] {
        let first = opened(1, &array(2, 7), &[]);
        let all = devices(&first);
        let mut replacement = all[1].clone();
        let mut record = opened(replacement_session, &first, &[]);
        record.member[1].device_uuid = Uuid::from_random([99; 16]);
        replacement.write(&record);
        let mut went_on = all.clone();
        let truth = opened(3, &first, &[]);
        write_all(&mut went_on, &truth);
        let assembly = chosen(&[&went_on[0], &went_on[1], &replacement]).unwrap();
        assert_eq!(assembly.array, truth);
        let split = chosen(&[&went_on[1], &replacement]).unwrap_err();
        assert!(matches!(split, AssembleError::SplitBrain { .. }), "{split}");
    }
}

#[test]
fn split_brain_is_refused_with_both_halves() {
    let first = array(4, 7);
    let mut all = devices(&first);
    let mut one = opened(1, &first, &[2, 3]);
    let other = opened(2, &first, &[0, 1]);
    let split = |all: &[Device]| match chosen(&[&all[0], &all[1], &all[2], &all[3]]) {
        Err(AssembleError::SplitBrain { one, other, parted }) => {
            let mut halves = [one, other].map(|half| half.devices.concat());
            halves.sort();
            assert_eq!((halves, parted), (["ab".into(), "cd".into()], Some(1)));
        }
        result => panic!("{result:?}"),
    };
    all[2].write(&other);
    all[3].write(&other);
    for _ in 0..5 {
        all[0].write(&one);
        all[1].write(&one);
        split(&all);
        one = without(&one, &[]);
    }
    // Each half opens on its own.
    let kept = chosen(&[&all[0], &all[1]]).unwrap();
    assert_eq!(kept.missing, set(&[2, 3]));
    let message = chosen(&[&all[0], &all[1], &all[2]])
        .unwrap_err()
        .to_string();
    assert!(message.contains("a, b went on without c"), "{message}");
}

/// b dropped out, and all crashed before a recorded it. c was absent at the next opening, and again
/// all crashed before a recorded it. Neither record was finished, as a proves: all three are
/// present, and the array opens.
#[test]
fn one_of_two_unfinished_records_is_discarded() {
    let first = array(3, 7);
    let mut all = devices(&first);
    let (first_out, second_out) = (opened(1, &first, &[1]), opened(2, &first, &[2]));
    all[2].write(&first_out);
    all[1].write(&second_out);
    let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
    assert_eq!(assembly.lagging, set(&[0]));
    assert_eq!(assembly.missing.count(), 1);
    // Without a there is no proof.
    let result = chosen(&[&all[1], &all[2]]);
    assert!(matches!(result, Err(AssembleError::SplitBrain { .. })));
    // If one of the updates was finished, its record is current.
    for (finished, out, other) in [(first_out, 1, 2), (second_out, 2, 1)] {
        all[0].write(&finished);
        let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
        assert_eq!(assembly.missing, set(&[out]));
        assert!(assembly.devices[other].is_some());
    }
}

/// a dropped out, and all crashed before c recorded it. a and c were opened without b and went on,
/// and all crashed again before c got the next record. That record was never finished, but the one
/// before it was.
#[test]
fn the_finished_record_before_an_unfinished_one_counts() {
    let first = array(3, 7);
    let mut all = devices(&first);
    all[1].write(&without(&first, &[0]));
    let finished = opened(2, &first, &[1]);
    all[0].write(&finished);
    all[2].write(&finished);
    let next = without(&finished, &[]);
    all[0].write(&next);
    for order in [[0, 1, 2], [2, 1, 0]] {
        let assembly = chosen(&order.map(|index| &all[index])).unwrap();
        assert_eq!(assembly.array, next);
        assert_eq!(assembly.missing, set(&[1]));
        assert_eq!(assembly.lagging, set(&[2]));
    }
}

/// c went on by itself, and so did a and b. Their devices were replaced since by new ones that c
/// never met, and c was missing for long by then. The writes of c are not part of their history.
#[test]
fn a_separate_history_is_never_treated_as_an_old_copy() {
    let first = array(3, 7);
    let mut all = devices(&first);
    let mut alone = opened(1, &first, &[0, 1]);
    for _ in 0..3 {
        alone = without(&alone, &[]);
        all[2].write(&alone);
    }
    let mut others = opened(2, &first, &[2]);
    for (member, identity) in [(0, 91), (1, 92)] {
        others = without(&others, &[]);
        others.member[member].device_uuid = Uuid::from_random([identity; 16]);
    }
    others = without(&others, &[]);
    all[0].write(&others);
    all[1].write(&others);
    let result = chosen(&[&all[0], &all[1], &all[2]]);
    assert!(
        matches!(result, Err(AssembleError::SplitBrain { .. })),
        "{result:?}"
    );
    // An old copy from before that is merely stale.
    let before = devices(&first);
    let assembly = chosen(&[&all[0], &all[1], &before[2]]).unwrap();
    assert_eq!(assembly.missing, set(&[2]));
}

/// More openings than a record remembers.
#[test]
fn a_forgotten_record_is_discarded_if_it_relies_on_newer_members() {
    let first = array(3, 7);
    let mut all = devices(&first);
    let old = all[2].clone();
    let mut record = first;
    for session in 1..20 {
        record = opened(session, &record, if session == 1 { &[2] } else { &[] });
        all[0].write(&record);
        all[1].write(&record);
    }
    assert!(!record.follows(&old.found().record().unwrap().0));
    let assembly = chosen(&[&all[0], &all[1], &old]).unwrap();
    assert_eq!(assembly.array, record);
    assert_eq!(assembly.missing, set(&[2]));
}

/// a was replaced long ago: no device of that time remains and no record remembers the replacement.
/// Nothing proves that device a is old, nor that each device went on alone.
#[test]
fn a_forgotten_session_is_no_proof_of_split_brain() {
    let first = array(2, 7);
    let mut all = devices(&first);
    let mut record = first;
    for session in 1..20 {
        record = opened(session, &record, if session == 1 { &[0] } else { &[] });
        record.last_written_s = session;
        record.member[1].device_uuid = Uuid::from_random([99; 16]);
        all[1].write(&record);
        let result = chosen(&[&all[0], &all[1]]);
        // The opening itself counts among those remembered.
        if session <= 7 {
            assert_eq!(result.unwrap().refused[0].name, "a");
            continue;
        }
        let refused = result.unwrap_err();
        let half = |name: &str, last_written_s| Half {
            devices: vec![name.to_owned()],
            last_written_s,
        };
        let expected = AssembleError::SplitBrain {
            one: half("b", session),
            other: half("a", 0),
            parted: None,
        };
        assert_eq!(refused, expected);
        let text = refused.to_string();
        assert!(
            text.starts_with("b and a have no record of each other"),
            "{text}"
        );
    }
    assert_eq!(chosen(&[&all[1]]).unwrap().array, record);
}

/// A superblock write in flight when the process was killed reached b after the next opening had
/// read it; that opening then wrote to a. Neither was finished, and nothing happened after both.
#[test]
fn one_of_two_interdependent_first_records_is_discarded() {
    let first = array(3, 7);
    let mut all = devices(&first);
    all[0].write(&opened(1, &first, &[]));
    all[1].write(&opened(2, &first, &[]));
    for order in [[0, 1, 2], [2, 1, 0]] {
        let assembly = chosen(&order.map(|index| &all[index])).unwrap();
        assert_eq!(assembly.array, opened(2, &first, &[]));
        assert_eq!(assembly.lagging, set(&[0, 2]));
    }
}

/// Two hosts have both devices open: each wrote its own generations.
#[test]
fn two_interdependent_histories_are_split_brain() {
    let first = array(2, 7);
    let mut all = devices(&first);
    all[0].write(&without(&opened(1, &first, &[]), &[]));
    all[1].write(&without(&opened(2, &first, &[]), &[]));
    assert!(matches!(
        chosen(&[&all[0], &all[1]]),
        Err(AssembleError::SplitBrain { .. })
    ));
}

/// Whatever one slot holds, the other one counts, and the damage is reported. A slot that was never
/// written is not damaged.
#[test]
fn an_overwritten_superblock_slot_is_reported() {
    let mut device = devices(&array(2, 7)).remove(0);
    assert_eq!(device.found().damage(), None);
    device.write(&without(&array(2, 7), &[]));
    for slot in 0..2 {
        let mut overwritten = device.clone();
        overwritten.slots[slot].fill(0x5a);
        let found = overwritten.found();
        assert!(found.record().is_ok());
        assert_eq!(found.damage(), Some(DecodeError::NotOurs));
    }
}

#[test]
fn foreign_duplicate_and_blank_devices_are_errors() {
    let (ours, theirs) = (array(3, 7), array(3, 9));
    let all = devices(&ours);
    let mut other = devices(&theirs).remove(1);
    other.name = "x".into();
    match chosen(&[&other, &all[0], &all[2]]) {
        Err(AssembleError::Foreign {
            name,
            array,
            expected,
            ..
        }) => {
            assert_eq!([name, array, expected], ["x", "array9", "array7"]);
        }
        result => panic!("{result:?}"),
    }
    let mut copy = all[1].clone();
    copy.name = "copy of b".into();
    assert_eq!(
        chosen(&[&all[0], &all[1], &copy]),
        Err(AssembleError::Duplicate {
            first: "b".into(),
            second: "copy of b".into(),
            member: MemberIndex(1),
            array: "array7".into(),
        })
    );
    let mut blank = all[1].clone();
    blank.slots = [vec![0; SUPERBLOCK_BYTES], vec![0xff; SUPERBLOCK_BYTES]];
    assert_eq!(
        chosen(&[&all[0], &blank, &all[2]]),
        Err(AssembleError::NotAMember { name: "b".into() })
    );
}

#[test]
fn truncated_and_corrupt_devices_are_left_out() {
    let array = array(3, 7);
    let mut all = devices(&array);
    all[0].bytes -= 1;
    all[1].slots[1][2000] ^= 1;
    let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
    assert_eq!(assembly.missing, set(&[0, 1]));
    let truncated = Reason::Truncated {
        bytes: DEVICE_BYTES - 1,
        expected_bytes: DEVICE_BYTES,
    };
    assert_eq!(refused(&assembly)[0], ("a", &truncated));
    let (name, Reason::Corrupt(DecodeError::Checksum { .. })) = refused(&assembly)[1] else {
        panic!("{assembly:?}");
    };
    assert_eq!(name, "b");
    match chosen(&[&all[0], &all[1]]) {
        Err(AssembleError::NothingLeft { refused }) => assert_eq!(refused.len(), 2),
        result => panic!("{result:?}"),
    }
    // A device that ends before its superblock.
    let short = Found::new("b".into(), 100, [Ok(&[]), Ok(&[])]);
    let result = choose(&[all[2].found(), short]).unwrap();
    assert_eq!(
        refused(&result),
        [("b", &Reason::Corrupt(DecodeError::Short { bytes: 0 }))]
    );
}

/// A torn superblock write leaves the previous generation, which the others may confirm or not.
#[test]
fn a_torn_slot_falls_back_to_the_other() {
    let first = array(2, 7);
    let mut all = devices(&first);
    let second = without(&first, &[]);
    write_all(&mut all, &second);
    all[1].slots[0][512..].fill(0);
    assert!(all[1].found().damage().is_some());
    let assembly = chosen(&[&all[0], &all[1]]).unwrap();
    assert_eq!(assembly.lagging, set(&[1]));
    // A good superblock in the wrong slot was misplaced by the device.
    all[0].slots.swap(0, 1);
    let wrong = DecodeError::Invalid {
        what: "it lies in the slot of another generation",
    };
    assert_eq!(all[0].found().record().unwrap_err(), wrong);
}

#[test]
fn superblocks_of_newer_versions_are_not_touched() {
    let array = array(2, 7);
    let mut all = devices(&array);
    let mut change = |at: usize, value: u8| {
        let slot = &mut all[1].slots[1];
        slot[at] = value;
        let checksum = crc32c(&slot[..4092]);
        slot[4092..].copy_from_slice(&checksum.to_le_bytes());
        chosen(&[&all[0], &all[1]])
    };
    for (at, value) in [(32, 1 << 7), (8, 2)] {
        match change(at, value) {
            Err(AssembleError::Unsupported { name, .. }) => assert_eq!(name, "b"),
            result => panic!("{result:?}"),
        }
    }
    let mut later = array.clone();
    later.features.read_only = 4;
    let mut all = devices(&array);
    write_all(&mut all, &later);
    assert!(chosen(&[&all[0]]).unwrap().read_only);
}

/// A new device replaced b while b was missing.
#[test]
fn a_replaced_member_is_refused() {
    let first = array(3, 7);
    let mut all = devices(&first);
    let old = all[1].clone();
    let mut later = without(&without(&first, &[1]), &[]);
    later.member[1] = MemberRecord {
        device_uuid: Uuid::from_random([99; 16]),
        ..first.member[1]
    };
    write_all(&mut all, &later);
    let assembly = chosen(&[&all[0], &old, &all[2]]).unwrap();
    assert_eq!(refused(&assembly), [("b", &Reason::Replaced)]);
    // The new device, and an old one that never met it, without the others:
    let last = without(&later, &[0, 2]);
    all[1].write(&last);
    all[1].name = "b2".into();
    let assembly = chosen(&[&all[1], &old]).unwrap();
    assert_eq!(assembly.array, last);
    // The old one went on by itself.
    let mut alone = old;
    alone.write(&opened(5, &first, &[0, 2]));
    assert!(matches!(
        chosen(&[&all[1], &alone]),
        Err(AssembleError::SplitBrain { .. })
    ));
}

/// A device that is being filled takes part, with its mark, if the others know it; otherwise it
/// gives way. Here another device takes the position of a working member: its superblock is written
/// first, then the others'.
#[test]
fn a_replacement_counts_once_any_other_member_records_it() {
    let array = opened(1, &array(3, 7), &[]);
    let mut all = devices(&array);
    let mut replacement = all[2].clone();
    replacement.name = "new".into();
    replacement.slots = [vec![0; SUPERBLOCK_BYTES], vec![0; SUPERBLOCK_BYTES]];
    let mut next = without(&array, &[]);
    next.member[2].device_uuid = Uuid::from_random([99; 16]);
    replacement.write(&next);
    // The choice is the same for any number of members that carry the new record.
    for informed in 0..3 {
        let [a, b, c] = [&all[0], &all[1], &all[2]];
        for given in [[a, b, c, &replacement], [c, &replacement, b, a]] {
            let assembly = chosen(&given).unwrap();
            assert_eq!(assembly.array, next, "{informed}");
            assert!(assembly.missing.is_empty());
            assert_eq!(assembly.lagging, set(&[0, 1][informed.min(2)..]));
            assert_eq!(refused(&assembly), [("c", &Reason::Replaced)]);
        }
        // The same with no other device present.
        let assembly = chosen(&[c, &replacement]).unwrap();
        assert_eq!(assembly.missing, set(&[0, 1]));
        assert_eq!(refused(&assembly), [("c", &Reason::Replaced)]);
        if informed == 0 {
            let assembly = chosen(&[a, b, c]).unwrap();
            assert!(assembly.missing.is_empty() && assembly.lagging.is_empty());
        }
        if informed < 2 {
            all[informed].write(&next);
        }
    }
    // The array was opened without it before any other device knew.
    let first = devices(&array);
    let mut went_on = first.clone();
    write_all(&mut went_on, &opened(2, &array, &[]));
    let assembly = chosen(&[&went_on[0], &went_on[1], &went_on[2], &replacement]).unwrap();
    assert!(assembly.missing.is_empty());
    assert_eq!(refused(&assembly), [("new", &Reason::Replaced)]);
}

#[test]
fn a_member_that_is_rebuilding_takes_part() {
    let first = array(3, 7);
    let mut all = devices(&first);
    let degraded = without(&first, &[1]);
    all[0].write(&degraded);
    all[2].write(&degraded);
    let old = all[1].clone();
    let rebuilding = |mark| MemberState::Rebuilding {
        mark: BlockIndex(mark),
        missed_since: 0,
    };
    let mut joined = with_state(&degraded, 1, rebuilding(0));
    joined.member[1].device_uuid = Uuid::from_random([99; 16]);
    all[1].slots.iter_mut().for_each(|slot| slot.fill(0));
    all[1].write(&joined);
    // Only the new device was written: the others catch up.
    let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
    assert_eq!(assembly.array, joined);
    assert_eq!(assembly.lagging, set(&[0, 2]));
    // The others went on without the new device: it is not a member.
    let mut gone_on = all.clone();
    let elsewhere = opened(3, &degraded, &[]);
    gone_on[0].write(&elsewhere);
    let assembly = chosen(&[&gone_on[0], &gone_on[1], &gone_on[2]]).unwrap();
    assert_eq!(assembly.array, elsewhere);
    assert_eq!(refused(&assembly), [("b", &Reason::Replaced)]);
    // One other member carries the record of the new device: that record is current, and the third
    // member catches up.
    all[0].write(&joined);
    let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
    assert_eq!(assembly.array, joined);
    assert_eq!((assembly.missing, assembly.lagging), (set(&[]), set(&[2])));
    assert_eq!(assembly.array.rebuilding(), set(&[1]));
    assert!(assembly.array.missing().is_empty());
    // The previous device in that position doesn't come back, even if the new one is absent.
    let assembly = chosen(&[&all[0], &old, &all[2]]).unwrap();
    assert_eq!(refused(&assembly), [("b", &Reason::Replaced)]);
    assert_eq!(assembly.missing, set(&[1]));
    // A mark that was not written to all members.
    all[2].write(&joined);
    let further = with_state(&joined, 1, rebuilding(1000));
    all[2].write(&further);
    let assembly = chosen(&[&all[0], &all[1], &all[2]]).unwrap();
    assert_eq!(assembly.array.member[1].state, rebuilding(1000));
    assert_eq!(assembly.lagging, set(&[0, 1]));
}

#[test]
fn superblock_slots_are_at_the_documented_offsets() {
    assert_eq!(SLOT_BYTES, [4096, 32768]);
}

/// A host opens some of the devices, works, loses members, and crashes at any point.
#[derive(Clone, Debug)]
struct Session {
    given: u8,
    /// The session ends after this many effects: a superblock written to one member, or an
    /// acknowledged write.
    effects: u8,
    /// The member that is written first.
    order: u8,
    lost: Option<u8>,
    /// A missing member that a blank device replaces, and whether the rebuild finishes.
    replaced: Option<(u8, bool)>,
    /// A working member that another device replaces, and whether the new device is lost at the end
    /// of the session and the previous one put back.
    exchanged: Option<(u8, bool)>,
    /// A member that is copied before the session.
    copied: Option<u8>,
    /// True if the last copy replaces the member after the session.
    put_back: bool,
}

fn sessions() -> impl Strategy<Value = Vec<Session>> {
    let lost = prop::option::of(0..4_u8);
    let replaced = prop::option::of((0..4_u8, any::<bool>()));
    let exchanged = prop::option::of((0..4_u8, any::<bool>()));
    let copy = (prop::option::of(0..4_u8), prop::bool::weighted(0.2));
    let session = (
        1..16_u8,
        0..32_u8,
        0..24_u8,
        lost,
        replaced,
        exchanged,
        copy,
    )
        .prop_map(
            |(given, effects, order, lost, replaced, exchanged, (copied, put_back))| Session {
                given,
                effects,
                order,
                lost,
                replaced,
                exchanged,
                copied,
                put_back,
            },
        );
    prop::collection::vec(session, 0..9)
}

/// The devices and, for each, the acknowledged writes it holds.
struct World {
    devices: Vec<Device>,
    writes: Vec<Vec<u32>>,
    acknowledged: u32,
    /// The identity of the last new device.
    uuids: u8,
    openings: u64,
    /// A device that was replaced, and the acknowledged writes it holds.
    before: Option<(usize, Device, Vec<u32>)>,
    /// A copy of a device made while no session had it open.
    copy: Option<(usize, Device, Vec<u32>)>,
}

impl World {
    fn new(members: u8) -> Self {
        Self {
            devices: devices(&array(members, 7)),
            writes: vec![Vec::new(); usize::from(members)],
            acknowledged: 0,
            uuids: 100,
            openings: 0,
            before: None,
            copy: None,
        }
    }

    fn put(&mut self, device: Option<(usize, Device, Vec<u32>)>) {
        if let Some((position, device, writes)) = device {
            self.devices[position] = device;
            self.writes[position] = writes;
        }
    }

    fn given(&self, set: u8) -> Vec<usize> {
        let all = 0..self.devices.len();
        let blank = |index: &usize| self.devices[*index].found().record().is_err();
        all.filter(|index| set >> index & 1 == 1 && !blank(index))
            .collect()
    }

    /// Assembles these devices. No active member may lack an acknowledged write that any
    /// of them holds.
    fn choose(&self, given: &[usize]) -> Result<Assembly, AssembleError> {
        let devices: Vec<&Device> = given.iter().map(|&index| &self.devices[index]).collect();
        let assembly = chosen(&devices)?;
        let state = |index: usize| assembly.array.member[index].state;
        for member in assembly.devices.iter().flatten().map(|&index| given[index]) {
            if state(member) != MemberState::Active {
                continue;
            }
            for &other in given {
                let lost = self.writes[other]
                    .iter()
                    .find(|write| !self.writes[member].contains(write));
                assert_eq!(
                    lost, None,
                    "{member} lacks a write of {other}: {assembly:?}"
                );
            }
        }
        Ok(assembly)
    }

    fn write_all(
        &mut self,
        active: &[usize],
        record: &ArrayRecord,
        effect: &mut impl FnMut() -> Option<()>,
    ) -> Option<()> {
        for &index in active {
            effect()?;
            self.devices[index].write(record);
        }
        Some(())
    }

    /// Runs a session; `None` once its effects are used up.
    fn run(&mut self, session: &Session) -> Option<()> {
        let given = self.given(session.given);
        let Ok(assembly) = self.choose(&given) else {
            return Some(());
        };
        let mut left = session.effects;
        let mut effect = move || left.checked_sub(1).map(|rest| left = rest);
        let mut active = self.write_order(session.order);
        active.retain(|&index| assembly.devices[index].is_some());
        let member = |index: usize| MemberIndex(u8::try_from(index).unwrap());
        for &index in &active {
            if assembly.lagging.contains(member(index)) {
                effect()?;
                self.devices[index].write(&assembly.array);
            }
        }
        let mut record = assembly.array;
        self.openings += 1;
        // Unordered, like random session numbers.
        record.begin_session(self.openings.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut states = vec![None];
        if let Some(lost) = session.lost {
            states.push(Some(usize::from(lost)));
        }
        for lost in states {
            active.retain(|&index| Some(index) != lost);
            let whole = |&index: &usize| record.member[index].state == MemberState::Active;
            if !active.iter().any(whole) {
                return Some(());
            }
            let all = 0..self.devices.len();
            let missing: Vec<usize> = all.filter(|index| !active.contains(index)).collect();
            // Twice, so that the first record of an opening differs from the previous content.
            for _ in 0..2 {
                record = without(&record, &missing);
                record.clean = false;
                self.write_all(&active, &record, &mut effect)?;
            }
            effect()?;
            self.acknowledge_write(&active);
        }
        let whole = |&index: &usize| record.member[index].state == MemberState::Active;
        if let Some((position, to_the_end)) = session.replaced {
            let position = usize::from(position) % self.devices.len();
            if active.contains(&position) || !active.iter().any(whole) {
                return Some(());
            }
            record = self.replace_missing(position, &mut active, &record, &mut effect)?;
            if to_the_end {
                record = self.finish_rebuild(position, &active, &record, &mut effect)?;
            }
            effect()?;
            self.acknowledge_write(&active);
        }
        if let Some((position, _)) = session.exchanged {
            let position = usize::from(position) % self.devices.len();
            if !active.contains(&position) || record.member[position].state != MemberState::Active {
                return Some(());
            }
            record = self.exchange(position, &active, &record, &mut effect)?;
            effect()?;
            self.acknowledge_write(&active);
        }
        record = without(&record, &[]);
        record.clean = true;
        self.write_all(&active, &record, &mut effect)
    }

    /// Returns all positions in the order in which a session writes superblocks.
    fn write_order(&self, number: u8) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        let turn = usize::from(number) % order.len();
        order.rotate_left(turn);
        if number % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// Adds an acknowledged write to these members.
    fn acknowledge_write(&mut self, active: &[usize]) {
        self.acknowledged += 1;
        for &index in active {
            self.writes[index].push(self.acknowledged);
        }
    }

    /// Replaces a missing member with a blank device and starts its rebuild; returns the new
    /// record, `None` once the effects are used up.
    fn replace_missing(
        &mut self,
        position: usize,
        active: &mut Vec<usize>,
        record: &ArrayRecord,
        effect: &mut impl FnMut() -> Option<()>,
    ) -> Option<ArrayRecord> {
        self.uuids += 1;
        let device = &mut self.devices[position];
        device.slots.iter_mut().for_each(|slot| slot.fill(0));
        self.writes[position].clear();
        let filling = MemberState::Rebuilding {
            mark: BlockIndex(0),
            missed_since: 0,
        };
        let mut record = with_state(record, position, filling);
        record.member[position].device_uuid = Uuid::from_random([self.uuids; 16]);
        active.push(position);
        active.sort_unstable();
        self.write_all(active, &record, effect)?;
        Some(record)
    }

    /// Finishes the rebuild of a member; returns the new record, `None` once the effects are used
    /// up.
    fn finish_rebuild(
        &mut self,
        position: usize,
        active: &[usize],
        record: &ArrayRecord,
        effect: &mut impl FnMut() -> Option<()>,
    ) -> Option<ArrayRecord> {
        effect()?;
        let full = active
            .iter()
            .find(|&&index| record.member[index].state == MemberState::Active);
        let held = self.writes[*full.expect("looked")].clone();
        self.writes[position] = held;
        let record = with_state(record, position, MemberState::Active);
        self.write_all(active, &record, effect)?;
        Some(record)
    }

    /// Replaces a working member with another device; returns the new record, `None` once the
    /// effects are used up.
    fn exchange(
        &mut self,
        position: usize,
        active: &[usize],
        record: &ArrayRecord,
        effect: &mut impl FnMut() -> Option<()>,
    ) -> Option<ArrayRecord> {
        effect()?;
        self.uuids += 1;
        let before = self.devices[position].clone();
        self.before = Some((position, before, self.writes[position].clone()));
        self.devices[position]
            .slots
            .iter_mut()
            .for_each(|slot| slot.fill(0));
        let mut record = without(record, &[]);
        record.member[position].device_uuid = Uuid::from_random([self.uuids; 16]);
        self.devices[position].write(&record);
        self.write_all(active, &record, effect)?;
        Some(record)
    }

    /// Runs a session. Afterwards the replaced device may be back in its place, or an old copy in
    /// the place of a member.
    fn session(&mut self, session: &Session) {
        if let Some(position) = session.copied {
            let position = usize::from(position) % self.devices.len();
            let device = self.devices[position].clone();
            self.copy = Some((position, device, self.writes[position].clone()));
        }
        self.run(session);
        let before = self.before.take();
        if let Some((_, true)) = session.exchanged {
            self.put(before);
        }
        if session.put_back {
            let copy = self.copy.clone();
            self.put(copy);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Sessions on any of the devices, with crashes at any superblock write and old copies put
    /// back. No assembly lacks an acknowledged write that one of the given devices holds. If every
    /// session shares a device with the previous one, assembly succeeds.
    #[test]
    fn no_assembly_lacks_an_acknowledged_write(members in 2..=4_u8, sessions in sessions()) {
        let mut world = World::new(members);
        for session in &sessions {
            world.session(session);
            for given in 1..1_u8 << members {
                let given = world.given(given);
                match world.choose(&given) {
                    Ok(_) | Err(AssembleError::SplitBrain { .. } | AssembleError::NoDevices) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    /// If all devices are given each time, and none is an old copy, assembly always succeeds.
    #[test]
    fn one_history_is_never_split(members in 2..=4_u8, sessions in sessions()) {
        let mut world = World::new(members);
        for session in sessions {
            let session = Session { given: 15, put_back: false, ..session };
            world.session(&session);
            let all = world.given(15);
            let assembly = world.choose(&all);
            prop_assert!(assembly.is_ok(), "{assembly:?}");
        }
    }
}

/// A device that missed writes and did nothing since, of an array that marks the regions it misses.
#[test]
fn a_member_that_missed_only_marked_regions_returns() {
    let mut first = array(3, 7);
    let mut all = devices(&first);
    first.region_groups = 4;
    first.features.refuse |= Features::REGIONS;
    for device in &mut all {
        for kind in spindles_format::BITMAPS {
            device.record.set_version(kind, 1);
        }
        device.write(&first);
    }
    let second = without(&first, &[]);
    write_all(&mut all, &second);
    let out = without(&second, &[1]);
    all[0].write(&out);
    all[2].write(&out);
    let later = without(&out, &[]);
    all[0].write(&later);
    all[2].write(&later);
    let with_b = |all: &[Device], b: &Device| {
        let assembly = chosen(&[&all[0], b, &all[2]]).unwrap();
        assert_eq!(assembly.missing, set(&[1]));
        let refused = refused(&assembly);
        assert_eq!(refused.len(), 1);
        refused[0].1.clone()
    };
    let (since, mut held_out) = (3, false);
    assert_eq!(with_b(&all, &all[1]), Reason::Returning { since, held_out });
    // The failed write did not reach it.
    let mut behind = all[1].clone();
    behind.slots[0].fill(0);
    assert_eq!(with_b(&all, &behind), Reason::Returning { since, held_out });
    // It is being resynced, but the others no longer count on it.
    let returning = MemberState::Rebuilding {
        mark: BlockIndex(0),
        missed_since: since,
    };
    let mut back = all[1].clone();
    let further = opened(2, &later, &[]);
    all[0].write(&further);
    all[2].write(&further);
    back.write(&with_state(&later, 1, returning));
    assert_eq!(with_b(&all, &back), Reason::Returning { since, held_out });
    // An administrator put it out.
    held_out = true;
    let mut others = all.clone();
    let held = MemberState::Missing {
        out_since: since,
        held_out,
    };
    for device in [0, 2] {
        others[device].write(&with_state(&without(&further, &[]), 1, held));
    }
    assert_eq!(
        with_b(&others, &others[1]),
        Reason::Returning { since, held_out }
    );
    // A full rebuild that did not finish.
    let filled = MemberState::Rebuilding {
        mark: BlockIndex(0),
        missed_since: 0,
    };
    let mut partly = all[1].clone();
    partly.write(&with_state(&later, 1, filled));
    assert!(matches!(with_b(&all, &partly), Reason::Stale { .. }));
    // The device is too short now.
    let mut short = all[1].clone();
    short.bytes -= 4096;
    assert!(matches!(with_b(&all, &short), Reason::Truncated { .. }));
}
