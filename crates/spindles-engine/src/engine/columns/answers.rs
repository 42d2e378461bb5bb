//! Member I/O of columns that came back: on to the next phase, or to another plan.

use crate::{
    Engine,
    columns::{Owner, Phase},
    index,
    output::OutReason,
    plan::{Ask, Work},
    slots::SlotSet,
};
use spindles_block::{MemberError, MemberIndex, MemberResult, RequestError};

impl Engine {
    /// A member I/O of a column came back.
    #[inline]
    pub(crate) fn column_io_done(&mut self, id: u32, slot: u8, result: MemberResult) {
        let column = &mut self.columns[index(id)];
        assert!(column.pending > 0, "a member I/O came back twice");
        column.pending -= 1;
        if column.phase() == Phase::Direct {
            if column.shape.mirrors() {
                self.members[usize::from(column.member.0)].load.in_flight -= 1;
            }
            let (ask, member, issued) = (column.ask, column.member, column.issued);
            return match result {
                Ok(()) => {
                    if ask == Ask::Read {
                        self.read_took(member, issued);
                    }
                    if self.columns[index(id)].direct {
                        return self.verify_direct(id);
                    }
                    self.finish_direct(id);
                }
                Err(error) => self.direct_failed(id, slot, error),
            };
        }
        self.planned_io_done(id, slot, result);
    }

    /// One of a column with a plan came back.
    #[inline(never)]
    fn planned_io_done(&mut self, id: u32, slot: u8, result: MemberResult) {
        let column = &self.columns[index(id)];
        let (phase, owner, done) = (column.phase(), column.owner, column.pending == 0);
        let member = match phase {
            Phase::Flushing => MemberIndex(slot),
            _ => self.groups[index(id)].slots()[usize::from(slot)].member,
        };
        if phase != Phase::Flushing && column.shape.mirrors() {
            self.members[usize::from(member.0)].load.in_flight -= 1;
        }
        match (phase, owner) {
            (Phase::Logging, _) => return self.journal_written(member, result),
            (_, Owner::Replay) => return self.replay_io_done(id, slot, result),
            _ => {}
        }
        let column = &mut self.columns[index(id)];
        if phase == Phase::Reading && column.ask == Ask::Read {
            column.reading = column.reading.minus(SlotSet::one(slot));
            let issued = column.issued;
            self.read_took(member, issued);
        }
        match result {
            Ok(()) => {}
            Err(error) => self.column_io_failed(id, slot, member, error),
        }
        if done {
            self.column_ios_done(id);
        }
    }

    /// All member I/O of a column is back.
    pub(crate) fn column_ios_done(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        match column.phase() {
            Phase::Reading if column.read_failed => {
                column.read_failed = false;
                if column.settling.is_under_way() {
                    // Each row is decided by what can be read of that row.
                    self.halve(id);
                } else if column.ask == Ask::Scrub {
                    self.narrow(id);
                }
                self.plan_column(id);
            }
            Phase::Reading if self.pages.is_some() || self.overlay.is_some() => {
                self.work_step(id, Work::Verify);
            }
            Phase::Reading => self.work(id, None),
            Phase::Writing => self.written(id),
            Phase::Flushing => {
                if !self.lost.is_empty() && !self.geometry.survives(self.lost) {
                    self.columns[index(id)].error = Some(RequestError::BeyondTolerance);
                }
                if self.columns[index(id)].error.is_none() {
                    self.flushes.ended(self.columns[index(id)].covers);
                }
                self.acknowledge(id);
            }
            phase => panic!("a member I/O came back in phase {phase:?}"),
        }
    }

    fn column_io_failed(&mut self, id: u32, slot: u8, member: MemberIndex, error: MemberError) {
        if self.columns[index(id)].phase() == Phase::Reading {
            return self.read_failed(id, slot, member, error);
        }
        if self.repairs(id) && self.rewrite_refused(id, slot, error) {
            return;
        }
        if !self.put_out(member, OutReason::Error(error)) {
            self.columns[index(id)].error = Some(RequestError::of_write(error));
        }
    }

    fn read_failed(&mut self, id: u32, slot: u8, member: MemberIndex, error: MemberError) {
        let column = &mut self.columns[index(id)];
        column.read_failed = true;
        column.unreadable = column.unreadable.with(slot);
        column.corrupt |= error == MemberError::Corrupt;
        if self.log_failed_to_read(id, slot, error) {
            return;
        }
        match error {
            MemberError::Gone | MemberError::NoSpace => {
                self.put_out(member, OutReason::Error(error));
            }
            MemberError::Medium | MemberError::Corrupt => self.note_fault(id, slot, member, error),
        }
    }

    fn direct_failed(&mut self, id: u32, slot: u8, error: MemberError) {
        self.let_go_pages(id);
        let column = &mut self.columns[index(id)];
        column.reset();
        column.move_to(Phase::Starting);
        let (ask, member, group) = (column.ask, column.member, column.group);
        if ask == Ask::Write {
            self.put_out(member, OutReason::Error(error));
            self.columns[index(id)].error = Some(RequestError::of_write(error));
            return self.finish(id);
        }
        self.take_group(id, group);
        self.read_failed(id, slot, member, error);
        self.columns[index(id)].read_failed = false;
        self.plan_column(id);
    }
}
