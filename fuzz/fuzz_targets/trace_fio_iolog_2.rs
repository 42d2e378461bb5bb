//! Any text is read as an iolog of fio, version 2, or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &[
    "fio version 2 iolog\n",
    "fio version 2 iolog\na add\na read ",
];

fuzz_target!(|data: &[u8]| shared::check("fio-iolog-2", BEGINS, data));
