//! Hedged reads: a read that waits too long at a member is repeated from redundancy, by a *hedge*.
//! The first of the two to finish answers.
//!
//! A member *stalls* while a read waits at it for much longer than its peers take. New reads then
//! go around the member, as if it were missing. A read sent to the member before is hedged: a
//! separate request reads the same blocks around the member, into memory lent to the engine.
//!
//! ```text
//!  Single ──hedge delay over──▶ Hedged, and its Hedge ──one answers──▶ the other: Straggler
//!     ▲                                                                        │
//!     └───────────────────────────straggler is back────────────────────────────┘
//! ```
//!
//! An operation on a device can't be cancelled: the device may write into the memory that it was
//! given at any later time. So that memory stays with the engine until then. A client that is
//! answered by a hedge gets the hedge's memory in exchange for its own (`Reply::exchanged`), which
//! is lent from then on.
//!
//! Waiting reads are checked from time to time, all at once: a read that comes back in time pays
//! nothing for it.

use crate::{
    Engine, Mutation, RangeId,
    engine::Closing,
    hedges::Pairing,
    output::{Event, Output},
    requests::RequestSlot,
    stripe::Owner,
};
use spindles_block::{BufferSlice, Instant, MEMBERS_MAX, MemberIndex, MemberSet, Operation};

/// The least time between two checks of waiting reads, unless a read is about to wait too long.
const LOOK_MIN_NS: u64 = 1_000_000;

/// A read of this many bytes may take twice as long as a short read, and a read of twice this size
/// three times as long.
const LONG_BYTES: u32 = 256 * 1024;

impl Engine {
    /// Lends the engine memory of `blocks` blocks for hedged reads. All pieces are equally long.
    /// Clients that use `submit_exchangeable` give memory of that length, and may get such memory
    /// for it. Returns true if there is a use for the memory.
    pub fn lend(&mut self, area: BufferSlice, blocks: u32) -> bool {
        self.hedges.lend(area, blocks)
    }

    /// Ends all lending. Later requests may give other memory, and get memory that is lent from now
    /// on. A straggler may still write into memory that was lent before, which is not used again.
    pub fn end_lending(&mut self) {
        self.hedges.end_lending();
        for slot in self.requests.iter_mut() {
            slot.exchangeable = false;
        }
    }

    /// Checks the reads that wait at members, if it is time to.
    pub(crate) fn look_at_waiting(&mut self) {
        let due = self
            .hedges
            .next_look(&self.ranges, &self.slow)
            .is_some_and(|look| look <= self.now);
        if !due {
            return;
        }
        let limits = self.slow.limits();
        let mut next = self.now.plus_ns(limits.stall_min_ns.max(LOOK_MIN_NS));
        let hedge_delays = self.slow.hedge_delays(&self.geometry, &self.members);
        // Since when a read has waited too long, for each member.
        let mut overdue = [None; MEMBERS_MAX as usize];
        for id in (0..self.client_ranges()).map(RangeId) {
            for member in self
                .ranges
                .waits_at(id)
                .difference(self.members.missing())
                .iter()
            {
                let until = self.waits_until(id, hedge_delays[usize::from(member.0)]);
                if until <= self.now {
                    let since = overdue[usize::from(member.0)].get_or_insert(until);
                    *since = until.min(*since);
                } else {
                    next = next.min(until);
                }
            }
        }
        self.hedges.look_at(next);
        let stalled = self
            .slow
            .choose_stalled(&self.geometry, &self.members, &mut overdue);
        self.tell_stalled(stalled);
        if stalled.is_empty() {
            return;
        }
        for id in (0..self.client_ranges()).map(RangeId) {
            let waits = self.ranges.waits_at(id).intersection(stalled);
            let is_late = |member: &MemberIndex| {
                self.waits_until(id, hedge_delays[usize::from(member.0)]) <= self.now
            };
            let late = waits.iter().find(is_late);
            if let (Some(member), Owner::Request(request)) = (late, self.ranges[id].owner) {
                self.hedge(request, member);
            }
        }
    }

    /// Returns until when a stripe range may wait for its reads.
    fn waits_until(&self, id: RangeId, hedge_delay_ns: u64) -> Instant {
        let range = &self.ranges[id];
        let bytes = u64::from(range.blocks) * u64::from(self.settings.block_size.bytes());
        let times = 1 + bytes / u64::from(LONG_BYTES);
        let ns = hedge_delay_ns.saturating_mul(times);
        Instant(range.reads.issued.0.saturating_add(ns))
    }

    fn tell_stalled(&mut self, stalled: MemberSet) {
        let before = self.slow.stalled();
        if stalled == before {
            return;
        }
        self.slow.set_stalled(stalled);
        self.choose_direct();
        for member in before.union(stalled).iter() {
            let stalls = stalled.contains(member);
            if stalls != before.contains(member) {
                self.outbox
                    .put(Output::Event(Event::MemberStalls { member, stalls }));
            }
        }
    }

    /// Hedges a request that waits at `member`, if that is allowed and there is room.
    fn hedge(&mut self, request: u32, member: MemberIndex) {
        let slot = self.requests[request];
        let blocks = slot.end.0 - slot.block.0;
        let may_be = slot.exchangeable
            && slot.pairing == Pairing::Single
            && slot.is_handed_out()
            && !self.settled.lacks_log()
            && matches!(self.closing, Closing::Open | Closing::Draining);
        if !(may_be && self.hedges.has_room(blocks) && self.takes_credit()) {
            return;
        }
        let Some((area, hedge)) = self.hedges.take(blocks) else {
            return;
        };
        let buffer = if self.mutated(Mutation::HedgeInPlace) {
            slot.buffer
        } else {
            area
        };
        let mut reads = RequestSlot::new(slot.token, Operation::Read, slot.block, slot.end, buffer);
        reads.exchangeable = true;
        reads.pairing = Pairing::Hedge(request);
        self.requests[hedge] = reads;
        self.requests[request].pairing = Pairing::Hedged(hedge);
        self.hedges.count(member);
        self.count_slow_answer(member);
        if !self.advance(hedge) {
            // Goes first: the others may wait for stripe ranges that wait at the member.
            self.requests.wait_first(hedge);
        }
        self.keep_ranges();
    }

    /// Spends one hedge of the budget, a share of all reads. Returns false if none is left.
    fn takes_credit(&mut self) -> bool {
        let share = u64::from(self.slow.limits().hedge_share);
        let (reads, unlimited) = (
            self.slow.reads_of_all(),
            self.mutated(Mutation::HedgeUnlimited),
        );
        self.hedges.takes_credit(reads, share, unlimited)
    }
}
