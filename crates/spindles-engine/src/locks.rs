//! Range locks on stripe ranges: a stripe range that changes rows, or must see them unchanged,
//! locks the rows exclusively, in order of arrival. The locks are sized at open, and work in place,
//! without allocation.

use crate::{RangeId, index};
use alloc::{collections::VecDeque, vec, vec::Vec};
use spindles_layout::GroupIndex;

const NONE: RangeId = RangeId::NONE;

#[derive(Clone, Copy, Debug)]
struct Entry {
    group: GroupIndex,
    low: u32,
    end: u32,
    previous: RangeId,
    next: RangeId,
    held: bool,
}

/// One lock per stripe range slot, in hash buckets by group, each bucket in order of arrival.
#[derive(Clone, Debug)]
pub(crate) struct Locks {
    heads: Vec<RangeId>,
    tails: Vec<RangeId>,
    /// The number of waiting stripe ranges in each bucket, so that an uncontended release checks
    /// none.
    waiting: Vec<u32>,
    entries: Vec<Entry>,
    shift: u32,
}

impl Locks {
    pub(crate) fn new(ranges: u32) -> Self {
        let buckets = index(ranges.next_power_of_two().max(2));
        Self {
            heads: vec![NONE; buckets],
            tails: vec![NONE; buckets],
            waiting: vec![0; buckets],
            entries: vec![
                Entry {
                    group: GroupIndex(0),
                    low: 0,
                    end: 0,
                    previous: NONE,
                    next: NONE,
                    held: false
                };
                index(ranges)
            ],
            shift: 64 - buckets.trailing_zeros(),
        }
    }

    fn bucket(&self, group: GroupIndex) -> usize {
        // Fibonacci hashing: neighbouring groups go to different buckets.
        let hash = group.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        usize::try_from(hash).expect("less than the number of buckets")
    }

    fn blocked(&self, bucket: usize, range: RangeId) -> bool {
        let wanted = self.entries[range.index()];
        let mut at = self.heads[bucket];
        while at != range {
            let other = self.entries[at.index()];
            if other.group == wanted.group && other.low < wanted.end && wanted.low < other.end {
                return true;
            }
            at = other.next;
        }
        false
    }

    /// Returns true if `range` now has `low..end` of every chunk of `group`. Otherwise it waits
    /// until a release grants it.
    pub(crate) fn acquire(
        &mut self,
        range: RangeId,
        group: GroupIndex,
        low: u32,
        end: u32,
    ) -> bool {
        let bucket = self.bucket(group);
        let previous = self.tails[bucket];
        self.entries[range.index()] = Entry {
            group,
            low,
            end,
            previous,
            next: NONE,
            held: false,
        };
        if previous == NONE {
            self.heads[bucket] = range;
        } else {
            self.entries[previous.index()].next = range;
        }
        self.tails[bucket] = range;
        let held = !self.blocked(bucket, range);
        self.entries[range.index()].held = held;
        self.waiting[bucket] += u32::from(!held);
        held
    }

    /// Returns the first stripe range after `after`, in order of arrival, that waits for rows of
    /// `range`.
    pub(crate) fn next_overlapping(&self, range: RangeId, after: RangeId) -> Option<RangeId> {
        let held = self.entries[range.index()];
        if self.waiting[self.bucket(held.group)] == 0 {
            return None;
        }
        let mut at = self.entries[after.index()].next;
        while at != NONE {
            let other = self.entries[at.index()];
            if other.group == held.group && other.low < held.end && held.low < other.end {
                return Some(at);
            }
            at = other.next;
        }
        None
    }

    /// Returns true if a stripe range other than `range` has rows in `low..end` of `group`, or
    /// waits for them.
    pub(crate) fn others(&self, range: RangeId, group: GroupIndex, low: u32, end: u32) -> bool {
        let mut at = self.heads[self.bucket(group)];
        while at != NONE {
            let other = self.entries[at.index()];
            if at != range && other.group == group && other.low < end && low < other.end {
                return true;
            }
            at = other.next;
        }
        false
    }

    /// Withdraws `range`, which waits. Returns the stripe range before it in its bucket.
    pub(crate) fn withdraw(&mut self, range: RangeId) -> RangeId {
        let entry = self.entries[range.index()];
        assert!(
            !entry.held,
            "range {range:?} has what it would no longer wait for"
        );
        let bucket = self.bucket(entry.group);
        self.waiting[bucket] -= 1;
        self.unlink(entry);
        entry.previous
    }

    fn unlink(&mut self, entry: Entry) {
        let bucket = self.bucket(entry.group);
        match entry.previous {
            NONE => self.heads[bucket] = entry.next,
            previous => self.entries[previous.index()].next = entry.next,
        }
        match entry.next {
            NONE => self.tails[bucket] = entry.previous,
            next => self.entries[next.index()].previous = entry.previous,
        }
    }

    /// Releases the rows of `range`, and appends the stripe ranges that get theirs now to
    /// `granted`.
    pub(crate) fn release(&mut self, range: RangeId, granted: &mut VecDeque<RangeId>) {
        let entry = self.entries[range.index()];
        assert!(
            entry.held,
            "range {range:?} releases a lock that it does not have"
        );
        self.unlink(entry);
        self.entries[range.index()].held = false;
        let bucket = self.bucket(entry.group);
        if self.waiting[bucket] == 0 {
            return;
        }
        let mut at = entry.next;
        while at != NONE {
            if !self.entries[at.index()].held && !self.blocked(bucket, at) {
                self.entries[at.index()].held = true;
                self.waiting[bucket] -= 1;
                granted.push_back(at);
            }
            at = self.entries[at.index()].next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_go_in_order_of_arrival() {
        let mut locks = Locks::new(8);
        let mut granted = VecDeque::new();
        let group = GroupIndex(7);
        assert!(locks.acquire(RangeId(0), group, 0, 4));
        assert!(locks.acquire(RangeId(1), group, 4, 8));
        assert!(!locks.acquire(RangeId(2), group, 2, 6));
        // A waiting stripe range is not overtaken.
        assert!(!locks.acquire(RangeId(3), group, 3, 4));
        assert!(locks.acquire(RangeId(4), GroupIndex(8), 0, 8));
        locks.release(RangeId(0), &mut granted);
        assert!(granted.is_empty());
        locks.release(RangeId(1), &mut granted);
        assert_eq!(granted.drain(..).collect::<Vec<_>>(), [RangeId(2)]);
        locks.release(RangeId(2), &mut granted);
        assert_eq!(granted.drain(..).collect::<Vec<_>>(), [RangeId(3)]);
        locks.release(RangeId(3), &mut granted);
        locks.release(RangeId(4), &mut granted);
        assert!(granted.is_empty());
        assert!(locks.acquire(RangeId(5), group, 0, 8));
    }
}
