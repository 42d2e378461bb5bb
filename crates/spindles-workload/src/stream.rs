//! Seeded random numbers, one stream for each actor of each workload.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Random numbers of one actor.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Returns the stream for this seed, workload and actor.
    pub(crate) fn new(seed: u64, workload: &str, actor: u32) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(workload.as_bytes()).to_le_bytes());
        key[16..20].copy_from_slice(&actor.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Draws a number from `0..end`, with equal probability for each.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0);
        // The values above the last whole multiple of `end` would favour small results.
        let unfair = u64::MAX - u64::MAX % end;
        loop {
            let value = self.0.next_u64();
            if value < unfair {
                return value % end;
            }
        }
    }

    /// Shuffles the items.
    pub(crate) fn shuffle(&mut self, items: &mut [u32]) {
        for last in (1..items.len()).rev() {
            let end = u64::try_from(last + 1).expect("a count fits");
            let other = usize::try_from(self.below(end)).expect("less than the count");
            items.swap(last, other);
        }
    }
}

/// Returns the FNV-1a hash. It must never change, so that seeds replay.
const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}
