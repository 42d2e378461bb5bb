//! How a device ends.
//!
//! In a thread of its own: who stops a device waits for requests that the server answers.

use super::device::Device;
use crate::server::Stopper;
use crate::transports::users::{by_users, lasting_users};
use rustix::io::Errno;
use spindles_io::ublk::block_device;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A device on its way out.
#[derive(Debug)]
pub(super) struct Leaving {
    number: u32,
    /// Of the server, which waits for this.
    stopper: Stopper,
    /// Without this device the server has nothing to do.
    is_only: bool,
    /// It is left to another server: nothing more of it is answered here.
    stays: AtomicBool,
    held: Mutex<Held>,
    thread: Mutex<Option<JoinHandle<Option<String>>>>,
}

/// A device, and how far it came.
#[derive(Debug)]
struct Held {
    device: Device,
    /// Programs may have it open.
    is_started: bool,
    /// It is not started any more.
    ends: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    pub(super) fn new(device: Device, stopper: Stopper, is_only: bool) -> Self {
        Self {
            number: device.number(),
            stopper,
            is_only,
            stays: AtomicBool::new(false),
            held: Mutex::new(Held {
                device,
                is_started: false,
                ends: false,
            }),
            thread: Mutex::new(None),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Lets programs use the device. The server answers requests meanwhile.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut held = lock(&self.held);
        if held.ends {
            return Err(io::Error::other("the server is to end"));
        }
        held.device.start()?;
        held.is_started = true;
        Ok(())
    }

    /// Begins to end it, if that has not begun.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let leaving = Arc::clone(self);
            let begun = thread::Builder::new().name("spindles-ublk".to_owned());
            *thread = Some(begun.spawn(move || {
                let told = leaving.leave();
                leaving.stopper.wake();
                told
            })?);
        }
        Ok(())
    }

    /// Nothing more comes of it. If this was not asked for, somebody else has ended it.
    pub(super) fn lost(&self) {
        if lock(&self.thread).is_none() && self.is_only {
            self.stopper.stop();
        }
    }

    /// Whether it is left to another server.
    pub(super) fn stays(&self) -> bool {
        self.stays.load(Ordering::Acquire)
    }

    /// Waits for the end, and deletes what is not left to another server. What somebody should know of it.
    pub(super) fn end(&self) -> Option<String> {
        let thread = lock(&self.thread).take();
        let was_asked = thread.is_some();
        let told = thread.and_then(|thread| thread.join().expect("it does not panic"));
        let mut held = lock(&self.held);
        let may_be_used = held.is_started || held.device.is_taken_over();
        // A server that lost its array leaves whoever has the device open as one does that died.
        let is_left = !was_asked && may_be_used && held.device.is_recoverable();
        if self.stays() || is_left {
            return told;
        }
        match held.device.delete() {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NODEV) => {
                let path = block_device(self.number);
                Some(format!("{path} could not be deleted: {error}"))
            }
            _ => told,
        }
    }

    /// Ends it, or leaves it. What somebody should know of that.
    fn leave(&self) -> Option<String> {
        let mut held = lock(&self.held);
        held.ends = true;
        if !held.is_started && held.device.is_taken_over() {
            self.stays.store(true, Ordering::Release);
            return None;
        }
        let path = block_device(self.number);
        let started = held.is_started.then(|| Path::new(&path));
        let users = started.and_then(lasting_users);
        let is_used = users.is_some();
        let by = by_users(&users.unwrap_or_default());
        if is_used && held.device.is_recoverable() {
            self.stays.store(true, Ordering::Release);
            return Some(format!(
                "{path} is still open, {by}: it stays, and they wait until the array is served with --ublk {} again. \
                 Unmount what is on it before the server is stopped, and the device goes with it",
                self.number
            ));
        }
        match held.device.stop() {
            Err(error) => Some(format!("{path} could not be stopped: {error}")),
            Ok(()) if is_used => Some(format!(
                "{path} was still open, {by}: they get errors from now on. Unmount what is on it before the server is \
                 stopped"
            )),
            Ok(()) => None,
        }
    }
}
