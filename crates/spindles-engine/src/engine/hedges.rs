//! Reads that a member keeps waiting are asked for again, of redundancy, and whoever is done first
//! answers: a *hedge*.
//!
//! A member *stalls* while a read waits at it for much longer than its peers take. New reads go
//! around it then, as if it were missing. A read that was sent to it before is hedged: a request of
//! its own reads the same blocks around the member, into memory that was lent to the engine.
//!
//! ```text
//!  Single ──waits for too long──▶ Hedged, and its Hedge ──one is done, and answers──▶ the other: Late
//!     ▲                                                                                   │
//!     └──────────────────────────────────────it is back───────────────────────────────────┘
//! ```
//!
//! Nobody can call back what a device was asked: it writes into the memory it was given, whenever
//! that is. So that memory stays the engine's until then. Who is answered by a hedge gets the
//! hedge's memory for the memory that it gave (`Reply::exchanged`), and that is lent from then on.
//!
//! What waits is looked at from time to time, all of it at once: a read that comes back in time pays
//! nothing for it.

use crate::{
    Engine, Mutation, RangeId,
    engine::Closing,
    hedges::Pairing,
    index,
    output::{Event, Output},
    plan::Ask,
    ranges::{Owner, Phase},
    requests::RequestSlot,
    slots::SlotSet,
};
use spindles_block::{BufferSlice, Instant, MEMBERS_MAX, MemberIndex, MemberSet, Operation, Reply};

/// Between two looks at what waits lies so much at least, unless a read is about to wait too long.
const LOOK_MIN_NS: u64 = 1_000_000;

/// A read of so many bytes may take twice as long as others, one of twice as many three times.
const LONG_BYTES: u32 = 256 * 1024;

impl Engine {
    /// Lends the engine memory of so many blocks for reads that are hedged. Clients whose requests
    /// come through `submit_exchangeable` give memory as long as that, and get such memory for it.
    /// Whether there is a use for it; all pieces are equally long.
    pub fn lend(&mut self, area: BufferSlice, blocks: u32) -> bool {
        self.hedges.lend(area, blocks)
    }

    /// Ends all lending: requests from now on may give other memory, and get such as is lent from
    /// now on. What a late read still has of the former memory it may fill, and nobody uses it again.
    pub fn end_lending(&mut self) {
        self.hedges.end_lending();
        for slot in &mut self.requests {
            slot.exchangeable = false;
        }
    }

    /// Stripe ranges that requests may have, hedges among them.
    pub(crate) fn client_ranges(&self) -> u32 {
        self.limits.ranges + self.hedges.ranges()
    }

