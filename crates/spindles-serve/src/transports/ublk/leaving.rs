//! How a device ends.
//!
//! In a thread of its own: who stops a device waits for requests that the server answers.

use super::watched::{END, LEAVE, Left, START, USERS};
use crate::guard::Guard;
use crate::stopper::Stopper;
use crate::transports::watcher::Watcher;
use crate::transports::{Seen, User};
use spindles_io::ublk::block_device;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// A device on its way out.
#[derive(Debug)]
pub(super) struct Leaving {
    number: u32,
    /// Who starts and ends it.
    watcher: Mutex<Watcher>,
    guard: Option<Guard>,
    /// Of the server, which waits for this.
    stopper: Stopper,
    /// Without this device the server has nothing to do.
    is_only: bool,
    /// It is left to another server: nothing more of it is answered here.
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
            "the process that ends {path} has ended: the device stays when the server is stopped, and `spindles stop` \
             can't tell who uses it. Stop the server with --force, and serve it again with --ublk {number}, which takes \
             the device over"
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

    /// Who starts and ends it, to be looked out for.
    pub(super) fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// Lets programs use the device. The server answers requests meanwhile.
    pub(super) fn start(&self) -> io::Result<()> {
        lock(&self.watcher).ask(START)
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

    /// Waits for the end, and has what is not left to another server deleted. What somebody should know of it.
    pub(super) fn end(&self) -> Option<String> {
        let thread = lock(&self.thread).take();
        let told = thread.and_then(|thread| thread.join().expect("it does not panic"));
        let deleted: io::Result<Option<String>> = lock(&self.watcher).ask(END);
        let path = block_device(self.number);
        let failed = |error| Some(format!("{path} could not be deleted: {error}"));
        deleted.unwrap_or_else(failed).or(told)
    }

    /// Has it ended, or leaves it. What somebody should know of that.
    fn leave(&self) -> Option<String> {
        match lock(&self.watcher).ask(LEAVE) {
            Ok(Left { stays, told }) => {
                self.stays.store(stays, Ordering::Release);
                told
            }
            Err(error) => {
                // Nobody ends it: the next server finds it as that of one that died.
                self.stays.store(true, Ordering::Release);
                let path = block_device(self.number);
                Some(format!("{path} could not be stopped: {error}"))
            }
        }
    }
}

impl Seen for Leaving {
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
