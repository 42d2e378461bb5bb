//! Prepares regions ahead of writes that come near unmarked ones: marks and zeroes them. For writes
//! of whole rows it zeroes regions even if members move bytes for that. Otherwise the first write
//! to each row would be logged as a whole.

use crate::{Engine, RangeId, first_touch::Ground};

impl Engine {
    /// Prepares the regions after `region` too, when a write comes to it for the first time in a
    /// while.
    pub(crate) fn look_ahead(&mut self, id: RangeId, region: u64) {
        if self.regions.older.is_some() || self.extension.is_some() {
            return; // The regions are about to change.
        }
        let budget = self.limits.dirty_bytes / self.region_bytes();
        let regions = &self.regions;
        let end = regions.part.regions().end;
        let range = &self.ranges[id];
        let whole = !range.shape.copies && range.touched == range.shape.all_data();
        // Writes of zeros leave never-written regions as they are.
        let writes_data = !self.writes_zeros(id);
        let zeroes = writes_data && (whole || self.zeroes_without_moving_bytes());
        let zeroing = &self.zeroing;
        let ground = |region| match () {
            () if region >= end => Ground::Closed,
            () if regions.written.bits.get(region) && !regions.dirty.bits.get(region) => {
                Ground::Clean
            }
            () if regions.written.bits.get(region) => Ground::Ready,
            () if zeroing.is_asked(region) => Ground::Ready,
            // The journals' records of a released region must be void first.
            () if zeroes && !regions.released.get(region) => Ground::New,
            () => Ground::Closed,
        };
        let dirty = || regions.dirty.bits.count();
        let ahead = (self.first_touch).ahead(self.now, region, budget, dirty, ground);
        for region in ahead {
            if self.regions.written.bits.get(region) {
                self.regions.dirty.set(region);
                self.regions.expected.set(region);
            } else if !self.zeroing.is_asked(region) {
                self.want_zeroing_ahead(region);
            }
        }
    }

    /// Returns the bytes that a region takes on each member.
    fn region_bytes(&self) -> u64 {
        let chunk = self.geometry.chunk_blocks() * self.block_size.bytes();
        let slots = u64::from(chunk) * u64::from(self.shape.slots);
        let each = (slots << self.regions.part.shift()) / u64::from(self.geometry.members());
        each.max(1)
    }
}
