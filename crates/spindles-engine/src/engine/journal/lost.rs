//! A device of its own for the journal that is lost while it is replayed, or was before.
//!
//! What was in flight is then known by dirty regions alone: a resync settles them. What was carried out
//! again by then is what was written last, so that nothing is older than it was after the crash.

use crate::{Engine, Mutation, RangeId, ranges::Owner};

impl Engine {
    /// Whether the superblocks count on a log that is not there. Before anything is written they
    /// must not any more: it may come back.
    pub(crate) fn journal_was_lost(&self) -> bool {
        let persistence = self.metadata.persistence();
        let tail = persistence.map_or(0, |persistence| persistence.array.journal.tail);
        let journal = self.journal.as_ref();
        tail > 0 && journal.is_some_and(|journal| journal.record.tail == 0)
    }

    /// Whether a stripe range asks for a client, and what its answer would be may be in a log that was not carried
    /// out: because it is lost, or because the members that it was to be carried out on failed, as all do that
    /// have no space. Open read only, what the log has is read from it.
    #[cold]
    pub(crate) fn answer_is_in_log(&self, id: RangeId) -> bool {
        if self.mutated(Mutation::ReadUnplacedLog) {
            return false;
        }
        let asks = matches!(self.ranges[id].owner, Owner::Request(_));
        let journal = self.journal.as_ref();
        let lost = journal.is_some_and(|journal| journal.placement.is_lost());
        let group = self.ranges[id].group.0;
        let is_unplaced = || self.unplaced.as_ref().is_none_or(|it| it.contains(&group));
        asks && (lost || !self.read_only && is_unplaced())
    }

    /// The next opening decides what the rows of a stripe range hold: it may carry out what was logged, or take
    /// the old or the new of a write that failed. Until then what lies there is no answer.
    #[cold]
    pub(crate) fn leave_to_opening(&mut self, id: RangeId) {
        self.unreplayed = true;
        self.all_settled = false; // Nothing is read without a plan.
        let group = self.ranges[id].group.0;
        match &mut self.unplaced {
            Some(unplaced) if unplaced.contains(&group) => {}
            // There is room for all that may be under way.
            Some(unplaced) if unplaced.len() < unplaced.capacity() => unplaced.push(group),
            unplaced => *unplaced = None,
        }
    }

    /// The device with the journal is lost under the replay.
    pub(super) fn replay_lost(&mut self) {
        let in_doubt = !self.lost.is_empty() && !self.shape.copies;
        if in_doubt || !self.regions.are_stored() {
            // Parity can't be trusted, and somebody is missing. Once the device is back, all will be
            // as it was logged: until then nobody may see what that will change.
            self.unreplayed = true;
            self.all_settled = false;
            return self.abandon_replay();
        }
        let journal = self.journal.as_mut().expect("a replay has a journal");
        journal.record.tail = 0;
        if self.read_only {
            self.find_unsettled(true);
            return self.end_replay();
        }
        if self.all_settled {
            self.all_settled = false;
            self.find_unsettled(true);
        }
        self.flush_replayed();
    }
}
