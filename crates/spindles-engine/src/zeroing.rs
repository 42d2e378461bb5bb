//! Regions being zeroed, and the queue of regions to zero.

use crate::{bits::Bits, checksums::ROWS_MAX, index};
use alloc::{collections::VecDeque, vec, vec::Vec};
use core::{mem::take, ops::Range};
use spindles_block::BlockIndex;
use spindles_layout::Group;

/// The most regions that are zeroed together while no write waits for them. This limits the wait of
/// a write that comes meanwhile.
const AHEAD_AT_ONCE: u64 = 4;

/// How the rows of a region are prepared for its first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Zeros,
    /// Their checksums are removed, and no blocks are written.
    Blank,
}

/// Rows that a member is zeroing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// The first row, in the member's data area.
    pub(crate) first: BlockIndex,
    pub(crate) blocks: u32,
    /// Number of rows with their new checksums set.
    pub(crate) summed: u32,
}

/// Regions being prepared for their first write.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the regions"
)]
pub(crate) struct Zeroing {
    /// Regions that were asked for and are not ready.
    pub(crate) asked: Bits,
    /// Regions not begun yet that a write waits for, in order.
    pub(crate) waiting: VecDeque<u64>,
    /// Regions not begun yet that no write waits for.
    pub(crate) ahead: Bits,
    /// True if a write waits for a region that is being zeroed, or that waits for the flush.
    pub(crate) hurry: bool,
    /// How the current rows are prepared.
    pub(crate) rows: Rows,
    /// True if anything was written since the last flush.
    pub(crate) changed: bool,
    /// The groups left of the current regions, on each member.
    pub(crate) left: Vec<Range<u64>>,
    /// The rows that each member is zeroing, in its data area.
    pub(crate) runs: Vec<Run>,
    /// Members that have not finished the current regions.
    pub(crate) pending: u32,
    /// The current regions.
    pub(crate) regions: Range<u64>,
    /// Regions that wait for the flush.
    pub(crate) zeroed: Bits,
    /// True while a flush is under way.
    pub(crate) flushing: bool,
    /// True while regions wait until the journal holds nothing of them.
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
            rows: Rows::Zeros,
            changed: false,
            left: vec![0..0; usize::from(members)],
            runs: vec![Run::default(); usize::from(members)],
            pending: 0,
            regions: 0..0,
            zeroed: Bits::new(regions, false),
            flushing: false,
            held: false,
            group: Group::empty(),
        }
    }

    /// Returns the rows that a member is zeroing whose checksums come next.
    pub(crate) fn next_checksums(&self, member: usize) -> (BlockIndex, u32) {
        let run = &self.runs[member];
        let first = run.first.plus(u64::from(run.summed));
        (first, ROWS_MAX.min(run.blocks - run.summed))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.regions.is_empty() && !self.flushing && self.waiting.is_empty() && !self.held
    }

    /// Returns true if zeroing this region is queued or running.
    pub(crate) fn is_asked(&self, region: u64) -> bool {
        self.asked.get(region)
    }

    /// Forgets the regions not begun yet that no write waits for.
    pub(crate) fn forget_ahead(&mut self) {
        while let Some(region) = self.ahead.next(0) {
            self.ahead.clear(region);
            self.asked.clear(region);
        }
    }

    /// Adds the current regions to those that wait for the flush.
    pub(crate) fn through(&mut self) {
        for region in take(&mut self.regions) {
            self.zeroed.set(region);
        }
    }

    /// Returns the next regions to zero. While a write waits, only regions that writes wait for.
    /// `blank`: the rows of these become blank. `free`: zeros are no work for the members.
    pub(crate) fn next(&mut self, blank: bool, free: bool) -> Option<Range<u64>> {
        self.rows = Rows::Zeros;
        if let Some(region) = self.waiting.pop_front() {
            self.hurry = true;
            if blank {
                self.rows = Rows::Blank;
            }
            return Some(region..region + 1);
        }
        let first = self.ahead.next(0).filter(|_| !self.hurry)?;
        let at_once = if free { AHEAD_AT_ONCE } else { 1 };
        let mut end = first;
        while end < first + at_once && self.ahead.next(end) == Some(end) {
            self.ahead.clear(end);
            end += 1;
        }
        Some(first..end)
    }

    /// Asks for a never-written region in which a write is expected.
    pub(crate) fn want_ahead(&mut self, region: u64) {
        self.asked.set(region);
        self.ahead.set(region);
    }
}
