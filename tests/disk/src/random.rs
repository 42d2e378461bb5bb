//! Seeded random numbers, one stream per purpose.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use spindles_workload::stamp;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Returns the stream of the seed and the purpose.
    pub(crate) fn new(seed: u64, concern: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&stamp::hash(concern.as_bytes()).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Returns any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing to choose from");
        // The bias, below end / 2^64, is negligible here.
        self.0.next_u64() % end
    }

    /// Returns a number in `0..end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("64 bits");
        usize::try_from(self.below(end)).expect("below a length")
    }

    /// Returns a number in `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns a number in `low..=high`. Small numbers are as frequent as large numbers: each
    /// doubling is equally likely.
    pub(crate) fn doubling(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low.max(1)).ilog2();
        let from = low << self.below(u64::from(doublings) + 1);
        self.between(from, (2 * from).min(high))
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices.
    pub(crate) fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}
