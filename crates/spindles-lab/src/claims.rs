//! Devices and files that one run of the lab overwrites, claimed against other runs from its beginning to its end: between two
//! systems nothing has them open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::{fs, io};

/// What is claimed, until this is dropped or the process ends. Each is a name in the kernel's table of sockets: a lock on the
/// device would keep out the servers that this run starts. Runs in another network namespace have another table.
#[derive(Default)]
pub(crate) struct Claims(BTreeMap<String, UnixListener>);

impl Claims {
    /// Claims what this path names, if it is a path: once, whatever other names it has.
    pub(crate) fn take(&mut self, path: &str) -> Result<(), String> {
        let Ok(facts) = fs::metadata(path) else {
            return Ok(());
        };
        let name = if facts.file_type().is_block_device() {
            format!("spindles lab block {}", facts.rdev())
        } else {
            format!("spindles lab file {} {}", facts.dev(), facts.ino())
        };
        let Entry::Vacant(place) = self.0.entry(name) else {
            return Ok(());
        };
        let address = SocketAddr::from_abstract_name(place.key());
        match address.and_then(|address| UnixListener::bind_addr(&address)) {
            Ok(listener) => {
                place.insert(listener);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(format!(
                "{path} is in use by another run of the lab: wait until that has ended, or take another"
            )),
            Err(error) => Err(format!("{path}: it can't be claimed: {error}")),
        }
    }
}
