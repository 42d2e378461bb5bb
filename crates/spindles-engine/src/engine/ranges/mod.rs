//! The executor: takes the steps of a stripe range's plan (`plan.rs`), from stage to stage
//! (`stripe/stage.rs`).
//!
//! ```text
//!  Starting ──▶ Locking ──▶ Reading ──▶ Computing ──▶ Begin ──▶ Placing ──▶ Acknowledging
//!      │        (Preparing)   │  ▲
//!      └────────lock-free─────┘  └── a read failed: another plan without that slot
//! ```
//!
//! If blocks have checksums, `Paging` comes before the reads and waits for the pages with the
//! checksums. Read blocks are verified before use (`checksums/`).
//!
//! Writes that wait for the same rows of one stripe are merged into the first of them. An error
//! before the commit leads to another plan; an error after it puts the member out, and the stripe
//! range continues.
//!
//! The stages between `Computing` and `Acknowledging`, for each kind of work. *Flush* says when
//! `Flushing` comes between `Placing` and `Acknowledging`.
//!
//! ```text
//! work                        waits for   stages                                      flush
//! read                        -           none: the rows are done                     -
//! write, bare                 all         Begin                                       listed
//! write, with checksums:
//!   whole rows, copies        all         Begin, Checksumming, Summed                 durable,
//!                                                                                     first,
//!                                                                                     listed
//!   part of rows, no log      all         Begin, Checksumming, Summed                 the same
//!   a member is lost since    all         Begin, Checksumming, Summed, as logged      as logged
//! write, logged               all         Begin, Checksumming, Queued, Logging,       caches,
//!                                         Logged                                      listed
//!   answered early            all         Logged, Keeping, Kept                       -
//!   the log's device is lost  -           Logging, Queued, as logged by the members   as logged
//!   the log has ended         -           Queued, Begin: gives up                     -
//! rows in doubt:
//!   copies, no checksums      all         Begin, with FUA                             -
//!   parity, no checksums      all         Begin                                       -
//!   with checksums            all         Agree                                       see below
//! rebuild                     -           Begin, (Checksumming, Summed)               listed
//! replace                     -           the same, to the new device only            listed
//! repair, by a scrub or read  -           the same, with FUA                          listed
//! replay                      members     none                                        at its end
//! replay of a broken record   members     Queued, Logging, Logged                     at its end
//! ```
//!
//! - *All*: array and region are dirty durably. If the blocks are logged, superblocks also record
//!   which members are out. This is checked again at `Summed`, `Logged` and `Kept`.
//! - *Members*: superblocks record which members are out.
//! - *Durable*: the client asked for it. *Listed*: blocks are in the bad-block list. *First*: the
//!   rows were never written, and their checksums follow the blocks. *Caches*: a durable write
//!   rests on blocks that may be in caches only, or on the log's own device.
//! - Without a slot left to write, or if nothing can be written, all stages lead to
//!   `Acknowledging`, for a client's write with an error.
//! - A write is logged if it replaces a part of its rows, or the rows alone do not show how far it
//!   got (`stripe/commit.rs`). Without parity nothing is logged.
//! - Settled rows are acknowledged, then flushed if something changed, and acknowledged again. Then
//!   they are planned again, for the work that met them.
//!
//! The request is answered at `Kept`, and its stripe range continues on its own (`answering`).
//! Readers of the same rows wait until the whole stripe range is in place.
//!
//! `Preparing` waits until the region is ready to be written, `Acknowledging` until it is durable
//! which members are out.

mod answering;
mod answers;
mod blank;
mod committing;
mod computing;
mod direct;
mod finishing;
mod flushing;
mod places;
mod planning;

use crate::{
    Engine, RangeId,
    plan::Step,
    slots::SlotSet,
    stripe::{Next, Owner, RowState, Stage},
};

use spindles_block::ComputeResult;

impl Engine {
    /// Begins a stripe range whose fields are set and whose group is filled in.
    pub(crate) fn start(&mut self, id: RangeId) {
        self.ranges[id].reset();
        let next = self.plan_range(id);
        self.go_on(id, next);
    }

    /// Like `start`, for a stripe range in which a read of `slot` failed. A single block is not
    /// read again: a disk may try for seconds.
    pub(crate) fn start_repair(&mut self, id: RangeId, slot: u8) {
        let range = &mut self.ranges[id];
        range.reset();
        if range.blocks == 1 {
            range.rows.unreadable = SlotSet::one(slot);
        }
        let next = self.plan_range(id);
        self.go_on(id, next);
    }

    /// Lets a stripe range do what comes next, until it waits or ends.
    #[inline]
    pub(crate) fn go_on(&mut self, id: RangeId, next: Next) {
        if next != Next::Wait {
            self.follow(id, next);
        }
    }

