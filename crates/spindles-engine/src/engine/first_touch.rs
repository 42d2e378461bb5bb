//! Prepares regions ahead of writes that come near unmarked ones: marks and zeroes them. For writes
//! of whole rows it zeroes regions even if members move bytes for that. Otherwise the first write
//! to each row would be logged as a whole.

use crate::{Engine, RangeId, first_touch::Ground};
use core::ops::Range;
use spindles_block::BlockIndex;
use spindles_layout::{Group, GroupIndex};

impl Engine {
    /// Prepares the regions after `region` too, when a write comes to it for the first time in a
    /// while.
    pub(crate) fn look_ahead(&mut self, id: RangeId, region: u64) {
        if self.regions.has_older() || self.extension.is_some() {
            return; // The regions are about to change.
        }
        let budget = self.settings.limits.dirty_bytes / self.region_bytes();
        let regions = &self.regions;
        let end = regions.part_regions().end;
        let range = &self.ranges[id];
        let whole = !range.shape.copies && range.touched == range.shape.all_data();
        // Writes of zeros leave never-written regions as they are.
        let writes_data = !self.requests.writes_zeros(&self.ranges, id);
        let may_zero = writes_data && self.first_touch.may_zero_ahead();
        let zeroes = may_zero && (whole || self.zeroes_without_moving_bytes());
        let zeroing = &self.zeroing;
        let ground = |region| match () {
            () if region >= end => Ground::Closed,
            () if regions.holds(region) && !regions.is_dirty(region) => Ground::Clean,
            () if regions.holds(region) => Ground::Ready,
            () if zeroing.is_asked(region) => Ground::Ready,
            // The journals' records of a released region must be void first.
            () if zeroes && !regions.is_released(region) => Ground::New,
            () => Ground::Closed,
        };
        let dirty = || regions.dirty_count();
        let ahead = (self.first_touch).ahead(self.now, region, budget, dirty, ground);
        for region in ahead {
            if self.regions.holds(region) {
                self.regions.expect_write(region);
            } else if !self.zeroing.is_asked(region) {
                self.zeroing.want_ahead(region);
            }
        }
    }

    /// Sets whether space for thin members is scarce. If it is, the caller reserves space for
    /// `space_of_write` before each write, and no zeroing of a region gives that back.
    pub fn set_space_is_scarce(&mut self, is_scarce: bool) {
        let was_scarce = self.first_touch.set_space_is_scarce(is_scarce);
        if is_scarce && !was_scarce {
            self.zeroing.forget_ahead();
        }
    }

    /// Returns the blocks for which a write of these blocks takes space: the first write to a
    /// region zeroes all of it.
    pub fn space_of_write(&self, blocks: Range<u64>) -> Range<u64> {
        let blocks = blocks.start..blocks.end.min(self.geometry.blocks());
        if blocks.is_empty() || !self.regions.are_stored() {
            return blocks;
        }
        let mut group = Group::empty();
        let mut blocks_of = |index: GroupIndex| {
            self.geometry.group_into(index, &mut group);
            let data_blocks = u64::from(group.blocks) * u64::from(group.data_chunks);
            group.first_block.0..group.first_block.0 + data_blocks
        };
        let mut region_of = |block: u64| {
            let group = self.geometry.locate(BlockIndex(block)).group;
            let groups = self.regions.groups(self.regions.of(group));
            if self.regions.is_written(group) || groups.is_empty() {
                return block..block + 1;
            }
            let last = GroupIndex(groups.end - 1);
            blocks_of(GroupIndex(groups.start)).start..blocks_of(last).end
        };
        let (first, last) = (region_of(blocks.start), region_of(blocks.end - 1));
        first.start..last.end
    }

    /// Returns the bytes that a region takes on each member.
    fn region_bytes(&self) -> u64 {
        let chunk = self.geometry.chunk_blocks() * self.settings.block_size.bytes();
        let slots = u64::from(chunk) * u64::from(self.shape.slots);
        let each = (slots << self.regions.shift()) / u64::from(self.geometry.members());
        each.max(1)
    }
}
