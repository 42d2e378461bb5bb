//! Fields of a line and the numbers in them.

use super::problem::{Problem, shown};

/// Splits a line into exactly `N` fields at commas.
pub(super) fn at_commas<'a, const N: usize>(
    line: &'a [u8],
    wanted: &'static str,
) -> Result<[&'a [u8]; N], Problem> {
    exactly(line.split(|byte| *byte == b','), wanted)
}

/// Splits a line into exactly `N` fields at blanks.
pub(super) fn at_blanks<'a, const N: usize>(
    line: &'a [u8],
    wanted: &'static str,
) -> Result<[&'a [u8]; N], Problem> {
    exactly(words(line), wanted)
}

/// Returns the words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

fn exactly<'a, const N: usize>(
    fields: impl Iterator<Item = &'a [u8]>,
    wanted: &'static str,
) -> Result<[&'a [u8]; N], Problem> {
    let mut all: [&[u8]; N] = [&[]; N];
    let mut found = 0;
    for field in fields {
        if let Some(place) = all.get_mut(found) {
            *place = field;
        }
        found += 1;
    }
    if found == N {
        Ok(all)
    } else {
        Err(Problem::Fields { found, wanted })
    }
}

/// Parses a whole number.
pub(super) fn whole(field: &'static str, text: &[u8]) -> Result<u64, Problem> {
    decimal(field, text, 0)
}

/// Parses a whole number of 32 bits.
pub(super) fn small(field: &'static str, text: &[u8]) -> Result<u32, Problem> {
    u32::try_from(whole(field, text)?).map_err(|_| Problem::TooLarge {
        field,
        text: shown(text),
    })
}

/// Parses a number of sectors of 512 bytes as bytes.
pub(super) fn sectors(field: &'static str, text: &[u8]) -> Result<u64, Problem> {
    let bytes = whole(field, text)?.checked_mul(512);
    bytes.ok_or_else(|| Problem::TooLarge {
        field,
        text: shown(text),
    })
}

/// Parses a decimal number in units of 10^-digits. More digits are cut.
pub(super) fn decimal(field: &'static str, text: &[u8], digits: u32) -> Result<u64, Problem> {
    let wrong = || Problem::NotANumber {
        field,
        text: shown(text),
    };
    if let Some(rest) = text.strip_prefix(b"-") {
        // A sign before anything else is a mistake of another kind.
        return Err(match rest.first() {
            Some(byte) if byte.is_ascii_digit() || *byte == b'.' => Problem::Negative {
                field,
                text: shown(text),
            },
            _ => wrong(),
        });
    }
    let mut value = Some(0_u64);
    let (mut any, mut point, mut left) = (false, false, digits);
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                any = true;
                if point && left == 0 {
                    continue;
                }
                left -= u32::from(point);
                let digit = u64::from(byte - b'0');
                value = value
                    .and_then(|value| value.checked_mul(10))
                    .and_then(|value| value.checked_add(digit));
            }
            b'.' if !point && digits > 0 => point = true,
            _ => return Err(wrong()),
        }
    }
    if !any {
        return Err(wrong());
    }
    let value = value.and_then(|value| value.checked_mul(10_u64.pow(left)));
    value.ok_or_else(|| Problem::TooLarge {
        field,
        text: shown(text),
    })
}
