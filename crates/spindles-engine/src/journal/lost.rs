//! A device of its own for the journal that is lost while it is replayed, or was before.
//!
//! What was in flight is then known by dirty regions alone: a resync settles them. What was carried out
//! again by then is what was written last, so that nothing is older than it was after the crash.

use super::replay::Stage;
use crate::{Engine, columns::Owner, index};
use spindles_layout::GroupIndex;

impl Engine {
    /// Whether the superblocks count on a log that is not there. Before anything is written they
    /// must not any more: it may come back.
    pub(crate) fn journal_was_lost(&self) -> bool {
        let persistence = self.metadata.persistence.as_ref();
        let tail = persistence.map_or(0, |persistence| persistence.array.journal.tail);
        let journal = self.journal.as_ref();
        tail > 0 && journal.is_some_and(|journal| journal.record.tail == 0)
    }

    /// Whether a column asks for a client, what its answer would be is in the log, and that is lost.
    #[cold]
    pub(crate) fn log_is_lost(&self, id: u32) -> bool {
        let asks = matches!(self.columns[index(id)].owner, Owner::Request(_));
        let journal = self.journal.as_ref();
        asks && journal.is_some_and(|journal| journal.home.is_lost())
    }

    /// Marks the regions that a replay is about to write, before it does: a member that is missing, or
    /// goes out meanwhile, lacks that. Whether it must wait until that is durable.
    pub(super) fn mark_before_replay(&mut self) -> bool {
        if !self.regions.stored {
            return false;
        }
        let replay = self.replay.as_ref().expect("a replay is under way");
        for part in &replay.parts {
            let region = self.regions.of(GroupIndex(part.entry.group));
            self.regions.dirty.set(region);
        }
        let journal = self.journal.as_ref().expect("a replay has a journal");
        if !journal.home.is_device() {
            return false; // The log tells of it again.
        }
        self.replay().stage = Stage::Preparing;
        self.write_bitmaps();
        true
    }

    /// The device with the journal is lost under the replay.
    pub(super) fn replay_lost(&mut self) {
        let in_doubt = !self.lost.is_empty() && !self.shape.copies;
        if in_doubt || !self.regions.stored {
            // Parity can't be trusted, and somebody is missing. Once the device is back, all will be
            // as it was logged: until then nobody may see what that will change.
            self.unreplayed = true;
            self.all_settled = false;
            return self.give_up_replay();
        }
        let journal = self.journal.as_mut().expect("a replay has a journal");
        journal.record.tail = 0;
        let sums = self.has_checksums();
        let replay = self.replay();
        replay.without_log = sums;
        replay.versions.clear(); // More of them may have been on the device.
        self.find_unsettled(true);
        if sums {
            return self.begin_vouching();
        }
        self.flush_replayed();
    }
}
