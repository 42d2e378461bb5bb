//! The table of levels. A new level is a file, its `mod` line and its row.

use crate::level::Level;

mod concat;
mod raid0;
mod raid1;
mod raid10;
mod raid4;
mod raid5;
mod raid6;
mod raid7;

/// All levels.
pub static LEVELS: &[&Level] = &[
    &concat::LEVEL,
    &raid0::LEVEL,
    &raid1::LEVEL,
    &raid10::LEVEL,
    &raid4::LEVEL,
    &raid5::LEVEL,
    &raid6::LEVEL,
    &raid7::LEVEL,
];
