//! How long the server looks again before it sleeps. To be woken takes longer than many a client takes to ask again, and
//! whoever looks again at once needs no waking; it takes the processor for that time. So it is done only as long as
//! pauses are short, as hypervisors do with processors that halt.

use std::time::{Duration, Instant};

/// It looks again for no longer.
const LONGEST: Duration = Duration::from_micros(50);
/// Or not at all, or at least so long.
const SHORTEST: Duration = Duration::from_micros(10);

/// What is known of pauses.
#[derive(Debug)]
pub(crate) struct Polling {
    /// So long it looks again.
    now: Duration,
    /// Never longer.
    most: Duration,
    /// When the pause began that is not over.
    since: Option<Instant>,
}

impl Polling {
    /// With a single processor, whoever looks again keeps the clients from asking.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism();
        let alone = processors.is_ok_and(|count| count.get() == 1);
        Self {
            now: Duration::ZERO,
            most: if alone { Duration::ZERO } else { LONGEST },
            since: None,
        }
    }

    /// There is nothing to do. Whether to look again, and not to sleep.
    pub(crate) fn is_left(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        !self.now.is_zero() && since.elapsed() < self.now
    }

    /// There is something to do.
    pub(crate) fn end(&mut self) {
        if let Some(since) = self.since.take() {
            self.learn(since.elapsed());
        }
    }

    /// A pause was so long.
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
    fn it_lasts_as_long_as_pauses_are_short() {
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
    fn alone_there_is_none() {
        let mut polling = Polling {
            now: Duration::ZERO,
            most: Duration::ZERO,
            since: None,
        };
        polling.learn(Duration::from_micros(5));
        assert_eq!(polling.now, Duration::ZERO);
    }
}
