//! Compares the read times of each member with those of its peers.

use crate::{
    RangeId, config::FaultLimits, members::Members, plan::Ask, slots::SlotSet, stripe::Ranges,
};
use alloc::{vec, vec::Vec};
use spindles_block::{Instant, MEMBERS_MAX, MemberIndex, MemberSet};
use spindles_layout::Geometry;

/// One of this many reads of a member is timed, after the first ones and while no member is
/// slow or stalls.
const TIME_EVERY: u32 = 8;

/// A slow member gets one in this many reads that could go around the member.
const PROBE_EVERY: u32 = 16;

/// The first reads of a member, which are all timed.
const TIME_FIRST: u32 = 64;

/// Reads between two checks of a member.
const LOOK_EVERY: u32 = 16;

/// The read times of a member.
#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    /// A moving average, in nanoseconds: each read that is timed counts for an eighth.
    average_ns: u64,
    reads: u32,
    /// Since when it has been much slower than its peers.
    since: Option<Instant>,
}

/// The engine's state of slow members.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    limits: FaultLimits,
    latencies: Vec<Latency>,
    members: MemberSet,
    /// Members at which a read waits for too long.
    stalled: MemberSet,
    /// Reads that went, or could have gone, around a slow member.
    reads: u32,
    /// Stripe ranges that compute the contents of a slow member.
    around: u32,
}

impl Slow {
    pub(crate) fn new(limits: FaultLimits, members: u8) -> Self {
        Self {
            limits,
            latencies: vec![Latency::default(); usize::from(members)],
            members: MemberSet::EMPTY,
            stalled: MemberSet::EMPTY,
            reads: 0,
            around: 0,
        }
    }

    /// Returns the limits from which on a member counts as slow or stalled.
    pub(crate) fn limits(&self) -> FaultLimits {
        self.limits
    }

    /// Members that are much slower than their peers.
    pub(crate) fn members(&self) -> MemberSet {
        self.members
    }

    /// Members at which a read waits for too long.
    pub(crate) fn stalled(&self) -> MemberSet {
        self.stalled
    }

    /// Returns true if no member stalls.
    #[inline]
    pub(crate) fn nobody_stalls(&self) -> bool {
        self.stalled.is_empty()
    }

    /// Sets the members that stall.
    pub(crate) fn set_stalled(&mut self, stalled: MemberSet) {
        self.stalled = stalled;
    }

    /// Records the duration of a timed read. Returns true if it is time to judge the member.
    pub(crate) fn took(&mut self, member: MemberIndex, ns: u64) -> bool {
        let latency = &mut self.latencies[usize::from(member.0)];
        latency.average_ns = latency.average_ns - (latency.average_ns >> 3) + (ns >> 3);
        latency.reads.is_multiple_of(LOOK_EVERY)
    }

    /// Checks whether a member became slow, or is quick again. `Some` if that changed.
    pub(crate) fn judge(
        &mut self,
        member: MemberIndex,
        missing: MemberSet,
        now: Instant,
    ) -> Option<bool> {
        let limits = self.limits;
        let median = self.median_ns(member, missing)?;
        let latency = &mut self.latencies[usize::from(member.0)];
        let average = latency.average_ns;
        let is_slow = self.members.contains(member);
        // A slow member counts as slow until it is nearly as quick as the others.
        let factor = if is_slow { 2 } else { limits.slow_factor };
        if average < limits.slow_min_ns || average <= median.saturating_mul(factor.into()) {
            latency.since = None;
            self.members = self.members.without(member);
            return is_slow.then_some(false);
        }
        let since = *latency.since.get_or_insert(now);
        if is_slow || now.ns_since(since) < limits.slow_after_ns {
            return None;
        }
        self.members = self.members.with(member);
        Some(true)
    }

    /// Forgets the read times of a position that another device takes.
    pub(crate) fn forget(&mut self, member: MemberIndex) {
        self.latencies[usize::from(member.0)] = Latency::default();
        self.members = self.members.without(member);
        self.stalled = self.stalled.without(member);
    }

    /// Counts a read that could go around a slow member. Returns true if the read still goes to the
    /// member, to time the member or because `computes` is set and too many reads compute around
    /// slow members already.
    pub(crate) fn probes(&mut self, computes: bool) -> bool {
        self.reads = self.reads.wrapping_add(1);
        let too_many = computes && self.around >= self.limits.around_max;
        too_many || self.reads.is_multiple_of(PROBE_EVERY)
    }

    /// Counts a stripe range that begins to compute the contents of a slow member.
    pub(crate) fn around_begins(&mut self) {
        self.around += 1;
    }

