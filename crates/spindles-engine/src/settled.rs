//! Whether the blocks in their places are the contents of the array. After a crash redundancy may
//! disagree with data. A log may hold writes that do not reach their places in this opening.

use crate::jobs::Walk;
use alloc::vec::Vec;
use spindles_layout::GroupIndex;

/// What is known of the blocks in their places.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// True if redundancy agrees with data everywhere.
    everywhere: bool,
    /// True if the journals hold writes that do not reach their places before the next opening: too
    /// few members are present, members lack space, or the journal's device failed. Redundancy may
    /// disagree with data, so the engine reconstructs nothing.
    unreplayed: bool,
    /// The groups with rows in such a log; `None` if unknown.
    unplaced: Option<Vec<u64>>,
}

impl Settled {
    /// Creates the state at an opening. Up to `ranges` groups that are left to the next opening
    /// are known one by one.
    pub(crate) fn new(everywhere: bool, ranges: usize) -> Self {
        Self {
            everywhere,
            unreplayed: false,
            unplaced: Some(Vec::with_capacity(ranges)),
        }
    }

    /// Returns true if redundancy agrees with data everywhere.
    #[inline]
    pub(crate) const fn everywhere(&self) -> bool {
        self.everywhere
    }

    /// Returns true if a log holds writes that do not reach their places in this opening.
    #[inline]
    pub(crate) const fn lacks_log(&self) -> bool {
        self.unreplayed
    }

    /// Returns true if such a log may hold rows of a group.
    pub(crate) fn lacks_log_of(&self, group: GroupIndex) -> bool {
        let unplaced = self.unplaced.as_ref();
        self.unreplayed && unplaced.is_none_or(|unplaced| unplaced.contains(&group.0))
    }

    /// Notes whether redundancy agrees with data everywhere.
    pub(crate) fn set_everywhere(&mut self, everywhere: bool) {
        self.everywhere = everywhere;
    }

    /// Leaves the rows of a group to the next opening.
    pub(crate) fn leave(&mut self, group: GroupIndex) {
        self.leave_log();
        match &mut self.unplaced {
            Some(unplaced) if unplaced.contains(&group.0) => {}
            // The capacity suffices for the maximum number of stripe ranges under way.
            Some(unplaced) if unplaced.len() < unplaced.capacity() => unplaced.push(group.0),
            unplaced => *unplaced = None,
        }
    }

    /// Leaves a whole log to the next opening. It holds rows of these groups; `None` if unknown.
    pub(crate) fn leave_all(&mut self, groups: Option<Vec<u64>>) {
        self.leave_log();
        self.unplaced = groups;
    }

    fn leave_log(&mut self) {
        self.unreplayed = true;
        self.everywhere = false; // Nothing is read without a plan.
    }

    /// Handles the end of a resync. Returns true if redundancy agrees with data everywhere now.
    pub(crate) fn resync_ended(&mut self, walk: &Walk) -> bool {
        let is_settled = walk.failed() == 0 && !self.unreplayed;
        self.everywhere |= is_settled;
        is_settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JOB_RATE, Jobs, Place};

    fn walk(fails: bool) -> Walk {
        let mut jobs = Jobs::new(1, JOB_RATE);
        jobs.begin_walk(0, Place::default());
        if fails {
            jobs.hold_walk(0, Place::default());
        }
        jobs.end_walk(0)
    }

    #[test]
    fn a_resync_without_failures_settles_everything() {
        let mut settled = Settled::new(false, 2);
        assert!(!settled.resync_ended(&walk(true)) && !settled.everywhere());
        assert!(settled.resync_ended(&walk(false)) && settled.everywhere());
    }

    #[test]
    fn a_resync_settles_nothing_while_a_log_is_left() {
        let mut settled = Settled::new(false, 2);
        settled.leave(GroupIndex(5));
        assert!(!settled.resync_ended(&walk(false)) && !settled.everywhere());
    }

    #[test]
    fn only_the_groups_of_a_log_are_left() {
        let mut settled = Settled::new(true, 2);
        let is_left = |settled: &Settled, group| settled.lacks_log_of(GroupIndex(group));
        assert!(!is_left(&settled, 5) && !settled.lacks_log());
        for group in [5, 5, 7] {
            settled.leave(GroupIndex(group));
        }
        assert_eq!(
            [5, 6, 7].map(|group| is_left(&settled, group)),
            [true, false, true]
        );
        assert!(settled.lacks_log() && !settled.everywhere());
        for group in 8..64 {
            settled.leave(GroupIndex(group));
        }
        assert!(is_left(&settled, 6), "too many groups to know each");
    }

    #[test]
    fn every_group_is_left_if_the_log_is_unknown() {
        let mut settled = Settled::new(true, 2);
        settled.leave_all(Some(vec![3]));
        assert_eq!(
            [3, 4].map(|group| settled.lacks_log_of(GroupIndex(group))),
            [true, false]
        );
        settled.leave_all(None);
        assert!(settled.lacks_log_of(GroupIndex(4)));
    }
}
