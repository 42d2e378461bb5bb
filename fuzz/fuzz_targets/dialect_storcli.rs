//! Any text is read as the words of storcli or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "storcli ",
    "perccli64 ",
    "/c0 ",
    "add ",
    "vd ",
    "each ",
    "type=",
    "raid",
    "r",
    "0 ",
    "1 ",
    "5 ",
    "6 ",
    "10 ",
    "50 ",
    "60 ",
    "drives=",
    "252:",
    "0-3",
    "0-5",
    ",",
    " ",
    "pdperarray=",
    "2 ",
    "3 ",
    "strip=64 ",
    "spares=252:9 ",
    "wb ",
    "name=x ",
    "/c0/e252/s4 ",
    "hotsparedrive ",
    "; ",
    "\n",
];

fuzz_target!(|data: &[u8]| shared::check("storcli", WORDS, data));
