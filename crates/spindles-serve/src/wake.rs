//! Wakes a sleeping server: from another thread, and at regular intervals.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// A descriptor that becomes readable when its owner is woken.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(descriptor)))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Wakes the owner. Async-signal-safe.
    pub(crate) fn wake(&self) {
        // Any number wakes. If the counter is full, the descriptor is readable anyway.
        passes(rustix::io::write(&*self.0, &[1; 8]));
    }

    /// Clears the wake-up, so that the next one is noticed.
    pub(crate) fn heard(&self) {
        passes(rustix::io::read(&*self.0, &mut [0; 8]));
    }
}

/// A descriptor that becomes readable at each tick.
#[derive(Debug)]
pub(crate) struct Ticker(OwnedFd);

impl Ticker {
    pub(crate) fn new(every: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let every = Timespec::try_from(every).map_err(io::Error::other)?;
        let time = Itimerspec {
            it_interval: every,
            it_value: every,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &time)?;
        Ok(Self(timer))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Clears the tick.
    pub(crate) fn heard(&self) {
        passes(rustix::io::read(&self.0, &mut [0; 8]));
    }
}

/// Panics on errors other than those expected of such a descriptor.
fn passes(result: Result<usize, Errno>) {
    let passing = [Errno::AGAIN, Errno::INTR];
    let is_fine = result.map_or_else(|error| passing.contains(&error), |_| true);
    assert!(is_fine, "a descriptor that wakes broke: {result:?}");
}
