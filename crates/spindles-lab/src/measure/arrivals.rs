//! Operations that arrive at a rate, whether or not earlier ones were answered. Computes when each
//! is due. The one submitting thread waits here for the next arrival and for replies at once.

use crate::measure::schedule::Draw;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use spindles_array::Target;
use spindles_device::{Readiness, Watch, WatchId};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// The only descriptor that is watched.
const TIMER: WatchId = WatchId(0);
/// Longest wait: after each wait the caller checks whether to go on.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Shortest wait: zero would stop the timer.
const WAIT_MIN: Duration = Duration::from_nanos(1);

/// The arrival times of operations.
pub(crate) struct Arrivals {
    random: Draw,
    mean_s: f64,
    next: Instant,
    timer: OwnedFd,
    /// True while the target watches the timer.
    is_watched: bool,
}

impl Arrivals {
    pub(crate) fn new(seed: u64, per_s: u64) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self {
            random: Draw::new(seed, 5, 0),
            mean_s: 1.0 / float(per_s),
            next: Instant::now(),
            timer: timerfd_create(TimerfdClockId::Monotonic, flags)?,
            is_watched: false,
        })
    }

    /// Returns true if the next operation is due.
    pub(crate) fn has_come(&self) -> bool {
        self.next <= Instant::now()
    }

    /// Sets when the next operation is due.
    pub(crate) fn expect(&mut self, due: Instant) {
        self.next = due;
    }

    /// Returns the time of this arrival and draws the next: a Poisson process, as of many
    /// independent clients.
    pub(crate) fn pass(&mut self) -> Instant {
        let due = self.next;
        let unit = float((self.random.number() >> 11) + 1) / float(1 << 53);
        self.next += Duration::from_secs_f64(-unit.ln() * self.mean_s);
        due
    }

    /// Waits until the next operation is due, or an operation in flight makes progress.
    pub(crate) fn wait(&mut self, target: &mut dyn Target) -> Result<(), String> {
        self.look(target); // The timer may have expired during another wait.
        let rest = self.next.saturating_duration_since(Instant::now());
        self.set(rest.min(WAIT_MAX))?;
        if !self.is_watched {
            let watch = Watch {
                descriptor: self.timer.as_raw_fd(),
                readiness: Readiness::Read,
                id: TIMER,
            };
            target.watch(watch).map_err(|error| error.to_string())?;
            self.is_watched = true;
        }
        target.wait();
        self.look(target);
        Ok(())
    }

    /// Collects the timer's readiness, if reported: the target watches a descriptor only once.
    fn look(&mut self, target: &mut dyn Target) {
        if target.next_ready() == Some(TIMER) {
            self.is_watched = false;
        }
    }

    /// Makes the target stop watching the timer, so that it can be closed. Call this only while no
    /// operation is in flight.
    pub(crate) fn end(&mut self, target: &mut dyn Target) -> Result<(), String> {
        self.look(target);
        while self.is_watched {
            self.set(WAIT_MIN)?;
            target.wait();
            self.look(target);
        }
        Ok(())
    }

    /// Arms the timer to expire once after this time.
    fn set(&self, time: Duration) -> Result<(), String> {
        let value = Timespec::try_from(time.max(WAIT_MIN)).map_err(|error| error.to_string())?;
        let time = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        let set = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
        set.map(drop).map_err(|error| format!("a timer: {error}"))
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}
