//! What file systems of groups share: where the parts of a group lie, free space, inodes and
//! folders.

mod folder;
mod geometry;
mod groups;

pub(crate) use folder::Folder;
pub(crate) use geometry::{Geometry, INODE_BYTES, Inode};
pub(crate) use groups::Groups;

/// Blocks of a file that its inode names.
pub(crate) const DIRECT_BLOCKS: u64 = 12;
/// Bytes of a block's number.
pub(crate) const POINTER_BYTES: u64 = 4;

/// Returns the name of a path without its folders.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the folder of a path; empty for the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

pub(crate) fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}
