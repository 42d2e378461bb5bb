//! Any text is read as `ccd.conf` or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "ccd0 ",
    "ccd1 ",
    "/dev/ccd2c ",
    "0 ",
    "16 ",
    "32 ",
    "none ",
    "CCDF_UNIFORM ",
    "CCDF_MIRROR",
    "mirror",
    "linux",
    "no_offset ",
    "CCDF_PARITY ",
    "0x6 ",
    ",",
    "|",
    "/dev/da0e ",
    "/dev/da1e ",
    "/dev/da2e ",
    "/dev/da3e ",
    "/dev/ccd0c ",
    "\\\n",
    "\n",
    "\r\n",
    "# ",
];

fuzz_target!(|data: &[u8]| shared::check("ccd", WORDS, data));
