//! Writes that come near unmarked regions have more of them marked, and made zeros: those of whole rows
//! also where members move bytes for that, since a row that is no zeros is logged as a whole first.

use crate::{Engine, RangeId, first_touch::Ground};

impl Engine {
    /// A write comes to a region for the first time in a while: those after it are made ready too.
    pub(crate) fn look_ahead(&mut self, id: RangeId, region: u64) {
        if self.regions.older.is_some() || self.extension.is_some() {
            return; // Regions are not what they will be.
        }
        let budget = self.limits.dirty_bytes / self.region_bytes();
        let regions = &self.regions;
        let end = regions.part.regions().end;
        let range = &self.ranges[id];
        let whole = !range.shape.copies && range.touched == range.shape.all_data();
        // Zeros leave what was never written as it is.
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
            // What the journals hold of one that was given back must be void before.
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

    /// What a region has of each member.
    fn region_bytes(&self) -> u64 {
        let chunk = self.geometry.chunk_blocks() * self.block_size.bytes();
        let slots = u64::from(chunk) * u64::from(self.shape.slots);
        let each = (slots << self.regions.part.shift()) / u64::from(self.geometry.members());
        each.max(1)
    }
}
