//! The end of a device.
//!
//! Runs in its own thread: stopping a device waits for requests that the server answers.

use super::watched::{END, LEAVE, Left, START, USERS};
use crate::guard::Guard;
use crate::stopper::Stopper;
use crate::transports::watcher::Watcher;
use crate::transports::{ExposedFile, User};
use spindles_ublk::block_device;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Ends a device.
#[derive(Debug)]
pub(super) struct Leaving {
    number: u32,
    /// The process that starts and ends it.
    watcher: Mutex<Watcher>,
    guard: Option<Guard>,
    /// Of the server, which waits for the end of the device.
    stopper: Stopper,
    /// True if the server has no other listener for the export.
    is_only: bool,
    /// Set once the device is left to another server; its requests are no longer answered here.
    stays: AtomicBool,
    thread: Mutex<Option<JoinHandle<Option<String>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    pub(super) fn new(number: u32, watcher: Watcher, stopper: Stopper, is_only: bool) -> Self {
        let path = block_device(number);
        let guard = watcher.guard(format!(
            "the process that removes {path} has ended: the device stays when the server stops, \
             and its users can't be found before that. Stop the server with --force, and serve it \
             again with --ublk {number}, which takes the device over"
        ));
        Self {
            number,
            watcher: Mutex::new(watcher),
            guard,
            stopper,
            is_only,
            stays: AtomicBool::new(false),
            thread: Mutex::new(None),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the guard that watches this process.
    pub(super) fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// Lets programs use the device. The server answers requests meanwhile.
    pub(super) fn start(&self) -> io::Result<()> {
        lock(&self.watcher).ask(START)
    }

    /// Starts ending the device, unless that was started before.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let leaving = Arc::clone(self);
            let begun = thread::Builder::new().name("spindles-ublk".to_owned());
            *thread = Some(begun.spawn(move || {
                let warning = leaving.leave();
                leaving.stopper.wake();
                warning
            })?);
        }
        Ok(())
    }

    /// Called when no more requests come. If the server did not end the device, another process
    /// did: stops the server if there is no other listener.
    pub(super) fn lost(&self) {
        if lock(&self.thread).is_none() && self.is_only {
            self.stopper.stop();
        }
    }

    /// Returns true if the device is left to another server.
    pub(super) fn stays(&self) -> bool {
        self.stays.load(Ordering::Acquire)
    }

    /// Waits for the end, and deletes the device unless it is left to another server. Returns a
    /// warning if there is one.
    pub(super) fn end(&self) -> Option<String> {
        let thread = lock(&self.thread).take();
        let warning = thread.and_then(|thread| thread.join().expect("it does not panic"));
        let deleted: io::Result<Option<String>> = lock(&self.watcher).ask(END);
        let path = block_device(self.number);
        let failed = |error| Some(format!("{path} could not be deleted: {error}"));
        deleted.unwrap_or_else(failed).or(warning)
    }

    /// Asks the watcher to end or leave the device. Returns a warning if there is one.
    fn leave(&self) -> Option<String> {
        match lock(&self.watcher).ask(LEAVE) {
            Ok(Left { stays, warning }) => {
                self.stays.store(stays, Ordering::Release);
                warning
            }
            Err(error) => {
                // The device stays: the next server finds it like that of a dead server.
                self.stays.store(true, Ordering::Release);
                let path = block_device(self.number);
                Some(format!("{path} could not be stopped: {error}"))
            }
        }
    }
}

impl ExposedFile for Leaving {
    fn path(&self) -> PathBuf {
        block_device(self.number).into()
    }

    fn users(&self) -> io::Result<Option<Vec<User>>> {
        lock(&self.watcher).ask(USERS)
    }

    fn loss(&self) -> Option<String> {
        self.guard.as_ref()?.loss()
    }
}
