//! Regions that are being made zeros, and those that wait for it.

use crate::{bits::Bits, checksums::ROWS_MAX, index};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::{mem::take, ops::Range};
use spindles_block::BlockIndex;
use spindles_layout::Group;

/// The most regions that are made zeros together while no write waits for them: one that comes
/// waits no longer.
const AHEAD_AT_ONCE: u64 = 4;

/// Rows that a member is making zeros.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// The first of them, in its data area.
    pub(crate) first: BlockIndex,
    pub(crate) blocks: u32,
    /// So many of them have the checksums of zeros.
    pub(crate) summed: u32,
}

/// Regions being made ready for their first write.
#[derive(Clone, Debug)]
pub(crate) struct Zeroing {
    /// Regions asked for and not ready.
    pub(crate) asked: Bits,
    /// Those of which nothing was done yet and that a write waits for, in order.
    pub(crate) waiting: VecDeque<u64>,
    /// And those that none waits for.
    pub(crate) ahead: Bits,
    /// A write waits for one that is under way or waits for the flush.
    pub(crate) hurry: bool,
    /// The groups left of the regions under way, on each member.
    pub(crate) left: Vec<Range<u64>>,
    /// The rows that each member is making zeros, in its data area.
    pub(crate) runs: Vec<Run>,
    /// Members that are not through with it.
    pub(crate) pending: u32,
    /// The regions under way.
    pub(crate) regions: Range<u64>,
    /// Regions that wait for the flush.
    pub(crate) zeroed: Bits,
    /// Flushes under way.
    pub(crate) flushes: u32,
    /// Whether they wait until the journal holds nothing of them.
    pub(crate) held: bool,
    pub(crate) group: Group,
}

impl Zeroing {
    pub(crate) fn new(regions: u64, members: u8, ranges: u32) -> Self {
        Self {
            asked: Bits::new(regions, false),
            waiting: VecDeque::with_capacity(index(ranges)),
            ahead: Bits::new(regions, false),
            hurry: false,
            left: vec![0..0; usize::from(members)],
            runs: vec![Run::default(); usize::from(members)],
            pending: 0,
            regions: 0..0,
            zeroed: Bits::new(regions, false),
            flushes: 0,
            held: false,
            group: Group::empty(),
        }
    }

    /// Of the rows that a member is making zeros, those whose checksums come next.
    pub(crate) fn next_checksums(&self, member: usize) -> (BlockIndex, u32) {
        let run = &self.runs[member];
        let first = run.first.plus(u64::from(run.summed));
        (first, ROWS_MAX.min(run.blocks - run.summed))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.regions.is_empty() && self.flushes == 0 && self.waiting.is_empty() && !self.held
    }

    /// Whether that is so of a region, or it is to be.
    pub(crate) fn is_asked(&self, region: u64) -> bool {
        self.asked.get(region)
    }

    /// The regions under way are zeros.
    pub(crate) fn through(&mut self) {
        for region in take(&mut self.regions) {
            self.zeroed.set(region);
        }
    }

    /// The regions to be made zeros next: while a write waits, only what writes wait for.
    pub(crate) fn next(&mut self) -> Option<Range<u64>> {
        if let Some(region) = self.waiting.pop_front() {
            self.hurry = true;
            return Some(region..region + 1);
        }
        let first = self.ahead.next(0).filter(|_| !self.hurry)?;
        let mut end = first;
        while end < first + AHEAD_AT_ONCE && self.ahead.next(end) == Some(end) {
            self.ahead.clear(end);
            end += 1;
        }
        Some(first..end)
    }
}
