//! Any text is read as our own format or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/trace.rs"]
mod shared;

const BEGINS: &[&str] = &[
    "# spindles trace 1\n",
    "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n",
    "# spindles trace 1\ngap_ns,operation,offset,bytes,client,response_ns\n",
    "# spindles trace 1\ntime_ns,operation,offset,bytes,client,response_ns\n0,read,",
];

fuzz_target!(|data: &[u8]| shared::check("spindles", BEGINS, data));
