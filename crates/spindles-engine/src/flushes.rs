//! Which writes a flush of the array has to make durable, and who shares it. A flush that finds nothing to do
//! sends nothing to the members.

use crate::RangeId;
use alloc::collections::VecDeque;

/// Counts writes that ended and may be in the members' caches only, and how many of these a flush
/// covered. What is in the log does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushes {
    written: u64,
    durable: u64,
}

impl Flushes {
    /// A write ended. Its number.
    #[inline]
    pub(crate) fn write_ended(&mut self) -> u64 {
        self.written += 1;
        self.written
    }

    /// Whether the write of that number, and all before it, are durable.
    #[inline]
    pub(crate) fn is_durable(self, write: u64) -> bool {
        write <= self.durable
    }

    /// Whether all writes that ended are.
    pub(crate) fn is_all_durable(self) -> bool {
        self.is_durable(self.written)
    }

    /// What a flush that begins now covers, for `ended`.
    pub(crate) fn begins(self) -> u64 {
        self.written
    }

    /// A flush of all members that covers so much came to its end.
    pub(crate) fn ended(&mut self, covered: u64) {
        self.durable = self.durable.max(covered);
    }
}

/// The stripe ranges that need a flush of all members. One flush is under way at a time, and all that came
/// before it began share it: who comes later shares the next.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    under_way: bool,
    /// Whom the flush under way is for.
    sharing: VecDeque<RangeId>,
    waiting: VecDeque<RangeId>,
}

impl Rounds {
    /// Room for so many stripe ranges.
    pub(crate) fn new(ranges: usize) -> Self {
        Self {
            under_way: false,
            sharing: VecDeque::with_capacity(ranges),
            waiting: VecDeque::with_capacity(ranges),
        }
    }

    /// A stripe range needs a flush.
    pub(crate) fn join(&mut self, range: RangeId) {
        self.waiting.push_back(range);
    }

    /// Begins the next flush, if none is under way and somebody waits for it: the stripe range that sends
    /// it for all of them.
    pub(crate) fn begin(&mut self) -> Option<RangeId> {
        if self.under_way || self.waiting.is_empty() {
            return None;
        }
        assert!(self.sharing.is_empty(), "the flush before has ended");
        core::mem::swap(&mut self.sharing, &mut self.waiting);
        self.under_way = true;
        self.sharing.front().copied()
    }

    /// The flush under way is through: the next of those that it was for. `None` after the last of them, and
    /// only then the next flush may begin.
    pub(crate) fn next_ended(&mut self) -> Option<RangeId> {
        assert!(self.under_way, "only what began ends");
        let next = self.sharing.pop_front();
        self.under_way = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_a_flush_is_under_way_shares_the_next() {
        let mut rounds = Rounds::new(4);
        assert_eq!(rounds.begin(), None);
        rounds.join(RangeId(1));
        assert_eq!(rounds.begin(), Some(RangeId(1)));
        rounds.join(RangeId(2));
        rounds.join(RangeId(3));
        assert_eq!(rounds.begin(), None);
        assert_eq!(rounds.next_ended(), Some(RangeId(1)));
        assert_eq!(rounds.begin(), None);
        assert_eq!(rounds.next_ended(), None);
        assert_eq!(rounds.begin(), Some(RangeId(2)));
        assert_eq!(rounds.next_ended(), Some(RangeId(2)));
        assert_eq!(rounds.next_ended(), Some(RangeId(3)));
        assert_eq!(rounds.next_ended(), None);
        assert_eq!(rounds.begin(), None);
    }

    #[test]
    fn a_flush_covers_what_had_ended_when_it_began() {
        let mut flushes = Flushes::default();
        assert!(flushes.is_all_durable(), "nothing was written");
        assert_eq!(flushes.write_ended(), 1);
        let first = flushes.begins();
        assert!(!flushes.is_all_durable(), "it is under way");
        assert_eq!(flushes.write_ended(), 2);
        let second = flushes.begins();
        flushes.ended(first);
        assert!(!flushes.is_all_durable(), "one came after it began");
        assert!(flushes.is_durable(1) && !flushes.is_durable(2));
        flushes.ended(second);
        flushes.ended(first);
        assert!(flushes.is_all_durable());
    }
}
