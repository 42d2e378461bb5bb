//! The clock of a run: the scheduled events, the engines' timers, and the time that work takes.

use crate::disks::{Model, Work};
use crate::queue::Queue;
use crate::random::Random;
use spindles_block::{Instant, StepId};

/// A scheduled event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// The disk operation at this index of `World::ios` completes.
    Disk(usize),
    /// A computation completes.
    Computed { array: usize, step: StepId },
    /// An engine's timer expires.
    Timeout { array: usize, at: Instant },
    /// A disk that is being filled drops out.
    Gone { disk: usize },
}

/// Most events of a run.
const STEPS_MAX: u64 = 3_000_000;

/// The clock.
#[derive(Debug)]
pub(crate) struct Clock {
    queue: Queue<Happening>,
    /// When each engine's timer expires next.
    alarms: Vec<Option<Instant>>,
    latency: Random,
    steps: u64,
}

impl Clock {
    pub(crate) fn new(seed: u64, arrays: usize) -> Self {
        Self {
            queue: Queue::new(),
            alarms: vec![None; arrays],
            latency: Random::new(seed, "latency"),
            steps: 0,
        }
    }

    /// Returns the current virtual time.
    pub(crate) fn now(&self) -> Instant {
        self.queue.now()
    }

    /// Schedules an event at that moment.
    pub(crate) fn at(&mut self, at: Instant, happening: Happening) {
        self.queue.at(at, happening);
    }

    /// Schedules an event after that duration.
    pub(crate) fn after(&mut self, duration_ns: u64, happening: Happening) {
        self.queue.after(duration_ns, happening);
    }

    /// Schedules an event after a random duration in nanoseconds.
    pub(crate) fn after_between(&mut self, low: u64, high: u64, happening: Happening) {
        let after_ns = self.latency.between(low, high);
        self.queue.after(after_ns, happening);
    }

    /// Draws how long a disk takes, in nanoseconds.
    pub(crate) fn service_ns(&mut self, model: &Model, work: Work) -> u64 {
        (model.service_ns)(&mut self.latency, work)
    }

    /// Advances to the next event and returns it. `None` if none is left.
    pub(crate) fn advance(&mut self) -> Option<Happening> {
        let happening = self.queue.advance()?;
        self.steps += 1;
        Some(happening)
    }

    /// Returns true if the run exceeds its limit of events.
    pub(crate) fn is_overrun(&self) -> bool {
        self.steps > STEPS_MAX
    }

    /// Sets the timer of an engine.
    pub(crate) fn set_alarm(&mut self, array: usize, alarm: Option<Instant>) {
        if self.alarms[array] != alarm {
            self.alarms[array] = alarm;
            if let Some(at) = alarm {
                self.queue.at(at, Happening::Timeout { array, at });
            }
        }
    }

    /// Returns true if an expired timer is the one that is set, and clears it.
    pub(crate) fn rings(&mut self, array: usize, at: Instant) -> bool {
        self.alarms[array].take_if(|alarm| *alarm == at).is_some()
    }

    /// Drops all events and timers.
    pub(crate) fn stop(&mut self) {
        self.queue.clear();
        self.alarms.fill(None);
    }
}
