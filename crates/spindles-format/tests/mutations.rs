//! A small, deterministic version of the fuzz target in `fuzz/`. Fields changed at random under a
//! right checksum are refused or written back as read, and nothing panics.

use spindles_format::versions::VERSIONS;
use spindles_format::{Found, SUPERBLOCK_BYTES, choose, crc32c, decode, encode};

/// A small generator with a fixed sequence.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("small");
        usize::try_from(self.next() % bound).expect("small")
    }
}

#[test]
fn changed_fields_are_refused_or_kept() {
    let mut random = Random(2);
    let (mut refused, mut kept) = (0_u32, 0_u32);
    for round in 0..30_000 {
        let version = VERSIONS[round % VERSIONS.len()];
        let mut bytes = *version.fixture;
        for _ in 0..=random.below(4) {
            let (offset, length, _) = version.fields[random.below(version.fields.len())];
            let at = offset + random.below(length);
            bytes[at] = match random.below(3) {
                0 => 0,
                1 => bytes[at] ^ (1 << random.below(8)),
                _ => random.next().to_le_bytes()[0],
            };
        }
        let end = SUPERBLOCK_BYTES - 4;
        let checksum = crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        let Ok((mut array, device)) = decode(&bytes) else {
            refused += 1;
            continue;
        };
        kept += 1;
        let mut again = [0; SUPERBLOCK_BYTES];
        encode(&array, &device, &mut again);
        array.features.ignorable = 0;
        let found = |bytes: &[u8]| {
            let slots = [Ok(bytes), Ok(bytes)];
            Found::new("x".to_owned(), device.device_bytes, slots)
        };
        let alone = choose(&[found(&bytes)]);
        assert!(alone.is_ok(), "{alone:?}");
        drop(choose(&[found(&bytes), found(version.fixture)]));
        assert_eq!(decode(&again), Ok((array, device)));
    }
    assert!(
        refused > 1000 && kept > 1000,
        "{refused} refused, {kept} kept"
    );
}
