//! md: commands, `mdadm.conf`, and output of `mdadm --examine`.

use crate::public::tables::{Draw, check, check_round_trip};

#[test]
fn texts_of_md_are_read_or_refused() {
    check("mdadm", include_str!("mdadm.txt"));
}

#[test]
fn mds_read_as_they_were_written() {
    let mut draw = Draw(2);
    let levels = [
        "concat", "raid0", "raid1", "raid10", "raid4", "raid5", "raid6", "raid7",
    ];
    let shapes = (0..20_000).map(|_| draw.shape(&levels, true));
    let written = shapes.filter(|shape| check_round_trip("mdadm", shape));
    assert!(written.count() > 500);
}
