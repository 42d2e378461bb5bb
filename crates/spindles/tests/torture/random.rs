//! Seeded random numbers (`SplitMix64`, Steele et al. 2014).

use spindles_workload::stamp;

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the stream of the seed and the purpose.
    pub(crate) fn of(seed: u64, purpose: &str) -> Self {
        let mut mixed = Self(seed ^ stamp::hash(purpose.as_bytes()));
        Self(mixed.any())
    }

    /// Returns any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Returns a number in `0..end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.any() % end
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

    /// Returns true once in `bound` times on average.
    pub(crate) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    /// Returns one of the choices.
    pub(crate) fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.index(at + 1));
        }
    }
}
