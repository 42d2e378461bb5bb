//! What several tests of this crate need.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod loop_devices;

#[allow(unused_imports, reason = "each test binary uses its own part of this")]
pub(crate) use loop_devices::{Loop, Loops};

use spindles_block::{BlockIndex, BufferSlice, Operation, Reply, Request, RequestError};
use spindles_io::Target;

/// Says that a test was left out, in the words that `cargo xtask test` looks for.
pub(crate) fn skip(name: &str, reason: &str) {
    println!("SKIPPED: {name}: {reason}");
}

/// Does one request and waits for it.
pub(crate) fn run(
    target: &mut dyn Target,
    operation: Operation,
    block: u64,
    blocks: u32,
    buffer: BufferSlice,
) -> Result<(), RequestError> {
    let request = Request {
        token: block + 7,
        operation,
        block: BlockIndex(block),
        blocks,
        buffer,
    };
    target.submit(request).unwrap();
    let Reply { token, result, .. } = target.poll(true).unwrap();
    assert_eq!(token, block + 7);
    result
}

/// Bytes that differ everywhere and with the seed.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..bytes)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}
