//! Where the parts of a cylinder group lie.

use super::super::Options;
use crate::block::Block;
use crate::error::HostError;

/// Bytes of an inode.
const INODE_BYTES: u32 = 128;
/// The boot block, and the superblock after it, or its copy in the other groups.
const BOOT_BYTES: u32 = 8192;
const SUPERBLOCK_BYTES: u32 = 8192;
/// Bytes of a group's header without its maps.
const GROUP_HEADER_BYTES: u64 = 256;

/// The sizes of the file system, in fragments where no other unit is named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) block_bytes: u32,
    pub(crate) fragment_bytes: u32,
    /// Fragments of a block.
    pub(crate) block_fragments: u32,
    /// Fragments of a group.
    pub(crate) group_fragments: u32,
    pub(crate) groups: u32,
    pub(crate) group_inodes: u32,
    /// Blocks of inodes in a group.
    pub(crate) inode_blocks: u32,
    /// The first block of data in a group, in blocks.
    pub(crate) first_data_block: u32,
    /// The number of blocks in a group.
    pub(crate) group_blocks: u32,
}

/// The number of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(pub(crate) u32);

impl Geometry {
    /// Lays groups out on a device.
    pub(crate) fn new(device_bytes: u64, options: &Options) -> Result<Self, HostError> {
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
        Ok(Self {
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

    /// Returns a whole block that begins with a fragment.
    pub(crate) fn block(&self, fragment: u32) -> Block {
        self.fragments(fragment, self.block_fragments)
    }

    /// Returns a range of fragments.
    pub(crate) fn fragments(&self, first: u32, count: u32) -> Block {
        Block {
            place_bytes: u64::from(first) * u64::from(self.fragment_bytes),
            bytes: count * self.fragment_bytes,
        }
    }

    /// Returns the copy of the superblock in a group.
    pub(crate) fn superblock(&self, group: u32) -> Block {
        Block {
            place_bytes: self.begin_bytes(group) + u64::from(BOOT_BYTES),
            bytes: SUPERBLOCK_BYTES,
        }
    }

    /// Returns the block with the maps of a group.
    pub(crate) fn map(&self, group: u32) -> Block {
        let head = u64::from(BOOT_BYTES + SUPERBLOCK_BYTES);
        Block {
            place_bytes: (self.begin_bytes(group) + head).next_multiple_of(self.block_bytes.into()),
            bytes: self.block_bytes,
        }
    }

    /// Returns a block of inodes of a group.
    pub(crate) fn inode_block(&self, group: u32, number: u32) -> Block {
        let block = self.first_data_block - self.inode_blocks + number;
        self.block(group * self.group_fragments + block * self.block_fragments)
    }

    /// Returns the block that holds an inode.
    pub(crate) fn block_of(&self, inode: Inode) -> Block {
        let number = inode.0 % self.group_inodes / (self.block_bytes / INODE_BYTES);
        self.inode_block(self.group_of(inode), number)
    }

    /// Returns the group of an inode.
    pub(crate) fn group_of(&self, inode: Inode) -> u32 {
        inode.0 / self.group_inodes
    }

    /// Returns the number of blocks in a group that hold data.
    pub(crate) fn data_blocks(&self) -> u32 {
        self.group_blocks - self.first_data_block
    }

    fn begin_bytes(&self, group: u32) -> u64 {
        u64::from(group) * u64::from(self.group_fragments) * u64::from(self.fragment_bytes)
    }
}

/// Returns the bytes of the largest group whose maps of fragments and inodes fit in one block.
fn largest_group(block_bytes: u32, fragment_bytes: u32, inode_bytes: u64) -> u64 {
    let bits = (u64::from(block_bytes) - GROUP_HEADER_BYTES) * 8;
    let fragment_bytes = u64::from(fragment_bytes);
    // One bit a fragment, and one an inode.
    bits * fragment_bytes * inode_bytes / (fragment_bytes + inode_bytes)
}
