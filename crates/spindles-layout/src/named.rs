//! Levels, layouts and chunk sizes by what users type.

use crate::error::GeometryError;
use crate::level::{Layout, Level, Redundancy};
use crate::levels::LEVELS;
use alloc::borrow::ToOwned;
use spindles_block::BlockSize;

/// The largest chunk.
pub const CHUNK_BYTES_MAX: u32 = 64 << 20;

impl Level {
    /// Returns the level of this name.
    pub fn by_name(name: &str) -> Option<&'static Level> {
        LEVELS.iter().copied().find(|level| level.name == name)
    }

    /// Returns the level of this name, or an error that lists the levels.
    pub fn named(name: &str) -> Result<&'static Level, GeometryError> {
        Self::by_name(name).ok_or_else(|| GeometryError::UnknownLevel {
            name: name.to_owned(),
            levels: LEVELS,
        })
    }

    /// Returns the layout of this name: `left-symmetric`, `near 2`, `near2`. The empty name selects
    /// the default.
    pub fn layout(&'static self, name: &str) -> Result<Layout, GeometryError> {
        let default = self.layout_default();
        if name.is_empty() {
            return Ok(default);
        }
        let unknown = || GeometryError::UnknownLayout {
            level: self,
            name: name.to_owned(),
        };
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[word.len()..];
        let word = word.trim_end_matches([' ', '-']);
        let mut rows = self.layouts.iter();
        let row = rows
            .find(|row| !row.name.is_empty() && row.name == word)
            .ok_or_else(unknown)?;
        let copies = match (self.redundancy, digits) {
            (_, "") => default.copies,
            (Redundancy::Copies, digits) => digits.parse().map_err(|_| unknown())?,
            _ => return Err(unknown()),
        };
        Ok(Layout { row, copies })
    }
}

/// Returns the chunk size in blocks, or why it is not valid.
pub fn chunk_blocks(chunk_bytes: u64, block_size: BlockSize) -> Result<u32, GeometryError> {
    let block_bytes = block_size.bytes();
    match u32::try_from(chunk_bytes) {
        Ok(0) => Err(GeometryError::ChunkZero),
        Ok(bytes) if bytes > CHUNK_BYTES_MAX => Err(GeometryError::ChunkTooLarge),
        Err(_) => Err(GeometryError::ChunkTooLarge),
        Ok(bytes) if !bytes.is_multiple_of(block_bytes) => {
            Err(GeometryError::ChunkNotWholeBlocks {
                chunk_bytes: bytes,
                block_bytes,
            })
        }
        Ok(bytes) => Ok(bytes / block_bytes),
    }
}
