//! Any text is read as `requests.csv` or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &[
    "operation,first_sector,sectors,response_us,gap_us\n",
    "operation,first_sector,sectors,response_us,gap_us\nR,8,",
];

fuzz_target!(|data: &[u8]| shared::check("requests", BEGINS, data));
