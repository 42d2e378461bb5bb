//! Any text is read as RAIDframe's files or refused.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "shared/dialect.rs"]
mod shared;

const WORDS: shared::Words = &[
    "START array\n",
    "START disks\n",
    "START spare\n",
    "START layout\n",
    "START queue\nfifo 100\n",
    "START debug\n",
    "1 2 0\n",
    "2 0\n",
    "3 1\n",
    "4 0\n",
    "/dev/sd0e\n",
    "/dev/sd1e\n",
    "/dev/sd2e\n",
    "/dev/sd3e\n",
    "absent\n",
    "32 1 1 ",
    "0\n",
    "1\n",
    "4\n",
    "5\n",
    "C\n",
    "T\n",
    "128 1 1 1\n",
    "\r\n",
    "# ",
];

fuzz_target!(|data: &[u8]| shared::check("raidctl", WORDS, data));
