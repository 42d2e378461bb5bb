//! CRC-32C (Castagnoli), by the crate `crc-fast`, and the checksum of a block.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`, as iSCSI, ext4 and btrfs compute it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_of(&[bytes])
}

/// CRC-32C of these parts, one after the other.
pub(crate) fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        crc.update(part);
    }
    u32::try_from(crc.finalize()).expect("32 bits")
}

/// CRC-32C of `bytes` and this many zeros after them, which it does not read.
pub(crate) fn crc32c_then_zeros(bytes: &[u8], zeros: usize) -> u32 {
    let crc = !crc32c(bytes);
    let factors = &AFTER_ZEROS[zeros / ZEROS_UNIT];
    // Four powers of x at a time, the highest first.
    let product = (0..8).fold(0, |product: u32, at| {
        (product >> 4) ^ TIMES_X_4[nibble(product)] ^ factors[nibble(crc >> (4 * at))]
    });
    !product
}

/// The unit of zeros in `crc32c_then_zeros`, and their most units.
pub(crate) const ZEROS_UNIT: usize = 64;
const ZEROS_UNITS_MAX: usize = 64;

/// The lowest four bits, as an index.
fn nibble(a: u32) -> usize {
    usize::from(a.to_le_bytes()[0] & 15)
}

/// A polynomial modulo that of CRC-32C. The lowest bit is the coefficient of the highest power.
const ONE: u32 = 1 << 31;
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Units of zeros multiply a CRC by a power of x. For each number of units: the products of that
/// power with all polynomials of the powers 0 to 3.
static AFTER_ZEROS: [[u32; 16]; ZEROS_UNITS_MAX + 1] = {
    let mut all = [[0; 16]; ZEROS_UNITS_MAX + 1];
    let (mut factor, mut units) = (ONE, 0);
    while units < all.len() {
        let (mut at, mut a) = (0, 0);
        while at < 16 {
            all[units][at] = times(a, factor);
            a = a.wrapping_add(1 << 28);
            at += 1;
        }
        factor = times_x(factor, 8 * ZEROS_UNIT);
        units += 1;
    }
    all
};

/// The products of the four highest powers with the fourth power of x.
static TIMES_X_4: [u32; 16] = {
    let mut all = [0; 16];
    let (mut at, mut a) = (0, 0);
    while at < 16 {
        all[at] = times_x(a, 4);
        a += 1;
        at += 1;
    }
    all
};

/// Multiplies a polynomial by x this many times.
const fn times_x(mut a: u32, times: usize) -> u32 {
    let mut at = 0;
    while at < times {
        a = (a >> 1) ^ (POLYNOMIAL & (a & 1).wrapping_neg());
        at += 1;
    }
    a
}

/// Multiplies two polynomials.
const fn times(mut a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    while a != 0 {
        product ^= b & (a >> 31).wrapping_neg();
        a <<= 1;
        b = times_x(b, 1);
    }
    product
}

/// The unit of a block whose last bytes come first in the block's checksum: the smallest sector.
const CHECKSUM_TAIL_OF_BYTES: usize = 512;
/// The number of last bytes of each unit that come first.
const CHECKSUM_TAIL_BYTES: usize = 8;

/// Bytes in the ends of all parts of the longest block.
const TAILS_BYTES_MAX: usize = 4096 / CHECKSUM_TAIL_OF_BYTES * CHECKSUM_TAIL_BYTES;

