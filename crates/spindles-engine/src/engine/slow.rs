//! Members that are much slower than their peers: known by how long their reads take, told, and read
//! around where redundancy allows. A read goes to such a member now and then all the same, to see
//! whether it is quick again.
//!
//! Of a member that does not answer at all for a while: `hedges.rs`.

use crate::{
    Engine, index,
    output::{Event, Output},
    plan::Ask,
    slots::SlotSet,
    slow::{LOOK_EVERY, Latency},
};
use spindles_block::{Instant, MemberIndex};

/// Of so many reads that could go around a slow member, one goes to it.
const PROBE_EVERY: u32 = 16;

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
