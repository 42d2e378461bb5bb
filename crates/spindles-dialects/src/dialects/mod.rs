//! The table of dialects. A new dialect is a file, its `mod` line and its row.

use crate::dialect::Dialect;

mod btrfs;
mod ccd;
mod lvm;
mod mdadm;
mod raidctl;
mod storcli;
mod vinum;
mod zpool;

/// All dialects.
pub static DIALECTS: &[&Dialect] = &[
    &ccd::DIALECT,
    &raidctl::DIALECT,
    &vinum::DIALECT,
    &zpool::DIALECT,
    &mdadm::DIALECT,
    &lvm::DIALECT,
    &btrfs::DIALECT,
    &storcli::DIALECT,
];
