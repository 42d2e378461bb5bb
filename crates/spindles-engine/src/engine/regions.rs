//! Marks regions before they are written, clears their dirty bits when they are quiet, and releases
//! discarded regions.

use crate::{
    Engine, Mutation, RangeId,
    engine::{Closing, jobs::resync},
    jobs::Place,
    plan::Ask,
    regions::Sweep,
    stripe::{RowState, Stage},
    system_io::Purpose,
    waits::WaitFor,
};
use core::ops::Range;
use spindles_block::{BlockIndex, Instant, Operation};
use spindles_layout::GroupIndex;

/// A region must be left alone for this time before its dirty bit is cleared.
const QUIET_NS: u64 = 5_000_000_000;

impl Engine {
    // ---- marking ------------------------------------------------------------------------------

    /// Returns true if a write of a stripe range may go to its place: the dirty bit of its region
    /// is durable, if it must be. Otherwise begins to mark the region.
    #[inline]
    pub(crate) fn may_write_region(&mut self, id: RangeId) -> bool {
        let regions = &mut self.regions;
        if !regions.stored {
            return true;
        }
        let region = regions.of(self.ranges[id].group);
        let durable = regions.dirty.bits.get(region) && regions.dirty.is_durable(region);
        if durable && regions.recent.get(region) {
            return true;
        }
        self.mark_region(id, region) || durable
    }

    #[cold]
    fn mark_region(&mut self, id: RangeId, region: u64) -> bool {
        if !self.regions.recent.get(region) {
            self.regions.recent.set(region);
            if self.members.lost().is_empty() {
                // Not while a member is missing: a returning member is updated with all marked
                // regions.
                self.look_ahead(id, region);
            }
            self.begin_zeroing();
        }
        let whole = self.members.lost().is_empty();
        let unneeded = whole && !self.settings.policy.resync_after_crash;
        self.regions.dirty.set(region);
        if self.regions.sweep == Sweep::Idle && whole {
            self.regions.sweep = Sweep::Wanted;
        }
        if unneeded {
            return true; // Dirty in memory only; it becomes durable when a member goes out.
        }
        self.write_bitmaps();
        self.metadata.is_broken()
    }

