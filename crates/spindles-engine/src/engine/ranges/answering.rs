//! Answers writes of parts of rows when they are durable in the log, before they are in their
//! places.
//!
//! The client's data is copied to scratch space first: with the answer, the client may reuse its
//! buffer.

use crate::{Engine, Mutation, RangeId, plan::Ask, ranges::Owner};
use core::ops::Range;
use spindles_layout::GroupIndex;

impl Engine {
    /// Returns true if a stripe range, about to write to its places, may be answered at once: all
    /// of it is durable in the log, and nothing else must be durable before the answer.
    pub(super) fn may_answer(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let Owner::Request(request) = range.owner else {
            return false;
        };
        let logged = range.log.segment.is_some() && range.ask == Ask::Write && !range.shape.copies;
        let settles = range.rows.settling.is_under_way();
        if !logged || settles || request == self.own_request() || self.writes_zeros(id) {
            return false;
        }
        let last = range.low + range.blocks == range.end;
        let recorded = !self.metadata.busy() && self.bad_blocks_are_stored();
        let not_held = self.slots_not_held(id, range.end);
        last && recorded
            && range.error.is_none()
            && not_held.count() <= u32::from(range.shape.parity())
            && !self.bad.any()
            // The log may be lost with its device. A durable write must then be durable in its
            // place too.
            && !self.log.is_on_device()
            && !self.rests_on_caches(id)
    }

    /// Answers a stripe range whose data is in scratch space, unless something came in between.
    pub(super) fn answer_logged(&mut self, id: RangeId) {
        if !self.may_answer(id) {
            return self.commit(id);
        }
        let range = &mut self.ranges[id];
        let Owner::Request(request) = range.owner else {
            panic!("what is answered belongs to a request");
        };
        let merged = core::mem::replace(&mut range.merged, RangeId::NONE);
        self.ranges.note_answered(id);
        self.request_part_done(request, None);
        self.finish_merged(merged, None);
        self.commit(id);
    }

    /// Returns true if answered rows may not be in their places yet, so that a reader must wait.
    #[inline]
    pub(crate) fn awaits_places(&self, id: RangeId, group: GroupIndex, rows: Range<u32>) -> bool {
        self.ranges.answered_count() > 0
            && !self.mutated(Mutation::ReadUnplaced)
            && self.locks.others(id, group, rows.start, rows.end)
    }
}