/// The checksum of a block of data: CRC-32C over the last eight bytes of each 512 bytes, with their
/// two halves exchanged, and then over the whole block.
///
/// Some formats store data followed by its own CRC-32C. Such bytes change a CRC-32C in the same way
/// whatever they contain, and so do all sums of them. Without the first part, an older or torn
/// write of them would pass for a newer one. Eight bytes are used because some formats put zeros
/// after their CRC. Their halves are exchanged because the difference may be only four bytes and
/// their CRC-32C.
///
/// # Panics
/// If the block is longer than 4096 bytes.
#[must_use]
pub fn block_checksum(block: &[u8]) -> u32 {
    let mut tails = [0; TAILS_BYTES_MAX];
    let (parts, _) = block.as_chunks::<CHECKSUM_TAIL_OF_BYTES>();
    let (slots, _) = tails.as_chunks_mut::<CHECKSUM_TAIL_BYTES>();
    for (tail, part) in slots.iter_mut().zip(parts) {
        let end = part.last_chunk().expect("a part is longer");
        // Rotated as a number: exchanging the halves as bytes compiles to calls.
        *tail = u64::from_le_bytes(*end).rotate_left(32).to_le_bytes();
    }
    crc32c_of(&[&tails[..parts.len() * CHECKSUM_TAIL_BYTES], block])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn zeros_after_the_bytes_count_without_being_read() {
        let bytes: Vec<u8> = (0..4096)
            .map(|at: u32| at.wrapping_mul(0x9e37_79b9).to_le_bytes()[3])
            .collect();
        for length in [0, 1, 63, 64, 80, 200, 4096] {
            for zeros in (0..=4096).step_by(ZEROS_UNIT) {
                let mut all = bytes[..length].to_vec();
                all.resize(length + zeros, 0);
                assert_eq!(
                    crc32c_then_zeros(&bytes[..length], zeros),
                    crc32c(&all),
                    "{length} + {zeros}"
                );
            }
        }
    }

    /// The check value of the catalogue and the examples of RFC 3720, appendix B.4.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
    }

    /// Each length, because the crate has a way for each range of lengths.
    #[test]
    fn the_crate_computes_the_castagnoli_polynomial() {
        let bytes: Vec<u8> = (0..1000_u32)
            .map(|i| (i * i % 251).to_le_bytes()[0])
            .collect();
        for end in 0..bytes.len() {
            let slow = bytes[..end].iter().fold(u32::MAX, |crc, &byte| {
                (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                    (crc >> 1) ^ (0x82f6_3b78 * (crc & 1))
                })
            });
            assert_eq!(crc32c(&bytes[..end]), !slow, "the first {end} bytes");
        }
    }

    /// Blocks that end in their own CRC-32C, and sums of them, have different checksums.
    #[test]
    fn blocks_with_a_checksum_at_their_end_have_different_checksums() {
        let block = |byte: u8| {
            let mut block = vec![byte; 512];
            block[usize::from(byte)] = !byte;
            let sum = crc32c(&block[..508]).to_le_bytes();
            block[508..].copy_from_slice(&sum);
            block
        };
        let (one, two) = (block(1), block(2));
        let sum: Vec<u8> = one.iter().zip(&two).map(|(one, two)| one ^ two).collect();
        assert_eq!(crc32c(&one), crc32c(&two));
        assert_eq!(crc32c(&sum), crc32c(&[0; 512]));
        assert_ne!(block_checksum(&one), block_checksum(&two));
        assert_ne!(block_checksum(&sum), block_checksum(&[0; 512]));
    }

    /// So have blocks that end in a number and their own CRC-32C, and differ only there, and blocks
    /// that end in their own CRC-32C and zeros.
    #[test]
    fn blocks_that_differ_only_at_their_end_have_different_checksums() {
        let block = |number: u32, zeros: usize| {
            let mut block = vec![3; 512 - zeros];
            let end = block.len();
            block[end - 8..end - 4].copy_from_slice(&number.to_le_bytes());
            let sum = crc32c(&block[..end - 4]).to_le_bytes();
            block[end - 4..].copy_from_slice(&sum);
            block.resize(512, 0);
            block
        };
        for zeros in [0, 4] {
            let (one, two) = (block(11, zeros), block(12, zeros));
            assert_eq!(crc32c(&one), crc32c(&two));
            assert_ne!(block_checksum(&one), block_checksum(&two), "{zeros} zeros");
        }
    }

    /// So have blocks whose parts end in their own CRC-32C, each part old or new, and sums of them.
    #[test]
    fn torn_blocks_with_trailing_checksums_have_different_checksums() {
        let part = |seed: u32| {
            let bytes = (0..508).map(|i| (i * i + seed * (i + 1)).to_le_bytes()[0]);
            let mut part: Vec<u8> = bytes.collect();
            let sum = crc32c(&part).to_le_bytes();
            part.extend(sum);
            part
        };
        let torn = |seed: u32, new: u32| -> Vec<u8> {
            let parts = (0..8).map(|at| part(seed + 2 * at + (new >> at & 1)));
            parts.flatten().collect()
        };
        let sum = |one: Vec<u8>, two: &[u8]| -> Vec<u8> {
            one.iter().zip(two).map(|(one, two)| one ^ two).collect()
        };
        for parity in [false, true] {
            let other = if parity { torn(50, 0) } else { vec![0; 4096] };
            let torn = (0..256).map(|new| sum(torn(1, new), &other));
            let blocks: Vec<Vec<u8>> = torn.collect();
            let mut plain: Vec<u32> = blocks.iter().map(|block| crc32c(block)).collect();
            plain.dedup();
            assert_eq!(plain.len(), 1, "they look alike");
            let mut sums: Vec<u32> = blocks.iter().map(|block| block_checksum(block)).collect();
            sums.sort_unstable();
            sums.dedup();
            assert_eq!(sums.len(), 256);
        }
    }

    /// One flipped bit, or two, always change the checksum.
    #[test]
    fn one_and_two_bit_errors_are_detected() {
        let zeros = block_checksum(&[0; 4096]);
        let flip = |bit: usize| {
            let mut block = [0; 4096];
            block[bit / 8] = 1 << (bit % 8);
            block_checksum(&block) ^ zeros
        };
        let mut changes: Vec<u32> = (0..8 * 4096).map(flip).collect();
        assert!(!changes.contains(&0), "one bit");
        changes.sort_unstable();
        let all = changes.len();
        changes.dedup();
        assert_eq!(changes.len(), all, "two bits that do the same");
    }
}
