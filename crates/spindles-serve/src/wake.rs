//! Wakes a server that waits, from another thread.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;

/// A descriptor that is ready to be read from when somebody woke its owner.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(descriptor)))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// May be called in a signal handler.
    pub(crate) fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // It fails where it was woken 2^64 times and not heard.
        let _: Result<usize, Errno> = rustix::io::write(&*self.0, &one);
    }

    /// It was heard: the next time it wakes again.
    pub(crate) fn heard(&self) {
        let _: Result<usize, Errno> = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}
