//! What several tests of this crate need.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use spindles_block::{BlockIndex, BufferSlice, Operation, Reply, Request, RequestError};
use spindles_io::Target;
use std::path::Path;
use std::process::Command;

/// Says that a test was left out, in the words that `cargo xtask test` looks for.
pub(crate) fn skip(name: &str, reason: &str) {
    println!("SKIPPED: {name}: {reason}");
}

/// A loop device on a file; gone when dropped.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    /// Sets one up, or says why not.
    pub(crate) fn new(file: &Path, sector_bytes: u32) -> Result<Self, String> {
        let sector = sector_bytes.to_string();
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector])
            .arg(file)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(format!("no loop devices here: {reason}"));
        }
        Ok(Self(
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let detached = Command::new("losetup").args(["--detach", &self.0]).status();
        assert!(detached.unwrap().success());
    }
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
