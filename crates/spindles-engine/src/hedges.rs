//! The resources of hedged reads: memory, request slots, stripe ranges, and a share of all reads.

use crate::{
    config::{FaultLimits, Limits},
    index,
    slow::Slow,
    stripe::Ranges,
};
use alloc::{vec, vec::Vec};
use spindles_block::{BufferSlice, Instant, MemberIndex};

/// Stripe ranges reserved for hedges, because requests that wait at one member can use up the rest.
const RANGES_MAX: u32 = 8;

/// The relation of a request to another one, and to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// A client waits for this request only.
    Single,
    /// The array's own request: no client waits for it.
    Own,
    /// A hedge of the request runs in that slot.
    Hedged(u32),
    /// The hedge of the request in that slot.
    Hedge(u32),
    /// The other request of the pair finished first: the straggler's result is dropped.
    Straggler,
}

/// The engine's state of hedges.
#[derive(Clone, Debug)]
pub(crate) struct Hedges {
    /// True if the request being submitted may be answered with other memory.
    exchanges: bool,
    /// The most hedges at once.
    most: u32,
    /// Stripe ranges reserved for hedges.
    ranges: u32,
    /// Reserved stripe ranges that other requests must leave free now.
    kept_ranges: u32,
    /// Free request slots for hedges.
    slots: Vec<u32>,
    /// Lent memory that is not in use; below, the length of each piece.
    areas: Vec<BufferSlice>,
    area_blocks: u32,
    /// When to look at waiting reads; `None` if no read can be hedged.
    look: Option<Instant>,
    /// Reads that count towards further hedges: each hedge takes `FaultLimits::hedge_share`.
    credit: u64,
    /// Reads of all members when the credit was last updated.
    reads: u64,
    /// For each member, reads hedged because of it.
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
        // After the slots of clients, and the array's own.
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

    /// Sets whether the next requests may be answered with other memory.
    pub(crate) fn set_exchanges(&mut self, exchanges: bool) {
        self.exchanges = exchanges;
    }

    /// Returns true if the request being submitted may be answered with other memory.
    pub(crate) fn exchanges(&self) -> bool {
        self.exchanges
    }

    /// Stripe ranges reserved for hedges.
    pub(crate) fn ranges(&self) -> u32 {
        self.ranges
    }

    /// Stripe ranges that other requests must leave free now.
    pub(crate) fn kept_ranges(&self) -> u32 {
        self.kept_ranges
    }

    /// Notes that hedges use `used` stripe ranges; the rest of the reserved ones are kept free.
    pub(crate) fn keep_ranges(&mut self, used: u32) {
        self.kept_ranges = self.ranges.saturating_sub(used);
    }

    /// Lends `blocks` blocks of memory. Returns true if there is a use for it. All pieces are
    /// equally long.
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

    /// Ends lending.
    pub(crate) fn end_lending(&mut self) {
        self.area_blocks = 0;
        self.areas.clear();
    }

    /// Takes memory for `blocks` blocks and a request slot; `None` if there is none.
    pub(crate) fn take(&mut self, blocks: u64) -> Option<(BufferSlice, u32)> {
        if blocks > u64::from(self.area_blocks) || self.areas.is_empty() {
            return None;
        }
        let slot = self.slots.pop()?;
        Some((self.areas.pop()?, slot))
    }

    /// Returns true if `take` would succeed.
    pub(crate) fn has_room(&self, blocks: u64) -> bool {
        let room = !self.areas.is_empty() && !self.slots.is_empty();
        room && blocks <= u64::from(self.area_blocks)
    }

    /// Takes back memory that is no longer in use.
    pub(crate) fn take_back_area(&mut self, area: BufferSlice) {
        self.areas.push(area);
    }

    /// Takes back a request slot.
    pub(crate) fn take_back_slot(&mut self, slot: u32) {
        self.slots.push(slot);
    }

    /// Counts a read that was hedged because of a member.
    pub(crate) fn count(&mut self, member: MemberIndex) {
        self.hedged[usize::from(member.0)] += 1;
    }

    /// Spends `share` of the credit on one hedge. `reads` is the number of all reads so far, which
    /// adds to the credit. Returns false if the credit does not suffice, unless `unlimited`.
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

    /// Returns the time of the next look at waiting reads.
    pub(crate) fn look(&self) -> Option<Instant> {
        self.look
    }

    /// Sets the time of the next look.
    pub(crate) fn look_at(&mut self, next: Instant) {
        self.look = Some(next);
    }

    /// Looks at `now` at the latest, if reads can be hedged.
    pub(crate) fn look_by(&mut self, now: Instant) {
        self.look = self.look.map(|look| look.min(now));
    }

    /// The most hedges at once.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Returns the number of hedged reads.
    pub(crate) fn all(&self) -> u64 {
        self.hedged.iter().sum()
    }

    /// Reads hedged because of a member.
    pub(crate) fn of(&self, member: MemberIndex) -> u64 {
        self.hedged[usize::from(member.0)]
    }

    /// Returns when to check reads that wait. `None` unless some may wait, or a member stalls.
    pub(crate) fn next_look(&self, ranges: &Ranges, slow: &Slow) -> Option<Instant> {
        let nobody_waits = ranges.used_count() == 0;
        let idle = nobody_waits && slow.nobody_stalls();
        self.look().filter(|_| !idle)
    }
}
