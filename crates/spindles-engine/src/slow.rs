//! How long the reads of each member take beside those of its peers.

use crate::config::FaultLimits;
use alloc::{vec, vec::Vec};
use spindles_block::{Instant, MEMBERS_MAX, MemberIndex, MemberSet};

/// Of so many reads of a member one is timed, once it is known and while nobody is slow.
const TIME_EVERY: u32 = 8;

/// Of so many reads that could go around a slow member, one goes to it.
const PROBE_EVERY: u32 = 16;

/// So many first reads of a member are all timed.
const TIME_FIRST: u32 = 64;

/// Reads between two looks at a member.
const LOOK_EVERY: u32 = 16;

/// How long the reads of a member take.
#[derive(Clone, Copy, Debug, Default)]
struct Latency {
    /// A moving average, in nanoseconds: each read that is timed counts for an eighth.
    average_ns: u64,
    reads: u32,
    /// Since when it is much slower than its peers.
    since: Option<Instant>,
}

/// What the engine keeps about slow members.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    limits: FaultLimits,
    latencies: Vec<Latency>,
    members: MemberSet,
    /// Members at which a read waits for too long.
    stalled: MemberSet,
    /// Reads that went, or could have gone, around one.
    reads: u32,
    /// Stripe ranges that compute what a slow member holds.
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

    /// From when on a member counts as slow, or stalls.
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

    /// Whether there is none.
    #[inline]
    pub(crate) fn nobody_stalls(&self) -> bool {
        self.stalled.is_empty()
    }

    /// Those, from now on.
    pub(crate) fn set_stalled(&mut self, stalled: MemberSet) {
        self.stalled = stalled;
    }

    /// A read of a member that is timed took so long. Whether it is time to look at the member.
    pub(crate) fn took(&mut self, member: MemberIndex, ns: u64) -> bool {
        let latency = &mut self.latencies[usize::from(member.0)];
        latency.average_ns = latency.average_ns - (latency.average_ns >> 3) + (ns >> 3);
        latency.reads.is_multiple_of(LOOK_EVERY)
    }

    /// Looks whether a member became slow, or is quick again: `Some` where that changed.
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
        // Once slow, it is so until it is nearly as quick as the others.
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

    /// Another device has the position.
    pub(crate) fn forget(&mut self, member: MemberIndex) {
        self.latencies[usize::from(member.0)] = Latency::default();
        self.members = self.members.without(member);
        self.stalled = self.stalled.without(member);
    }

    /// A read could go around a slow member. Whether it goes to it all the same, to see how it is; `computes`
    /// says that the way around is a computation, of which there are not too many at once.
    pub(crate) fn probes(&mut self, computes: bool) -> bool {
        self.reads = self.reads.wrapping_add(1);
        let too_many = computes && self.around >= self.limits.around_max;
        too_many || self.reads.is_multiple_of(PROBE_EVERY)
    }

    /// A stripe range begins to compute what a slow member holds.
    pub(crate) fn around_begins(&mut self) {
        self.around += 1;
    }

    /// It ended.
    pub(crate) fn around_ends(&mut self) {
        self.around -= 1;
    }

    /// How long a read of the member takes of late, in nanoseconds; 0 where that is not known.
    pub(crate) fn average_ns(&self, member: MemberIndex) -> u64 {
        self.latencies[usize::from(member.0)].average_ns
    }

    /// Members that are read around.
    #[inline]
    pub(crate) fn avoided(&self) -> MemberSet {
        self.members.union(self.stalled)
    }

    /// Reads of all members that came back.
    pub(crate) fn reads_of_all(&self) -> u64 {
        self.latencies.iter().map(|it| u64::from(it.reads)).sum()
    }

    /// Another read of `member` came back. Whether to time it.
    #[inline]
    pub(crate) fn is_timed(&mut self, member: MemberIndex) -> bool {
        let reads = &mut self.latencies[usize::from(member.0)].reads;
        *reads = reads.wrapping_add(1);
        reads.is_multiple_of(TIME_EVERY) || *reads <= TIME_FIRST || !self.avoided().is_empty()
    }

    /// The average of the member in the middle, of those besides `member` that were read enough.
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
}
