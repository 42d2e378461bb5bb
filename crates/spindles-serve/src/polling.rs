//! How long an idle server polls before it sleeps. A wake-up takes longer than many clients take to
//! send the next request. Polling avoids it, but uses CPU time. So the server polls only while
//! pauses are short, as hypervisors do for halted virtual CPUs.

use std::time::{Duration, Instant};

/// Longest polling time.
const LONGEST: Duration = Duration::from_micros(50);
/// Shortest polling time, other than none.
const SHORTEST: Duration = Duration::from_micros(10);

/// The polling time, adapted to past pauses.
#[derive(Debug)]
pub(crate) struct Polling {
    /// Current polling time.
    now: Duration,
    /// Upper limit of the polling time.
    most: Duration,
    /// Start of the current pause.
    since: Option<Instant>,
}

impl Polling {
    /// Disables polling on a single CPU, where it would keep clients from running.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism();
        let alone = processors.is_ok_and(|count| count.get() == 1);
        Self {
            now: Duration::ZERO,
            most: if alone { Duration::ZERO } else { LONGEST },
            since: None,
        }
    }

    /// Called when idle. Returns true to poll again, false to sleep.
    pub(crate) fn is_left(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        !self.now.is_zero() && since.elapsed() < self.now
    }

    /// Called when there is work: ends the pause.
    pub(crate) fn end(&mut self) {
        if let Some(since) = self.since.take() {
            self.learn(since.elapsed());
        }
    }

    /// Adapts the polling time to the length of a pause.
    fn learn(&mut self, pause: Duration) {
        if pause > self.most {
            self.now /= 2;
            if self.now < SHORTEST {
                self.now = Duration::ZERO;
            }
        } else if pause > self.now {
            self.now = (self.now * 2).max(SHORTEST).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_lasts_while_pauses_are_short() {
        let mut polling = Polling {
            now: Duration::ZERO,
            most: LONGEST,
            since: None,
        };
        let us = Duration::from_micros;
        for (pause, after) in [
            (us(20), us(10)),
            (us(5), us(10)),
            (us(20), us(20)),
            (us(40), us(40)),
            (us(45), us(50)),
            (us(50), us(50)),
            (us(900), us(25)),
            (us(51), us(12) + Duration::from_nanos(500)),
            (us(51), us(0)),
            (us(51), us(0)),
        ] {
            polling.learn(pause);
            assert_eq!(polling.now, after, "{pause:?}");
        }
        assert!(!polling.is_left(), "it would never sleep");
    }

    #[test]
    fn polling_is_off_with_a_zero_limit() {
        let mut polling = Polling {
            now: Duration::ZERO,
            most: Duration::ZERO,
            since: None,
        };
        polling.learn(Duration::from_micros(5));
        assert_eq!(polling.now, Duration::ZERO);
    }
}
