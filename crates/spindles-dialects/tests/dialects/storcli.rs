//! The table of storcli.

use crate::public::tables::check;

#[test]
fn texts_of_storcli_are_read_or_refused() {
    check("storcli", include_str!("storcli.txt"));
}
