//! Claims the devices and files that a run of the lab overwrites against other runs, for the whole
//! run: between two systems no process has them open.

use spindles_device::lies_on;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a program that is being started may keep a name of the process that starts it.
const STARTING_MAX: Duration = Duration::from_secs(1);

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
            match bound(place.key()) {
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

/// Binds an abstract name. Waits a moment for a name that is taken: until a child process runs its
/// program, it keeps the names that its parent has just released.
fn bound(name: &str) -> io::Result<UnixListener> {
    let began = Instant::now();
    loop {
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixListener::bind_addr(&address) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && began.elapsed() < STARTING_MAX =>
            {
                sleep(Duration::from_millis(10));
            }
            bound => return bound,
        }
    }
}