    /// Counts a stripe range that ended such a computation.
    pub(crate) fn around_ends(&mut self) {
        self.around -= 1;
    }

    /// Returns the recent average time of a member's reads, in nanoseconds; 0 if unknown.
    pub(crate) fn average_ns(&self, member: MemberIndex) -> u64 {
        self.latencies[usize::from(member.0)].average_ns
    }

    /// Returns the members that are read around.
    #[inline]
    pub(crate) fn avoided(&self) -> MemberSet {
        self.members.union(self.stalled)
    }

    /// Reads of all members that came back.
    pub(crate) fn reads_of_all(&self) -> u64 {
        self.latencies
            .iter()
            .map(|latency| u64::from(latency.reads))
            .sum()
    }

    /// Counts another read of `member` that came back. Returns true if it is to be timed.
    #[inline]
    pub(crate) fn is_timed(&mut self, member: MemberIndex) -> bool {
        let reads = &mut self.latencies[usize::from(member.0)].reads;
        *reads = reads.wrapping_add(1);
        reads.is_multiple_of(TIME_EVERY) || *reads <= TIME_FIRST || !self.avoided().is_empty()
    }

    /// Returns the median of the averages of the peers of `member` that were read often enough.
    pub(crate) fn median_ns(&self, member: MemberIndex, missing: MemberSet) -> Option<u64> {
        let mut averages = [0; MEMBERS_MAX as usize];
        let mut count = 0;
        for (peer, latency) in (0..).map(MemberIndex).zip(&self.latencies) {
            if peer != member && !missing.contains(peer) && latency.reads >= LOOK_EVERY {
                averages[count] = latency.average_ns;
                count += 1;
            }
        }
        let averages = &mut averages[..count];
        averages.sort_unstable();
        averages.get(count / 2).copied()
    }

    /// Returns the members whose reads have waited the longest, as long as the level survives
    /// without them. If reads wait at all members, no further member counts as stalled.
    pub(crate) fn choose_stalled(
        &self,
        geometry: &Geometry,
        members: &Members,
        overdue: &mut [Option<Instant>; MEMBERS_MAX as usize],
    ) -> MemberSet {
        let there = geometry.members() - u8::try_from(members.lost().count()).expect("few");
        if overdue.iter().flatten().count() == usize::from(there) {
            let before = self.stalled();
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
            let (_, member) = waits.min().expect("counted above");
            overdue[usize::from(member.0)] = None;
            let with = stalled.with(member);
            if geometry.survives(members.lost().union(with)) {
                stalled = with;
            }
        }
        stalled
    }

    /// Returns how long a read may wait at each member, in nanoseconds.
    pub(crate) fn hedge_delays(
        &self,
        geometry: &Geometry,
        members: &Members,
    ) -> [u64; MEMBERS_MAX as usize] {
        let limits = self.limits();
        let mut hedge_delays = [u64::MAX; MEMBERS_MAX as usize];
        for (member, hedge_delays) in (0..geometry.members()).zip(&mut hedge_delays) {
            if let Some(median) = self.median_ns(MemberIndex(member), members.lost()) {
                let times = median.saturating_mul(limits.stall_factor.into());
                *hedge_delays = times.max(limits.stall_min_ns);
            }
        }
        hedge_delays
    }

    /// Forgets the read times of a member that is out: they belong to its device.
    pub(crate) fn forget_device(&mut self, member: MemberIndex) {
        self.forget(member);
    }

    /// Returns the slots of slow members: those that a read avoids, and those that it reads to time
    /// the member.
    #[cold]
    pub(crate) fn slow_slots(&mut self, ranges: &Ranges, id: RangeId) -> (SlotSet, SlotSet) {
        if ranges[id].ask != Ask::Read {
            return (SlotSet::EMPTY, SlotSet::EMPTY);
        }
        let slots = (0..).zip(ranges.group(id).slots());
        let slow = slots
            .filter(|(_, place)| self.members().contains(place.member))
            .fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot));
        let computes = !ranges[id].shape.copies;
        if self.probes(computes) {
            return (SlotSet::EMPTY, slow);
        }
        (slow, SlotSet::EMPTY)
    }

    /// Returns the slots of a stripe range's read whose members stall.
    #[cold]
    pub(crate) fn stalled_slots(&self, ranges: &Ranges, id: RangeId) -> SlotSet {
        match ranges[id].ask {
            Ask::Read => ranges.slots_of(id, self.stalled()),
            _ => SlotSet::EMPTY,
        }
    }
}
