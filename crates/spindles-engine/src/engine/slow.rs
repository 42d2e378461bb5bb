//! Detects members whose read times are much longer than those of their peers. Slow members are
//! reported, and read around if redundancy allows. At intervals a read still goes to a slow member,
//! to see whether the member is quick again.
//!
//! `hedges.rs` handles members that do not answer at all for a while.

use crate::{
    Engine, RangeId,
    output::{Event, Output},
};
use spindles_block::{Instant, MemberIndex};
use spindles_format::ErrorCounts;

impl Engine {
    /// Times a read of a member that began at `issued` and came back.
    #[inline]
    pub(crate) fn read_took(&mut self, member: MemberIndex, issued: Instant) {
        if self.slow.is_timed(member) {
            self.time_read(member, issued);
        }
    }

    #[cold]
    fn time_read(&mut self, member: MemberIndex, issued: Instant) {
        let ns = self.now.ns_since(issued);
        if self.slow.took(member, ns) {
            self.look_at_latency(member);
        }
        if self.slow.stalled().contains(member) {
            self.hedges.look_by(self.now);
        }
    }

    fn look_at_latency(&mut self, member: MemberIndex) {
        if self.slow.limits().slow_factor == 0 || self.shape.slots == self.shape.data {
            return;
        }
        if let Some(slow) = self.slow.judge(member, self.members.lost(), self.now) {
            self.choose_direct();
            self.outbox
                .put(Output::Event(Event::MemberSlow { member, slow }));
            if slow {
                self.count_slow_answer(member);
            }
        }
    }

    /// Counts a slow answer of a member: a hedged read, or the event that the member became slow.
    pub(crate) fn count_slow_answer(&mut self, member: MemberIndex) {
        let slow_answers = 1;
        self.count_errors(
            member,
            &ErrorCounts {
                slow_answers,
                ..ErrorCounts::NONE
            },
        );
    }

    /// Notes that a stripe range computes the contents of a slow member, until it ends.
    pub(crate) fn reads_around(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        if !core::mem::replace(&mut range.reads.around, true) {
            self.slow.around_begins();
        }
    }

    /// Notes the end of a stripe range that went around a slow member.
    #[cold]
    pub(crate) fn read_around_ended(&mut self, id: RangeId) {
        self.ranges[id].reads.around = false;
        self.slow.around_ends();
    }
}
