//! Devices and files that one run of the lab overwrites, claimed against other runs from its beginning to its end: between two
//! systems nothing has them open.

use spindles_io::lies_on;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// What is claimed, until this is dropped or the process ends. Each is a name in the kernel's table of sockets: a lock on the
/// device would keep out the servers that this run starts. Runs in another network namespace have another table.
#[derive(Default)]
pub(crate) struct Claims(BTreeMap<String, UnixListener>);

impl Claims {
    /// Claims what has this name and all that it lies on: once, whatever other names these have.
    pub(crate) fn take(&mut self, path: &str) -> Result<(), String> {
        for what in lies_on(path) {
            let Entry::Vacant(place) = self.0.entry(format!("spindles lab {what}")) else {
                continue;
            };
            let address = SocketAddr::from_abstract_name(place.key());
            match address.and_then(|address| UnixListener::bind_addr(&address)) {
                Ok(listener) => {
                    place.insert(listener);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(format!(
                        "{path}, or what it lies on, is in use by another run of the lab: wait until that has ended, or \
                         take another"
                    ));
                }
                Err(error) => return Err(format!("{path}: it can't be claimed: {error}")),
            }
        }
        Ok(())
    }
}