    /// When to look at reads that wait: only while there may be some, or a member stalls.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        let nobody_waits = self.free_ranges.len() == index(self.client_ranges());
        let idle = nobody_waits && self.slow.nobody_stalls();
        self.hedges.look().filter(|_| !idle)
    }

    /// A read came back from a member that stalled: perhaps it was the last that waited.
    pub(crate) fn look_again(&mut self) {
        self.hedges.look_by(self.now);
    }

    /// Looks at the reads that wait at members, if it is time to.
    pub(crate) fn look_at_waiting(&mut self) {
        let due = self.look_at().is_some_and(|look| look <= self.now);
        if !due {
            return;
        }
        let limits = self.slow.limits();
        let mut next = self.now.plus_ns(limits.stall_min_ns.max(LOOK_MIN_NS));
        let hedge_delays = self.hedge_delays();
        // Since when a read waits for too long at each member, if one does.
        let mut overdue = [None; MEMBERS_MAX as usize];
        for id in (0..self.client_ranges()).map(RangeId) {
            for member in self.waits_at(id).difference(self.missing).iter() {
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
        let stalled = self.choose_stalled(&mut overdue);
        self.tell_stalled(stalled);
        if stalled.is_empty() {
            return;
        }
        for id in (0..self.client_ranges()).map(RangeId) {
            let waits = self.waits_at(id).intersection(stalled);
            let is_late = |member: &MemberIndex| {
                self.waits_until(id, hedge_delays[usize::from(member.0)]) <= self.now
            };
            let late = waits.iter().find(is_late);
            if let (Some(member), Owner::Request(request)) = (late, self.ranges[id].owner) {
                self.hedge(request, member);
            }
        }
    }

    /// The members that keep reads waiting for the longest, as many as there is a way around. Where all do,
    /// the fault is not theirs alone: only those that stalled already go on to.
    fn choose_stalled(&self, overdue: &mut [Option<Instant>; MEMBERS_MAX as usize]) -> MemberSet {
        let there = self.geometry.members() - u8::try_from(self.lost.count()).expect("few");
        if overdue.iter().flatten().count() == usize::from(there) {
            let before = self.slow.stalled();
            let waits = (0..).map(MemberIndex).zip(overdue.iter_mut());
            waits
                .filter(|(member, _)| !before.contains(*member))
                .for_each(|(_, since)| *since = None);
        }
        let count = overdue.iter().flatten().count();
        let mut stalled = MemberSet::EMPTY;
        for _ in 0..count {
            let waits = (0..).map(MemberIndex).zip(overdue.iter());
            let waits = waits.filter_map(|(member, since)| Some((since.as_ref()?, member)));
            let (_, member) = waits.min().expect("so many were counted");
            overdue[usize::from(member.0)] = None;
            let with = stalled.with(member);
            if self.geometry.survives(self.lost.union(with)) {
                stalled = with;
            }
        }
        stalled
    }

    /// For how long a read may wait at each member, in nanoseconds.
    fn hedge_delays(&self) -> [u64; MEMBERS_MAX as usize] {
        let limits = self.slow.limits();
        let mut hedge_delays = [u64::MAX; MEMBERS_MAX as usize];
        for (member, hedge_delays) in (0..self.geometry.members()).zip(&mut hedge_delays) {
            if let Some(median) = self.slow.median_ns(MemberIndex(member), self.lost) {
                let times = median.saturating_mul(limits.stall_factor.into());
                *hedge_delays = times.max(limits.stall_min_ns);
            }
        }
        hedge_delays
    }

    /// Until when a stripe range may wait for what it reads.
    fn waits_until(&self, id: RangeId, hedge_delay_ns: u64) -> Instant {
        let range = &self.ranges[id];
        let bytes = u64::from(range.blocks) * u64::from(self.block_size.bytes());
        let times = 1 + bytes / u64::from(LONG_BYTES);
        let ns = hedge_delay_ns.saturating_mul(times);
        Instant(range.reads.issued.0.saturating_add(ns))
    }

    /// The members at which a read of a request waits.
    fn waits_at(&self, id: RangeId) -> MemberSet {
        let range = &self.ranges[id];
        let reads = range.ask == Ask::Read && matches!(range.owner, Owner::Request(_));
        match range.phase() {
            // Its checksums lie on the same member.
            Phase::Paging if reads && range.direct.verifies => {
                MemberSet::EMPTY.with(range.direct.member)
            }
            Phase::Direct if reads => MemberSet::EMPTY.with(range.direct.member),
            Phase::Reading if reads => {
                let slots = self.groups[id.index()].slots();
                let members = range.reads.awaited.iter();
                members
                    .map(|slot| slots[usize::from(slot)].member)
                    .collect()
            }
            _ => MemberSet::EMPTY,
        }
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
                self.output(Output::Event(Event::MemberStalls { member, stalls }));
            }
        }
    }

    /// The slots of a stripe range's read at members that stall.
    #[cold]
    pub(crate) fn stalled_slots(&self, id: RangeId) -> SlotSet {
        match self.ranges[id].ask {
            Ask::Read => self.slots_of(id, self.slow.stalled()),
            _ => SlotSet::EMPTY,
        }
    }

    /// Asks redundancy for what a request waits for at `member`, where that is allowed and there is
    /// room.
    fn hedge(&mut self, request: u32, member: MemberIndex) {
        let slot = self.requests[index(request)];
        let blocks = slot.end.0 - slot.block.0;
        let may_be = slot.exchangeable
            && slot.pairing == Pairing::Single
            && slot.is_handed_out()
            && !self.unreplayed
            && self.overlay.is_none()
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
        self.requests[index(hedge)] = reads;
        self.requests[index(request)].pairing = Pairing::Hedged(hedge);
        self.hedges.count(member);
        self.count_slow_answer(member);
        if !self.advance(hedge) {
            // It is not behind those who wait for stripe ranges that wait at the member.
            self.backlog.push_front(hedge);
        }
        self.keep_ranges();
    }

    /// Whether one more read may be hedged, of those that there were; it counts as one.
    fn takes_credit(&mut self) -> bool {
        let share = u64::from(self.slow.limits().hedge_share);
        let (reads, unlimited) = (
            self.slow.reads_of_all(),
            self.mutated(Mutation::HedgeUnlimited),
        );
        self.hedges.takes_credit(reads, share, unlimited)
    }

    /// A request is done that is hedged, a hedge, or no client's.
    #[cold]
    pub(crate) fn answer_paired(&mut self, request: u32) {
        let slot = self.requests[index(request)];
        let other = match slot.pairing {
            Pairing::Single => panic!("there are not two"),
            Pairing::Own => return self.own_request_done(slot.error),
            Pairing::Straggler => return self.is_back(request),
            Pairing::Hedge(other) if slot.error.is_some() => {
                // It was of no use: who waits goes on waiting.
                let waits = &mut self.requests[index(other)];
                waits.pairing = Pairing::Single;
                waits.exchangeable = false;
                return self.is_back(request);
            }
            Pairing::Hedge(other) | Pairing::Hedged(other) => other,
        };
        let exchanged = matches!(slot.pairing, Pairing::Hedge(_)).then_some(slot.buffer);
        let late = &mut self.requests[index(other)];
        late.pairing = Pairing::Straggler;
        // Whichever slot is free now is one for clients, the other will be one for hedges.
        self.requests[index(request)].pairing = Pairing::Single;
        self.free_requests.push(request);
        self.output(Output::Reply(Reply {
            token: slot.token,
            result: slot.error.map_or(Ok(()), Err),
            exchanged,
        }));
        let late = &mut self.requests[index(other)];
        if !late.is_handed_out() {
            late.stop();
            self.backlog.retain(|&waiting| waiting != other);
        }
        if self.requests[index(other)].pending == 0 {
            return self.is_back(other);
        }
        self.keep_ranges();
    }

    /// What nobody waits for any more is back: its memory can be used again, unless that was lent
    /// before lending ended.
    fn is_back(&mut self, request: u32) {
        let slot = &mut self.requests[index(request)];
        slot.pairing = Pairing::Single;
        if slot.exchangeable {
            self.hedges.take_back_area(slot.buffer);
        }
        self.hedges.take_back_slot(request);
        self.keep_ranges();
        self.look_again();
    }

    /// Whether the stripe ranges that are free are not for this request.
    pub(crate) fn must_leave_ranges(&self, request: u32) -> bool {
        let is_hedge = matches!(self.requests[index(request)].pairing, Pairing::Hedge(_));
        !is_hedge || self.free_ranges.is_empty()
    }

    /// Reckons how many stripe ranges other requests must leave free.
    fn keep_ranges(&mut self) {
        let is_extra =
            |slot: &&RequestSlot| matches!(slot.pairing, Pairing::Hedge(_) | Pairing::Straggler);
        let extra = self.requests.iter().filter(is_extra);
        let used = extra.map(|slot| slot.pending).sum();
        self.hedges.keep_ranges(used);
    }
}
