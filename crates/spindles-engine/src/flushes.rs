//! Tracks which writes a flush of the array must make durable, and which stripe ranges share it. A
//! flush that has nothing to do sends nothing to the members.

use crate::RangeId;
use alloc::collections::VecDeque;

/// Counts the finished writes that may be in the members' caches only, and how many of them a flush
/// has covered. Writes in the log do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushes {
    written: u64,
    durable: u64,
}

impl Flushes {
    /// Counts a finished write. Returns its number.
    #[inline]
    pub(crate) fn write_ended(&mut self) -> u64 {
        self.written += 1;
        self.written
    }

    /// Returns true if the write of that number, and all before it, are durable.
    #[inline]
    pub(crate) fn is_durable(self, write: u64) -> bool {
        write <= self.durable
    }

    /// Returns true if all finished writes are durable.
    pub(crate) fn is_all_durable(self) -> bool {
        self.is_durable(self.written)
    }

    /// Begins a flush. Returns the number of the last write that it covers, for `ended`.
    pub(crate) fn begins(self) -> u64 {
        self.written
    }

    /// Notes that a flush of all members has ended that covers writes up to `covered`.
    pub(crate) fn ended(&mut self, covered: u64) {
        self.durable = self.durable.max(covered);
    }
}

/// The stripe ranges that need a flush of all members. One flush is under way at a time. All stripe
/// ranges that join before it begins share it; later ones share the next.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    under_way: bool,
    /// The stripe ranges that share the current flush.
    sharing: VecDeque<RangeId>,
    waiting: VecDeque<RangeId>,
}

impl Rounds {
    /// Creates the state, with room for `ranges` stripe ranges.
    pub(crate) fn new(ranges: usize) -> Self {
        Self {
            under_way: false,
            sharing: VecDeque::with_capacity(ranges),
            waiting: VecDeque::with_capacity(ranges),
        }
    }

    /// Adds a stripe range that needs a flush.
    pub(crate) fn join(&mut self, range: RangeId) {
        self.waiting.push_back(range);
    }

    /// Begins the next flush, if none is under way and a stripe range waits for one. Returns the
    /// stripe range that sends it for all.
    pub(crate) fn begin(&mut self) -> Option<RangeId> {
        if self.under_way || self.waiting.is_empty() {
            return None;
        }
        assert!(self.sharing.is_empty(), "the flush before has ended");
        core::mem::swap(&mut self.sharing, &mut self.waiting);
        self.under_way = true;
        self.sharing.front().copied()
    }

    /// Returns the stripe ranges that share the current flush.
    pub(crate) fn sharing(&self) -> impl Iterator<Item = RangeId> {
        self.sharing.iter().copied()
    }

    /// Returns the next of the stripe ranges that shared the finished flush. `None` after the last
    /// of them: only then may the next flush begin.
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
