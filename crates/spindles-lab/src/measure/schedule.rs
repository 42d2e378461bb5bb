//! Random numbers for the schedule of an experiment: blocks, with every system once in each,
//! shuffled.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// A generator seeded by the experiment's seed, a purpose and an index.
pub(crate) struct Draw(ChaCha8Rng);

impl Draw {
    /// Creates a generator. `purpose` separates the draws of different uses.
    pub(crate) fn new(seed: u64, purpose: u64, index: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&purpose.to_le_bytes());
        key[16..24].copy_from_slice(&index.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns `0..count` in random order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let choices = u64::try_from(last + 1).expect("a small number");
            let choice = usize::try_from(self.number() % choices).expect("a small number");
            order.swap(last, choice);
        }
        order
    }

    /// Fills a buffer with incompressible bytes.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn orders_are_random_complete_and_repeatable() {
        let orders: Vec<_> = (0..50).map(|b| Draw::new(7, 0, b).order(4)).collect();
        for order in &orders {
            assert_eq!(order.iter().copied().collect::<BTreeSet<_>>().len(), 4);
        }
        // All 24 orders are possible; 50 draws show most of them.
        assert!(orders.iter().collect::<BTreeSet<_>>().len() > 12);
        // Each system comes first about as often as the others.
        for system in 0..4 {
            let first = orders.iter().filter(|order| order[0] == system).count();
            assert!((4..=25).contains(&first), "{system}: {first}");
        }
        assert_eq!(Draw::new(7, 0, 3).order(4), orders[3]);
        assert_ne!(Draw::new(8, 0, 3).order(9), Draw::new(7, 0, 3).order(9));
        assert_ne!(Draw::new(7, 1, 3).order(9), Draw::new(7, 0, 3).order(9));
        assert!(Draw::new(1, 0, 0).order(0).is_empty());
    }
}
