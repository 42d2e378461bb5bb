//! A working directory for each thread of one process.

#![expect(
    unsafe_code,
    reason = "a system call with a contract about other threads"
)]

use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;

/// Gives the calling thread its own working directory.
///
/// # Errors
///
/// The system call failed.
pub fn own_working_directory() -> io::Result<()> {
    // SAFETY: only the working directory, root and umask stop being shared, no descriptor.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FS) }?)
}
