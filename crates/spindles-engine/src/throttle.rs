//! Decides when a job may continue: at once while no client waits, otherwise no faster than its
//! guaranteed rate.

use spindles_block::Instant;

/// Clients count as waiting until this long after their last request, so that a job does not slip
/// between two requests of a sequential client.
const QUIET_NS: u64 = 2_000_000;
/// The most time that a delayed job makes up for.
const ARREARS_NS: u64 = 100_000_000;

/// Keeps jobs out of the clients' way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throttle {
    /// The guaranteed rate of jobs, in bytes of each member per second; 0 for none.
    rate: u64,
    /// When clients were last seen waiting.
    busy_at: Option<Instant>,
    clients: bool,
    /// When the guaranteed rate allows the next stripe range.
    due: Instant,
}

impl Throttle {
    pub(crate) const fn new(rate: u64) -> Self {
        Self {
            rate,
            busy_at: None,
            clients: false,
            due: Instant(0),
        }
    }

    /// Returns the guaranteed rate of jobs.
    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// Sets the guaranteed rate of jobs.
    pub(crate) const fn set_rate(&mut self, rate: u64) {
        self.rate = rate;
    }

    /// Notes whether clients wait `now`.
    pub(crate) fn look(&mut self, now: Instant, clients: bool) {
        // Requests in flight until now were in flight since the last look.
        if clients || self.clients {
            self.busy_at = Some(now);
        }
        self.clients = clients;
    }

    /// Returns when the next stripe range may begin; `None` if that does not depend on time.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let due = (self.rate > 0).then_some(self.due);
        let quiet = match self.busy_at {
            None => Some(now),
            Some(_) if self.clients => None,
            Some(at) => Some(at.plus_ns(QUIET_NS)),
        };
        match (due, quiet) {
            (Some(due), Some(quiet)) => Some(due.min(quiet)),
            (due, quiet) => due.or(quiet),
        }
    }

    /// Counts a stripe range that begins, with `bytes` bytes of each member.
    pub(crate) fn gone(&mut self, now: Instant, bytes: u64) {
        let Some(takes_ns) = (u128::from(bytes) * 1_000_000_000).checked_div(self.rate.into())
        else {
            return;
        };
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        let earliest = Instant(now.0.saturating_sub(ARREARS_NS));
        let from = self.due.clamp(earliest, now);
        self.due = Instant(from.0.saturating_add(takes_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn without_clients_nothing_holds_a_job_up() {
        let mut throttle = Throttle::new(1);
        throttle.look(Instant(5), false);
        throttle.gone(Instant(5), 1 << 30);
        assert_eq!(throttle.next(Instant(5)), Some(Instant(5)));
    }

    #[test]
    fn clients_come_first_until_they_have_been_quiet() {
        let mut throttle = Throttle::new(0);
        throttle.look(Instant(0), true);
        assert_eq!(throttle.next(Instant(0)), None, "nothing is guaranteed");
        throttle.look(Instant(5 * MS), false);
        let quiet = Instant(5 * MS + QUIET_NS);
        assert_eq!(throttle.next(Instant(5 * MS)), Some(quiet));
    }

    #[test]
    fn beside_clients_a_job_keeps_its_rate() {
        let mut throttle = Throttle::new(1_000_000);
        let mut now = Instant(0);
        let mut bytes = 0;
        throttle.look(now, true);
        while now.0 < 1_000 * MS {
            throttle.gone(now, 50_000);
            bytes += 50_000;
            now = throttle.next(now).unwrap();
            // Each stripe range begins a little late.
            now = now.plus_ns(7 * MS);
            throttle.look(now, true);
        }
        assert!((950_000..1_060_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_went_without_clients_is_not_held_against_a_job() {
        let mut throttle = Throttle::new(1_000_000);
        for _ in 0..1000 {
            throttle.gone(Instant(0), 50_000);
        }
        throttle.look(Instant(1), true);
        assert_eq!(throttle.next(Instant(1)), Some(Instant(50 * MS)));
    }
}
