//! Handles the results of stripe ranges' member I/O: continues with the next phase, or another
//! plan.

use crate::{
    Engine, RangeId,
    output::OutReason,
    plan::{Ask, Step},
    slots::SlotSet,
    stripe::{Next, Owner, Stage},
};
use spindles_block::{MemberError, MemberIndex, MemberResult, RequestError};

impl Engine {
    /// Handles the result of a member I/O of a stripe range.
    #[inline]
    pub(crate) fn range_io_done(&mut self, id: RangeId, slot: u8, result: MemberResult) -> Next {
        let range = &mut self.ranges[id];
        assert!(range.pending > 0, "a member I/O came back twice");
        range.pending -= 1;
        if range.stage() == Stage::Direct {
            if range.shape.mirrors() {
                self.members.load_mut(range.direct.member).in_flight -= 1;
            }
            let (ask, member, issued) = (range.ask, range.direct.member, range.reads.issued);
            return match result {
                Ok(()) => {
                    if ask == Ask::Read {
                        self.read_took(member, issued);
                    }
                    if self.has_checksums() {
                        self.verify_direct(id);
                    } else {
                        self.finish_direct(id);
                    }
                    Next::Wait
                }
                Err(error) => self.direct_failed(id, slot, error),
            };
        }
        self.planned_io_done(id, slot, result)
    }

    /// Handles the result of a member I/O of a stripe range with a plan.
    #[inline(never)]
    fn planned_io_done(&mut self, id: RangeId, slot: u8, result: MemberResult) -> Next {
        let range = &self.ranges[id];
        let (stage, owner, done) = (range.stage(), range.owner, range.pending == 0);
        if !matches!(stage, Stage::Flushing(_)) && range.shape.mirrors() {
            let member = self.ranges.member_of_io(id, slot);
            self.members.load_mut(member).in_flight -= 1;
        }
        if owner == Owner::Replay {
            self.replay_io_done(id, slot, result);
            return Next::Wait;
        }
        let range = &mut self.ranges[id];
        if matches!(stage, Stage::Reading { .. }) && range.ask == Ask::Read {
            range.reads.awaited = range.reads.awaited.minus(SlotSet::one(slot));
            let issued = range.reads.issued;
            self.read_took(self.ranges.member_of_io(id, slot), issued);
        }
        if let Err(error) = result {
            self.column_io_failed(id, slot, self.ranges.member_of_io(id, slot), error);
        }
        if done {
            self.range_ios_done(id)
        } else {
            Next::Wait
        }
    }

    /// Continues a stripe range whose member I/O is all back.
    pub(crate) fn range_ios_done(&mut self, id: RangeId) -> Next {
        let range = &mut self.ranges[id];
        match range.stage() {
            Stage::Reading { failed: true } => {
                if range.rows.settling.is_under_way() {
                    // Decide each row from its own readable blocks.
                    self.ranges[id].halve();
                } else if range.ask == Ask::Scrub {
                    let missing = self.ranges.missing_slots(&self.members, id);
                    self.ranges[id].narrow(missing);
                }
                self.plan_range(id)
            }
            Stage::Reading { failed: false } => self.next_step(id, Some(Step::Read)),
            Stage::Placing(_) => self.written(id),
            Stage::Flushing(_) => {
                self.flush_of_range_ended(id);
                Next::Wait
            }
            stage => panic!("a member I/O came back in stage {stage:?}"),
        }
    }

    fn column_io_failed(&mut self, id: RangeId, slot: u8, member: MemberIndex, error: MemberError) {
        if matches!(self.ranges[id].stage(), Stage::Reading { .. }) {
            self.ranges[id].read_fails();
            return self.read_failed(id, slot, member, error);
        }
        if self.ranges[id].repairs() && self.rewrite_refused(id, slot, error) {
            return;
        }
        if !self.put_out(member, OutReason::Error(error)) {
            self.ranges[id].error = Some(RequestError::of_write(error));
        }
    }

    fn read_failed(&mut self, id: RangeId, slot: u8, member: MemberIndex, error: MemberError) {
        let range = &mut self.ranges[id];
        range.rows.unreadable = range.rows.unreadable.with(slot);
        range.seen.corrupt |= error == MemberError::Corrupt;
        match error {
            MemberError::Gone | MemberError::NoSpace => {
                self.put_out(member, OutReason::Error(error));
            }
            MemberError::Medium | MemberError::Corrupt => self.note_fault(id, slot, member, error),
        }
    }

    fn direct_failed(&mut self, id: RangeId, slot: u8, error: MemberError) -> Next {
        self.unpin_pages(id);
        let range = &mut self.ranges[id];
        range.reset();
        range.move_to(Stage::Starting);
        let (ask, member, group) = (range.ask, range.direct.member, range.group);
        if ask == Ask::Write {
            self.put_out(member, OutReason::Error(error));
            self.ranges[id].error = Some(RequestError::of_write(error));
            return self.finish(id);
        }
        self.ranges.take_group(&self.geometry, id, group);
        self.read_failed(id, slot, member, error);
        self.plan_range(id)
    }
}
