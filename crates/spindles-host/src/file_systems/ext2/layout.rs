//! Where the parts of a block group lie: a copy of the superblock and of all descriptors, a bitmap
//! of blocks, one of inodes, the inodes, and data.

use super::super::Options;
use super::super::grouped::{Geometry, INODE_BYTES};
use crate::block::Block;
use crate::error::HostError;

/// Bytes of a group's descriptor.
const DESCRIPTOR_BYTES: u32 = 32;
/// Blocks of the superblock's copy, of the bitmap of blocks and of that of inodes.
const SUPERBLOCKS: u32 = 1;
const BITMAPS: u32 = 2;

/// Lays groups out on a device. The bits of a bitmap, one block, limit a group's blocks.
pub(super) fn new(device_bytes: u64, options: &Options) -> Result<Geometry, HostError> {
    let block_bytes = options.block_bytes;
    let all = device_bytes / u64::from(block_bytes);
    // Blocks have numbers of 32 bits.
    let all = u32::try_from(all).map_err(|_| HostError::TooLarge)?;
    let group_blocks = (block_bytes * 8).min(all);
    if group_blocks == 0 {
        return Err(HostError::TooSmall);
    }
    let groups = all / group_blocks;
    let inodes_of_block = block_bytes / INODE_BYTES;
    let of_group = u64::from(group_blocks) * u64::from(block_bytes);
    let inodes = of_group / u64::from(options.inode_bytes);
    // One block of bits limits inodes, too.
    let inodes = u32::try_from(inodes).map_err(|_| HostError::TooLarge)?;
    let inode_blocks = inodes.min(block_bytes * 8).div_ceil(inodes_of_block).max(1);
    let descriptors = (groups * DESCRIPTOR_BYTES).div_ceil(block_bytes);
    let first_data_block = SUPERBLOCKS + descriptors + BITMAPS + inode_blocks;
    if first_data_block >= group_blocks {
        return Err(HostError::TooSmall);
    }
    Ok(Geometry {
        block_bytes,
        fragment_bytes: block_bytes,
        block_fragments: 1,
        group_fragments: group_blocks,
        groups,
        group_inodes: inode_blocks * inodes_of_block,
        inode_blocks,
        first_data_block,
        group_blocks,
    })
}

/// Returns the superblock, or its copy in a group.
pub(super) fn superblock(geometry: &Geometry, group: u32) -> Block {
    geometry.block(group * geometry.group_blocks)
}

/// Returns the copies of the descriptors in a group.
pub(super) fn descriptors(geometry: &Geometry, group: u32) -> impl Iterator<Item = Block> {
    let geometry = *geometry;
    let first = group * geometry.group_blocks + SUPERBLOCKS;
    let end = block_bitmap_number(&geometry, group);
    (first..end).map(move |block| geometry.block(block))
}

/// Returns the block with the descriptor of a group that is in use: the first copy.
pub(super) fn descriptor(geometry: &Geometry, group: u32) -> Block {
    geometry.block(SUPERBLOCKS + group * DESCRIPTOR_BYTES / geometry.block_bytes)
}

/// Returns the bitmap of a group's blocks.
pub(super) fn block_bitmap(geometry: &Geometry, group: u32) -> Block {
    geometry.block(block_bitmap_number(geometry, group))
}

/// Returns the bitmap of a group's inodes.
pub(super) fn inode_bitmap(geometry: &Geometry, group: u32) -> Block {
    geometry.block(block_bitmap_number(geometry, group) + 1)
}

fn block_bitmap_number(geometry: &Geometry, group: u32) -> u32 {
    let head = geometry.first_data_block - geometry.inode_blocks - BITMAPS;
    group * geometry.group_blocks + head
}
