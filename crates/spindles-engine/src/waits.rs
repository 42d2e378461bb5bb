//! Stripe ranges that wait for something other than their own I/O, with the reason.

use crate::RangeId;
use alloc::collections::VecDeque;

/// What a stripe range waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// The superblocks: which members are out, that the array is dirty, or whether writes are
    /// logged must become durable.
    Superblocks,
    /// Its region, which must be durably marked, zeroed, or released.
    Region,
    /// The bad-block list, which is being written.
    BadBlocks,
}

/// The stripe ranges that wait, and those that can continue, in order.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    ranges: VecDeque<(RangeId, WaitFor)>,
    ready: VecDeque<RangeId>,
}

impl Waits {
    /// Creates the queues, with room for `ranges` stripe ranges.
    pub(crate) fn new(ranges: usize) -> Self {
        Self {
            ranges: VecDeque::with_capacity(ranges),
            ready: VecDeque::with_capacity(ranges),
        }
    }

    /// Lets a stripe range wait until it is woken for this reason.
    pub(crate) fn wait(&mut self, range: RangeId, reason: WaitFor) {
        self.ranges.push_back((range, reason));
    }

    /// Lets the stripe ranges that wait for this reason continue.
    pub(crate) fn wake(&mut self, reason: WaitFor) {
        let ready = &mut self.ready;
        self.ranges.retain(|&(range, waits_for)| {
            let stays = waits_for != reason;
            if !stays {
                ready.push_back(range);
            }
            stays
        });
    }

    /// Lets all stripe ranges continue: their events may never come.
    pub(crate) fn wake_all(&mut self) {
        self.ready
            .extend(self.ranges.drain(..).map(|(range, _)| range));
    }

    /// Lets a stripe range continue that waited elsewhere.
    pub(crate) fn is_ready(&mut self, range: RangeId) {
        self.ready.push_back(range);
    }

    /// Returns the queue of stripe ranges that can continue.
    pub(crate) fn ready_mut(&mut self) -> &mut VecDeque<RangeId> {
        &mut self.ready
    }

    /// Returns true if a stripe range can continue.
    #[inline]
    pub(crate) fn any_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the next stripe range that can continue.
    pub(crate) fn next_ready(&mut self) -> Option<RangeId> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn who_waits_for_something_else_stays() {
        let mut waits = Waits::new(4);
        for (range, reason) in [
            (3, WaitFor::Region),
            (1, WaitFor::Superblocks),
            (2, WaitFor::Region),
            (0, WaitFor::BadBlocks),
        ] {
            waits.wait(RangeId(range), reason);
        }
        waits.wake(WaitFor::Region);
        assert_eq!(
            waits.ready.drain(..).collect::<Vec<_>>(),
            [3, 2].map(RangeId)
        );
        waits.wake(WaitFor::Region);
        assert!(!waits.any_ready());
        waits.wake_all();
        assert_eq!(
            waits.ready.drain(..).collect::<Vec<_>>(),
            [1, 0].map(RangeId)
        );
    }
}
