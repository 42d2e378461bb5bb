//! Marks regions before they are written, clears their dirty bits when they are quiet, and releases
//! discarded regions.

use crate::{
    Engine, Mutation, RangeId,
    engine::{Closing, jobs::resync},
    plan::Ask,
    stripe::Stage,
    system_io::Purpose,
};
use spindles_block::Instant;

impl Engine {
    // ---- marking ------------------------------------------------------------------------------

    /// Returns true if a write of a stripe range may go to its place: the dirty bit of its region
    /// is durable, if it must be. Otherwise begins to mark the region.
    #[inline]
    pub(crate) fn may_write_region(&mut self, id: RangeId) -> bool {
        let regions = &self.regions;
        if !regions.are_stored() {
            return true;
        }
        let region = regions.of(self.ranges[id].group);
        let durable = regions.is_durably_dirty(region);
        if durable && regions.is_recent(region) {
            return true;
        }
        self.mark_region(id, region) || durable
    }

    #[cold]
    fn mark_region(&mut self, id: RangeId, region: u64) -> bool {
        if self.regions.note_write(region) {
            if self.members.lost().is_empty() {
                // Not while a member is missing: a returning member is updated with all marked
                // regions.
                self.look_ahead(id, region);
            }
            self.begin_zeroing();
        }
        let whole = self.members.lost().is_empty();
        let unneeded = whole && !self.settings.policy.resync_after_crash;
        self.regions.dirty_for_write(region, whole);
        if unneeded {
            return true; // Dirty in memory only; it becomes durable when a member goes out.
        }
        self.write_bitmaps();
        self.metadata.is_broken()
    }

    /// Returns true if a stripe range may be planned: its region is not being released, and the
    /// members hold the array's contents there. Otherwise the stripe range waits.
    pub(crate) fn region_is_open(&mut self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let (group, ask) = (range.group, range.ask);
        let region = self.regions.of(group);
        if self.metadata.is_broken() {
            return true; // No bit is written from now on: do not wait for one.
        }
        if self.regions.is_releasing(region) {
            return false;
        }
        if self.regions.is_written(group) {
            return self.regions.is_durably_written(region);
        }
        if ask != Ask::Write {
            return true; // Never written: a read returns zeros, and a resync has nothing to do.
        }
        if self.requests.writes_zeros(&self.ranges, id) {
            // A region that is not written reads as zeros: only its cleared bit must be durable.
            return self.regions.written_is_stored(region);
        }
        if !self.zeroing.is_asked(region) && self.members.lost().is_empty() {
            self.look_ahead(id, region);
        }
        self.want_zeroing(region);
        self.metadata.is_broken()
    }

    // ---- clearing dirty bits ------------------------------------------------------------------

    /// Schedules a sweep that is wanted, or begins one that is due.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.regions.sweep_is_due(now) {
            self.begin_sweep();
        }
    }

    fn begin_sweep(&mut self) {
        if !self.may_clear() || self.closing != Closing::Open {
            return;
        }
        if self.holds_back() {
            return self.regions.want_sweep(); // Another task waits until nothing is under way.
        }
        self.forget_settled();
        let early = self.mutated(Mutation::ClearBitEarly);
        let hasty = self.mutated(Mutation::ClearBitUnsettled);
        self.regions.choose_to_clear(early, hasty);
        for range in self.ranges.iter() {
            let flushes = matches!(range.stage(), Stage::Flushing(_));
            if range.is_about_to_write() && (!early || flushes) {
                self.regions.keep_dirty(range.group);
            }
        }
        if self.regions.clears_nothing() {
            return self.regions.want_sweep();
        }
        if early {
            return self.clear_bits();
        }
        self.flush_active(Purpose::SweepFlush);
        self.regions.sweep_flushes();
    }

    /// Continues a sweep after its flush.
    pub(crate) fn sweep_flushed(&mut self) {
        self.regions.sweep_flushed();
        if self.may_clear() {
            self.clear_bits();
        }
    }

    /// Clears the dirty bits of regions that are flushed and were quiet meanwhile.
    fn clear_bits(&mut self) {
        let races = self.mutated(Mutation::ClearBitRace);
        self.regions.clear_chosen(races);
        self.write_bitmaps();
    }

    /// Clears the unsettled bits of regions that the resync has passed.
    pub(crate) fn forget_settled(&mut self) {
        let mark = self.jobs.walk(&resync::JOB).mark();
        self.regions.settle(mark, self.settled.everywhere());
    }

    // ---- releasing ----------------------------------------------------------------------------

    // ---- opening ------------------------------------------------------------------------------
}
