//! The table of btrfs.

use crate::public::tables::check;

#[test]
fn texts_of_btrfs_are_read_or_refused() {
    check("btrfs", include_str!("btrfs.txt"));
}
