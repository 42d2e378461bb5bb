//! Seeded random numbers, one stream for each concern, so that a change to one does not shift the
//! others.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use spindles_format::Uuid;
use spindles_workload::stamp;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// Returns the stream for this seed and concern.
    pub fn new(seed: u64, concern: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&stamp::hash(concern.as_bytes()).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Draws a number from the whole range of `u64`.
    pub fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws a UUID.
    pub(crate) fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.any().to_le_bytes());
        bytes[8..].copy_from_slice(&self.any().to_le_bytes());
        Uuid::from_random(bytes)
    }

    /// Draws a number from `0..end`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing to choose from");
        // The bias, below end / 2^64, does not matter here.
        self.0.next_u64() % end
    }

    /// Draws a number from `0..end`.
    pub fn below_u32(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(u64::from(end))).expect("below a u32")
    }

    /// Draws a number from `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Draws a number from `low..=high`.
    pub fn between_u32(&mut self, low: u32, high: u32) -> u32 {
        low + self.below_u32(high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Draws an index of a list of this length.
    pub fn index(&mut self, length: usize) -> usize {
        let index = self.below(length.try_into().expect("a length fits"));
        usize::try_from(index).expect("below a length")
    }

    /// Returns one of the choices.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// Returns one of the indices, with a probability in proportion to its weight. Panics if all
    /// weights are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u32 = weights.iter().sum();
        let mut left = self.below_u32(total);
        for (index, &weight) in weights.iter().enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("less than the sum of all weights")
    }
}
