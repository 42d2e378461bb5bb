//! A file that stands for an export in locks, because an export itself can't be locked. It keeps
//! apart commands of one user on one machine, but not those of other users or machines.

use super::address::Address;
use crate::notice::{EXPORT, own_folder, sweep};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The lock file. A later `sweep` removes it once it is no longer locked.
#[derive(Debug)]
pub(crate) struct StandIn {
    file: File,
    path: PathBuf,
}

impl StandIn {
    /// Opens the file; creates it if missing. `None` if this user has no place for it.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        let server = address.server.identity();
        // Line breaks are unlikely in either part. A collision would only make two exports share a
        // lock.
        let identity = format!("{server}\n{}", address.export);
        let algorithm = crc_fast::CrcAlgorithm::Crc64Nvme;
        let number = crc_fast::checksum(algorithm, identity.as_bytes());
        let folder = own_folder()?;
        sweep(&folder);
        let path = folder.join(format!("{EXPORT}{number:016x}"));
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(&path);
        let file = file.ok()?;
        Some(Self { file, path })
    }

    /// Returns true if other processes still find this file. A sweep may have removed the file
    /// before this process locked it.
    pub(crate) fn is_there(&self) -> bool {
        let of = |found: fs::Metadata| (found.dev(), found.ino());
        let (own, found) = (self.file.metadata(), fs::metadata(&self.path));
        own.is_ok_and(|own| found.is_ok_and(|found| of(own) == of(found)))
    }

    pub(crate) fn into_file(self) -> OwnedFd {
        self.file.into()
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}
