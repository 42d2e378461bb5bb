//! The ways by which other programs reach an array: a folder or a file each.

pub(crate) mod nbd;
