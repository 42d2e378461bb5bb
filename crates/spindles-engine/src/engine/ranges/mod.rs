//! The executor: carries out the plan of a stripe range, step by step.
//!
//! ```text
//!  Starting ──▶ Locking ──▶ Reading ──▶ Computing ──▶ Committing ──▶ Writing ──▶ Acknowledging
//!      │        (Preparing)   │  ▲
//!      └────────lock-free─────┘  └── a read failed: another plan without that slot
//! ```
//!
//! If blocks have checksums, `Paging` comes before the reads and waits for the pages with the
//! checksums. Read blocks are verified before use (`checksums/`).
//!
//! If writes are logged, `Committing` is followed by `Logging`, and again by `Committing` when the
//! new blocks are durable in the journal (`journal/`).
//!
//! The request is answered then, and its stripe range continues on its own (`answering`). Readers
//! of the same rows wait until the whole stripe range is in place.
//!
//! Writes that wait for the same rows of one stripe are merged into the first of them. An error
//! before the commit leads to another plan; an error after it puts the member out, and the stripe
//! range continues.
//!
//! `Preparing` waits until the region is ready to be written. `Committing` waits until it is
//! durable that the array and the region are dirty, `Acknowledging` until it is durable which
//! members are out. Rarely, `Flushing` comes between `Writing` and `Acknowledging`: if something
//! that the stripe range did not write must be durable before its answer.

mod answering;
mod answers;
mod blank;
mod committing;
mod computing;
mod finishing;
mod flushing;
mod places;
mod planning;

use crate::{
    Engine, RangeId,
    ranges::{Owner, Phase},
    slots::SlotSet,
};

impl Engine {
    /// Begins a stripe range whose fields are set and whose group is filled in.
    pub(crate) fn start(&mut self, id: RangeId) {
        self.ranges[id].reset();
        self.plan_range(id);
    }

    /// Like `start`, for a stripe range in which a read of `slot` failed. A single block is not
    /// read again: a disk may try for seconds.
    pub(crate) fn start_repair(&mut self, id: RangeId, slot: u8) {
        let range = &mut self.ranges[id];
        range.reset();
        if range.blocks == 1 {
            range.rows.unreadable = SlotSet::one(slot);
        }
        self.plan_range(id);
    }

    /// Continues a stripe range that waited in `ready`.
    pub(crate) fn run(&mut self, id: RangeId) {
        match self.ranges[id].phase() {
            Phase::Locking => {
                self.ranges[id].locked = true;
                self.merge_waiting(id);
                self.plan_range(id);
            }
            Phase::Preparing => self.plan_range(id),
            Phase::Paging => self.paged(id),
            Phase::Committing if self.ranges[id].owner == Owner::Replay => {
                self.record_logged(id);
            }
            Phase::Committing => self.commit(id),
            Phase::Acknowledging => self.acknowledge(id),
            phase => panic!("a range in phase {phase:?} is not ready"),
        }
    }
}
