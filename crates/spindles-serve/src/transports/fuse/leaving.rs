//! How a mount ends.
//!
//! In a thread of its own: who unmounts may have to wait for requests that the server answers.

use super::mount::unmount;
use super::mounts::{Mounted, mounted_on};
use crate::server::Stopper;
use crate::transports::users::{by_users, users};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Programs that end just now, such as those that look at a loop device that goes away, are waited for.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(50);

/// A mount on its way out.
#[derive(Debug)]
pub(super) struct Leaving {
    path: PathBuf,
    /// What is mounted there by others is none of ours.
    mounted: Mounted,
    /// Of the server, which waits for this.
    stopper: Stopper,
    /// Without this mount the server has nothing to do.
    is_only: bool,
    /// It is not mounted any more, though somebody may still have it open.
    has_left: AtomicBool,
    thread: Mutex<Option<JoinHandle<Option<String>>>>,
}

impl Leaving {
    pub(super) fn new(path: PathBuf, mounted: Mounted, stopper: Stopper, is_only: bool) -> Self {
        Self {
            path,
            mounted,
            stopper,
            is_only,
            has_left: AtomicBool::new(false),
            thread: Mutex::new(None),
        }
    }

    /// Begins, if it has not begun.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let leaving = Arc::clone(self);
            let begun = thread::Builder::new().name("spindles-unmount".to_owned());
            *thread = Some(begun.spawn(move || {
                let told = leaving.leave();
                leaving.has_left.store(true, Ordering::Release);
                leaving.stopper.wake();
                told
            })?);
        }
        Ok(())
    }

    /// Nobody is served any more. If this was not asked for, somebody else has unmounted it.
    pub(super) fn lost(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && self.is_only {
            self.stopper.stop();
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Waits for the end. What somebody should know of it.
    pub(super) fn end(&self) -> Option<String> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread.take()?;
        thread.join().expect("it does not panic")
    }

    /// Unmounts. What somebody should know of that.
    fn leave(&self) -> Option<String> {
        for _ in 0..TRIES {
            if !self.is_there() || unmount(&self.path, false).is_ok() {
                return None;
            }
            thread::sleep(BETWEEN);
        }
        let users = users(&self.path);
        let unmounted = unmount(&self.path, true);
        let path = self.path.display();
        Some(match unmounted {
            Ok(()) => format!(
                "{path} was still open, {}: they get errors from now on. Unmount what is on it and detach its loop \
                 devices before the server is stopped",
                by_users(&users)
            ),
            Err(error) => format!("{path} could not be unmounted: {error}"),
        })
    }

    fn is_there(&self) -> bool {
        mounted_on(&self.path).is_ok_and(|found| found.as_ref() == Some(&self.mounted))
    }
}
