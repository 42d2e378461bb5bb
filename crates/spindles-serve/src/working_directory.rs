//! Threads of one process that work in different folders.

#![expect(
    unsafe_code,
    reason = "a system call with a contract about other threads"
)]

use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;

/// From now on this thread has a working directory of its own.
///
/// # Errors
///
/// What the system says.
pub fn own_working_directory() -> io::Result<()> {
    // SAFETY: only what paths are relative to stops being shared, and no descriptor.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FS) }?)
}
