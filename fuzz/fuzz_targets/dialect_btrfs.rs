//! Any text is read as the words of btrfs or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "mkfs.btrfs ",
    "-d ",
    "-m ",
    "-L ",
    "raid0 ",
    "raid1 ",
    "raid1c3 ",
    "raid1c4 ",
    "raid10 ",
    "raid5 ",
    "raid6 ",
    "single ",
    "dup ",
    "-f ",
    "a ",
    "b ",
    "c ",
    "d ",
    "e ",
    "sd{a..d} ",
    "; ",
    "\n",
    "\\\n",
];

fuzz_target!(|data: &[u8]| shared::check("btrfs", WORDS, data));
