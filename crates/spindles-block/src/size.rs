//! Sizes as people write them: `4096`, `64K`, `1M`, `10G`, `2T`, in powers of 1024, and `265s` in
//! sectors of 512 bytes.

use core::fmt;
use core::str::FromStr;

/// A size in bytes that reads and prints with a unit: `64K` is 65536, and prints as `64 KiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeBytes(pub u64);

/// The reason why a text is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// The text is not digits followed by one unit.
    NotASize,
    /// More than 2^64 - 1 bytes.
    TooLarge,
}

/// A sector has 512 bytes.
const SECTOR_SHIFT: u32 = 9;
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
            "s" => SECTOR_SHIFT,
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

impl SizeBytes {
    /// The size for typing: the shortest text that parses to exactly this size, such as `64K`.
    #[must_use]
    pub const fn typed(self) -> TypedSize {
        TypedSize(self.0)
    }

    /// The size for reading only: to a tenth of the largest unit, rounded down, such as `62.4 MiB`.
    #[must_use]
    pub const fn rounded(self) -> RoundedSize {
        RoundedSize(self.0)
    }

    /// Returns the largest unit that divides the size, and how many; `None` if none does.
    fn in_units(self) -> Option<(u64, &'static str)> {
        let units = UNITS
            .into_iter()
            .map(|(unit, shift)| (unit, 1_u64 << shift));
        let mut fit = units.filter(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes));
        fit.next().map(|(unit, bytes)| (self.0 / bytes, unit))
    }
}

impl fmt::Display for SizeBytes {
    /// The exact size, for people: `64 KiB`, `1000 bytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_units() {
            Some((count, unit)) => write!(f, "{count} {unit}iB"),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// A size formatted for typing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedSize(u64);

impl fmt::Display for TypedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SizeBytes(self.0).in_units() {
            Some((count, unit)) => write!(f, "{count}{unit}"),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A size to a tenth of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundedSize(u64);

impl fmt::Display for RoundedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((unit, shift)) = UNITS.into_iter().find(|(_, shift)| self.0 >> shift > 0) else {
            return write!(f, "{} bytes", self.0);
        };
        let tenths = (u128::from(self.0) * 10) >> shift;
        match tenths % 10 {
            0 => write!(f, "{} {unit}iB", tenths / 10),
            tenth => write!(f, "{}.{tenth} {unit}iB", tenths / 10),
        }
    }
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotASize => {
                "not a size: give a whole number, with K, M, G or T (powers of 1024) or s (sectors \
                 of 512 bytes) after it, for example 64K"
            }
            Self::TooLarge => "too large: sizes end below 16777216T",
        })
    }
}

impl core::error::Error for SizeError {}

/// A number with its noun, which prints as `1 block` or `2 blocks`.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a>(u64, &'a str);

/// Returns a number with its noun in the singular. Numbers above 2^64 - 1 are capped there.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> Counted<'_> {
    Counted(count.try_into().unwrap_or(u64::MAX), noun)
}

impl fmt::Display for Counted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        write!(f, "{count} {noun}{}", if *count == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn sizes_parse_and_print() {
        for (text, bytes, typed, printed) in [
            ("0", 0, "0", "0 bytes"),
            ("4096", 4096, "4K", "4 KiB"),
            ("1000", 1000, "1000", "1000 bytes"),
            ("64K", 65_536, "64K", "64 KiB"),
            ("64k", 65_536, "64K", "64 KiB"),
            ("64KiB", 65_536, "64K", "64 KiB"),
            ("1M", 1 << 20, "1M", "1 MiB"),
            ("1025K", 1025 << 10, "1025K", "1025 KiB"),
            ("1024M", 1 << 30, "1G", "1 GiB"),
            ("2T", 2 << 40, "2T", "2 TiB"),
            ("265s", 265 * 512, "135680", "135680 bytes"),
            ("2048s", 1 << 20, "1M", "1 MiB"),
        ] {
            let size: SizeBytes = text.parse().expect(text);
            assert_eq!(size, SizeBytes(bytes), "{text}");
            assert_eq!(size.to_string(), printed, "{text}");
            assert_eq!(size.typed().to_string(), typed, "{text}");
            assert_eq!(typed.parse(), Ok(size), "{typed}");
        }
    }

    #[test]
    fn rounded_sizes_are_short() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1023.9 KiB"),
            (63_872 << 10, "62.3 MiB"),
            (5 << 30, "5 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(SizeBytes(bytes).rounded().to_string(), text);
        }
    }

    #[test]
    fn invalid_sizes_are_refused() {
        for text in [
            "", "K", "-1", "1.5M", "64Q", "64 K", "K64", "64KB", "0x10", "٣",
        ] {
            assert_eq!(
                text.parse::<SizeBytes>(),
                Err(SizeError::NotASize),
                "{text:?}"
            );
        }
        for text in [
            "16777216T",
            "18446744073709551616",
            "99999999999999999999G",
            "36028797018963968s",
        ] {
            assert_eq!(
                text.parse::<SizeBytes>(),
                Err(SizeError::TooLarge),
                "{text}"
            );
        }
    }
}
