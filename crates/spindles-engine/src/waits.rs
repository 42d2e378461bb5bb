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

/// The stripe ranges that wait, in order.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    ranges: VecDeque<(RangeId, WaitFor)>,
}

impl Waits {
    /// Creates the queue, with room for `ranges` stripe ranges.
    pub(crate) fn new(ranges: usize) -> Self {
        Self {
            ranges: VecDeque::with_capacity(ranges),
        }
    }

    /// Lets a stripe range wait until it is woken for this reason.
    pub(crate) fn wait(&mut self, range: RangeId, reason: WaitFor) {
        self.ranges.push_back((range, reason));
    }

    /// Moves the stripe ranges that wait for this reason to `ready`.
    pub(crate) fn wake(&mut self, reason: WaitFor, ready: &mut VecDeque<RangeId>) {
        self.ranges.retain(|&(range, waits_for)| {
            let stays = waits_for != reason;
            if !stays {
                ready.push_back(range);
            }
            stays
        });
    }

    /// Moves all stripe ranges to `ready`: their events may never come.
    pub(crate) fn wake_all(&mut self, ready: &mut VecDeque<RangeId>) {
        ready.extend(self.ranges.drain(..).map(|(range, _)| range));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn who_waits_for_something_else_stays() {
        let mut waits = Waits::new(4);
        let mut ready = VecDeque::new();
        for (range, reason) in [
            (3, WaitFor::Region),
            (1, WaitFor::Superblocks),
            (2, WaitFor::Region),
            (0, WaitFor::BadBlocks),
        ] {
            waits.wait(RangeId(range), reason);
        }
        waits.wake(WaitFor::Region, &mut ready);
        assert_eq!(ready.drain(..).collect::<Vec<_>>(), [3, 2].map(RangeId));
        waits.wake(WaitFor::Region, &mut ready);
        assert!(ready.is_empty());
        waits.wake_all(&mut ready);
        assert_eq!(ready.drain(..).collect::<Vec<_>>(), [1, 0].map(RangeId));
    }
}
