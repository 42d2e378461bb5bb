//! Any bytes are a superblock or an error, and a superblock is written back as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindles_format::versions::{MAGIC, VERSIONS};
use spindles_format::{Found, SUPERBLOCK_BYTES, choose, crc32c, decode, encode};

fuzz_target!(|data: &[u8]| {
    // Decode the raw bytes.
    let _ = decode(data);
    // XOR the bytes into a good superblock and recompute the checksum, so that decoding reaches the
    // fields.
    let (mode, data) = data.split_first().unwrap_or((&0, &[]));
    for version in VERSIONS {
        let mut bytes = *version.fixture;
        let at = 16 * usize::from(*mode);
        for (byte, change) in bytes[at..].iter_mut().zip(data) {
            *byte ^= change;
        }
        bytes[..8].copy_from_slice(&MAGIC);
        let checksum = crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
        bytes[SUPERBLOCK_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        let Ok((array, device)) = decode(&bytes) else {
            continue;
        };
        let mut again = [0; SUPERBLOCK_BYTES];
        encode(&array, &device, &mut again);
        let mut expected = array.clone();
        expected.features.ignorable = 0;
        assert_eq!(decode(&again), Ok((expected, device)));
        // Together with the good one, and alone.
        let slots = [Ok(&bytes[..]), Ok(&bytes[..])];
        let found = Found::new("fuzzed".into(), device.device_bytes, slots);
        let good = Ok(&version.fixture[..]);
        let other = Found::new("good".into(), u64::MAX, [good, good]);
        let _ = choose(&[found.clone()]);
        let _ = choose(&[found, other]);
    }
});
