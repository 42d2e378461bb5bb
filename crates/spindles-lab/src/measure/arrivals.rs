//! Operations that arrive at a rate, whether or not earlier ones were answered. Computes when each
//! is due.

use crate::machine::clock::duration_ns;
use crate::measure::schedule::Draw;
use spindles_array::Target;
use spindles_block::Instant;
use std::time::Duration;

/// Longest wait in nanoseconds: after each wait the caller checks whether to go on.
const WAIT_MAX_NS: u64 = 50_000_000;

/// The arrival times of operations.
pub(crate) struct Arrivals {
    random: Draw,
    mean_s: f64,
    next: Instant,
}

impl Arrivals {
    /// Begins at `now`, with `per_s` operations per second on average.
    pub(crate) fn new(seed: u64, per_s: u64, now: Instant) -> Self {
        Self {
            random: Draw::new(seed, 5, 0),
            mean_s: 1.0 / float(per_s),
            next: now,
        }
    }

    /// Returns true if the next operation is due.
    pub(crate) fn has_come(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Returns the time of this arrival and draws the next: a Poisson process, as of many
    /// independent clients.
    pub(crate) fn pass(&mut self) -> Instant {
        let due = self.next;
        let unit = float((self.random.number() >> 11) + 1) / float(1 << 53);
        let gap = Duration::from_secs_f64(-unit.ln() * self.mean_s);
        self.next = due.plus_ns(duration_ns(gap));
        due
    }

    /// Waits until the next operation is due, or an operation in flight makes progress.
    pub(crate) fn wait(&self, target: &mut dyn Target) {
        let latest = target.clock().now().plus_ns(WAIT_MAX_NS);
        target.wait_until(self.next.min(latest));
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}
