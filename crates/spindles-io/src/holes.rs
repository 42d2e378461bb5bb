//! Files with holes: they take space from their file system when they are written.

use rustix::fs::{FallocateFlags, fallocate, fstat, fstatvfs};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// A file that has holes.
#[derive(Debug)]
pub(crate) struct Holes {
    file: OwnedFd,
    file_system: u64,
}

impl Holes {
    /// A second descriptor of an open file.
    pub(crate) fn of(file: &impl AsFd) -> Result<Self, Errno> {
        Ok(Self {
            file_system: fstat(file)?.st_dev,
            file: rustix::io::fcntl_dupfd_cloexec(file, 0)?,
        })
    }

    /// The number of its file system.
    pub(crate) const fn file_system(&self) -> u64 {
        self.file_system
    }

    /// The bytes that its file system has left; `None` if it does not say so.
    pub(crate) fn left_bytes(&self) -> Option<u64> {
        let room = fstatvfs(&self.file).ok()?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }

    /// Takes space for a range of the file; what it reads as stays. Returns false if there is too little. A file system
    /// that can't do this counts as one with room: the write finds out.
    pub(crate) fn fill(&self, offset_bytes: u64, bytes: u64) -> bool {
        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset_bytes, bytes) {
                Err(Errno::INTR) => {}
                Err(Errno::NOSPC | Errno::DQUOT) => return false,
                Ok(()) | Err(_) => return true,
            }
        }
    }
}
