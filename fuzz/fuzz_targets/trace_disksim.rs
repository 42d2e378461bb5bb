//! Any text is read as an ascii trace of DiskSim or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &["0.5 0 8 8 1\n", ""];

fuzz_target!(|data: &[u8]| shared::check("disksim", BEGINS, data));
