//! Helpers shared by the tests of this crate.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod devices;
mod loop_devices;

#[allow(unused_imports, reason = "each test binary uses its own part of this")]
pub(crate) use {
    devices::Devices,
    loop_devices::{Loop, Loops},
};

use spindles_admin::assemble::AssembleOptions;
use spindles_array::Target;
use spindles_block::{BlockIndex, BufferId, BufferSlice, Operation, Reply, Request, RequestError};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Reports that a test was skipped, in the words that `cargo xtask test` searches for.
pub(crate) fn skip(name: &str, reason: &str) {
    println!("SKIPPED: {name}: {reason}");
}

/// A file system in memory; unmounted when dropped.
pub(crate) struct Tmpfs(pub(crate) PathBuf);

impl Tmpfs {
    pub(crate) fn new(at: &Path) -> Result<Self, String> {
        std::fs::create_dir(at).unwrap();
        mount(at, "size=64m").map(|()| Self(at.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("--lazy").arg(&self.0).status();
        // A second panic would abort all tests and hide the reason of the first.
        assert!(status.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Mounts a file system in memory, or remounts it with other options.
pub(crate) fn mount(at: &Path, options: &str) -> Result<(), String> {
    let mut command = Command::new("mount");
    let command = command
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(at);
    let output = command
        .output()
        .map_err(|error| format!("mount: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("no file system can be mounted here: {reason}"))
}

pub(crate) fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Without confirmation if absent members may be newer.
pub(crate) fn degraded() -> AssembleOptions {
    AssembleOptions {
        degraded: true,
        ..AssembleOptions::default()
    }
}

pub(crate) fn read_only() -> AssembleOptions {
    let mut options = AssembleOptions::default();
    options.open.read_only = true;
    options
}

/// Returns the beginning of a buffer.
pub(crate) fn place(buffer: BufferId) -> BufferSlice {
    BufferSlice {
        buffer,
        first_block: 0,
    }
}

/// Runs one request and waits for it.
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

/// Returns bytes that differ everywhere and with the seed.
pub(crate) fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut pattern = vec![0; bytes];
    for word in pattern.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
    pattern
}