    /// Returns true if redundancy is known to agree with data everywhere.
    pub fn is_settled(&self) -> bool {
        self.all_settled && !self.opening.is_finding() && self.opening.replay().is_none()
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
        if self.regions.releasing.contains(&region) {
            return false;
        }
        if self.regions.is_written(group) {
            return self.regions.written.is_durable(region);
        }
        if ask != Ask::Write {
            return true; // Never written: a read returns zeros, and a resync has nothing to do.
        }
        if self.requests.writes_zeros(&self.ranges, id) {
            // A region that is not written reads as zeros: only its cleared bit must be durable.
            return self.regions.written.is_stored(region);
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
        match self.regions.sweep {
            Sweep::Wanted => self.regions.sweep = Sweep::At(now.plus_ns(QUIET_NS)),
            Sweep::At(at) if at <= now => self.begin_sweep(),
            Sweep::Idle | Sweep::At(_) | Sweep::Flushing => {}
        }
    }

    /// Returns true if dirty bits may be cleared. Bits stay set while a member is missing or being
    /// filled, to record the regions that the member lacks.
    fn may_clear(&self) -> bool {
        (self.members.lost().is_empty() || self.mutated(Mutation::ClearBitWhileOut))
            && !self.metadata.is_broken()
    }

    fn begin_sweep(&mut self) {
        self.regions.sweep = Sweep::Idle;
        if !self.may_clear() || self.closing != Closing::Open {
            return;
        }
        if self.holds_back() {
            return self.regions.want_sweep(); // Another task waits until nothing is under way.
        }
        self.forget_settled();
        let early = self.mutated(Mutation::ClearBitEarly);
        let hasty = self.mutated(Mutation::ClearBitUnsettled);
        let regions = &mut self.regions;
        let dirty = regions.dirty.bits.words();
        let wanted = regions.recent.words().iter().zip(regions.expected.words());
        let kept = wanted.zip(regions.unsettled.words());
        let places = regions.clearing.words_mut().iter_mut().zip(dirty);
        for ((clearing, dirty), ((recent, expected), unsettled)) in places.zip(kept) {
            let left = if early { u64::MAX } else { !recent & !expected };
            let settled = if hasty { u64::MAX } else { !unsettled };
            *clearing = dirty & settled & left;
        }
        regions.recent.clear_all();
        regions.expected.clear_all();
        for range in self.ranges.iter() {
            // Past its commit, or about to reach it.
            let writes = match range.stage() {
                Stage::Free
                | Stage::Starting
                | Stage::Direct
                | Stage::DirectPaging
                | Stage::Verifying
                | Stage::Covered
                | Stage::Copying
                | Stage::Summing
                | Stage::Staged
                | Stage::Merged
                | Stage::Locking
                | Stage::Preparing
                | Stage::Paging
                | Stage::Reading { .. }
                | Stage::Computing(_)
                | Stage::Checksumming { .. }
                | Stage::Keeping { .. }
                | Stage::Acknowledging(_) => false,
                // Its checksums follow.
                Stage::Flushing(_) => range.rows.state == RowState::Placed,
                Stage::Begin
                | Stage::Agree
                | Stage::Summed
                | Stage::Queued
                | Stage::Logging { .. }
                | Stage::Logged { .. }
                | Stage::Kept { .. }
                | Stage::Placing(_) => !early,
            };
            if writes {
                let region = regions.of(range.group);
                regions.clearing.clear(region);
                regions.recent.set(region);
            }
        }
        if regions.clearing.is_empty() {
            return regions.want_sweep();
        }
        if early {
            return self.clear_bits();
        }
        self.flush_active(Purpose::SweepFlush);
        self.regions.sweep = Sweep::Flushing;
    }

    /// Continues a sweep after its flush.
    pub(crate) fn sweep_flushed(&mut self) {
        self.regions.sweep = Sweep::Idle;
        if self.may_clear() {
            self.clear_bits();
        }
    }

    /// Clears the dirty bits of regions that are flushed and were quiet meanwhile.
    fn clear_bits(&mut self) {
        let mut from = 0;
        while let Some(region) = self.regions.clearing.next(from) {
            let again = self.regions.recent.get(region) || self.regions.expected.get(region);
            if !again || self.mutated(Mutation::ClearBitRace) {
                self.regions.dirty.clear(region);
                self.regions.begun.clear(region);
            }
            from = region + 1;
        }
        self.regions.want_sweep();
        self.write_bitmaps();
    }

    /// Clears all dirty bits after the flush of a close, if all members are present and everything
    /// is settled.
    pub(crate) fn clear_all_bits(&mut self) {
        let settled = self.all_settled || self.mutated(Mutation::ClearBitUnsettled);
        if !settled || !self.may_clear() {
            return;
        }
        let mut from = 0;
        while let Some(region) = self.regions.dirty.bits.next(from) {
            self.regions.dirty.clear(region);
            self.regions.begun.clear(region);
            from = region + 1;
        }
    }

    /// Clears the unsettled bits of regions that the resync has passed.
    pub(crate) fn forget_settled(&mut self) {
        let mark = self.jobs.walk(&resync::JOB).mark;
        let mut from = 0;
        while let Some(region) = self.regions.unsettled.next(from) {
            let end = Place {
                group: GroupIndex(self.regions.groups(region).end),
                row: 0,
            };
            if self.all_settled || end <= mark {
                self.regions.unsettled.clear(region);
            }
            from = region + 1;
        }
    }

    // ---- releasing ----------------------------------------------------------------------------

    /// Begins to release the whole regions of a discard that is done on all members. The discard is
    /// answered afterwards. Returns true if regions are being released.
    #[cold]
    pub(crate) fn begin_release(&mut self, request: u32) -> bool {
        let slot = &self.requests[request];
        let regions = &self.regions;
        if !regions.stored || slot.operation != Operation::Discard || slot.error.is_some() {
            return false;
        }
        if regions.older.is_some() || self.whole_regions(request).is_empty() {
            return false;
        }
        self.regions.releases.push_back(request);
        self.pump_releases();
        true
    }

    /// Returns the regions that lie entirely in a request.
    fn whole_regions(&self, request: u32) -> Range<u64> {
        let slot = &self.requests[request];
        let blocks = self.geometry.blocks();
        let group_at = |block: BlockIndex| self.geometry.locate(block).group;
        // The first region that begins in the request, and the first that does not end in it.
        let first_group = group_at(slot.block);
        let mut first = self.regions.of(first_group);
        if self.first_block(self.regions.groups(first).start) < slot.block.0 {
            first += 1;
        }
        let end = if slot.end.0 == blocks {
            self.regions.part.regions().end
        } else {
            self.regions.of(group_at(slot.end))
        };
        first..end.max(first)
    }

    fn first_block(&self, group: u64) -> u64 {
        self.geometry.blocks_before(GroupIndex(group))
    }

    /// Continues to release regions, after a stripe range left its region, or bitmaps were written.
    #[inline]
    pub(crate) fn pump_releases(&mut self) {
        while !self.regions.releases.is_empty() && self.pump_release() {}
    }

    /// Continues the first release. Returns true if it is complete.
    #[cold]
    fn pump_release(&mut self) -> bool {
        let Some(&request) = self.regions.releases.front() else {
            return false;
        };
        if self.regions.releasing.is_empty() {
            self.regions.releasing = self.whole_regions(request);
            // From now on nothing new begins there. Work under way ends first.
        }
        let given_back = self.regions.releasing.clone();
        let held = given_back
            .clone()
            .any(|region| self.regions.written.bits.get(region));
        if held && !self.metadata.is_broken() {
            if self.ranges.iter().any(|range| {
                let planned = match range.stage() {
                    Stage::DirectPaging
                    | Stage::Verifying
                    | Stage::Paging
                    | Stage::Reading { .. }
                    | Stage::Computing(_)
                    | Stage::Checksumming { .. }
                    | Stage::Keeping { .. }
                    | Stage::Flushing(_) => range.is_locked(),
                    Stage::Begin
                    | Stage::Agree
                    | Stage::Summed
                    | Stage::Queued
                    | Stage::Logging { .. }
                    | Stage::Logged { .. }
                    | Stage::Kept { .. }
                    | Stage::Placing(_)
                    | Stage::Acknowledging(_) => true,
                    Stage::Free
                    | Stage::Starting
                    | Stage::Direct
                    | Stage::Covered
                    | Stage::Copying
                    | Stage::Summing
                    | Stage::Staged
                    | Stage::Merged
                    | Stage::Locking
                    | Stage::Preparing => false,
                };
                planned && given_back.contains(&self.regions.of(range.group))
            }) {
                return false;
            }
            for region in given_back {
                self.regions.written.clear(region);
                self.regions.unsettled.clear(region);
                self.regions.released.set(region);
            }
            self.regions.all_written = false;
            self.write_bitmaps();
            return false;
        }
        let stored = given_back
            .clone()
            .all(|region| self.regions.written.is_stored(region));
        if !stored && !self.metadata.is_broken() {
            return false;
        }
        self.regions.releasing = 0..0;
        self.regions.releases.pop_front();
        self.waits.wake(WaitFor::Region);
        self.answer(request);
        true
    }

    // ---- opening ------------------------------------------------------------------------------

    /// Continues when both bitmaps are read: finds the regions that a crash left unsettled.
    pub(crate) fn bitmaps_loaded(&mut self) {
        if self.grow.begins() {
            // Earlier values of bits of the new map mean nothing.
            self.regions.blank();
        }
        self.take_in_regions();
        let regions = &mut self.regions;
        regions.dirty.loaded();
        regions.written.loaded();
        regions.note_all_written();
        self.find_unsettled(!self.all_settled);
        self.regions.want_sweep();
        self.write_bitmaps();
        self.opening_goes_on();
    }

    /// Finds the unsettled regions: written regions not known to be settled, and with `dirty_too`
    /// also the dirty regions. Begins a resync if a region is unsettled.
    pub(crate) fn find_unsettled(&mut self, dirty_too: bool) {
        let regions = &mut self.regions;
        let dirty = regions.dirty.bits.words().iter();
        let words = dirty.zip(regions.written.bits.words());
        for (unsettled, (dirty, written)) in regions.unsettled.words_mut().iter_mut().zip(words) {
            if dirty_too {
                *unsettled |= dirty;
            }
            *unsettled &= written;
        }
        let places = regions.begun.words_mut().iter_mut();
        for (begun, unsettled) in places.zip(regions.unsettled.words()) {
            *begun |= unsettled;
        }
        self.all_settled = self.regions.unsettled.is_empty();
        if !self.all_settled {
            self.begin_resync();
        }
    }
}
