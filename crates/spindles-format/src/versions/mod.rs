//! The versions of the format. What all have in common: the magic, then the version as a
//! little-endian u32. Everything else is the version's own.

mod v1;

use crate::{ArrayRecord, DecodeError, DeviceRecord, Features, SUPERBLOCK_BYTES, VERSION};

/// The first bytes of every superblock.
pub const MAGIC: [u8; 8] = *b"SPINDLES";

/// What a superblock says, of the array and of its device.
pub type Decoded = Result<(ArrayRecord, DeviceRecord), DecodeError>;

/// A version of the format.
#[derive(Debug)]
pub struct Version {
    /// As it stands in the superblock.
    pub number: u32,
    /// Where it differs from the one before.
    pub summary: &'static str,
    /// Writes a superblock of exactly `SUPERBLOCK_BYTES`. Allocates nothing.
    pub encode: fn(&ArrayRecord, &DeviceRecord, &mut [u8; SUPERBLOCK_BYTES]),
    /// Reads one whose magic and version are right.
    pub decode: fn(&[u8; SUPERBLOCK_BYTES]) -> Decoded,
    /// Every field of the superblock, in order: offset, length, name. The table of
    /// `docs/format.md`.
    pub fields: &'static [(usize, usize, &'static str)],
    /// A superblock as it was first written, for ever.
    pub fixture: &'static [u8; SUPERBLOCK_BYTES],
}

/// All versions that can be read.
pub static VERSIONS: &[&Version] = &[&v1::VERSION];

/// Writes a superblock into the first `SUPERBLOCK_BYTES` of `out`. Allocates nothing.
pub fn encode(array: &ArrayRecord, device: &DeviceRecord, out: &mut [u8]) {
    let version = VERSIONS
        .iter()
        .find(|version| version.number == VERSION)
        .expect("the version that is written is in the table");
    let out = out
        .first_chunk_mut()
        .expect("room for a superblock is the caller's to give");
    (version.encode)(array, device, out);
    // What is written is what will be read, or nothing is written.
    let decoded = decode(out);
    assert!(
        matches!(&decoded, Ok((read, own)) if own == device && is_same(read, array)),
        "a record that can't be read back: {array:?} on {device:?} is {decoded:?}"
    );
}

/// Whether a record is what was written of another one.
fn is_same(read: &ArrayRecord, written: &ArrayRecord) -> bool {
    let mut kept = written.clone();
    kept.features.ignorable &= Features::KNOWN.ignorable;
    *read == kept
}

/// Reads a superblock from the first `SUPERBLOCK_BYTES` of `bytes`. Allocates nothing.
pub fn decode(bytes: &[u8]) -> Decoded {
    let bytes: &[u8; SUPERBLOCK_BYTES] = bytes
        .first_chunk()
        .ok_or(DecodeError::Short { bytes: bytes.len() })?;
    if bytes[..8] != MAGIC {
        return Err(DecodeError::NotOurs);
    }
    let number = u32::from_le_bytes(*bytes[8..].first_chunk().expect("more follows"));
    let version = VERSIONS
        .iter()
        .find(|version| version.number == number)
        .ok_or(DecodeError::Version { version: number })?;
    (version.decode)(bytes)
}
