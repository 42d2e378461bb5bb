//! The loss of the journal's own device, during a replay or before.
//!
//! Only dirty regions then show the writes in flight: a resync settles them. Blocks replayed by
//! then have their latest logged contents, so no block is older than it was after the crash.

use crate::{Engine, JOURNAL_DEVICE, Mutation, RangeId, log::replay::Input, stripe::Owner};
use spindles_block::MemberError;

impl Engine {
    /// Returns true if a client's stripe range may find its answer only in a log that was not
    /// carried out. Either the log is lost, or the members to which it belongs failed, such as
    /// members without space. In an array open read-only, reads take logged contents from the log.
    #[cold]
    pub(crate) fn answer_is_in_log(&self, id: RangeId) -> bool {
        if self.mutated(Mutation::ReadUnplacedLog) {
            return false;
        }
        let asks = matches!(self.ranges[id].owner, Owner::Request(_));
        let lost = self.log.is_lost();
        asks && (lost || self.settled.lacks_log_of(self.ranges[id].group))
    }

    /// Leaves the rows of a stripe range to the next opening. It may carry out the log, or take the
    /// old or the new contents of a failed write. Until then the blocks in place are no answer.
    #[cold]
    pub(crate) fn leave_to_opening(&mut self, id: RangeId) {
        self.settled.leave(self.ranges[id].group);
    }

    /// Checks a log that was read completely. If it lies on a device of its own and is not whole,
    /// the device counts as lost.
    pub(super) fn judge_log(&mut self) {
        let replay = self.opening.replay_under_way();
        if !self.log.is_on_device() || self.log.is_lost() {
            return;
        }
        if self.log.is_stamped_since() {
            // Every logged block is in place.
            replay.drop_all();
            return;
        }
        // Everything logged before a newer log is in place, if superblocks do not count on the
        // newer log yet.
        if !replay.drop_old(self.log.tail()) {
            self.log_failed(JOURNAL_DEVICE, Err(MemberError::Corrupt));
        }
    }

    /// Handles the loss of the journal's device during the replay.
    pub(super) fn replay_lost(&mut self) {
        let in_doubt = !self.members.lost().is_empty() && !self.shape.copies;
        if in_doubt || !self.regions.are_stored() {
            // Parity can't be trusted, and a member is missing. A replay will place the logged
            // contents once the device is back. Until then no client may see contents that will
            // change.
            return self.step_replay(Input::Abandoned);
        }
        self.log.forget();
        if self.settled.everywhere() {
            self.settled.set_everywhere(false);
            self.find_unsettled(true);
        }
        self.step_replay(Input::LogLost);
    }
}
