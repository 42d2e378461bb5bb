//! Stops a server.

use crate::wake::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stops a server, from a signal handler or another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    waker: Waker,
    stops: Arc<AtomicBool>,
}

impl Stopper {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            waker,
            stops: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Stops the server once the requests in progress are answered.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Returns the waker of the server.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Makes the server check for new messages.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }
}
