//! Where the parts of a group lie.

use crate::block::Block;

/// Bytes of an inode.
pub(crate) const INODE_BYTES: u32 = 128;

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

    /// Returns the place of a group.
    pub(crate) fn begin_bytes(&self, group: u32) -> u64 {
        u64::from(group) * u64::from(self.group_fragments) * u64::from(self.fragment_bytes)
    }
}