    #[inline(never)]
    fn follow(&mut self, id: RangeId, mut next: Next) {
        loop {
            next = match next {
                Next::Wait => return,
                Next::Plan => self.plan_range(id),
                Next::CarryOut => self.carry_out_plan(id),
                Next::After(step) => self.next_step(id, Some(step)),
                Next::SettlingVerified => self.settling_verified(id),
                Next::Agree => self.write_settled_rows(id),
                Next::Logged => self.write_logged(id),
                Next::Kept => self.write_kept(id),
                Next::Flush(past) => {
                    self.flush_for(id, past);
                    return;
                }
                Next::Acknowledge(past) => self.acknowledge_past(id, past),
                Next::RowsDone => self.finish_rows(id),
                Next::RowsSettled => self.rows_settled(id),
                Next::Done => self.finish(id),
            };
        }
    }

    /// Continues a stripe range that waited in `ready`.
    pub(crate) fn run(&mut self, id: RangeId) {
        let next = self.woken(id);
        self.go_on(id, next);
    }

    fn woken(&mut self, id: RangeId) -> Next {
        match self.ranges[id].stage() {
            Stage::Locking => {
                self.ranges[id].locked = true;
                self.merge_waiting(id);
                self.plan_range(id)
            }
            Stage::Preparing => self.plan_range(id),
            Stage::Paging => self.paged(id),
            Stage::DirectPaging => self.paged_direct(id),
            Stage::Begin | Stage::Logged { .. } if self.ranges[id].owner == Owner::Replay => {
                self.record_logged(id);
                Next::Wait
            }
            Stage::Begin => self.begin_write(id),
            Stage::Agree => self.write_settled_rows(id),
            Stage::Summed => self.write_summed(id),
            Stage::Logged { .. } => self.write_logged(id),
            Stage::Kept { .. } => self.write_kept(id),
            Stage::Acknowledging(past) => self.acknowledge_past(id, past),
            stage => panic!("a range in stage {stage:?} is not ready"),
        }
    }

    /// Continues a stripe range whose pages are pinned now.
    pub(crate) fn paged(&mut self, id: RangeId) -> Next {
        let range = &self.ranges[id];
        if range.owner == Owner::Replay {
            self.replay_paged(id);
            return Next::Wait;
        }
        if range.rows.state == RowState::Looking {
            return self.looked_at_rows(id);
        }
        let needed = range.plan.reads.or(range.plan.writes);
        if needed
            .and(self.ranges.missing_slots(&self.members, id))
            .is_empty()
        {
            return self.carry_out_plan(id);
        }
        self.plan_range(id)
    }

    /// Handles the result of a computation of a stripe range.
    pub(crate) fn range_computed(&mut self, id: RangeId, result: ComputeResult) -> Next {
        let range = &mut self.ranges[id];
        let stage = range.stage();
        let Some(step) = stage.step() else {
            panic!("a computation came back in stage {stage:?}");
        };
        if range.owner == Owner::Replay {
            self.replay_computed(id, step);
            return Next::Wait;
        }
        let settles = range.rows.settling.is_under_way() && !range.shape.copies;
        match (stage, step) {
            (Stage::Covered | Stage::Copying | Stage::Summing, _) => self.staged_computed(id),
            (Stage::Checksumming { logs }, _) => self.checksums_ready(id, logs),
            (_, Step::Keep) => self.answer_logged(id),
            (Stage::Verifying, _) => self.verified_direct(id),
            (_, Step::Verify) => self.verified(id),
            (_, Step::Recover | Step::Encode | Step::Prove | Step::Witness) if settles => {
                self.settling_computed(id, step)
            }
            (_, Step::Prove) => self.recovered(id),
            (_, Step::Locate) if result != ComputeResult::Done => self.scrub_disagrees(id, result),
            (_, Step::Compare) => self.compared(id, result),
            (_, step) => self.next_step(id, Some(step)),
        }
    }

    /// Continues when the blocks that were read are compared with the correct ones.
    fn compared(&mut self, id: RangeId, result: ComputeResult) -> Next {
        let range = &mut self.ranges[id];
        match result {
            ComputeResult::Done => range.plan.set_writes(range.plan.writes_always),
            ComputeResult::Mismatch => range.seen.mismatch = true,
            ComputeResult::Located(_) => panic!("nothing was to be located"),
        }
        self.next_step(id, Some(Step::Compare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{REPLACEMENT, SLOT_BITS, SYSTEM_IO};
    use spindles_block::MemberIoId;
    use std::string::{String, ToString};

    impl Engine {
        /// Returns the stripe range of an I/O, and its plan as text. `None` for other I/O.
        pub fn printed_plan(&self, io: MemberIoId) -> Option<(u32, String)> {
            let id = RangeId(io.0 >> SLOT_BITS);
            if io.0 & (SYSTEM_IO | REPLACEMENT) != 0 || self.ranges[id].stage() == Stage::Direct {
                return None;
            }
            let plan = &self.ranges[id].plan;
            Some((id.0, plan.describe(self.ranges.group(id)).to_string()))
        }
    }
}
