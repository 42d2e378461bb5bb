//! Row sums: a number next to each parity block that proves a reconstruction of its row.

/// The sum over the checksums of a row's data blocks. Blocks with this sum, reconstructed ones
/// included, are the blocks it was computed from: with 64 bits, no accidental match occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowSum(pub u64);

impl RowSum {
    /// The row is unknown.
    pub const NONE: Self = Self(0);

    /// Returns the sum over the data blocks of a row, in any order: each with its data slot and its
    /// checksum as stored in pages (`stored_checksum`).
    #[must_use]
    pub fn of(checksums: impl Iterator<Item = (u8, u32)>) -> Self {
        checksums.fold(Self::default(), |sum, (slot, checksum)| {
            sum.with(slot, checksum)
        })
    }

    /// The sum with the block of one more data slot.
    #[inline]
    #[must_use]
    pub fn with(self, slot: u8, checksum: u32) -> Self {
        Self(self.0.wrapping_add(mix(slot, checksum)))
    }

    /// The sum without the block of one data slot.
    #[inline]
    #[must_use]
    pub fn without(self, slot: u8, checksum: u32) -> Self {
        Self(self.0.wrapping_sub(mix(slot, checksum)))
    }

    /// The sum over a row of zeros.
    #[must_use]
    pub fn of_zeros(data_chunks: u8, checksum_of_zeros: u32) -> Self {
        Self::of((0..data_chunks).map(|slot| (slot, checksum_of_zeros)))
    }
}

/// Spreads slot and checksum over 64 bits. Bijective, and not linear in the checksum over GF(2).
///
/// A CRC is linear, and so is parity. If one of two wrong blocks was reconstructed through the
/// other, their CRCs are wrong by the same bits. A linear sum over them equals that of the right
/// blocks, and proves nothing.
#[inline]
fn mix(slot: u8, checksum: u32) -> u64 {
    let mut bits = u64::from(slot) << 32 | u64::from(checksum);
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{block_checksum, stored_checksum};
    use std::vec::Vec;

    /// Checksums as good as random.
    fn samples(count: u32) -> impl Iterator<Item = u32> {
        (1..=count).map(|index| block_checksum(&index.to_le_bytes().repeat(128)))
    }

    fn row_sum(checksums: &[u32]) -> RowSum {
        RowSum::of((0..).zip(checksums.iter().copied()))
    }

    /// These sums are stored on members and must never change.
    #[test]
    fn row_sums_are_stable_across_versions() {
        let rows: [(&[u32], u64); 7] = [
            (&[], 0),
            (&[0], 0xe220_a839_7b1d_cdaf),
            (&[1], 0x910a_2dec_8902_5cc1),
            (&[0xffff_ffff], 0x73b1_3ba2_aff1_81c0),
            (&[1, 2], 0x447a_68c5_1d52_cce3),
            (&[2, 1], 0xb79b_c785_19f0_ec3d),
            (
                &[0x1234_5678, 0x9abc_def0, 0x0fed_cba9],
                0xd2dc_747a_d5d9_5f22,
            ),
        ];
        for (checksums, sum) in rows {
            assert_eq!(row_sum(checksums), RowSum(sum), "{checksums:x?}");
        }
        let all: Vec<u32> = (0..=254).collect();
        assert_eq!(row_sum(&all), RowSum(0x3102_9999_a5e8_d7d8));
        assert_eq!(
            RowSum::of([(255, 7)].into_iter()),
            RowSum(0xe777_5e74_67b5_bacd)
        );
    }

    #[test]
    fn replacing_a_block_equals_recomputing_the_row_sum() {
        let new: Vec<u32> = samples(200).collect();
        let mut row: Vec<u32> = samples(205).skip(200).collect();
        let mut sum = row_sum(&row);
        for (slot, checksum) in (0..row.len()).cycle().zip(new) {
            let number = u8::try_from(slot).expect("5");
            sum = sum.without(number, row[slot]).with(number, checksum);
            row[slot] = checksum;
            assert_eq!(sum, row_sum(&row));
        }
        let zeros = stored_checksum(block_checksum(&[0; 4096]));
        assert_eq!(RowSum::of_zeros(5, zeros), row_sum(&[zeros; 5]));
    }

    #[test]
    fn swapped_blocks_change_the_row_sum() {
        let row: Vec<u32> = samples(8).collect();
        for first in 0..row.len() {
            for second in 0..first {
                let mut swapped = row.clone();
                swapped.swap(first, second);
                assert_ne!(row_sum(&swapped), row_sum(&row), "{first} and {second}");
            }
        }
    }

    #[test]
    fn the_row_sum_is_not_linear() {
        let all: Vec<u32> = samples(1000).chain((0..32).map(|bit| 1 << bit)).collect();
        for slot in [0, 1, 62] {
            for (at, &a) in all.iter().enumerate() {
                for &b in &all[..at] {
                    let linear = mix(slot, a) ^ mix(slot, b) ^ mix(slot, a ^ b) ^ mix(slot, 0);
                    assert_ne!(linear, 0, "{a:#x} and {b:#x}");
                }
            }
        }
    }

    /// If a block is reconstructed through a wrong one, both have the same error. Every linear sum
    /// takes both for right.
    #[test]
    fn a_row_sum_detects_reconstruction_from_a_wrong_block() {
        let block = |seed: u8| [seed; 512].map(|byte| byte ^ 0x5a);
        let xor = |a: &[u8; 512], b: &[u8; 512]| core::array::from_fn(|at| a[at] ^ b[at]);
        for seed in 1..100 {
            let (first, second) = (block(seed), block(seed + 100));
            let parity = xor(&first, &second);
            let mut wrong: [u8; 512] = first;
            wrong[usize::from(seed)] ^= seed;
            let reconstructed: [u8; 512] = xor(&parity, &wrong);
            let right = [block_checksum(&first), block_checksum(&second)];
            let found = [block_checksum(&wrong), block_checksum(&reconstructed)];
            assert_eq!(right[0] ^ right[1], found[0] ^ found[1], "linear");
            assert_ne!(row_sum(&right), row_sum(&found));
        }
    }
}
