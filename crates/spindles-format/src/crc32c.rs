//! CRC-32C for metadata, computed with tables, several bytes at a time ("slicing"). Superblocks are
//! small and rare; fast checksums of data belong to the driver.

const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;

/// The number of bytes processed at once.
const SLICES: usize = 16;

/// `TABLES[k][b]`: the change of the checksum by byte b if k more bytes follow it.
static TABLES: [[u32; 256]; SLICES] = tables();

const fn tables() -> [[u32; 256]; SLICES] {
    let mut tables = [[0; 256]; SLICES];
    let mut byte = 0;
    let mut value = 0_u32;
    while byte < 256 {
        let mut crc = value;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL_REFLECTED * (crc & 1));
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
        value += 1;
    }
    let mut k = 1;
    while k < SLICES {
        let mut byte = 0;
        while byte < 256 {
            let previous: u32 = tables[k - 1][byte];
            tables[k][byte] = (previous >> 8) ^ tables[0][previous.to_le_bytes()[0] as usize];
            byte += 1;
        }
        k += 1;
    }
    tables
}

/// The number of zeros processed at once. Most metadata is zeros.
const ZEROS: usize = 64;

/// `OVER_ZEROS[k][b]`: the value of byte b at place k of the register after this many zeros.
static OVER_ZEROS: OverZeros = over_zeros(ZEROS);

/// A larger number of zeros processed at once, for long runs.
const MANY_ZEROS: usize = 512;

static OVER_MANY_ZEROS: OverZeros = over_zeros(MANY_ZEROS);

type OverZeros = [[u32; 256]; 4];

const fn over_zeros(count: usize) -> OverZeros {
    let mut tables = [[0; 256]; 4];
    let mut bit = 0;
    while bit < 32 {
        let mut crc = 1_u32 << bit;
        let mut zeros = 0;
        while zeros < count {
            crc = (crc >> 8) ^ TABLES[0][crc.to_le_bytes()[0] as usize];
            zeros += 1;
        }
        let mut byte = 0;
        while byte < 256 {
            if byte >> (bit % 8) & 1 == 1 {
                tables[bit / 8][byte] ^= crc;
            }
            byte += 1;
        }
        bit += 1;
    }
    tables
}

/// CRC-32C (Castagnoli) of `bytes`, as iSCSI, ext4 and btrfs compute it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    !crc32c_on(SEED, bytes)
}

/// The unit of a block whose last bytes come first in the block's checksum: the smallest sector.
pub const CHECKSUM_TAIL_OF_BYTES: usize = 512;
/// The number of last bytes of each unit that come first.
pub const CHECKSUM_TAIL_BYTES: usize = 8;

/// The checksum of a block of data: CRC-32C over the last eight bytes of each 512 bytes, with their
/// two halves exchanged, and then over the whole block.
///
/// Some formats store data followed by its own CRC-32C. Such bytes change a CRC-32C in the same way
/// whatever they contain, and so do all sums of them. Without the first part, an older or torn
/// write of them would pass for a newer one. Eight bytes are used because some formats put zeros
/// after their CRC. Their halves are exchanged because the difference may be only four bytes and
/// their CRC-32C.
#[must_use]
pub fn block_checksum(block: &[u8]) -> u32 {
    let (parts, _) = block.as_chunks::<CHECKSUM_TAIL_OF_BYTES>();
    let tails = parts.iter().map(checksum_tail);
    !crc32c_on(tails.fold(SEED, |crc, tail| crc32c_on(crc, &tail)), block)
}

/// Returns the bytes of a part of a block that come first in the checksum of the block.
#[must_use]
#[inline]
pub fn checksum_tail(part: &[u8; CHECKSUM_TAIL_OF_BYTES]) -> [u8; CHECKSUM_TAIL_BYTES] {
    let tail = part.last_chunk().expect("a part is longer");
    // Rotated as a number: exchanging the halves as bytes compiles to calls.
    u64::from_le_bytes(*tail).rotate_left(32).to_le_bytes()
}

