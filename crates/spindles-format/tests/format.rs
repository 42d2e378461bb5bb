//! The tests of this crate, in one executable: a build of each would cost more than its run.

mod choose;
mod document;
mod journal_device;
mod mutations;
mod spare;
mod superblock;
