//! When a read counts as kept waiting, and which stripe ranges read around it.

use crate::{
    config::{FaultLimits, Limits},
    index,
};
use alloc::{vec, vec::Vec};
use spindles_block::{BufferSlice, Instant, MemberIndex};

/// Stripe ranges that are kept for hedges: those of other requests may all wait at one member.
const RANGES_MAX: u32 = 8;

/// How a request stands to others, and to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// A client waits for it, and for no other.
    Single,
    /// No client does: it is the array's own.
    Own,
    /// That slot has its hedge.
    Hedged(u32),
    /// It is the hedge of the request in that slot.
    Hedge(u32),
    /// The other was done first: what it reads is for nobody.
    Straggler,
}

/// What the engine keeps about hedges.
#[derive(Clone, Debug)]
pub(crate) struct Hedges {
    /// Whether what is being submitted may be answered with other memory.
    exchanges: bool,
    /// So many at once.
    most: u32,
    /// Stripe ranges that are meant for them.
    ranges: u32,
    /// Those of them that other requests must leave free now.
    kept_ranges: u32,
    /// Free slots of requests for them.
    slots: Vec<u32>,
    /// Memory that was lent and is in no use, and how long each piece is.
    areas: Vec<BufferSlice>,
    area_blocks: u32,
    /// When to look at what waits, while something does; `None` where nothing can be hedged.
    look: Option<Instant>,
    /// Reads that were not counted as hedged, of which some may be: each hedge takes
    /// `FaultLimits::hedge_share`.
    credit: u64,
    /// Reads of all members when that was reckoned.
    reads: u64,
    /// For each member the reads that were hedged because of it.
    hedged: Vec<u64>,
}

impl Hedges {
    pub(crate) fn new(
        limits: &Limits,
        faults: FaultLimits,
        members: u8,
        redundancy: bool,
        now: Instant,
    ) -> Self {
        let possible = redundancy && faults.stall_factor > 0;
        let most = if possible { limits.hedges } else { 0 };
        let ranges = most.min(RANGES_MAX);
        // After those of the clients, and the one of the array's own.
        let first = limits.requests + 1;
        Self {
            exchanges: false,
            most,
            ranges,
            kept_ranges: ranges,
            slots: (first..first + most).rev().collect(),
            areas: Vec::with_capacity(index(most)),
            area_blocks: 0,
            look: possible.then_some(now),
            credit: u64::from(most) * u64::from(faults.hedge_share),
            reads: 0,
            hedged: vec![0; usize::from(members)],
        }
    }

    /// What is submitted from now on may be answered with other memory, or may not.
    pub(crate) fn set_exchanges(&mut self, exchanges: bool) {
        self.exchanges = exchanges;
    }

    /// Whether what is being submitted may be answered with other memory.
    pub(crate) fn exchanges(&self) -> bool {
        self.exchanges
    }

    /// Stripe ranges that are meant for them.
    pub(crate) fn ranges(&self) -> u32 {
        self.ranges
    }

    /// Stripe ranges that other requests must leave free now.
    pub(crate) fn kept_ranges(&self) -> u32 {
        self.kept_ranges
    }

    /// Hedges use so many stripe ranges now: the others of those that are meant for them are kept free.
    pub(crate) fn keep_ranges(&mut self, used: u32) {
        self.kept_ranges = self.ranges.saturating_sub(used);
    }

    /// Memory of so many blocks is lent. Whether there is a use for it; all pieces are equally long.
    pub(crate) fn lend(&mut self, area: BufferSlice, blocks: u32) -> bool {
        if self.areas.len() == index(self.most) {
            return false;
        }
        assert!(
            self.area_blocks == 0 || self.area_blocks == blocks,
            "all lent memory is equally long"
        );
        self.area_blocks = blocks;
        self.areas.push(area);
        true
    }

    /// Lending ends.
    pub(crate) fn end_lending(&mut self) {
        self.area_blocks = 0;
        self.areas.clear();
    }

    /// Memory, and a slot of the requests, for one of so many blocks; `None` where there is none.
    pub(crate) fn take(&mut self, blocks: u64) -> Option<(BufferSlice, u32)> {
        if blocks > u64::from(self.area_blocks) || self.areas.is_empty() {
            return None;
        }
        let slot = self.slots.pop()?;
        Some((self.areas.pop()?, slot))
    }

    /// Whether `take` would give some.
    pub(crate) fn has_room(&self, blocks: u64) -> bool {
        let room = !self.areas.is_empty() && !self.slots.is_empty();
        room && blocks <= u64::from(self.area_blocks)
    }

    /// Memory is in no use any more.
    pub(crate) fn take_back_area(&mut self, area: BufferSlice) {
        self.areas.push(area);
    }

    /// A slot of the requests is free for a hedge.
    pub(crate) fn take_back_slot(&mut self, slot: u32) {
        self.slots.push(slot);
    }

    /// A read was hedged because of a member.
    pub(crate) fn count(&mut self, member: MemberIndex) {
        self.hedged[usize::from(member.0)] += 1;
    }

    /// Whether one more read may be hedged, of `reads` that there were so far, where each takes the credit
    /// of `share`; it counts as one.
    pub(crate) fn takes_credit(&mut self, reads: u64, share: u64, unlimited: bool) -> bool {
        let most = u64::from(self.most) * share;
        self.credit = most.min(self.credit + reads.saturating_sub(self.reads));
        self.reads = reads;
        if self.credit < share && !unlimited {
            return false;
        }
        self.credit = self.credit.saturating_sub(share);
        true
    }

    /// When to look at what waits.
    pub(crate) fn look(&self) -> Option<Instant> {
        self.look
    }

    /// Looks then.
    pub(crate) fn look_at(&mut self, next: Instant) {
        self.look = Some(next);
    }

    /// Looks soon, if it looks at all.
    pub(crate) fn look_by(&mut self, now: Instant) {
        self.look = self.look.map(|look| look.min(now));
    }

    /// How many there may be at once.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Reads that were hedged.
    pub(crate) fn all(&self) -> u64 {
        self.hedged.iter().sum()
    }

    /// Reads that were hedged because of a member.
    pub(crate) fn of(&self, member: MemberIndex) -> u64 {
        self.hedged[usize::from(member.0)]
    }
}