/// The register before the first byte.
pub(crate) const SEED: u32 = u32::MAX;

/// Returns the register after more bytes. The checksum is its complement.
pub(crate) fn crc32c_on(crc: u32, bytes: &[u8]) -> u32 {
    let (long, rest) = bytes.as_chunks::<MANY_ZEROS>();
    let crc = long.iter().fold(crc, |crc, part| {
        if is_zeros(part) {
            over(&OVER_MANY_ZEROS, crc)
        } else {
            in_parts(crc, part)
        }
    });
    in_parts(crc, rest)
}

/// Like `crc32c_on`, with shorter runs of zeros.
fn in_parts(crc: u32, bytes: &[u8]) -> u32 {
    let (parts, rest) = bytes.as_chunks::<ZEROS>();
    let crc = parts.iter().fold(crc, |crc, part| {
        if is_zeros(part) {
            over(&OVER_ZEROS, crc)
        } else {
            sliced(crc, part)
        }
    });
    sliced(crc, rest)
}

fn is_zeros<const N: usize>(part: &[u8; N]) -> bool {
    part.iter().fold(0, |any, byte| any | byte) == 0
}

/// Returns the register after this many zeros.
pub(crate) fn crc32c_on_zeros(crc: u32, count: usize) -> u32 {
    let (many, rest) = (count / MANY_ZEROS, count % MANY_ZEROS);
    let crc = (0..many).fold(crc, |crc, _| over(&OVER_MANY_ZEROS, crc));
    let crc = (0..rest / ZEROS).fold(crc, |crc, _| over(&OVER_ZEROS, crc));
    sliced(crc, &[0; ZEROS][..rest % ZEROS])
}

fn over(zeros: &OverZeros, crc: u32) -> u32 {
    let tables = zeros.iter().zip(crc.to_le_bytes());
    tables.fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
}

fn sliced(mut crc: u32, bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<SLICES>();
    for chunk in chunks {
        let mut mixed = *chunk;
        for (byte, of_crc) in mixed.iter_mut().zip(crc.to_le_bytes()) {
            *byte ^= of_crc;
        }
        crc = (0..SLICES).fold(0, |sum, i| {
            sum ^ TABLES[SLICES - 1 - i][usize::from(mixed[i])]
        });
    }
    for &byte in rest {
        crc = (crc >> 8) ^ TABLES[0][usize::from(byte ^ crc.to_le_bytes()[0])];
    }
    crc
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

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

    #[test]
    fn batched_checksums_equal_single_ones() {
        let bytes: Vec<u8> = (0..1000_u32)
            .map(|i| (i * i % 251).to_le_bytes()[0])
            .collect();
        for end in 0..bytes.len() {
            let slow = bytes[..end].iter().fold(u32::MAX, |crc, &byte| {
                (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                    (crc >> 1) ^ (POLYNOMIAL_REFLECTED * (crc & 1))
                })
            });
            assert_eq!(crc32c(&bytes[..end]), !slow, "the first {end} bytes");
        }
    }

    #[test]
    fn batched_zeros_equal_single_ones() {
        let mut bytes = vec![0; 5 * ZEROS];
        bytes[ZEROS / 2] = 77;
        bytes[3 * ZEROS] = 1;
        for start in [0, 1, ZEROS, 2 * ZEROS + 3] {
            let slow = bytes[start..]
                .iter()
                .fold(SEED, |crc, &byte| sliced(crc, &[byte]));
            assert_eq!(crc32c(&bytes[start..]), !slow, "from byte {start}");
        }
        for count in (0..3 * MANY_ZEROS).step_by(7) {
            let slow = sliced(SEED, &vec![0; count]);
            assert_eq!(crc32c_on_zeros(SEED, count), slow, "{count} zeros");
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
