//! Any text is read as the words of lvm or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "lvcreate ",
    "vgcreate ",
    "pvcreate ",
    "vg ",
    "-n ",
    "lv ",
    "-i",
    "-I",
    "-m",
    "1 ",
    "2 ",
    "3 ",
    "64k ",
    "--type ",
    "raid5 ",
    "raid6 ",
    "raid10 ",
    "raid1 ",
    "mirror ",
    "striped ",
    "raid0 ",
    "linear ",
    "raid4 ",
    "-L1G ",
    "a ",
    "b ",
    "c ",
    "d ",
    "e ",
    "f ",
    "/dev/sd{a..c} ",
    "a:0-9 ",
    "; ",
    "\n",
    "\\\n",
];

fuzz_target!(|data: &[u8]| shared::check("lvm", WORDS, data));
