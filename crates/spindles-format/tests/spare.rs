//! Spares: a record reads back as written, every wrong byte is refused, and a device is a spare or
//! a member, never both.

use spindles_format::versions::VERSIONS;
use spindles_format::{
    AssembleError, DecodeError, Found, SPARE_ARRAYS_MAX, SUPERBLOCK_BYTES, SpareRecord, Uuid,
    choose, decode,
};

fn uuid(of: u8) -> Uuid {
    Uuid::from_random([of; 16])
}

fn sample() -> SpareRecord {
    SpareRecord {
        device_uuid: uuid(9),
        device_bytes: 64 << 20,
        arrays: vec![uuid(1), uuid(2)],
    }
}

const BLANK: [u8; SUPERBLOCK_BYTES] = [0; SUPERBLOCK_BYTES];

fn found(even: &[u8], odd: &[u8]) -> Found {
    Found::new("a".to_owned(), 64 << 20, [Ok(even), Ok(odd)])
}

#[test]
fn encoding_round_trips() {
    for count in [0, 1, 2, SPARE_ARRAYS_MAX] {
        let record = SpareRecord {
            arrays: (1..).map(uuid).take(count).collect(),
            ..sample()
        };
        let bytes = record.encode();
        assert_eq!(SpareRecord::decode(&bytes), Ok(record.clone()));
        assert_eq!(found(&bytes, &BLANK).spare(), Some(&record));
        assert_eq!(record.is_shared(), count == 0);
    }
    let spare = sample();
    assert!(spare.serves(uuid(1)) && !spare.serves(uuid(3)));
    let claimed = spare.claimed_by(uuid(2));
    assert!(claimed.serves(uuid(2)) && !claimed.serves(uuid(1)) && !claimed.is_shared());
}

#[test]
fn every_wrong_byte_is_found() {
    let good = sample().encode();
    let mut bytes = good;
    for at in 0..SUPERBLOCK_BYTES {
        for flip in 1..=255_u8 {
            bytes[at] = good[at] ^ flip;
            let read = SpareRecord::decode(&bytes);
            match read {
                Err(DecodeError::NotOurs) if at < 8 => {}
                Err(DecodeError::Version { .. }) if (8..12).contains(&at) => {}
                Err(DecodeError::Checksum { .. }) if at >= 12 => {}
                other => panic!("byte {at} ^ {flip:#x}: {other:?}"),
            }
            if flip > 1 {
                continue;
            }
            let found = found(&bytes, &BLANK);
            assert_eq!(found.spare(), None);
            assert_eq!(found.record().unwrap_err(), read.unwrap_err());
        }
        bytes[at] = good[at];
    }
    for length in 0..SUPERBLOCK_BYTES {
        assert!(SpareRecord::decode(&good[..length]).is_err());
    }
}

/// A spare is not a superblock, and a superblock is not a spare.
#[test]
fn a_spare_is_never_treated_as_a_member() {
    let spare = sample().encode();
    assert_eq!(decode(&spare), Err(DecodeError::NotOurs));
    assert!(matches!(
        choose(&[found(&spare, &BLANK)]),
        Err(AssembleError::NotAMember { .. })
    ));
    let superblock = VERSIONS[0].fixture;
    assert_eq!(SpareRecord::decode(superblock), Err(DecodeError::NotOurs));
}

/// The first superblock of a spare that becomes a member may lie in either slot.
#[test]
fn a_valid_superblock_takes_precedence_over_a_spare() {
    let spare = sample().encode();
    let superblock = VERSIONS[0].fixture;
    let (array, _) = decode(superblock).unwrap();
    assert_eq!(array.generation % 2, 1, "the fixture belongs to slot 1");
    let member = found(&spare, superblock);
    assert_eq!(member.spare(), None);
    assert_eq!(member.record().unwrap().0, array);
    assert_eq!(member.damage(), None);
    // Torn: the device is still a spare.
    let mut torn = *superblock;
    torn[2048..].fill(0);
    assert_eq!(found(&spare, &torn).spare(), Some(&sample()));
    // Torn over the spare record itself: neither.
    let mut torn = spare;
    torn[..512].copy_from_slice(&superblock[..512]);
    let neither = found(&torn, &BLANK);
    assert_eq!(neither.spare(), None);
    assert!(matches!(
        neither.record(),
        Err(DecodeError::Checksum { .. })
    ));
    // A newer version of the format is refused.
    let mut newer = *superblock;
    newer[8] = 99;
    let newer = found(&spare, &newer);
    assert_eq!(newer.spare(), None);
    assert_eq!(newer.record(), Err(DecodeError::Version { version: 99 }));
}
