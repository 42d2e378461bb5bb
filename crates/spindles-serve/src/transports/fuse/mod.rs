//! Serves an array as one file over FUSE.
//!
//! ```text
//!  program, loop device ──▶ kernel ──▶ /dev/fuse ──▶ kernel's client ──▶ export ──▶ the array
//!                                          ▲                                │
//!                                          └──────────── replies ◀──────────┘
//! ```
//!
//! The file system has one file, its root, and is mounted on a file. Writes are not cached: a write
//! has reached the array when the call returns, and is durable after `fsync`. A
//! [watcher](super::watcher) unmounts the file system when the server ends or dies.

mod client;
mod descriptors;
mod file;
mod leaving;
mod message;
mod mount;
mod mounted;
mod mounts;
mod place;
mod ring;
mod ring_message;

use super::watcher::Watcher;
use super::{ExposedFile, Listener, ListenerError, ListenerOptions, Transport};
use crate::server_handle::ServerHandle;
use client::Kernel;
use descriptors::Descriptors;
use file::ArrayFile;
use leaving::Leaving;
use message::Attributes;
use mounted::MOUNTED;
use mounts::is_hidden;
use place::MountPoint;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::process::{getgid, getuid};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) static TRANSPORT: Transport = Transport {
    name: "fuse",
    value: "FILE",
    help: "Serve the array as this file, for all programs and loop devices; for several arrays, \
        give one file each, in order",
    is_shared: false,
    watched: Some(mounted::find),
    bind,
};

const REGULAR_FILE: u32 = 0o10_0000;

fn bind(path: &str, options: &ListenerOptions) -> Result<Box<dyn Listener>, ListenerError> {
    let refused = |error: io::Error| ListenerError::Refused(Box::new(error));
    let command = options.watcher()?;
    let place = MountPoint::prepare(Path::new(path));
    let mut place = place.map_err(|error| ListenerError::Refused(Box::new(error)))?;
    // Must precede the creation of threads, which inherit it.
    let needs_ipc_lock = super::reclaim::prevent_deadlock();
    let watcher = Watcher::start(command, TRANSPORT.name, &mounted::arguments(&place));
    let watcher = watcher.map_err(refused)?;
    place.leave_to_another();
    Ok(Box::new(Mounting {
        is_only: options.is_only,
        needs_ipc_lock,
        place,
        watcher: Some(watcher),
        device: None,
        seen: None,
        leaving: None,
        is_hidden: false,
    }))
}

/// A file that is or will be a mount point. Dropping it unmounts.
#[derive(Debug)]
struct Mounting {
    is_only: bool,
    needs_ipc_lock: bool,
    place: MountPoint,
    /// `None` once it is mounted.
    watcher: Option<Watcher>,
    /// The device that delivers requests, until the client takes it over.
    device: Option<OwnedFd>,
    /// The mounted file, until the client takes over.
    seen: Option<OwnedFd>,
    /// `None` until it is mounted.
    leaving: Option<Arc<Leaving>>,
    /// True if programs in other mount namespaces do not see it.
    is_hidden: bool,
}

impl Listener for Mounting {
    fn address(&self, _: &str) -> String {
        self.place.path().display().to_string()
    }

    /// Mounts the file. Programs that open it wait until `open` is called.
    fn prepare(&mut self, servers: &[ServerHandle]) -> io::Result<()> {
        let path = self.place.path();
        let [server] = servers else {
            return Err(io::Error::other("a file is one array"));
        };
        let export = server.export();
        let device = mount::mount(path, &export.name, export.read_only);
        self.device = Some(device.map_err(|error| failed(path, &error))?);
        let mut watcher = self.watcher.take().expect("it is mounted once");
        let noticed = watcher.ask::<()>(MOUNTED);
        let stopper = server.stopper().clone();
        let leaving = Leaving::new(path.to_owned(), watcher, stopper, self.is_only);
        self.leaving = Some(Arc::new(leaving));
        noticed.map_err(|error| failed(path, &error))?;
        self.is_hidden = is_hidden(path)?;
        // In the sandbox the folder may be inaccessible.
        let seen = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        self.seen = Some(seen.map_err(|errno| failed(path, &errno.into()))?);
        Ok(())
    }

    fn open(&mut self, servers: &[ServerHandle]) -> io::Result<()> {
        let [server] = servers else {
            return Err(io::Error::other("a file is one array"));
        };
        let export = server.export();
        let permissions = if export.read_only { 0o400 } else { 0o600 };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let file = ArrayFile {
            attributes: Attributes {
                bytes: export.bytes,
                mode: REGULAR_FILE | permissions,
                user: getuid().as_raw(),
                group: getgid().as_raw(),
                time_s: now.map_or(0, |now| now.as_secs()),
                block_bytes: export.block_bytes.max(4096),
            },
            read_only: export.read_only,
            request_bytes_max: export.access_bytes_max,
            requests_max: export.accesses_max,
            has_ring: false,
        };
        let device = self.device.take().expect("it is mounted");
        let leaving = self.leaving.as_ref().expect("it is mounted");
        if let Some(guard) = leaving.guard() {
            server.look_out(guard.clone());
        }
        let descriptors = Descriptors::new(device)?;
        server.join(Box::new(Kernel::new(
            descriptors,
            file,
            Arc::clone(leaving),
        )));
        // Before Linux 6.17 loop devices use the size cached by the kernel, which is unset until
        // the first request for attributes. Close the file at once, or it could not be unmounted.
        let seen = self.seen.take().expect("it is mounted");
        fstat(seen).map_err(|errno| failed(self.place.path(), &errno.into()))?;
        Ok(())
    }

    fn remark(&self) -> Option<String> {
        let remark = || {
            let path = self.place.path().display();
            format!(
                "only processes that share this one's mounts find the array at {path}; others find \
                 an ordinary file. A systemd service has mounts of its own, unless its unit says \
                 otherwise: see administration.md"
            )
        };
        self.is_hidden.then(remark)
    }

    fn needs_ipc_lock(&self) -> bool {
        self.needs_ipc_lock
    }

    fn seen(&self) -> Option<Weak<dyn ExposedFile>> {
        let leaving = Arc::downgrade(self.leaving.as_ref()?);
        Some(leaving)
    }

    fn close(&mut self) -> Option<String> {
        (self.device, self.seen) = (None, None);
        let leaving = self.leaving.take()?;
        match leaving.begin() {
            Ok(()) => leaving.end(),
            Err(error) => Some(error.to_string()),
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> io::Error {
    let what = format!(
        "can't mount on {}: {error}; --nbd needs no mount",
        path.display()
    );
    io::Error::other(what)
}

impl Drop for Mounting {
    fn drop(&mut self) {
        drop(self.close());
    }
}
