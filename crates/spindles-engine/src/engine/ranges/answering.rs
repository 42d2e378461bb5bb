//! Answers writes of parts of rows when they are durable in the log, before they are in their
//! places.
//!
//! The client's data is copied to scratch space first: with the answer, the client may reuse its
//! buffer.

use crate::{
    Engine, RangeId,
    plan::{Ask, Step},
    stripe::{Next, Owner, Stage},
};

impl Engine {
    /// Returns true if a stripe range, about to write to its places, may be answered at once: all
    /// of it is durable in the log, and nothing else must be durable before the answer.
    pub(super) fn may_answer(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let Owner::Request(request) = range.owner else {
            return false;
        };
        let logged = range.is_logged() && range.ask == Ask::Write && !range.shape.copies;
        if !logged || request == self.own_request() || self.requests.writes_zeros(&self.ranges, id)
        {
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

    /// Copies the data of a logged stripe range to scratch space, to answer the client.
    pub(super) fn keep_data(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        let segment = range.stage().segment().expect("it is logged");
        self.compute(id, Step::Keep, Stage::Keeping { segment });
    }

    /// Answers a stripe range whose data is in scratch space, unless something came in between.
    pub(super) fn answer_logged(&mut self, id: RangeId) -> Next {
        let segment = self.ranges[id].stage().segment().expect("it is logged");
        if !self.may_answer(id) {
            let range = &mut self.ranges[id];
            range.plan.steps = range.plan.steps.without(Step::Keep);
            range.move_to(Stage::Logged { segment });
            return Next::Logged;
        }
        let range = &mut self.ranges[id];
        let Owner::Request(request) = range.owner else {
            panic!("what is answered belongs to a request");
        };
        let merged = core::mem::replace(&mut range.merged, RangeId::NONE);
        range.move_to(Stage::Kept { segment });
        self.ranges.note_answered(id);
        self.request_part_done(request, None);
        self.finish_merged(merged, None);
        Next::Kept
    }
}
