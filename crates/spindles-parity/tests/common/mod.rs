//! Groups of random chunks, and the oracle: the same codes in the arithmetic of another crate.

use gf256::gf256;
use spindles_parity::Code;

/// A small generator of bytes; the same seed gives the same bytes.
pub(crate) struct Bytes(u64);

impl Bytes {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn chunk(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.word().to_le_bytes()[4]).collect()
    }
}

/// Converts a number of chunks to the type that the codes use.
pub(crate) fn small(count: usize) -> u8 {
    u8::try_from(count).expect("groups are small")
}

/// All chunks of a group: random data, and parity by the oracle.
pub(crate) fn group(code: &Code, data_chunks: u8, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Bytes::new(seed);
    let data: Vec<_> = (0..data_chunks).map(|_| random.chunk(bytes)).collect();
    let parity = (0..code.parity_chunks).map(|p| oracle(p, &data));
    let parity: Vec<_> = parity.collect();
    [data, parity].concat()
}

/// P, Q or R as layouts.md defines them: the sum of 1, 2^i or 4^i times data chunk i.
fn oracle(parity: u8, data: &[Vec<u8>]) -> Vec<u8> {
    let base = gf256(1 << parity);
    let byte = |at: usize| {
        let terms = data
            .iter()
            .zip(0..)
            .map(|(chunk, i)| base.pow(i) * gf256(chunk[at]));
        u8::from(terms.fold(gf256(0), |sum, term| sum + term))
    };
    (0..data[0].len()).map(byte).collect()
}
