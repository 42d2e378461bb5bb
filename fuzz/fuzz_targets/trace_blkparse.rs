//! Any text is read as the text of blkparse or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &[
    "8,0 1 1 0.5 9 Q R 8 + 8 [x]\n8,0 ",
    "8,0 1 1 0.5 9 D WS 8 + 8 [x]\n8,0 1 2 0.6 9 C W ",
    "",
];

fuzz_target!(|data: &[u8]| shared::check("blkparse", BEGINS, data));
