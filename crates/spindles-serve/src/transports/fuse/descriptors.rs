//! The device that delivers requests, and the descriptor polled in its place.
//!
//! A connection with the kernel ends when its descriptor's last user closes it, and a pending poll
//! is a user that can't be cancelled. So an `epoll` set of the device and a waker is polled
//! instead. The set is readable when there is a request, or when the connection has ended. With a
//! ring, its waker is polled instead of the device.

use crate::wake::Waker;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

#[derive(Debug)]
pub(super) struct Descriptors {
    /// `None` once the connection has ended.
    device: Option<OwnedFd>,
    waker: Waker,
    set: OwnedFd,
    has_ring: bool,
}

impl Descriptors {
    pub(super) fn new(device: OwnedFd) -> io::Result<Self> {
        let waker = Waker::new()?;
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        // The event data is never read.
        let unnamed = EventData::new_u64(0);
        epoll::add(&set, &device, unnamed, EventFlags::IN)?;
        epoll::add(&set, &waker, unnamed, EventFlags::IN)?;
        let device = Some(device);
        Ok(Self {
            device,
            waker,
            set,
            has_ring: false,
        })
    }

    /// Returns the device for requests and replies.
    pub(super) fn device(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().map(|device| device.as_fd())
    }

    /// Sets whether a ring is in use. Then only the waker is polled: the ring wakes for its own
    /// events and for the device.
    pub(super) fn set_ring(&mut self, has_ring: bool) {
        self.has_ring = has_ring;
        self.waker.heard();
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(super) fn watched(&self) -> RawFd {
        if self.has_ring {
            self.waker.descriptor()
        } else {
            self.set.as_raw_fd()
        }
    }

    /// Closes the device: open files get errors from now on. Makes the polled set readable.
    pub(super) fn end(&mut self) {
        self.device = None;
        self.waker.wake();
    }
}
