//! Makes redundancy agree with data again, after creation or a crash: every stripe range is read,
//! and blocks that disagree are written. A client's read of unsettled rows settles them first.

use super::Job;
use crate::{
    Engine, Mutation, RangeId,
    jobs::{Place, Walk},
    output::{Event, Output},
    plan::Ask,
};

pub(crate) static JOB: Job = Job {
    name: "resync",
    about: "makes redundancy agree with data again, after a crash",
    ask: Ask::Settle,
    next_group: |engine, group| engine.regions.next_unsettled(group),
    advanced: |_| {},
    ended: Engine::resync_ended,
    stopped: None,
    waits: None,
    turn: None,
};

impl Engine {
    /// Begins the job. An array open read-only settles only the rows that are read.
    pub(crate) fn begin_resync(&mut self) {
        if self.settings.read_only {
            return;
        }
        self.jobs.begin(&JOB, Place::default());
        self.outbox.put(Output::Event(Event::ResyncStarted));
    }

    /// Marks rows as unsettled after a write failed part-way: members hold the old or the new
    /// contents. As after a crash the rows are settled before they are read, and the array is not
    /// clean.
    #[cold]
    pub(crate) fn doubt_rows(&mut self, id: RangeId) {
        if self.shape.slots == 1 && !self.has_checksums() {
            return; // A single block without a checksum can't disagree.
        }
        if self.writes_nothing() {
            if !self.mutated(Mutation::TrustFailedWrites) {
                self.leave_to_opening(id);
            }
            return;
        }
        let (group, row) = (self.ranges[id].group, self.ranges[id].low);
        self.regions.unsettle(group);
        self.settled.set_everywhere(false);
        self.jobs.hold(&JOB, Place::new(group, row));
    }

    fn resync_ended(&mut self, walk: Walk) {
        let event = if self.settled.resync_ended(&walk) {
            self.forget_settled();
            self.regions.want_sweep();
            self.log_from_now_on();
            Event::ResyncDone {
                mismatches: walk.mismatches(),
            }
        } else {
            // The mark does not move: rows above it are settled again at each read.
            Event::ResyncIncomplete {
                unsettled: walk.failed().max(1),
            }
        };
        self.outbox.put(Output::Event(event));
    }

    /// Finds the unsettled regions: written regions not known to be settled, and with `dirty_too`
    /// also the dirty regions. Begins a resync if a region is unsettled.
    pub(crate) fn find_unsettled(&mut self, dirty_too: bool) {
        let any = self.regions.find_unsettled(dirty_too);
        self.settled.set_everywhere(!any);
        if any {
            self.begin_resync();
        }
    }
}
