//! The versions of the format. All begin with the magic and then the version as a little-endian
//! u32. Everything else is up to the version.

mod v1;

use crate::{ArrayRecord, DecodeError, DeviceRecord, Features, SUPERBLOCK_BYTES, VERSION};

/// The first bytes of every superblock.
pub const MAGIC: [u8; 8] = *b"SPINDLES";

/// The decoded superblock: the array's record and the device's.
pub type Decoded = Result<(ArrayRecord, DeviceRecord), DecodeError>;

/// A version of the format.
#[derive(Debug)]
pub struct Version {
    /// The version number in the superblock.
    pub number: u32,
    /// The differences from the previous version.
    pub summary: &'static str,
    /// Encodes a superblock of exactly `SUPERBLOCK_BYTES`. Allocates nothing.
    pub encode: fn(&ArrayRecord, &DeviceRecord, &mut [u8; SUPERBLOCK_BYTES]),
    /// Decodes a superblock whose magic and version are right.
    pub decode: fn(&[u8; SUPERBLOCK_BYTES]) -> Decoded,
    /// Every field of the superblock, in order: offset, length, name. The table of
    /// `docs/reference/format.md`.
    pub fields: &'static [(usize, usize, &'static str)],
    /// A superblock of this version as first released. It never changes.
    pub fixture: &'static [u8; SUPERBLOCK_BYTES],
}

/// All supported versions.
pub static VERSIONS: &[&Version] = &[&v1::VERSION];

/// Encodes a superblock into the first `SUPERBLOCK_BYTES` of `out`. Allocates nothing.
pub fn encode(array: &ArrayRecord, device: &DeviceRecord, out: &mut [u8]) {
    let version = VERSIONS
        .iter()
        .find(|version| version.number == VERSION)
        .expect("the version that is written is in the table");
    let out = out
        .first_chunk_mut()
        .expect("room for a superblock is the caller's to give");
    (version.encode)(array, device, out);
    // Never write a superblock that doesn't read back the same.
    let decoded = decode(out);
    assert!(
        matches!(&decoded, Ok((read, own)) if own == device && is_same(read, array)),
        "a record that can't be read back: {array:?} on {device:?} is {decoded:?}"
    );
}

/// Returns true if `read` is the record that writing `written` produces.
fn is_same(read: &ArrayRecord, written: &ArrayRecord) -> bool {
    let mut kept = written.clone();
    kept.features.ignorable &= Features::KNOWN.ignorable;
    *read == kept
}

/// Decodes a superblock from the first `SUPERBLOCK_BYTES` of `bytes`. Allocates nothing.
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
