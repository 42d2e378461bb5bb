//! The one real clock.

use spindles_block::Instant;
use std::time;

/// Nanoseconds since its creation; never goes back.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: time::Instant,
}

impl Clock {
    /// Starts a clock at 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: time::Instant::now(),
        }
    }

    /// Returns the time of the clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_nanos()).expect("584 years"))
    }
}

/// Returns the seconds since 1970 by the system clock.
pub fn since_1970_s() -> u64 {
    let since = time::SystemTime::now().duration_since(time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The last second of the year 9999, the last year with four digits.
const LAST_S: u64 = 253_402_300_799;

/// Formats seconds since 1970 as `2026-11-23 07:50:13 UTC`. Times beyond the year 9999, from a
/// wrong clock, become its last second.
#[must_use]
pub fn utc(since_1970_s: u64) -> String {
    let at = time::UNIX_EPOCH + time::Duration::from_secs(since_1970_s.min(LAST_S));
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// Returns the current time to the second, in the form used in logs: `2026-11-23T07:50:13Z`.
#[must_use]
pub fn rfc3339_now() -> String {
    let now = time::SystemTime::now();
    humantime::format_rfc3339_seconds(now).to_string()
}

/// Returns the processor time of this thread, without the time of other programs.
pub fn thread_time() -> Instant {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_in_readable_form() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
        assert_eq!(utc(u64::MAX), "9999-12-31 23:59:59 UTC");
    }
}
