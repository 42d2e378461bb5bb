//! Ends a server.

use crate::wake::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a server, from a signal handler or another thread.
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

    /// What is under way is answered, then the server ends.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// What wakes the server.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The server looks again at what has changed.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Ordering::SeqCst)
    }
}
