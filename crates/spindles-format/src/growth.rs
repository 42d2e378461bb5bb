//! The superblock's record of growth, and of the places of regions after it.

use crate::Text;
use spindles_block::BlockIndex;

/// Its length in a superblock.
pub(crate) const GROWTH_BYTES: usize = 64;

/// The place of the array's regions in its bitmaps, and the progress of growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrowthRecord {
    /// The bit of the first region. Bits below it are left over from an earlier map and ignored.
    pub region: u32,
    /// The map before growth; `None` unless the array is growing.
    pub older: Option<OlderMap>,
}

/// The map of an array before it began to grow, and how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderMap {
    /// The level's name.
    pub level: Text<12>,
    /// The layout's name.
    pub layout: Text<20>,
    /// The chunk size.
    pub chunk_blocks: u32,
    /// The number of its members: the first ones of the array's.
    pub members: u8,
    /// Groups in a region.
    pub region_groups: u32,
    /// The bit of its first region.
    pub region: u32,
    /// The older map applies from this block of the array on, the new one below it.
    pub mark: BlockIndex,
    /// This many blocks from the mark on are staged in the members' headroom, laid out as in their
    /// final places. Recovery must move the staged blocks there before any other step.
    pub staged_blocks: u32,
}

impl GrowthRecord {
    /// Returns true if a reader must know of it.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.region > 0 || self.older.is_some()
    }

    pub(crate) fn encode(&self, out: &mut [u8]) {
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(16, &self.region.to_le_bytes());
        if let Some(older) = &self.older {
            put(0, &older.mark.0.to_le_bytes());
            put(8, &older.staged_blocks.to_le_bytes());
            put(12, &older.chunk_blocks.to_le_bytes());
            put(20, &older.region.to_le_bytes());
            put(24, &older.region_groups.to_le_bytes());
            put(28, &[older.members]);
            put(32, older.level.as_bytes());
            put(44, older.layout.as_bytes());
        }
    }

    pub(crate) fn decode(bytes: &[u8; GROWTH_BYTES], members: u8) -> Result<Self, &'static str> {
        let u32_at = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("within the record");
            u32::from_le_bytes(*bytes)
        };
        let text = "the level or layout that the array grows from is not text";
        let older = match bytes[28] {
            0 => None,
            count if count > members => return Err("it grows to fewer members"),
            count => Some(OlderMap {
                level: Text::from_bytes(bytes[32..].first_chunk().expect("12")).ok_or(text)?,
                layout: Text::from_bytes(bytes[44..].first_chunk().expect("20")).ok_or(text)?,
                chunk_blocks: u32_at(12),
                members: count,
                region_groups: u32_at(24),
                region: u32_at(20),
                mark: BlockIndex(u64::from_le_bytes(*bytes.first_chunk().expect("8"))),
                staged_blocks: u32_at(8),
            }),
        };
        if let Some(older) = &older
            && (older.level.is_empty()
                || older.chunk_blocks == 0
                || !older.region_groups.is_power_of_two())
        {
            return Err("the shape that the array grows from is not an array");
        }
        Ok(Self {
            region: u32_at(16),
            older,
        })
    }
}
