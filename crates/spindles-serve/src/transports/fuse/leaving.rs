//! The end of a mount.
//!
//! Runs in its own thread: an unmount may wait for requests that the server answers.

use super::mounted::{OPENERS, UNMOUNT, USERS, WHERE};
use super::mounts::mounted_on;
use crate::guard::Guard;
use crate::stopper::Stopper;
use crate::transports::users::lasts;
use crate::transports::watcher::Watcher;
use crate::transports::{ExposedFile, User};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Unmounts a file.
#[derive(Debug)]
pub(super) struct Leaving {
    path: PathBuf,
    /// The process that unmounts it.
    watcher: Mutex<Watcher>,
    guard: Option<Guard>,
    /// Of the server, which waits for the unmount.
    stopper: Stopper,
    /// True if the server has no other listener for the export.
    is_only: bool,
    /// Open file descriptions of the file, by the kernel's open and release requests.
    opened: AtomicU32,
    /// Set once it is unmounted, even if programs still have it open.
    has_left: AtomicBool,
    thread: Mutex<Option<JoinHandle<Option<String>>>>,
}

impl Leaving {
    pub(super) fn new(path: PathBuf, watcher: Watcher, stopper: Stopper, is_only: bool) -> Self {
        let place = path.display();
        let then = if is_only {
            "which ends the server"
        } else {
            "and stop the server by force"
        };
        let guard = watcher.guard(format!(
            "the process that unmounts {place} has ended: the mount stays if the server dies, and \
             its users can't be found before the server is stopped. Once it is unused, `umount \
             {place}`, {then}, and serve it again"
        ));
        Self {
            path,
            watcher: Mutex::new(watcher),
            guard,
            stopper,
            is_only,
            opened: AtomicU32::new(0),
            has_left: AtomicBool::new(false),
            thread: Mutex::new(None),
        }
    }

    /// Returns the guard that watches the unmounting process.
    pub(super) fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    pub(super) fn note_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_released(&self) {
        self.opened.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns true if the file stays open for a second. The kernel sends a release some time after
    /// the close.
    fn is_open(&self) -> bool {
        lasts(|| self.opened.load(Ordering::Relaxed) > 0)
    }

    /// Starts the unmount, unless it was started before.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let leaving = Arc::clone(self);
            let begun = thread::Builder::new().name("spindles-unmount".to_owned());
            *thread = Some(begun.spawn(move || {
                let warning = leaving.leave();
                leaving.has_left.store(true, Ordering::Release);
                leaving.stopper.wake();
                warning
            })?);
        }
        Ok(())
    }

    /// Called when no more requests come. If the server did not unmount the file, another process
    /// did: stops the server if there is no other listener.
    pub(super) fn lost(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && self.is_only {
            self.stopper.stop();
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Waits for the end. Returns a warning if there is one.
    pub(super) fn end(&self) -> Option<String> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread.take()?;
        thread.join().expect("it does not panic")
    }

    /// Asks the watcher to unmount. Returns a warning if there is one.
    fn leave(&self) -> Option<String> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        watcher.ask(UNMOUNT).unwrap_or_else(|error| {
            let path = self.path.display();
            let is_there = !matches!(mounted_on(&self.path), Ok(None));
            is_there.then(|| format!("{path} could not be unmounted: {error}; run `umount {path}`"))
        })
    }
}

impl ExposedFile for Leaving {
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    fn users(&self) -> io::Result<Option<Vec<User>>> {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let named: Option<Vec<User>> = watcher.ask(USERS)?;
        if named.is_some() || !self.is_open() {
            return Ok(named);
        }
        // After `umount --lazy` a search by path finds no users.
        watcher.ask(OPENERS).map(Some)
    }

    fn loss(&self) -> Option<String> {
        if let Some(loss) = self.guard.as_ref().and_then(Guard::loss) {
            return Some(loss);
        }
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let is_gone = |place: Option<PathBuf>| place.is_none();
        watcher.ask(WHERE).is_ok_and(is_gone).then(|| {
            let path = self.path.display();
            let then = if self.is_only {
                "the server ends with the last of them"
            } else {
                "the array has other ways for the rest"
            };
            format!(
                "{path} was unmounted (umount --lazy) and no longer leads to the array: \
                 processes that had it open keep the array, and {then}"
            )
        })
    }
}
