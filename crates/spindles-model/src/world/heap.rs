//! The event queue: a 4-ary heap. Events at the same time leave in the order they came.

/// An event, ordered by time and then by number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<T> {
    pub(crate) at: u64,
    number: u64,
    pub(crate) cause: T,
}

#[derive(Debug)]
pub(crate) struct Heap<T> {
    events: Vec<Event<T>>,
    pushed: u64,
}

impl<T: Copy> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self {
            events: Vec::new(),
            pushed: 0,
        }
    }

    /// The number of events so far.
    pub(crate) const fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn first_at(&self) -> Option<u64> {
        self.events.first().map(|event| event.at)
    }

    pub(crate) fn push(&mut self, at: u64, cause: T) {
        let event = Event {
            at,
            number: self.pushed,
            cause,
        };
        self.pushed += 1;
        let mut hole = self.events.len();
        self.events.push(event);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if !is_before(&event, &self.events[parent]) {
                break;
            }
            self.events[hole] = self.events[parent];
            hole = parent;
        }
        self.events[hole] = event;
    }

    pub(crate) fn pop(&mut self) -> Option<Event<T>> {
        let last = self.events.pop()?;
        let Some(first) = self.events.first().copied() else {
            return Some(last);
        };
        let count = self.events.len();
        let mut hole = 0;
        loop {
            let children = hole * 4 + 1..count.min(hole * 4 + 5);
            if children.is_empty() {
                break;
            }
            let mut first_child = children.start;
            for child in children.skip(1) {
                if is_before(&self.events[child], &self.events[first_child]) {
                    first_child = child;
                }
            }
            if !is_before(&self.events[first_child], &last) {
                break;
            }
            self.events[hole] = self.events[first_child];
            hole = first_child;
        }
        self.events[hole] = last;
        Some(first)
    }
}

fn is_before<T>(one: &Event<T>, other: &Event<T>) -> bool {
    (one.at, one.number) < (other.at, other.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::mix;

    #[test]
    fn events_leave_by_time_and_then_by_number() {
        let mut heap = Heap::new();
        for count in [1_u64, 2, 5, 6, 100, 1000] {
            for number in 0..count {
                heap.push(mix(number) % 37, number);
            }
            let mut left = Vec::new();
            while let Some(event) = heap.pop() {
                left.push((event.at, event.cause));
            }
            let mut sorted = left.clone();
            sorted.sort_unstable();
            assert_eq!(left, sorted);
            assert_eq!(u64::try_from(left.len()).unwrap(), count);
        }
    }
}
