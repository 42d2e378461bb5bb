//! Directories with a hashed index: the hash of a name leads to the one block of its entry.
//! Documentation/filesystems/ext4, `directory.rst`.

use super::layout::BLOCK_BYTES;
use crate::file_systems::grouped::Inode;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of an entry before its name.
const ENTRY_HEAD_BYTES: u64 = 8;
/// A leaf is split once full, and leaves are three quarters full on average.
const LEAF_BYTES: u64 = BLOCK_BYTES as u64 / 4 * 3;

/// A directory.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) inode: Inode,
    /// The blocks of entries, by number.
    leaves: Vec<u32>,
    /// The block of the index, once there are several leaves.
    root: Option<u32>,
    bytes: u64,
}

/// The blocks that a directory needs to grow.
pub(super) enum Growth {
    None,
    /// A leaf.
    Leaf,
    /// A leaf, and the index.
    LeafAndRoot,
}

impl Folder {
    /// Creates a directory with one block.
    pub(super) fn new(inode: Inode, leaf: u32) -> Self {
        Self {
            inode,
            leaves: vec![leaf],
            root: None,
            bytes: 24,
        }
    }

    /// Enters a name of that length.
    pub(super) fn enter(&mut self, name_bytes: usize) -> Growth {
        let name_bytes = u64::try_from(name_bytes).expect("64 bits");
        self.bytes += ENTRY_HEAD_BYTES + name_bytes.next_multiple_of(4);
        let leaves = u64::try_from(self.leaves.len()).expect("64 bits");
        match self.root {
            None if self.bytes > BLOCK_BYTES.into() => Growth::LeafAndRoot,
            Some(_) if self.bytes > leaves * LEAF_BYTES => Growth::Leaf,
            _ => Growth::None,
        }
    }

    /// Removes a name of that length.
    pub(super) fn remove(&mut self, name_bytes: usize) {
        let name_bytes = u64::try_from(name_bytes).expect("64 bits");
        self.bytes -= ENTRY_HEAD_BYTES + name_bytes.next_multiple_of(4);
    }

    /// Splits a leaf into itself and a new block. Returns the blocks that change.
    pub(super) fn split(&mut self, leaf: u32, root: Option<u32>) -> [u32; 3] {
        self.root = self.root.or(root);
        let number = self.leaves.len();
        let half = number - (number + 1).next_power_of_two() / 2;
        let old = self.leaves[half.min(number - 1)];
        self.leaves.push(leaf);
        [old, leaf, self.root.unwrap_or(old)]
    }

    /// Returns the block that holds the entry of a name.
    pub(super) fn leaf(&self, hash: u32) -> u32 {
        let hash = usize::try_from(hash).expect("32 bits fit");
        let count = self.leaves.len();
        let all = count.next_power_of_two();
        let number = match hash % all {
            number if number < count => number,
            number => number - all / 2,
        };
        self.leaves[number]
    }

    /// Returns the index and the block of a name's entry.
    pub(super) fn way(&self, hash: u32) -> impl Iterator<Item = u32> + use<> {
        self.root.into_iter().chain([self.leaf(hash)])
    }
}

/// Returns a hash of a name.
pub(super) fn hash(name: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, mix);
    hash ^ hash >> 15
}
