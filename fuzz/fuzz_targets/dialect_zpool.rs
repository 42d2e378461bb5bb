//! Any text is read as the words of zpool or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "zpool ",
    "create ",
    "add ",
    "tank ",
    "-f ",
    "-o ",
    "ashift=12 ",
    "mirror ",
    "raidz ",
    "raidz2 ",
    "raidz3 ",
    "draid:2d:1s ",
    "draid2 ",
    "spare ",
    "log ",
    "cache ",
    "special ",
    "dedup ",
    "a ",
    "b ",
    "c ",
    "d ",
    "e ",
    "/dev/sd{a..c} ",
    "\\\n",
    "\n",
    "; ",
    "'",
    "\"",
    "# ",
];

fuzz_target!(|data: &[u8]| shared::check("zpool", WORDS, data));
