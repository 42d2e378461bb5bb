//! Self-contained pages: 4096 bytes that begin with a magic and a version and end with a checksum.

use crate::{DecodeError, SUPERBLOCK_BYTES, Uuid, crc32c};

const VERSION: u32 = 1;
const CHECKSUM_AT: usize = SUPERBLOCK_BYTES - 4;

/// The range of fields: after magic and version, before the checksum.
pub(crate) const FIELDS: core::ops::Range<usize> = 12..CHECKSUM_AT;

/// A page, as read from a device or under construction.
pub(crate) struct Page(pub(crate) [u8; SUPERBLOCK_BYTES]);

impl Page {
    /// A page without fields.
    pub(crate) fn new(magic: [u8; 8]) -> Self {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes[..8].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        Self(bytes)
    }

    /// Reads the page at the start of `bytes`; `NotOurs` if it has another magic.
    pub(crate) fn open(bytes: &[u8], magic: [u8; 8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; SUPERBLOCK_BYTES] = bytes
            .first_chunk()
            .ok_or(DecodeError::Short { bytes: bytes.len() })?;
        if bytes[..8] != magic {
            return Err(DecodeError::NotOurs);
        }
        let page = Self(*bytes);
        let version = page.u32(8);
        if version != VERSION {
            return Err(DecodeError::Version { version });
        }
        let (stored, computed) = (page.u32(CHECKSUM_AT), crc32c(&bytes[..CHECKSUM_AT]));
        if stored != computed {
            return Err(DecodeError::Checksum { stored, computed });
        }
        Ok(page)
    }

    /// Returns its bytes with their checksum.
    pub(crate) fn seal(mut self) -> [u8; SUPERBLOCK_BYTES] {
        let checksum = crc32c(&self.0[..CHECKSUM_AT]);
        self.0[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        self.0
    }

    pub(crate) fn set(&mut self, at: usize, field: &[u8]) {
        assert!(FIELDS.start <= at && at + field.len() <= FIELDS.end);
        self.0[at..at + field.len()].copy_from_slice(field);
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.0[at..].first_chunk().expect("a field within the page")
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }

    pub(crate) fn uuid(&self, at: usize) -> Uuid {
        Uuid(self.bytes(at))
    }
}
