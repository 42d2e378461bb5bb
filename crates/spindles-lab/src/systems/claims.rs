//! Claims the devices and files that a run of the lab overwrites against other runs, for the whole
//! run: between two systems no process has them open.

use spindles_device::lies_on;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Claims, held until this is dropped or the process ends. Each is a name of an abstract Unix
/// socket: a lock on the device would keep out the servers that this run starts. Runs in another
/// network namespace have names of their own and are not kept out.
#[derive(Default)]
pub(crate) struct Claims(BTreeMap<String, UnixListener>);

impl Claims {
    /// Claims the file or device at `path` and everything it lies on, each once whatever its name.
    pub(crate) fn take(&mut self, path: &str) -> Result<(), String> {
        for what in lies_on(path) {
            let Entry::Vacant(place) = self.0.entry(format!("spindles-lab {what}")) else {
                continue;
            };
            let address = SocketAddr::from_abstract_name(place.key());
            match address.and_then(|address| UnixListener::bind_addr(&address)) {
                Ok(listener) => {
                    place.insert(listener);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(format!(
                        "{path}, or the device below it, is in use by another run of the lab: wait \
                         until that run ends, or use another device"
                    ));
                }
                Err(error) => return Err(format!("{path}: it can't be claimed: {error}")),
            }
        }
        Ok(())
    }
}
