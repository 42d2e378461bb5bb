//! Puts members out: after an error, on command, and with the I/O of the engine itself.

use crate::{
    Engine, Mutation,
    engine::jobs::rebuild,
    output::{Event, OutReason, Output},
};
use spindles_block::{MemberError, MemberIndex, MemberResult};

impl Engine {
    /// Puts a member out after an error or on command. Returns true if the array continues without
    /// it. Otherwise copies keep their last member and answer its errors one by one, and an array
    /// with parity has failed.
    pub(crate) fn put_out(&mut self, member: MemberIndex, reason: OutReason) -> bool {
        if self.members.missing().contains(member) {
            return !self.has_failed();
        }
        let was_filled = self.members.lost().contains(member);
        let lost = self.members.lost().with(member);
        let survives = self.geometry.survives(lost);
        if !survives && self.shape.copies {
            if let OutReason::Error(error) = reason {
                self.outbox
                    .put(Output::Event(Event::MemberFault { member, error }));
            }
            return false;
        }
        let lacks_space = reason == OutReason::Error(MemberError::NoSpace);
        if lacks_space && (!survives || !self.is_settled()) {
            // Keep the member: space may become free later, and the member may hold the only good
            // blocks of rows in doubt.
            let error = MemberError::NoSpace;
            self.outbox
                .put(Output::Event(Event::MemberFault { member, error }));
            self.lacks_space = true;
            self.stop_writing();
            return false;
        }
        if self.mutated(Mutation::ForgetDoubt) {
            self.clear_all_bits();
        }
        self.members.put_out(member, reason);
        self.mark_bad_blocks(member);
        self.forget_faults(member);
        if let Some(pages) = &mut self.pages {
            pages.abandon(member);
        }
        if was_filled {
            self.rebuild_lost();
        }
        self.outbox
            .put(Output::Event(Event::MemberOut { member, reason }));
        self.replaced_is_out(member);
        if survives {
            self.want_update();
        } else {
            self.outbox
                .put(Output::Event(Event::ArrayFailed { missing: lost }));
            self.stop_writing(); // The failure is not recorded: members may come back.
        }
        survives
    }

    /// Puts a member out whose I/O failed, or stops writing if the array needs the member.
    pub(crate) fn system_io_failed(&mut self, member: MemberIndex, result: MemberResult) {
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.stop_writing();
        }
    }

    /// Puts a holder out whose I/O failed.
    pub(crate) fn stage_io_failed(&mut self, holder: MemberIndex, result: MemberResult) {
        if let Err(error) = result {
            self.put_out(holder, OutReason::Error(error));
        }
    }

    /// Handles the loss of a device that was being filled.
    pub(crate) fn rebuild_lost(&mut self) {
        self.rebuild.loses(self.members.missing());
        if self.members.being_filled().is_empty() {
            self.jobs.stop(&rebuild::JOB);
        }
    }
}
