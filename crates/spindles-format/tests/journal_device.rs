//! The record of a journal device reads back as written.

use spindles_block::BlockSize;
use spindles_format::{
    DecodeError, JOURNAL_DEVICE_BYTES_MIN, JournalDevice, SUPERBLOCK_BYTES, Uuid, crc32c,
};

fn sample() -> JournalDevice {
    JournalDevice {
        device_uuid: Uuid::from_random([3; 16]),
        array: Uuid::from_random([4; 16]),
        device_bytes: 1 << 30,
        stamps: 0,
        nonce: 0,
        ended: 0,
    }
}

#[test]
fn encoding_round_trips() {
    let device = sample();
    assert_eq!(JournalDevice::decode(&device.encode()), Ok(device));
}

/// Every wrong value is refused at every place.
#[test]
fn every_wrong_byte_is_found() {
    let good = sample().encode();
    let mut bytes = good;
    for at in 0..SUPERBLOCK_BYTES {
        for flip in 1..=255_u8 {
            bytes[at] = good[at] ^ flip;
            assert!(
                JournalDevice::decode(&bytes).is_err(),
                "byte {at} ^ {flip:#x}"
            );
        }
        bytes[at] = good[at];
    }
}

/// Even under a right checksum.
#[test]
fn impossible_contents_are_refused() {
    let with = |at: usize, field: &[u8]| {
        let mut bytes = sample().encode();
        bytes[at..at + field.len()].copy_from_slice(field);
        let checksum = crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&checksum.to_le_bytes());
        JournalDevice::decode(&bytes)
    };
    assert_eq!(with(0, b"SPINDLES"), Err(DecodeError::NotOurs));
    assert_eq!(with(8, &[2]), Err(DecodeError::Version { version: 2 }));
    let short = (JOURNAL_DEVICE_BYTES_MIN - 1).to_le_bytes();
    for (at, field) in [(16, &[0; 16][..]), (32, &[0; 16]), (48, &short)] {
        let refused = with(at, field);
        assert!(
            matches!(refused, Err(DecodeError::Invalid { .. })),
            "{refused:?}"
        );
    }
}

/// The journals of all positions lie on the device, and none overlap.
#[test]
fn all_positions_have_room() {
    for bytes in [JOURNAL_DEVICE_BYTES_MIN, 5 << 20, 1 << 30, (1 << 40) + 513] {
        for block_size in [BlockSize::B512, BlockSize::B4096] {
            let device = JournalDevice {
                device_bytes: bytes,
                ..sample()
            };
            let (first, ring) = (
                device.first_block(block_size),
                device.ring_blocks(block_size),
            );
            assert!(ring * u64::from(block_size.bytes()) >= 65536);
            let end = (first.0 + 64 * ring) * u64::from(block_size.bytes());
            assert!(first.0 * u64::from(block_size.bytes()) >= 36864 && end <= bytes);
        }
    }
}
