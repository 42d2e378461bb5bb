//! The pace of answers: as the stage fills, batches wait, so that it never fills faster than its
//! blocks are placed.
//!
//! ```text
//! fill        a batch waits
//! below 60 %  not at all
//! above it    (its blocks ÷ the rate of placing) × (fill − 60 %) ÷ 40 %, at most 0.1 s
//! ```

use spindles_block::Instant;

/// The fill from which batches wait, in 256ths.
pub(crate) const FILL_TO_PACE: u32 = 154;
/// The fill above which only what is staged already is staged again, in 256ths.
pub(crate) const FILL_TO_REFUSE: u32 = 243;
/// The longest wait of a batch, in nanoseconds.
const WAIT_MAX_NS: u64 = 100_000_000;
/// The rate of placing is measured over this long, in nanoseconds.
const MEASURED_NS: u64 = 100_000_000;

/// The pace of answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The rate of placing, in blocks per second; 0 if unknown.
    rate: u64,
    /// When the measurement under way began, and the blocks placed since.
    measured_since: Option<Instant>,
    placed: u64,
    /// No batch begins before.
    next: Instant,
    /// How long batches waited.
    paced_ns: u64,
}

impl Pace {
    /// Notes that placing begins, or goes on.
    pub(crate) fn places(&mut self, now: Instant) {
        self.measured_since.get_or_insert(now);
    }

    /// Notes a pause of placing, whose time does not count.
    pub(crate) fn rests(&mut self) {
        (self.measured_since, self.placed) = (None, 0);
    }

    /// Notes that blocks were placed.
    pub(crate) fn placed(&mut self, blocks: u64, now: Instant) {
        self.placed += blocks;
        let since = *self.measured_since.get_or_insert(now);
        let ns = now.ns_since(since);
        if ns < MEASURED_NS {
            return;
        }
        let rate = (self.placed * 1_000_000_000 / ns).max(1);
        self.rate = if self.rate == 0 {
            rate
        } else {
            u64::midpoint(self.rate, rate)
        };
        (self.measured_since, self.placed) = (Some(now), 0);
    }

    /// Notes that a batch of this many blocks is answered, at this fill.
    pub(crate) fn answered(&mut self, blocks: u64, fill: u32, now: Instant) {
        let above = u64::from(fill.saturating_sub(FILL_TO_PACE));
        if above == 0 || self.rate == 0 {
            return;
        }
        let whole = u64::from(256 - FILL_TO_PACE);
        let wait = blocks * 1_000_000_000 / self.rate * above / whole;
        let wait = wait.min(WAIT_MAX_NS);
        self.next = Instant(now.0 + wait);
        self.paced_ns += wait;
    }

    /// Returns when the next batch may begin; `None` if it may begin now.
    pub(crate) fn waits_until(&self, now: Instant) -> Option<Instant> {
        (self.next > now).then_some(self.next)
    }

    /// The rate of placing, in blocks per second; 0 if unknown.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// How long batches waited since opening, in nanoseconds.
    pub(crate) fn paced_ns(&self) -> u64 {
        self.paced_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn batches_wait_as_the_stage_fills() {
        let mut pace = Pace::default();
        let now = Instant(0);
        pace.answered(100, 256, now);
        assert_eq!(pace.waits_until(now), None, "the rate is unknown");
        pace.places(now);
        pace.placed(500, Instant(50 * MS));
        assert_eq!(pace.rate(), 0, "measured over 100 ms");
        pace.placed(500, Instant(100 * MS));
        assert_eq!(pace.rate(), 10_000);
        let now = Instant(200 * MS);
        for (fill, wait_ms) in [(0, 0), (154, 0), (205, 5), (256, 10)] {
            let mut pace = pace;
            pace.answered(100, fill, now);
            let until = (wait_ms > 0).then_some(Instant(now.0 + wait_ms * MS));
            assert_eq!(pace.waits_until(now), until, "{fill}");
            assert_eq!(pace.waits_until(Instant(now.0 + wait_ms * MS)), None);
            assert_eq!(pace.paced_ns(), wait_ms * MS);
        }
        pace.answered(100_000, 256, now);
        assert_eq!(pace.paced_ns(), WAIT_MAX_NS, "never longer");
    }

    #[test]
    fn the_time_without_placing_does_not_count() {
        let mut pace = Pace::default();
        pace.places(Instant(0));
        pace.placed(10, Instant(10 * MS));
        pace.rests();
        pace.places(Instant(1_000 * MS));
        pace.placed(1_000, Instant(1_100 * MS));
        assert_eq!(pace.rate(), 10_000);
    }
}
