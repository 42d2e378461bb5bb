//! Levels, layouts and chunk sizes by what users type.

use crate::error::GeometryError;
use crate::level::{Layout, Level};
use crate::levels::LEVELS;
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
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
        let is_digit = |c: char| c.is_ascii_digit();
        let words = name.split(|c| c == ' ' || is_digit(c));
        let words = words.map(|word| word.trim_end_matches('-'));
        let words = words.filter(|word| !word.is_empty());
        let mut rows = self.layouts.iter().filter(|row| !row.name.is_empty());
        let row = rows.find(|row| row.name.split(' ').eq(words.clone()));
        let mut layout = self.layout_of(row.ok_or_else(unknown)?);
        let counts = name.split(|c| !is_digit(c));
        let counts: Vec<&str> = counts.filter(|count| !count.is_empty()).collect();
        if counts.is_empty() {
            return Ok(layout);
        }
        let open = layout.counts.iter_mut().filter(|count| **count > 0);
        if name.starts_with(is_digit) || open.count() != counts.len() {
            return Err(unknown());
        }
        for (count, digits) in layout.counts.iter_mut().zip(counts) {
            *count = digits.parse().map_err(|_| unknown())?;
        }
        match layout.counts {
            [_, 0] if row.is_some_and(|row| row.name.contains(' ')) => Err(unknown()),
            _ => Ok(layout),
        }
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
