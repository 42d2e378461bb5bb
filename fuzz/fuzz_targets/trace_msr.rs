//! Any text is read as a trace of MSR Cambridge or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &[
    "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n",
    "5,h,0,Read,0,512,1\n",
    "",
];

fuzz_target!(|data: &[u8]| shared::check("msr", BEGINS, data));
