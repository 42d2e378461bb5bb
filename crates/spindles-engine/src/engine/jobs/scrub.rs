//! Reads all rows and compares their data with the redundancy, under the stripe lock. Unreadable
//! blocks are reconstructed from the rest. A chunk that contradicts all others is reconstructed
//! too, if the redundancy suffices to identify it. Otherwise a disagreement is reported and left
//! alone: parity recomputed from rotten data would make the rot the truth.
//!
//! A stripe range with a flaw is read again in halves, down to single blocks. This locates each
//! flaw exactly, and several flaws in a stripe range don't hide each other. The same code, without
//! a walk, rewrites places at which a client met a read error (`faults.rs`).

use super::Job;
use crate::{
    Engine, RangeId,
    engine::Closing,
    jobs::scrub::{Context, Repair, Scrub},
    output::{CommandError, Event, Output},
    plan::Ask,
    stripe::{Next, Owner},
};
use spindles_block::{ComputeResult, RequestError};

pub(crate) static JOB: Job = Job {
    name: "scrub",
    about: "reads everything, compares it, and repairs what is known to be wrong",
    ask: Ask::Scrub,
    next_group: |engine, group| engine.regions.next_written(group),
    advanced: Engine::scrub_advanced,
    ended: |engine, _| engine.scrub_ended(),
    stopped: Some(Engine::scrub_stopped),
    waits: Some(|engine, ends| engine.inspects() || ends && engine.scrub_is_ending()),
    turn: None,
};

impl Engine {
    /// Returns true if redundancy or checksums exist to compare the contents of members with.
    /// Otherwise a scrub inspects only the metadata.
    pub fn compares(&self) -> bool {
        self.geometry.redundancy() > 0 || self.has_checksums()
    }

    /// Checks whether a scrub may begin.
    ///
    /// # Errors
    ///
    /// There is nothing to inspect, too much is lost, or a scrub is under way already.
    pub fn may_scrub(&self) -> Result<(), CommandError> {
        if !self.compares() && self.metadata.persistence().is_none() {
            return Err(CommandError::NoRedundancy);
        }
        if self.has_failed() {
            return Err(CommandError::BeyondTolerance);
        }
        let busy = self.jobs.walk(&JOB).is_busy() || !self.inspection.is_quiet();
        if self.closing != Closing::Open || busy {
            return Err(CommandError::JobGoing);
        }
        Ok(())
    }

    pub(crate) fn begin_scrub(&mut self, scrub: Scrub) {
        let context = self.scrub_context();
        let place = self.scrub.begin(scrub, &self.geometry, context);
        let from = self.scrub.found().from;
        self.outbox.put(Output::Event(Event::ScrubStarted { from }));
        self.begin_inspection();
        self.jobs.begin(&JOB, place);
    }

    fn scrub_context(&self) -> Context {
        Context {
            block_size: self.settings.block_size,
            compares: self.compares(),
            read_only: self.settings.read_only,
            recorded_left: self.recorded_left_blocks(),
        }
    }

    /// Returns the number of wrong blocks and disagreements that the superblocks record.
    fn recorded_left_blocks(&self) -> u64 {
        let persistence = self.metadata.persistence();
        persistence.map_or(0, |persistence| persistence.array.scrub_left_blocks)
    }

    /// Returns the number of wrong blocks and disagreements that are not repaired, as the
    /// superblocks will record it.
    pub(crate) fn left_blocks(&self) -> u64 {
        self.recorded_left_blocks().max(self.scrub.left_blocks())
    }

    fn scrub_advanced(&mut self) {
        let group = self.jobs.walk(&JOB).mark().group();
        let context = self.scrub_context();
        if self.scrub.advances(group, &self.geometry, context) {
            self.want_update();
        }
    }

    fn scrub_ended(&mut self) {
        if self.scrub.is_check() {
            return self
                .outbox
                .put(Output::Event(Event::ScrubDone(self.scrub.found())));
        }
        self.scrub.ends();
        let now_s = self.metadata.since_1970_s(self.now);
        let mut changed = self.note_scrub_mark();
        if let Some(persistence) = self.metadata.persistence_mut() {
            let array = &mut persistence.array;
            changed |= now_s.is_some() || array.scrub_left_blocks != self.scrub.left_blocks();
            array.last_scrub_s = now_s.unwrap_or(array.last_scrub_s);
            array.scrub_left_blocks = self.scrub.left_blocks();
        }
        if changed {
            self.want_update();
        }
        self.outbox
            .put(Output::Event(Event::ScrubDone(self.scrub.found())));
    }

    fn scrub_stopped(&mut self) {
        self.inspection.end();
        self.rewrite_bad_slots();
        if self.note_scrub_mark() {
            self.want_update();
        }
        self.outbox
            .put(Output::Event(Event::ScrubStopped(self.scrub.found())));
    }

    /// Notes the progress of an interrupted scrub. Returns true if the superblocks do not record it
    /// yet.
    pub(crate) fn note_scrub_mark(&mut self) -> bool {
        if self.scrub.is_check() {
            return false;
        }
        let walk = self.jobs.walk(&JOB);
        if walk.is_busy() {
            self.scrub.stands_at(walk.mark().group(), &self.geometry);
        }
        let persistence = self.metadata.persistence();
        persistence.is_some_and(|persistence| self.scrub.differs_from(&persistence.array))
    }

    /// Handles a scrub's stripe range whose blocks do not fit together.
    pub(crate) fn scrub_disagrees(&mut self, id: RangeId, result: ComputeResult) -> Next {
        if self.ranges[id].halve() {
            return Next::Plan;
        }
        let readable = self.ranges[id].plan.reads;
        let data = u32::from(self.ranges[id].shape.data);
        match result {
            ComputeResult::Located(place) => {
                let slot = readable.iter().nth(usize::from(place)).expect("a source");
                self.ranges[id].chunk_is_rotten(slot);
            }
            ComputeResult::Mismatch
                if self
                    .scrub
                    .repair_of(matches!(self.ranges[id].owner, Owner::Job(_)))
                    == Repair::TrustData =>
            {
                let overruled = readable.minus(readable.lowest(data));
                let range = &mut self.ranges[id];
                range.rows.overruled = overruled;
                range.rows.unreadable = range.rows.unreadable.or(overruled);
            }
            ComputeResult::Mismatch => {
                self.tell_disagreement(id, false);
                self.tell_repairs(id, false);
                return Next::RowsDone;
            }
            ComputeResult::Done => panic!("what fits together does not disagree"),
        }
        Next::Plan
    }

    /// Finishes rows of a scrub that can't be reconstructed, because too much is lost.
    pub(crate) fn scrub_gives_up(&mut self, id: RangeId) -> Next {
        let lost = self.ranges[id].lost_here(self.ranges.missing_slots(&self.members, id));
        if lost.is_empty() {
            // Members are lost, not places on them.
            let error = RequestError::BeyondTolerance;
            self.ranges[id].error.get_or_insert(error);
            return Next::Done;
        }
        self.tell_repairs(id, false);
        Next::RowsDone
    }
}
