//! An array as one file, which the kernel asks for over FUSE.
//!
//! ```text
//!  program, loop device ──▶ kernel ──▶ /dev/fuse ──▶ kernel's client ──▶ export ──▶ the array
//!                                          ▲                                │
//!                                          └──────────── replies ◀──────────┘
//! ```
//!
//! The file system has one file, its root, and is mounted on a file. It has no cache: what a program writes is with the
//! array when the call returns, and durable after `fsync`. A [`watcher`] unmounts when the server dies.

mod client;
mod descriptors;
mod file;
mod leaving;
mod message;
mod mount;
mod mounts;
mod place;
mod ring;
mod ring_message;
mod watcher;

use super::{Door, DoorError, DoorOptions, Transport};
use crate::offer::Offer;
use client::Kernel;
use descriptors::Descriptors;
use file::ArrayFile;
use leaving::Leaving;
use message::Attributes;
use place::Place;
use rustix::process::{getgid, getuid};
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use watcher::Watcher;
pub use watcher::{WatcherCommand, watch};

pub(super) static TRANSPORT: Transport = Transport {
    name: "fuse",
    value: "FILE",
    help: "Be that file, for every program and for loop devices; of several arrays, one for each, in their order",
    is_shared: false,
    bind,
};

const REGULAR_FILE: u32 = 0o10_0000;

fn bind(path: &str, options: &DoorOptions) -> Result<Box<dyn Door>, DoorError> {
    let refused = |error| DoorError::Refused(error);
    let place = Place::prepare(Path::new(path)).map_err(|error| refused(Box::new(error)))?;
    // Before there are threads, which are to have it too.
    super::reclaim::prevent_deadlock();
    let watcher = options.watcher.as_ref();
    let watcher = watcher.map(|command| Watcher::start(command, &place));
    let watcher = watcher.transpose();
    let watcher = watcher.map_err(|error| refused(Box::new(error)))?;
    Ok(Box::new(Mounting {
        is_only: options.is_only,
        leaving: None,
        watcher,
        place: Some(place),
    }))
}

/// A file that is, or will be, mounted on. Dropped, it is unmounted.
#[derive(Debug)]
struct Mounting {
    is_only: bool,
    /// Once it is mounted.
    leaving: Option<Arc<Leaving>>,
    watcher: Option<Watcher>,
    /// Until it is closed.
    place: Option<Place>,
}

impl Door for Mounting {
    fn address(&self, _: &str) -> String {
        let place = self.place.as_ref().expect("it is not closed");
        place.path().display().to_string()
    }

    fn open(&mut self, offers: &[Offer]) -> io::Result<()> {
        let path = self.place.as_ref().expect("it is not closed").path();
        let [offer] = offers else {
            return Err(io::Error::other("a file is one array"));
        };
        let export = offer.export();
        let failed = |error: Box<dyn Error + Send + Sync>| {
            let what = format!("can't mount on {}: {error}", path.display());
            io::Error::other(what)
        };
        let device = mount::mount(path, &export.name, export.read_only)
            .map_err(|error| failed(error.into()))?;
        let mounted = mounts::mounted_on(path)?;
        let mounted = mounted.ok_or_else(|| failed("it is not there".into()))?;
        if let Some(watcher) = &mut self.watcher {
            watcher.mounted(&mounted.device)?;
        }
        let stopper = offer.stopper().clone();
        let leaving = Leaving::new(path.to_owned(), mounted, stopper, self.is_only);
        let leaving = Arc::new(leaving);
        self.leaving = Some(Arc::clone(&leaving));
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
        let descriptors = Descriptors::new(device)?;
        offer.join(Box::new(Kernel::new(descriptors, file, leaving)));
        // Loop devices of kernels before 6.17 take the size that the kernel knows, and it knows none before it has asked.
        path.metadata().map_err(|error| failed(error.into()))?;
        Ok(())
    }

    fn close(&mut self) -> Option<String> {
        let leaving = self.leaving.take();
        let told = leaving.and_then(|leaving| match leaving.begin() {
            Ok(()) => leaving.end(),
            Err(error) => Some(error.to_string()),
        });
        // The process finds that nothing is left to do.
        self.watcher = None;
        self.place = None;
        told
    }

    /// It mounts when it is opened, unmounts when it is closed, and locks its memory.
    fn fits_sandbox(&self) -> bool {
        false
    }
}

impl Drop for Mounting {
    fn drop(&mut self) {
        drop(self.close());
    }
}
