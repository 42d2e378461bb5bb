//! An array as a block device, whose requests the kernel's ublk driver hands out.
//!
//! ```text
//!  program, file system ──▶ /dev/ublkbN ──▶ kernel ──▶ kernel's client ──▶ export ──▶ the array
//!                                             ▲                               │
//!                                             └─────────── answers ◀──────────┘
//! ```
//!
//! When the server of an array dies, its device waits, and so does whoever has it open. The next server of the array
//! [takes it over](device), and is asked again what the dead one had not answered. A server that is stopped deletes
//! its device, or leaves it to the next one where somebody has it open.

mod client;
mod device;
mod leaving;

use super::{Door, DoorError, DoorOptions, Transport};
use crate::offer::Offer;
use client::Kernel;
use device::{Asked, Device};
use leaving::Leaving;
use spindles_io::ublk::{Control, Queue, block_device};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;

pub(super) static TRANSPORT: Transport = Transport {
    name: "ublk",
    value: "NUMBER",
    help: "Be the block device /dev/ublkbNUMBER, or one with a number that is free: auto",
    is_shared: false,
    bind,
};

fn bind(asked: &str, options: &DoorOptions) -> Result<Box<dyn Door>, DoorError> {
    let asked: Asked = asked.parse().map_err(DoorError::Usage)?;
    // Before there are threads, which are to have it too: those of the kernel that a ring has as well.
    super::reclaim::prevent_deadlock();
    let control = device::driver().map_err(|error| DoorError::Refused(Box::new(error)))?;
    Ok(Box::new(BlockDevice {
        asked,
        is_only: options.is_only,
        control: Some(control),
        leaving: None,
    }))
}

/// A block device that there is, or will be. One that is dropped, and not closed, waits for the next server.
#[derive(Debug)]
struct BlockDevice {
    asked: Asked,
    is_only: bool,
    /// Until it is opened.
    control: Option<Control>,
    /// Once it is open.
    leaving: Option<Arc<Leaving>>,
}

impl Door for BlockDevice {
    fn address(&self, _: &str) -> String {
        let leaving = self.leaving.as_ref();
        leaving.map_or_else(|| self.asked.to_string(), |it| block_device(it.number()))
    }

    fn open(&mut self, offers: &[Offer]) -> io::Result<()> {
        let [offer] = offers else {
            return Err(io::Error::other("a block device is one array"));
        };
        let control = self.control.take().expect("it is opened once");
        let export = offer.export();
        let (device, depth) =
            Device::prepare(control, self.asked, &export).map_err(io::Error::other)?;
        let stopper = offer.stopper().clone();
        let number = device.number();
        let leaving = Arc::new(Leaving::new(device, stopper, self.is_only));
        self.leaving = Some(Arc::clone(&leaving));
        let path = block_device(number);
        let queue = Queue::open(number, depth);
        let queue = queue.map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        let (fetched, is_fetched) = channel();
        offer.join(Box::new(Kernel::new(queue, Arc::clone(&leaving), fetched)));
        // The thread that serves asks for requests; only then there can be some.
        let ended = |_| io::Error::other("the server has ended");
        is_fetched.recv().map_err(ended)?;
        let started = leaving.start();
        started.map_err(|error| io::Error::other(format!("{path} can't be started: {error}")))
    }

    fn close(&mut self) -> Option<String> {
        self.leaving.take()?.end()
    }

    /// It makes a device when it is opened and deletes it when it is closed, which takes privileges, and locks its
    /// memory.
    fn fits_sandbox(&self) -> bool {
        false
    }
}
