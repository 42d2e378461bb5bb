//! ZFS: `zpool create`.

use crate::public::tables::{Draw, check, check_round_trip};

#[test]
fn zpools_are_read_or_refused() {
    check("zpool", include_str!("zpool.txt"));
}

#[test]
fn zpools_read_as_they_were_written() {
    let mut draw = Draw(1);
    let levels = ["raid0", "raid1", "raid5", "raid6", "raid7", "concat"];
    let shapes = (0..20_000).map(|_| draw.shape(&levels, false));
    let written = shapes.filter(|shape| check_round_trip("zpool", shape));
    assert!(written.count() > 500);
}
