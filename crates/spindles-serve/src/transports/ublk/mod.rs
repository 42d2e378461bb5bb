//! Serves an array as a block device with the kernel's ublk driver.
//!
//! ```text
//!  program, file system ──▶ /dev/ublkbN ──▶ kernel ──▶ kernel's client ──▶ export ──▶ the array
//!                                             ▲                               │
//!                                             └─────────── answers ◀──────────┘
//! ```
//!
//! When the server of an array dies, its device and all of its users wait. The next server of the
//! array [takes it over](device), and gets the unanswered requests again. A server that is stopped
//! deletes its device, or leaves it to the next one if it is in use.
//!
//! The driver creates, starts and deletes devices only for root. So the device is created before
//! the server enters the sandbox, and started and ended by a [watcher](super::watcher).

mod client;
mod device;
mod leaving;
mod watched;

use super::watcher::{Watcher, WatcherCommand};
use super::{ExposedFile, Listener, ListenerError, ListenerOptions, Transport};
use crate::server_handle::ServerHandle;
use client::Kernel;
use device::{Asked, Device};
use leaving::Leaving;
use spindles_ublk::{Control, Queue, block_device};
use std::ffi::OsStr;
use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};

pub(super) static TRANSPORT: Transport = Transport {
    name: "ublk",
    value: "NUMBER",
    help: "Serve the array as block device /dev/ublkbNUMBER; auto takes a free number",
    is_shared: false,
    watched: Some(watched::find),
    bind,
};

fn bind(asked: &str, options: &ListenerOptions) -> Result<Box<dyn Listener>, ListenerError> {
    let asked: Asked = asked.parse().map_err(ListenerError::Usage)?;
    let command = options.watcher()?.clone();
    // Must precede the creation of threads, which inherit it, including the kernel threads of a
    // ring.
    let needs_ipc_lock = super::reclaim::prevent_deadlock();
    let control = device::driver().map_err(|error| ListenerError::Refused(Box::new(error)))?;
    Ok(Box::new(BlockDevice {
        asked,
        is_only: options.is_only,
        needs_ipc_lock,
        command,
        control: Some(control),
        queue: None,
        leaving: None,
    }))
}

/// A block device that exists or will. If dropped without `close`, it waits for the next server.
#[derive(Debug)]
struct BlockDevice {
    asked: Asked,
    is_only: bool,
    needs_ipc_lock: bool,
    command: WatcherCommand,
    /// `None` once the device is started. Locked, so that no other server takes the device for an
    /// abandoned one.
    control: Option<Control>,
    /// The queue of an existing device, until the client takes it over.
    queue: Option<Queue>,
    /// `None` until the device exists.
    leaving: Option<Arc<Leaving>>,
}

impl Listener for BlockDevice {
    fn address(&self, _: &str) -> String {
        let leaving = self.leaving.as_ref();
        leaving.map_or_else(
            || self.asked.to_string(),
            |leaving| block_device(leaving.number()),
        )
    }

    /// Creates the device, which no program can open yet, or takes it over.
    fn prepare(&mut self, servers: &[ServerHandle]) -> io::Result<()> {
        let [server] = servers else {
            return Err(io::Error::other("a block device is one array"));
        };
        let control = self.control.as_mut().expect("it is not started");
        let export = server.export();
        let device = Device::prepare(control, self.asked, &export).map_err(io::Error::other)?;
        let arguments = watched::arguments(&device);
        let arguments = arguments.each_ref().map(OsStr::new);
        let watcher = match Watcher::start(&self.command, TRANSPORT.name, &arguments) {
            Ok(watcher) => watcher,
            Err(error) => {
                device.give_up(control);
                return Err(error);
            }
        };
        let stopper = server.stopper().clone();
        let number = device.number;
        let leaving = Leaving::new(number, watcher, stopper, self.is_only);
        self.leaving = Some(Arc::new(leaving));
        let queue = Queue::open(number, device.depth);
        let path = block_device(number);
        let queue = queue.map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        self.queue = Some(queue);
        Ok(())
    }

    fn open(&mut self, servers: &[ServerHandle]) -> io::Result<()> {
        let [server] = servers else {
            return Err(io::Error::other("a block device is one array"));
        };
        let queue = self.queue.take().expect("it is made");
        let leaving = self.leaving.as_ref().expect("it is made");
        if let Some(guard) = leaving.guard() {
            server.look_out(guard.clone());
        }
        let (fetched, is_fetched) = channel();
        server.join(Box::new(Kernel::new(queue, Arc::clone(leaving), fetched)));
        // Requests arrive only after the serving thread has fetched them.
        let ended = |_| io::Error::other("the server has ended");
        is_fetched.recv().map_err(ended)?;
        let path = block_device(leaving.number());
        let started = leaving.start();
        self.control = None;
        started.map_err(|error| io::Error::other(format!("{path} can't be started: {error}")))
    }

    fn needs_ipc_lock(&self) -> bool {
        self.needs_ipc_lock
    }

    fn seen(&self) -> Option<Weak<dyn ExposedFile>> {
        let leaving = Arc::downgrade(self.leaving.as_ref()?);
        Some(leaving)
    }

    fn close(&mut self) -> Option<String> {
        // Close the queue if no client has taken it.
        self.queue = None;
        self.leaving.take()?.end()
    }
}
