//! Numbers and sizes, with the suffixes of each dialect.

use crate::fault::Fault;
use crate::text::Word;
use alloc::format;
use spindles_block::BlockSize;
use spindles_layout::chunk_blocks;

/// The bytes of a sector.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The sectors whose bytes can be counted in 64 bits.
pub(crate) const SECTORS_MAX: u64 = u64::MAX / SECTOR_BYTES;

/// Suffixes in lower case and their bytes. Both cases are read.
pub(crate) type Suffixes = &'static [(&'static str, u64)];

/// Powers of 1024, and sectors of 512 bytes as `s`.
pub(crate) const BINARY: Suffixes = &[
    ("s", SECTOR_BYTES),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("p", 1 << 50),
    ("e", 1 << 60),
];

/// Reads a decimal number. `expected` names it in an error.
pub(crate) fn number(word: &Word<'_>, expected: &str) -> Result<u64, Fault> {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(word.fault(format!("{expected} is expected here, not '{}'", &**word)));
    }
    (word.parse()).map_err(|_| word.fault(format!("{} is too large for {expected}", &**word)))
}

/// Reads a size in bytes: a number with one of these suffixes, or in units of `unit_bytes`.
pub(crate) fn size(
    word: &Word<'_>,
    unit_bytes: u64,
    suffixes: Suffixes,
    expected: &str,
) -> Result<u64, Fault> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let suffix = &word[digits..];
    let unit_bytes = match suffix {
        "" => Some(unit_bytes),
        _ => (suffixes.iter())
            .find(|(name, _)| suffix.eq_ignore_ascii_case(name))
            .map(|(_, bytes)| *bytes),
    };
    let (Some(unit_bytes), true) = (unit_bytes, digits > 0) else {
        return Err(word.fault(format!("{expected} is expected here, not '{}'", &**word)));
    };
    let count = word[..digits].parse::<u64>().ok();
    let bytes = count.and_then(|count| count.checked_mul(unit_bytes));
    bytes.ok_or_else(|| word.fault(format!("{} is too large for {expected}", &**word)))
}

/// Returns an error if a chunk can't have this size. `noun` is the dialect's word for a chunk.
pub(crate) fn check_chunk(word: &Word<'_>, bytes: u64, noun: &str) -> Result<(), Fault> {
    match chunk_blocks(bytes, BlockSize::B512) {
        Ok(_) => Ok(()),
        Err(error) => Err(word.fault(format!("{noun} of {}: {error}", &**word))),
    }
}
