//! Which groups the log may hold something of, and which of them were written without it lately.
//!
//! A whole row over rows that the log holds must be logged too: otherwise replay would put back what
//! it replaced. Groups are told apart by their remainders: a whole row that is logged without need costs
//! little.

use alloc::{vec, vec::Vec};
use spindles_layout::GroupIndex;

/// Groups are told apart by so many remainders.
const REMAINDERS: u64 = 1 << 14;

/// What is known of all groups, for each remainder.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// Whether each segment of the log holds something of them.
    segments: [Vec<bool>; 2],
    /// The last write to them that was not logged, as `Flushes` counts.
    unlogged: Vec<u64>,
}

impl Live {
    pub(crate) fn new() -> Self {
        let remainders = usize::try_from(REMAINDERS).expect("16,384");
        let segment = vec![false; remainders];
        Self {
            segments: [segment.clone(), segment],
            unlogged: vec![0; remainders],
        }
    }

    /// A segment of the log gets something of a group.
    pub(crate) fn logged(&mut self, segment: usize, group: GroupIndex) {
        self.segments[segment][place(group)] = true;
    }

    /// A segment of the log holds nothing any more.
    pub(crate) fn clear(&mut self, segment: usize) {
        self.segments[segment].fill(false);
    }

    /// Whether the log may hold something of a group.
    pub(crate) fn may_hold(&self, group: GroupIndex) -> bool {
        self.segments.iter().any(|segment| segment[place(group)])
    }

    /// A write to a group ended that was not logged.
    pub(crate) fn unlogged(&mut self, group: GroupIndex, write: u64) {
        self.unlogged[place(group)] = write;
    }

    /// The last such write to a group.
    pub(crate) fn last_unlogged(&self, group: GroupIndex) -> u64 {
        self.unlogged[place(group)]
    }
}

fn place(group: GroupIndex) -> usize {
    usize::try_from(group.0 % REMAINDERS).expect("16,384")
}
