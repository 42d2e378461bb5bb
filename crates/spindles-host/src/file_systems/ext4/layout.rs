//! Where the parts of a flex group lie: a superblock, all descriptors, the bitmaps of its groups'
//! blocks, those of their inodes, their inodes, and data. Documentation/filesystems/ext4 of Linux,
//! `blockgroup.rst`, and the manual page of mke2fs.

use super::super::Options;
use super::super::grouped::{Geometry, Inode};
use crate::error::HostError;

/// Bytes of a block: mke2fs chooses it for devices of 512 MiB and more.
pub(super) const BLOCK_BYTES: u32 = 4096;
/// Bytes of an inode, and of a descriptor with 64 bits.
const INODE_BYTES: u32 = 256;
const DESCRIPTOR_BYTES: u32 = 64;
/// Blocks of a group: the bits of a bitmap.
pub(super) const GROUP_BLOCKS: u32 = BLOCK_BYTES * 8;
/// Groups of a flex group.
const FLEX: u32 = 16;
const INODES_OF_BLOCK: u32 = BLOCK_BYTES / INODE_BYTES;
const SUPERBLOCKS: u32 = 1;

/// Lays flex groups out on a device. What is left behind the last whole one belongs to it.
pub(super) fn new(device_bytes: u64, options: &Options) -> Result<Geometry, HostError> {
    let all = device_bytes / u64::from(BLOCK_BYTES);
    let all = u32::try_from(all).map_err(|_| HostError::TooLarge)?;
    let flexes = (all / GROUP_BLOCKS / FLEX).max(1);
    let flex_blocks = match all / flexes {
        blocks if blocks < GROUP_BLOCKS => blocks,
        blocks => blocks / GROUP_BLOCKS * GROUP_BLOCKS,
    };
    let bitmaps = flex_blocks.div_ceil(GROUP_BLOCKS);
    let group_bytes = u64::from(flex_blocks / bitmaps.max(1)) * u64::from(BLOCK_BYTES);
    let inodes = group_bytes / u64::from(options.inode_bytes);
    // One block of bits limits inodes, too.
    let inodes = u32::try_from(inodes.min(GROUP_BLOCKS.into())).expect("32 bits");
    let inode_blocks = inodes.div_ceil(INODES_OF_BLOCK).max(1) * bitmaps;
    let descriptors = (flexes * bitmaps * DESCRIPTOR_BYTES).div_ceil(BLOCK_BYTES);
    let first_data_block = SUPERBLOCKS + descriptors + 2 * bitmaps + inode_blocks;
    if first_data_block + journal_blocks(all) + 64 >= flex_blocks {
        return Err(HostError::TooSmall);
    }
    Ok(Geometry {
        block_bytes: BLOCK_BYTES,
        fragment_bytes: BLOCK_BYTES,
        block_fragments: 1,
        group_fragments: flex_blocks,
        groups: flexes,
        group_inodes: inode_blocks * INODES_OF_BLOCK,
        inode_blocks,
        first_data_block,
        group_blocks: flex_blocks,
    })
}

/// Returns the blocks of the journal that mke2fs makes on a device of that many blocks.
pub(super) fn journal_blocks(all: u32) -> u32 {
    match all >> 15 {
        0 => 1 << 10,
        1..8 => 1 << 12,
        8..16 => 1 << 13,
        16..128 => 1 << 14,
        128..256 => 1 << 15,
        256..512 => 1 << 16,
        512..1024 => 1 << 17,
        _ => 1 << 18,
    }
}

/// Returns the block that holds an inode.
pub(super) fn inode(geometry: &Geometry, inode: Inode) -> u32 {
    let flex = geometry.group_of(inode);
    let number = inode.0 % geometry.group_inodes / INODES_OF_BLOCK;
    begin(geometry, flex) + geometry.first_data_block - geometry.inode_blocks + number
}

/// Returns the bitmap of a block.
pub(super) fn block_bitmap(geometry: &Geometry, place: u32) -> u32 {
    let flex = place / geometry.group_blocks;
    let group = place % geometry.group_blocks / GROUP_BLOCKS;
    first_bitmap(geometry, flex) + group
}

/// Returns the bitmap of an inode.
pub(super) fn inode_bitmap(geometry: &Geometry, inode: Inode) -> u32 {
    let group = inode.0 % geometry.group_inodes / (geometry.group_inodes / bitmaps(geometry));
    first_bitmap(geometry, geometry.group_of(inode)) + bitmaps(geometry) + group
}

/// Returns the block with the descriptor of a bitmap's group: the first copy.
pub(super) fn descriptor(geometry: &Geometry, bitmap: u32) -> u32 {
    let flex = bitmap / geometry.group_blocks;
    let group = (bitmap - first_bitmap(geometry, flex)) % bitmaps(geometry);
    SUPERBLOCKS + (flex * bitmaps(geometry) + group) * DESCRIPTOR_BYTES / BLOCK_BYTES
}

/// Returns the block at which the search for a file's first block begins: the second group of the
/// flex group, as the first is for folders (`ext4_inode_to_goal_block`).
pub(super) fn file_goal(geometry: &Geometry, flex: u32) -> u32 {
    begin(geometry, flex) + folder_end(geometry)
}

/// Returns the block at which the search for a folder's first block begins.
pub(super) fn folder_goal(geometry: &Geometry, flex: u32) -> u32 {
    begin(geometry, flex) + geometry.first_data_block
}

/// Returns the blocks before the inodes of a flex group.
pub(super) fn head(geometry: &Geometry, flex: u32) -> core::ops::Range<u32> {
    let end = geometry.first_data_block - geometry.inode_blocks;
    begin(geometry, flex)..begin(geometry, flex) + end
}

fn begin(geometry: &Geometry, flex: u32) -> u32 {
    flex * geometry.group_blocks
}

fn folder_end(geometry: &Geometry) -> u32 {
    let second = geometry.group_blocks.min(GROUP_BLOCKS);
    if second < geometry.group_blocks {
        second.max(geometry.first_data_block)
    } else {
        geometry.first_data_block
    }
}

fn bitmaps(geometry: &Geometry) -> u32 {
    geometry.group_blocks.div_ceil(GROUP_BLOCKS)
}

fn first_bitmap(geometry: &Geometry, flex: u32) -> u32 {
    head(geometry, flex).end - 2 * bitmaps(geometry)
}
