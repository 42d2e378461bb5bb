//! Members that are much slower than their peers: known by how long their reads take, told, and read
//! around where redundancy allows. A read goes to such a member now and then all the same, to see
//! whether it is quick again.
//!
//! Of a member that does not answer at all for a while: `hedges.rs`.

use crate::{
    Engine,
    config::FaultLimits,
    index,
    output::{Event, Output},
    plan::Ask,
    slots::SlotSet,
};
use alloc::{vec, vec::Vec};
use spindles_block::{Instant, MEMBERS_MAX, MemberIndex, MemberSet};

/// Of so many reads of a member one is timed, once it is known and while nobody is slow.
const TIME_EVERY: u32 = 8;
/// So many first reads of a member are all timed.
const TIME_FIRST: u32 = 64;
/// Reads between two looks at a member.
const LOOK_EVERY: u32 = 16;
/// Of so many reads that could go around a slow member, one goes to it.
const PROBE_EVERY: u32 = 16;

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
    pub(crate) limits: FaultLimits,
    latencies: Vec<Latency>,
    pub(crate) members: MemberSet,
    /// Members at which a read waits for too long.
    pub(crate) stalled: MemberSet,
    /// Reads that went, or could have gone, around one.
    reads: u32,
    /// Columns that compute what a slow member holds.
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
    fn is_timed(&mut self, member: MemberIndex) -> bool {
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

impl Engine {
    /// A read of a member that began at `issued` came back.
    #[inline]
    pub(crate) fn read_took(&mut self, member: MemberIndex, issued: Instant) {
        if self.slow.is_timed(member) {
            self.time_read(member, issued);
        }
    }

    #[cold]
    fn time_read(&mut self, member: MemberIndex, issued: Instant) {
        let ns = self.now.ns_since(issued);
        let latency = &mut self.slow.latencies[usize::from(member.0)];
        latency.average_ns = latency.average_ns - (latency.average_ns >> 3) + (ns >> 3);
        if latency.reads.is_multiple_of(LOOK_EVERY) {
            self.look_at_latency(member);
        }
        if self.slow.stalled.contains(member) {
            self.look_again();
        }
    }

    fn look_at_latency(&mut self, member: MemberIndex) {
        let limits = self.slow.limits;
        if limits.slow_factor == 0 || self.shape.slots == self.shape.data {
            return;
        }
        let Some(median) = self.slow.median_ns(member, self.lost) else {
            return;
        };
        let latency = &mut self.slow.latencies[usize::from(member.0)];
        let average = latency.average_ns;
        let is_slow = self.slow.members.contains(member);
        // Once slow, it is so until it is nearly as quick as the others.
        let factor = if is_slow { 2 } else { limits.slow_factor };
        if average < limits.slow_min_ns || average <= median.saturating_mul(factor.into()) {
            latency.since = None;
            if is_slow {
                self.tell_slow(member, false);
            }
            return;
        }
        let since = *latency.since.get_or_insert(self.now);
        if !is_slow && self.now.ns_since(since) >= limits.slow_after_ns {
            self.tell_slow(member, true);
        }
    }

    fn tell_slow(&mut self, member: MemberIndex, slow: bool) {
        self.slow.members = if slow {
            self.slow.members.with(member)
        } else {
            self.slow.members.without(member)
        };
        self.choose_direct();
        self.output(Output::Event(Event::MemberSlow { member, slow }));
    }

    /// A member is out: what takes its place is another device.
    pub(crate) fn forget_latency(&mut self, member: MemberIndex) {
        self.slow.latencies[usize::from(member.0)] = Latency::default();
        self.slow.members = self.slow.members.without(member);
        self.slow.stalled = self.slow.stalled.without(member);
    }

    /// Slots that a column's read would rather go around, and those that it would rather go to, to
    /// see how their members are.
    #[cold]
    pub(crate) fn slow_slots(&mut self, id: u32) -> (SlotSet, SlotSet) {
        if self.columns[index(id)].ask != Ask::Read {
            return (SlotSet::EMPTY, SlotSet::EMPTY);
        }
        let slots = (0..).zip(self.groups[index(id)].slots());
        let slow = slots
            .filter(|(_, place)| self.slow.members.contains(place.member))
            .fold(SlotSet::EMPTY, |set, (slot, _)| set.with(slot));
        self.slow.reads = self.slow.reads.wrapping_add(1);
        let computes = !self.shape(id).copies && self.slow.around >= self.slow.limits.around_max;
        if computes || self.slow.reads.is_multiple_of(PROBE_EVERY) {
            return (SlotSet::EMPTY, slow);
        }
        (slow, SlotSet::EMPTY)
    }

    /// A column computes what a slow member holds, until it ends.
    pub(crate) fn goes_around(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        self.slow.around += u32::from(!column.around);
        column.around = true;
    }

    /// A column ended that went around a slow member.
    #[cold]
    pub(crate) fn went_around(&mut self, id: u32) {
        self.columns[index(id)].around = false;
        self.slow.around -= 1;
    }
}
