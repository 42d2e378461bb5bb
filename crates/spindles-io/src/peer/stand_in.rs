//! A file that stands for an export in locks: an export has none itself. So commands of one user on one machine keep out of
//! each other's way, and those of others don't.

use super::address::Address;
use crate::notice::own_folder;
use std::fs::File;
use std::os::fd::OwnedFd;

/// The file, made where there is none yet. `None` where this user has no place for it.
pub(crate) fn stand_in(address: &Address) -> Option<OwnedFd> {
    let server = address.server.identity();
    // No address has a line break that is not escaped in it.
    let identity = format!("{server}\n{}", address.export);
    let algorithm = crc_fast::CrcAlgorithm::Crc64Nvme;
    let number = crc_fast::checksum(algorithm, identity.as_bytes());
    let path = own_folder()?.join(format!("export-{number:016x}"));
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).open(path);
    Some(file.ok()?.into())
}
