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

/// Seconds since 1970, as the machine has it.
pub(crate) fn since_1970_s() -> u64 {
    let since = time::SystemTime::now().duration_since(time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The processor time that this thread has used: what other programs take is not in it.
pub(crate) fn thread_time() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("not negative");
    let nanoseconds = u64::try_from(time.tv_nsec).expect("not negative");
    Instant(seconds * 1_000_000_000 + nanoseconds)
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
