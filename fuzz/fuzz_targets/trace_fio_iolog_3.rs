//! Any text is read as an iolog of fio, version 3, or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &["fio version 3 iolog\n", "fio version 3 iolog\n5 a read "];

fuzz_target!(|data: &[u8]| shared::check("fio-iolog-3", BEGINS, data));
