//! Seeded random numbers, one stream for each concern.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use spindles_workload::stamp;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The stream that belongs to the seed and the concern.
    pub(crate) fn new(seed: u64, concern: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&stamp::hash(concern.as_bytes()).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// One of `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "nothing to choose from");
        // The bias, below end / 2^64, matters to nobody here.
        self.0.next_u64() % end
    }

    /// One of `0..end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("64 bits");
        usize::try_from(self.below(end)).expect("below a length")
    }

    /// One of `low..=high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// One of `low..=high`, small ones as often as large ones: each doubling is as likely.
    pub(crate) fn doubling(&mut self, low: u64, high: u64) -> u64 {
        let doublings = (high / low.max(1)).ilog2();
        let from = low << self.below(u64::from(doublings) + 1);
        self.between(from, (2 * from).min(high))
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the choices.
    pub(crate) fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }
}
