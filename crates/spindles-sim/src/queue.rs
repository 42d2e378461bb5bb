//! Virtual time: a queue of scheduled events. Time jumps from one event to the next.

use spindles_block::Instant;
use std::collections::BTreeMap;

/// The scheduled events and the current virtual time.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    now: Instant,
    entered: u64,
    /// Events at the same moment keep the order in which they were scheduled.
    entries: BTreeMap<(Instant, u64), T>,
}

impl<T> Queue<T> {
    /// Returns an empty queue at time 0.
    pub fn new() -> Self {
        Self {
            now: Instant(0),
            entered: 0,
            entries: BTreeMap::new(),
        }
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Schedules an event at that moment, or now if the moment has passed.
    pub fn at(&mut self, at: Instant, what: T) {
        self.entered += 1;
        self.entries.insert((at.max(self.now), self.entered), what);
    }

    /// Schedules an event after that duration.
    pub fn after(&mut self, duration_ns: u64, what: T) {
        self.at(self.now.plus_ns(duration_ns), what);
    }

    /// Advances to the next event and returns it. `None` if the queue is empty.
    pub fn advance(&mut self) -> Option<T> {
        let ((at, _), what) = self.entries.pop_first()?;
        self.now = at;
        Some(what)
    }

    /// Drops all events.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_jumps_forward_and_ties_keep_their_order() {
        let mut queue = Queue::new();
        queue.at(Instant(30), 'c');
        queue.at(Instant(10), 'a');
        queue.at(Instant(10), 'b');
        assert_eq!((queue.advance(), queue.now()), (Some('a'), Instant(10)));
        assert_eq!((queue.advance(), queue.now()), (Some('b'), Instant(10)));
        queue.at(Instant(5), 'x');
        assert_eq!((queue.advance(), queue.now()), (Some('x'), Instant(10)));
        queue.after(5, 'd');
        assert_eq!((queue.advance(), queue.now()), (Some('d'), Instant(15)));
        assert_eq!((queue.advance(), queue.now()), (Some('c'), Instant(30)));
        assert_eq!(queue.advance(), None);
    }
}
