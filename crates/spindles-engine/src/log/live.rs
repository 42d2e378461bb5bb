//! Tracks which groups the log may hold, and which were written lately without being logged.
//!
//! A write of a whole row must be logged if the log holds rows of it: otherwise replay would put
//! the older contents back. Groups with equal remainders share an entry. A collision costs little:
//! a whole row is logged without need.

use alloc::{vec, vec::Vec};
use spindles_layout::GroupIndex;

/// The number of remainders that distinguish groups.
const REMAINDERS: u64 = 1 << 14;

/// The state of all groups, one entry for each remainder.
#[derive(Clone, Debug)]
pub(super) struct Live {
    /// For each segment and remainder: true if the segment may hold rows of these groups.
    segments: [Vec<bool>; 2],
    /// The last write to these groups that was not logged, as `Flushes` counts writes.
    unlogged: Vec<u64>,
}

impl Live {
    pub(super) fn new() -> Self {
        let remainders = usize::try_from(REMAINDERS).expect("16,384");
        let segment = vec![false; remainders];
        Self {
            segments: [segment.clone(), segment],
            unlogged: vec![0; remainders],
        }
    }

    /// Creates the state of an array without a log. It must not be asked.
    pub(super) fn absent() -> Self {
        Self {
            segments: [Vec::new(), Vec::new()],
            unlogged: Vec::new(),
        }
    }

    /// Notes that a segment of the log gets rows of a group.
    pub(super) fn logged(&mut self, segment: usize, group: GroupIndex) {
        self.segments[segment][place(group)] = true;
    }

    /// Clears a segment of the log that was released.
    pub(super) fn clear(&mut self, segment: usize) {
        self.segments[segment].fill(false);
    }

    /// Returns true if the log may hold rows of a group.
    pub(super) fn may_hold(&self, group: GroupIndex) -> bool {
        self.segments.iter().any(|segment| segment[place(group)])
    }

    /// Notes a finished write to a group that was not logged.
    pub(super) fn unlogged(&mut self, group: GroupIndex, write: u64) {
        self.unlogged[place(group)] = write;
    }

    /// Returns the last write to a group that was not logged.
    pub(super) fn last_unlogged(&self, group: GroupIndex) -> u64 {
        self.unlogged[place(group)]
    }
}

fn place(group: GroupIndex) -> usize {
    usize::try_from(group.0 % REMAINDERS).expect("16,384")
}
