//! Decisions of a stripe range that change nothing else: to give up, to read rows again, or to
//! settle rows with known contents.

use super::{Next, Stage, StripeRange};
use crate::{
    plan::{Step, Steps},
    recovery::rows::Settling,
    slots::SlotSet,
};
use spindles_block::RequestError;

impl StripeRange {
    /// Ends without an answer: nothing can provide what it asks for.
    pub(crate) fn refuse(&mut self) -> Next {
        self.error = Some(RequestError::BeyondTolerance);
        Next::Done
    }

    /// Ends, because too much of its rows is lost or corrupt.
    pub(crate) fn give_up(&mut self) -> Next {
        let error = if self.seen.corrupt {
            RequestError::Corrupt
        } else {
            RequestError::BeyondTolerance
        };
        self.error.get_or_insert(error);
        Next::Done
    }

    /// Gives up old contents that are not proved, and plans the row again without them.
    pub(crate) fn leave_old_contents(&mut self) -> Next {
        self.rows.old_contents = SlotSet::EMPTY;
        self.rows.made_checksums = SlotSet::EMPTY;
        Next::Plan
    }

    /// Reads rows in doubt again, because recovered data may have overwritten blocks in the
    /// buffers.
    pub(crate) fn read_again(&mut self, disproved: u32) -> Next {
        self.rows.settling = Settling::Reading { disproved };
        self.plan.reads = self.rows.read_checksums.minus(self.rows.zeros);
        self.plan.recover = SlotSet::EMPTY;
        self.plan.steps = Steps::NONE.with(Step::Read).with(Step::Verify);
        Next::CarryOut
    }

    /// Writes these slots. The rows are settled then. If `changed`, a block or a checksum changes.
    pub(crate) fn settle_with(&mut self, writes: SlotSet, changed: bool) -> Next {
        self.rows.settling = Settling::Agreeing;
        self.plan.steps = Steps::NONE.with_if(Step::Flush, changed);
        self.plan.recover = SlotSet::EMPTY;
        self.plan.encode = SlotSet::EMPTY;
        self.plan.set_writes(writes);
        self.plan.writes_always = writes;
        if writes.is_empty() {
            return Next::RowsDone;
        }
        self.move_to(Stage::Agree);
        Next::Agree
    }
}
