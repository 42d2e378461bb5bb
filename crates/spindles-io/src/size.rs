//! Sizes as users write them: `512`, `64K`, `1.5G` is not one; powers of 1024.

use crate::SizeError;

/// Units with their powers of two.
const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

/// Reads a size in bytes: a whole number, then nothing or one of `K M G T` (powers of 1024; small
/// letters and a trailing `iB` or `B` are understood too).
///
/// # Errors
///
/// Says what is wrong with the text.
pub fn parse_bytes(text: &str) -> Result<u64, SizeError> {
    let not_a_size = || SizeError::NotASize {
        text: text.to_owned(),
    };
    let upper = text.trim().to_ascii_uppercase();
    let digits_end = upper
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(upper.len());
    let (digits, unit) = upper.split_at(digits_end);
    if digits.is_empty() {
        return Err(not_a_size());
    }
    let too_large = || SizeError::TooLarge {
        text: text.to_owned(),
    };
    let shift = match unit {
        "" | "B" => 0,
        _ => UNITS
            .iter()
            .find(|(letter, _)| {
                unit.strip_prefix(*letter)
                    .is_some_and(|rest| matches!(rest, "" | "B" | "IB"))
            })
            .map(|(_, shift)| *shift)
            .ok_or_else(not_a_size)?,
    };
    let number: u64 = digits.parse().map_err(|_| too_large())?;
    number
        .checked_mul(1 << shift)
        .filter(|bytes| *bytes <= 1 << 62)
        .ok_or_else(too_large)
}

/// Writes a size so that `parse_bytes` reads it back: the largest unit that divides it.
#[must_use]
pub fn print_bytes(bytes: u64) -> String {
    UNITS
        .iter()
        .rev()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift))
        .map_or_else(
            || bytes.to_string(),
            |(letter, shift)| format!("{}{letter}", bytes >> shift),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64K", 65536),
            ("64k", 65536),
            ("3MiB", 3 << 20),
            ("2G", 2 << 30),
            ("1T", 1 << 40),
            ("10B", 10),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
            assert_eq!(parse_bytes(&print_bytes(bytes)), Ok(bytes), "{text}");
        }
        assert_eq!(print_bytes(3 << 20), "3M");
        for text in ["", "K", "-1", "1.5G", "1P", "4KK", "64 K"] {
            assert!(
                matches!(parse_bytes(text), Err(SizeError::NotASize { .. })),
                "{text}"
            );
        }
        for text in ["99999999999999999999", "9999999T"] {
            assert!(
                matches!(parse_bytes(text), Err(SizeError::TooLarge { .. })),
                "{text}"
            );
        }
    }
}
