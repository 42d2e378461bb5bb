//! A file that stands for an export in locks: an export has none itself. So commands of one user on one machine keep out of
//! each other's way, and those of others don't.

use super::address::Address;
use crate::notice::{EXPORT, own_folder, sweep};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The file, which somebody else removes once nobody has it locked.
#[derive(Debug)]
pub(crate) struct StandIn {
    file: File,
    path: PathBuf,
}

impl StandIn {
    /// Made where there is none yet. `None` where this user has no place for it.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        let server = address.server.identity();
        // No address has a line break that is not escaped in it.
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

    /// Whether it is still the one that others find: it may have been removed before it was locked.
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
