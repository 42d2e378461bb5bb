//! Sizes as people write them: `4096`, `64K`, `1M`, `10G`, `2T`, in powers of 1024.

use core::fmt;
use core::str::FromStr;

/// A size in bytes that reads and prints with a unit: `64K` is 65536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeBytes(pub u64);

/// Why a text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Something else than digits and one unit.
    NotASize,
    /// More than 2^64 - 1 bytes.
    TooLarge,
}

const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];

impl FromStr for SizeBytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let digits_end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let shift = match unit {
            "" | "B" => 0,
            "K" | "k" | "KiB" => 10,
            "M" | "m" | "MiB" => 20,
            "G" | "g" | "GiB" => 30,
            "T" | "t" | "TiB" => 40,
            _ => return Err(SizeError::NotASize),
        };
        if digits.is_empty() {
            return Err(SizeError::NotASize);
        }
        let count: u64 = digits.parse().map_err(|_| SizeError::TooLarge)?;
        count
            .checked_mul(1 << shift)
            .map(Self)
            .ok_or(SizeError::TooLarge)
    }
}

impl fmt::Display for SizeBytes {
    /// The shortest text that reads back as exactly this size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in UNITS {
            let bytes = 1_u64 << shift;
            if self.0 >= bytes && self.0.is_multiple_of(bytes) {
                return write!(f, "{}{unit}", self.0 / bytes);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotASize => {
                "not a size: give a whole number, with K, M, G or T (powers of 1024) after it, \
                 for example 64K"
            }
            Self::TooLarge => "too large: sizes end below 16777216T",
        })
    }
}

impl core::error::Error for SizeError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn sizes_read_and_print() {
        for (text, bytes, printed) in [
            ("0", 0, "0"),
            ("4096", 4096, "4K"),
            ("1000", 1000, "1000"),
            ("64K", 65_536, "64K"),
            ("64k", 65_536, "64K"),
            ("64KiB", 65_536, "64K"),
            ("1M", 1 << 20, "1M"),
            ("1025K", 1025 << 10, "1025K"),
            ("1024M", 1 << 30, "1G"),
            ("2T", 2 << 40, "2T"),
        ] {
            let size: SizeBytes = text.parse().expect(text);
            assert_eq!(size, SizeBytes(bytes), "{text}");
            assert_eq!(size.to_string(), printed, "{text}");
            assert_eq!(printed.parse(), Ok(size), "{printed}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in [
            "", "K", "-1", "1.5M", "64Q", "64 K", "K64", "64KB", "0x10", "٣",
        ] {
            assert_eq!(
                text.parse::<SizeBytes>(),
                Err(SizeError::NotASize),
                "{text:?}"
            );
        }
        for text in ["16777216T", "18446744073709551616", "99999999999999999999G"] {
            assert_eq!(
                text.parse::<SizeBytes>(),
                Err(SizeError::TooLarge),
                "{text}"
            );
        }
    }
}
