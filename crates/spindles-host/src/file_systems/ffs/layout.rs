//! Where the parts of a cylinder group lie.

use super::super::Options;
use super::super::grouped::{Geometry, INODE_BYTES};
use crate::block::Block;
use crate::error::HostError;

/// The boot block, and the superblock after it, or its copy in the other groups.
const BOOT_BYTES: u32 = 8192;
const SUPERBLOCK_BYTES: u32 = 8192;
/// Bytes of a group's header without its maps.
const GROUP_HEADER_BYTES: u64 = 256;

/// Lays groups out on a device.
pub(super) fn new(device_bytes: u64, options: &Options) -> Result<Geometry, HostError> {
    let block_bytes = options.block_bytes;
    let fragment_bytes = options.fragment_bytes;
    let block_fragments = block_bytes / fragment_bytes;
    let inode_bytes = u64::from(options.inode_bytes);
    // Fragments have numbers of 32 bits.
    if u32::try_from(device_bytes / u64::from(fragment_bytes)).is_err() {
        return Err(HostError::TooLarge);
    }
    let largest = largest_group(block_bytes, fragment_bytes, inode_bytes);
    let group_bytes = match options.group_bytes {
        // Groups of the same size that cover the device.
        0 => device_bytes / device_bytes.div_ceil(largest.max(1)).max(1),
        given => given,
    };
    let group_bytes = group_bytes.min(device_bytes) / u64::from(block_bytes);
    let group_blocks = u32::try_from(group_bytes).map_err(|_| HostError::TooSmall)?;
    let group_fragments = group_blocks * block_fragments;
    let of_group = u64::from(group_blocks) * u64::from(block_bytes);
    let groups = device_bytes / of_group.max(1);
    if groups == 0 {
        return Err(HostError::TooSmall);
    }
    let inodes_of_block = block_bytes / INODE_BYTES;
    let inodes = u32::try_from(of_group / inode_bytes).map_err(|_| HostError::TooSmall)?;
    let inode_blocks = inodes.div_ceil(inodes_of_block).max(1);
    let head_bytes = BOOT_BYTES + SUPERBLOCK_BYTES + block_bytes;
    let first_data_block = head_bytes.div_ceil(block_bytes) + inode_blocks;
    if first_data_block >= group_blocks {
        return Err(HostError::TooSmall);
    }
    Ok(Geometry {
        block_bytes,
        fragment_bytes,
        block_fragments,
        group_fragments,
        groups: u32::try_from(groups).expect("fewer than fragments"),
        group_inodes: inode_blocks * inodes_of_block,
        inode_blocks,
        first_data_block,
        group_blocks,
    })
}

/// Returns the copy of the superblock in a group.
pub(super) fn superblock(geometry: &Geometry, group: u32) -> Block {
    Block {
        place_bytes: geometry.begin_bytes(group) + u64::from(BOOT_BYTES),
        bytes: SUPERBLOCK_BYTES,
    }
}

/// Returns the block with the maps of a group.
pub(super) fn map(geometry: &Geometry, group: u32) -> Block {
    let head = u64::from(BOOT_BYTES + SUPERBLOCK_BYTES);
    Block {
        place_bytes: (geometry.begin_bytes(group) + head)
            .next_multiple_of(geometry.block_bytes.into()),
        bytes: geometry.block_bytes,
    }
}

/// Returns the bytes of the largest group whose maps of fragments and inodes fit in one block.
fn largest_group(block_bytes: u32, fragment_bytes: u32, inode_bytes: u64) -> u64 {
    let bits = (u64::from(block_bytes) - GROUP_HEADER_BYTES) * 8;
    let fragment_bytes = u64::from(fragment_bytes);
    // One bit a fragment, and one an inode.
    bits * fragment_bytes * inode_bytes / (fragment_bytes + inode_bytes)
}
