//! Operations that come at a rate, whether or not earlier ones were answered: when each is due, and how the one thread that
//! submits them waits for the next and for replies at once.

use crate::schedule::Draw;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use spindles_io::{Readiness, Target, Watch, WatchId};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

/// The only descriptor that is looked out for.
const TIMER: WatchId = WatchId(0);
/// The longest wait: whether to go on is asked after each.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// The shortest: zero would stop the timer.
const WAIT_MIN: Duration = Duration::from_nanos(1);

/// When operations come.
pub(crate) struct Arrivals {
    random: Draw,
    mean_s: f64,
    next: Instant,
    timer: OwnedFd,
    /// Whether the target looks out for the timer.
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

    /// Whether the next operation is to come now.
    pub(crate) fn has_come(&self) -> bool {
        self.next <= Instant::now()
    }

    /// The next after this one: a Poisson process, as of many independent clients.
    pub(crate) fn pass(&mut self) -> Instant {
        let due = self.next;
        let unit = float((self.random.number() >> 11) + 1) / float(1 << 53);
        self.next += Duration::from_secs_f64(-unit.ln() * self.mean_s);
        due
    }

    /// Waits until the next operation is due, or something in flight has come a step further.
    pub(crate) fn wait(&mut self, target: &mut dyn Target) -> Result<(), String> {
        self.look(target); // It may have passed while only replies were waited for.
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

    /// Hears that the timer was ready: a target that has said so waits for nothing else.
    fn look(&mut self, target: &mut dyn Target) {
        if target.next_ready() == Some(TIMER) {
            self.is_watched = false;
        }
    }

    /// The target looks out for the timer no more, which may be closed then. Nothing is in flight.
    pub(crate) fn end(&mut self, target: &mut dyn Target) -> Result<(), String> {
        self.look(target);
        while self.is_watched {
            self.set(WAIT_MIN)?;
            target.wait();
            self.look(target);
        }
        Ok(())
    }

    /// The timer is ready after that time, and not before.
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
