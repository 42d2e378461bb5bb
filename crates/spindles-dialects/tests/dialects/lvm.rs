//! The table of lvm.

use crate::public::tables::check;

#[test]
fn texts_of_lvm_are_read_or_refused() {
    check("lvm", include_str!("lvm.txt"));
}
