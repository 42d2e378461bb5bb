//! Sparse files: they allocate space from their file system on writes.

use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// A sparse file.
#[derive(Debug)]
pub struct Holes {
    file: OwnedFd,
    file_system: u64,
    /// Where the device begins in the file.
    start_bytes: u64,
}

impl Holes {
    /// Duplicates the descriptor of an open file, of which the device begins at `start_bytes`.
    pub fn of(file: &impl AsFd, start_bytes: u64) -> Result<Self, Errno> {
        Ok(Self {
            start_bytes,
            file_system: fstat(file)?.st_dev,
            file: rustix::io::fcntl_dupfd_cloexec(file, 0)?,
        })
    }

    /// Returns the number of its file system.
    pub const fn file_system(&self) -> u64 {
        self.file_system
    }

    /// Returns the free bytes of its file system; `None` if unknown.
    pub fn left_bytes(&self) -> Option<u64> {
        let room = fstatvfs(&self.file).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Allocates space for a range of the device; its contents stay. Returns false if there is too
    /// little. If the file system can't allocate ahead, returns true: the write will show it.
    pub fn fill(&self, offset_bytes: u64, bytes: u64) -> bool {
        let offset = self.start_bytes + offset_bytes;
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, bytes) {
                Err(Errno::INTR) => {}
                Err(Errno::NOSPC | Errno::DQUOT) => return false,
                Ok(()) | Err(_) => return true,
            }
        }
    }
}
