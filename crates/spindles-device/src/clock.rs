//! The clocks: a real one, and virtual ones.

use spindles_block::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time;

/// A clock that never goes back. Times of two real clocks can be compared.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// Nanoseconds since the process first read a real clock.
    #[default]
    Real,
    /// Nanoseconds of modelled devices, which only they advance.
    Virtual(Arc<AtomicU64>),
}

/// The time 0 of the real clock.
static START: LazyLock<time::Instant> = LazyLock::new(time::Instant::now);

impl Clock {
    /// Returns the time of the clock.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant(match self {
            Self::Real => u64::try_from(START.elapsed().as_nanos()).expect("584 years"),
            Self::Virtual(now_ns) => now_ns.load(Ordering::Relaxed),
        })
    }

    /// Returns true if the time is virtual.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
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
