//! The offsets of superblocks, and the version of the format.

/// The size of a superblock.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// The offsets of the two superblock slots of a device, in bytes. Generation g lies in slot g % 2.
pub const SLOT_BYTES: [u64; 2] = [4096, 32768];

/// The format version that is written.
pub const VERSION: u32 = 1;

/// The length of a page of a bitmap.
pub const BITMAP_PAGE_BYTES: usize = 512;
/// Regions whose bits are in one page of a bitmap.
pub const BITMAP_PAGE_REGIONS: u64 = 64 * 58;

/// The length of a page of the list of bad blocks.
pub const BAD_BLOCKS_PAGE_BYTES: usize = 512;
