//! The one real clock.

use spindles_block::Instant;
use std::time;

/// Nanoseconds since it was made; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: time::Instant,
}

impl Clock {
    /// A clock that shows 0 now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: time::Instant::now(),
        }
    }

    /// What the clock shows.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).expect("584 years"))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
