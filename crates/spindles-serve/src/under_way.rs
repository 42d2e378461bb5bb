//! Work in progress on threads of its own, up to a limit.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The work in progress.
#[derive(Debug)]
pub(crate) struct UnderWay {
    now: Mutex<Crowd>,
    ends: Condvar,
    count_max: usize,
}

/// How much is in progress, and when the last work began or ended.
#[derive(Debug, Default)]
struct Crowd {
    count: usize,
    changed: Option<Instant>,
}

impl UnderWay {
    pub(crate) fn new(count_max: usize) -> Arc<Self> {
        Arc::new(Self {
            now: Mutex::default(),
            ends: Condvar::new(),
            count_max,
        })
    }

    /// Waits for a free place for more work, and takes it. Returns false if no other work begins or
    /// ends for `wait_max`.
    pub(crate) fn begin(&self, wait_max: Duration) -> bool {
        let end = |now: &Crowd| now.changed.map(|changed| changed + wait_max);
        let mut now = self.lock();
        while now.count >= self.count_max {
            let left = end(&now).map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or_default();
            if left.is_zero() {
                return false;
            }
            let waited = self.ends.wait_timeout(now, left);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        now.count += 1;
        now.changed = Some(Instant::now());
        true
    }

    /// Does the work for which `begin` took a place. The place is free again when the work ends.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        thread: thread::Builder,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let counted = Arc::clone(self);
        let begun = thread.spawn(move || {
            work();
            counted.end();
        });
        if begun.is_err() {
            self.end();
        }
        begun.map(drop)
    }

    /// Frees a place.
    pub(crate) fn end(&self) {
        let mut now = self.lock();
        now.count -= 1;
        now.changed = Some(Instant::now());
        self.ends.notify_all();
    }

    /// Waits until no work is in progress, for at most `most`.
    pub(crate) fn await_all(&self, most: Duration) {
        let is_some = |now: &mut Crowd| now.count > 0;
        drop(self.ends.wait_timeout_while(self.lock(), most, is_some));
    }

    fn lock(&self) -> MutexGuard<'_, Crowd> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
