//! The descriptor that requests come from, and one that is watched in its place.
//!
//! A connection with the kernel ends when its last user lets its descriptor go, and one that is watched has a user that
//! can't be sent away. So both are in a set, and the set is watched: it is ready when there is a request, or when this
//! has ended. Where requests come over a ring, that wakes instead of the device.

use crate::wake::Waker;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

#[derive(Debug)]
pub(super) struct Descriptors {
    /// Until it has ended.
    device: Option<OwnedFd>,
    waker: Waker,
    set: OwnedFd,
    has_ring: bool,
}

impl Descriptors {
    pub(super) fn new(device: OwnedFd) -> io::Result<Self> {
        let waker = Waker::new()?;
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        // Nobody asks the set which of them it is.
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

    /// Where requests come from and replies go to.
    pub(super) fn device(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().map(|device| device.as_fd())
    }

    /// With a ring only the waker is looked out for: the ring wakes for all that comes, and for the device too.
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

    /// Whoever still has the file open gets errors from now on, and the set is ready.
    pub(super) fn end(&mut self) {
        self.device = None;
        self.waker.wake();
    }
}
