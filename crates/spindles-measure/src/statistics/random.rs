//! A small generator for resampling: `SplitMix64`. Not for cryptography.

/// Pseudo-random numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u128::try_from(bound).expect("a length fits u128");
        usize::try_from((u128::from(self.next_u64()) * bound) >> 64).expect("below a usize")
    }

    /// A number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        crate::histogram::to_f64(self.next_u64() >> 11) / crate::histogram::to_f64(1 << 53)
    }

    /// A number of the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Derives a seed for each comparison from the experiment's (FNV-1a over the names).
pub(crate) fn seed_of(seed: u64, names: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed;
    for name in names {
        for &byte in name.as_bytes().iter().chain(&[0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_matches_splitmix64() {
        // The first values for the seed 1234567 as the algorithm's test vectors have them.
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.next_u64(), random.next_u64(), random.next_u64()],
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn normal_has_mean_0_and_deviation_1() {
        let mut random = Random::new(1);
        let values: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        assert!(super::super::mean(&values).abs() < 0.02);
        assert!((super::super::deviation(&values) - 1.0).abs() < 0.02);
    }
}
