//! Self-describing sectors: a sector records its run, its number and its write. Every byte is
//! derived from these, so a wrong byte is recognised and its origin named.

use core::fmt;

/// The smallest sector that can hold a stamp.
pub const STAMP_BYTES_MIN: usize = 64;

const MAGIC: u64 = 0x5350_494e_444c_4553;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD_BYTES: usize = 8;
const HEADER_WORDS: usize = 5;

/// The contents of one sector, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Distinguishes runs, so that bytes left by another run are recognised.
    pub run: u64,
    /// The sector it was written to.
    pub sector: u64,
    /// The number of the write, as counted by its writer.
    pub write: u64,
}

/// The contents found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Only zeros.
    Zeros,
    /// A whole stamp, without a wrong byte.
    Stamp(Stamp),
    /// The header of a stamp, followed by a wrong byte.
    Damaged {
        /// The stamp of the header.
        stamp: Stamp,
        /// The first byte that differs.
        first_wrong_byte: usize,
    },
    /// Bytes that begin with no stamp.
    Unknown {
        /// A hash of all bytes.
        hash: u64,
    },
}

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl Stamp {
    fn check(self) -> u64 {
        mix(mix(mix(self.run ^ MAGIC) ^ self.sector) ^ self.write)
    }

    /// Writes the stamp over the whole sector. Panics on a sector shorter than
    /// [`STAMP_BYTES_MIN`] or not a whole number of words.
    pub fn fill(self, sector: &mut [u8]) {
        assert!(sector.len() >= STAMP_BYTES_MIN && sector.len().is_multiple_of(WORD_BYTES));
        let check = self.check();
        let header = [MAGIC, self.run, self.sector, self.write, check];
        let mut state = check;
        for (index, word) in sector.chunks_exact_mut(WORD_BYTES).enumerate() {
            let value = header.get(index).copied().unwrap_or_else(|| {
                state = state.wrapping_add(STEP);
                state ^ state >> 29
            });
            word.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Identifies the contents of a sector; checks every byte.
    pub fn find(sector: &[u8]) -> Found {
        let mut words = sector.chunks_exact(WORD_BYTES).map(word);
        let header: [u64; HEADER_WORDS] =
            core::array::from_fn(|_| words.next().unwrap_or_default());
        let [magic, run, address, write, check] = header;
        let stamp = Self {
            run,
            sector: address,
            write,
        };
        if magic != MAGIC || check != stamp.check() {
            if sector.iter().all(|&byte| byte == 0) {
                return Found::Zeros;
            }
            return Found::Unknown { hash: hash(sector) };
        }
        let mut state = check;
        for (index, value) in words.enumerate() {
            state = state.wrapping_add(STEP);
            let wrong = value ^ (state ^ state >> 29);
            if wrong != 0 {
                let byte = usize::try_from(wrong.trailing_zeros() / 8).expect("below 8");
                return Found::Damaged {
                    stamp,
                    first_wrong_byte: (HEADER_WORDS + index) * WORD_BYTES + byte,
                };
            }
        }
        Found::Stamp(stamp)
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("chunks of a word"))
}

/// Returns a hash of any bytes; differs for each length of zeros.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = mix(MAGIC ^ u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    let words = bytes.chunks_exact(WORD_BYTES);
    let rest = words.remainder().iter().map(|&byte| u64::from(byte));
    for value in words.map(word).chain(rest) {
        state = (state ^ value).wrapping_mul(STEP);
        state ^= state >> 32;
    }
    mix(state)
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("zeros"),
            Self::Stamp(stamp) => write!(f, "write {} of sector {}", stamp.write, stamp.sector),
            Self::Damaged {
                stamp,
                first_wrong_byte,
            } => write!(
                f,
                "write {} of sector {}, damaged from byte {first_wrong_byte}",
                stamp.write, stamp.sector
            ),
            Self::Unknown { hash } => write!(f, "unknown bytes (hash {hash:016x})"),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{string::ToString, vec};

    const STAMP: Stamp = Stamp {
        run: 1,
        sector: 17,
        write: 9,
    };

    #[test]
    fn every_wrong_stamp_byte_is_detected() {
        for bytes in [64, 512, 520, 4096] {
            let mut sector = vec![0; bytes];
            assert_eq!(Stamp::find(&sector), Found::Zeros);
            STAMP.fill(&mut sector);
            assert_eq!(Stamp::find(&sector), Found::Stamp(STAMP));
            for index in 0..bytes {
                sector[index] ^= 0x10;
                let found = Stamp::find(&sector);
                if index < HEADER_WORDS * WORD_BYTES {
                    assert!(matches!(found, Found::Unknown { .. }), "{index}: {found:?}");
                } else {
                    let first_wrong_byte = index;
                    let stamp = STAMP;
                    let expected = Found::Damaged {
                        stamp,
                        first_wrong_byte,
                    };
                    assert_eq!(found, expected);
                }
                sector[index] ^= 0x10;
            }
        }
    }

    #[test]
    fn stamps_differ_and_parity_of_stamps_is_not_a_stamp() {
        let mut others = vec![[0_u8; 512]; 4];
        let stamps = [
            STAMP,
            Stamp { run: 2, ..STAMP },
            Stamp {
                sector: 18,
                ..STAMP
            },
            Stamp { write: 10, ..STAMP },
        ];
        for (sector, stamp) in others.iter_mut().zip(stamps) {
            stamp.fill(sector);
        }
        for (a, b) in [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)] {
            assert_ne!(others[a][40..], others[b][40..]);
        }
        let mut xor = others[0];
        for (byte, other) in xor.iter_mut().zip(&others[1]) {
            *byte ^= other;
        }
        assert!(matches!(Stamp::find(&xor), Found::Unknown { .. }));
    }

    #[test]
    fn findings_are_described_in_words() {
        let mut sector = [0; 512];
        STAMP.fill(&mut sector);
        assert_eq!(Stamp::find(&sector).to_string(), "write 9 of sector 17");
        sector[300] ^= 1;
        assert_eq!(
            Stamp::find(&sector).to_string(),
            "write 9 of sector 17, damaged from byte 300"
        );
    }
}
