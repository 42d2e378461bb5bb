//! Releases discarded regions: a region without contents takes no space, and reads as zeros.

use crate::{Engine, stripe::StripeRange, waits::WaitFor};

impl Engine {
    /// Continues to release regions, after a stripe range left its region, or bitmaps were written.
    #[inline]
    pub(crate) fn pump_releases(&mut self) {
        while self.regions.has_releases() && self.pump_release() {}
    }

    /// Continues the first release. Returns true if it is complete.
    #[cold]
    fn pump_release(&mut self) -> bool {
        let Some(request) = self.regions.first_release() else {
            return false;
        };
        if !self.regions.has_begun_release() {
            // From now on nothing new begins there. Work under way ends first.
            let regions = self.whole_regions(request);
            self.regions.begin_release(regions);
        }
        if self.regions.releases_written() && !self.metadata.is_broken() {
            let is_there = |group| self.regions.is_releasing(self.regions.of(group));
            let relies = |range: &StripeRange| range.relies_on_region() && is_there(range.group);
            if self.ranges.iter().any(relies) {
                return false;
            }
            self.regions.release();
            self.write_bitmaps();
            return false;
        }
        if !self.regions.release_is_stored() && !self.metadata.is_broken() {
            return false;
        }
        self.regions.end_release();
        self.waits.wake(WaitFor::Region);
        self.answer(request);
        true
    }
}
