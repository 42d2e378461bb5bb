//! Reports the engine's state.

use crate::{
    Engine,
    status::{MemberStatus, RegionsStatus, Status},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_format::{BadBlockKind, lost_runs};
use spindles_layout::{Group, GroupIndex, Role, Slot};

/// The most groups that are examined for one answer.
const GROUPS_MAX: u32 = 4096;

impl Engine {
    /// Returns the state of the array. Allocates: not for the data path.
    pub fn status(&self) -> Status {
        Status {
            state: self.state(),
            stopped_writing: self.metadata.is_broken() || self.has_failed(),
            survives_more: self
                .geometry
                .survives_more(self.members.lost())
                .unwrap_or(0),
            members: (0..self.geometry.members())
                .map(MemberIndex)
                .map(|member| MemberStatus {
                    member,
                    state: self.members.state(member),
                    counted_on: self.is_counted_on(member),
                    faults: self
                        .faults
                        .with_bad_blocks(member, self.bad.blocks(BadBlockKind::Unread(member))),
                    errors: self.metadata.errors_of(member),
                    slow: self.slow.members().contains(member),
                    stalls: self.slow.stalled().contains(member),
                    hedged_reads: self.hedges.of(member),
                    read_ns: self.slow.average_ns(member),
                    lacks_regions: self.lacks_regions(member),
                })
                .collect(),
            generation: self.metadata.generation(),
            dirty: self.metadata.is_dirty(),
            jobs: self.job_statuses(),
            lost_blocks: self.bad.blocks(BadBlockKind::Lost),
            left_blocks: self.left_blocks(),
            journal: self.log.status(&self.metadata),
            stage: self
                .staging
                .as_ref()
                .map(|staging| staging.status(self.now)),
            growth: self.growth_status(),
            scrub: self.scrub.found(),
            regions: self.regions.are_stored().then(|| self.regions_status()),
        }
    }

    /// Returns the blocks that `Status::lost_blocks` counts, in order. No run touches another.
    /// Allocates.
    pub fn lost_runs(&self) -> Vec<Range<BlockIndex>> {
        lost_runs(self.bad.entries())
    }

    /// Returns the number of reads that were hedged since opening.
    pub fn hedged_reads(&self) -> u64 {
        self.hedges.all()
    }

    /// Returns true if the block `from` is known to read as zeros, because its region was never
    /// written or was released. Also returns the first block from which on that may differ, at most
    /// `end`. The answer holds for a read that is submitted now, and after a crash.
    pub fn reads_zeros(&self, from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        let is_known = self.opening.is_serving() && self.regions.are_stored();
        let covers = self.covers(from, end);
        if !is_known || self.is_growing() || self.bad.any_lost() || covers {
            return (false, end);
        }
        let zeros = |block: BlockIndex| {
            let group = self.geometry.locate(block).group;
            let zeros = self.regions.reads_zeros(group);
            let after = self.geometry.blocks_before(GroupIndex(group.0 + 1));
            (zeros, BlockIndex(after.min(end.0)))
        };
        let (first, mut until) = zeros(from);
        for _ in 0..GROUPS_MAX {
            if until >= end {
                break;
            }
            let (same, after) = zeros(until);
            if same != first {
                break;
            }
            until = after;
        }
        (first, until)
    }

    /// Returns true if the block `from` certainly lies on missing members, can't be computed from
    /// the others, and is not known to be zeros. Also returns the first block from which on that
    /// may differ, at most `end`.
    pub fn is_out_of_reach(&self, from: BlockIndex, end: BlockIndex) -> (bool, BlockIndex) {
        // If rows may be blank, only a read finds out.
        let may_be_blank = self.has_checksums() && self.shape.may_be_blank();
        let is_whole = self.members.lost().is_empty();
        if is_whole || self.is_growing() || may_be_blank || self.covers(from, end) {
            return (false, end);
        }
        let location = self.geometry.locate(from);
        let until = BlockIndex(end.0.min(from.0 + u64::from(location.blocks_left)));
        let mut group = Group::empty();
        self.geometry.group_into(location.group, &mut group);
        let data = Role::Data(location.data_index);
        let is_it = |slot: &&Slot| slot.role == data || matches!(slot.role, Role::Copy(_));
        let is_there = |slot: &Slot| self.holds(slot.member, group.index, group.blocks);
        let held = group.slots().iter().filter(is_it).any(is_there);
        let kept = group.slots().iter().filter(|slot| is_there(slot)).count();
        let is_computed = group.parity_chunks > 0 && kept >= usize::from(group.data_chunks);
        let is_zeros = self.regions.are_stored() && self.regions.reads_zeros(location.group);
        (!held && !is_computed && !is_zeros, until)
    }

    /// Returns true if the stage may cover one of these blocks, so that places do not count.
    fn covers(&self, from: BlockIndex, end: BlockIndex) -> bool {
        let staging = self.staging.as_ref();
        staging.is_some_and(|staging| staging.covers(from, end))
    }

    fn regions_status(&self) -> RegionsStatus {
        let regions = &self.regions;
        let start = GroupIndex(0);
        let bytes = self.geometry.blocks() * u64::from(self.settings.block_size.bytes());
        RegionsStatus {
            total: regions.live_regions(start, |group| group),
            region_bytes: (bytes / self.geometry.groups()) << regions.shift(),
            written: regions.live_regions(start, |group| regions.next_written(group)),
            dirty: regions.live_regions(start, |group| regions.next_dirty(group)),
            unsettled: regions.live_regions(start, |group| regions.next_unsettled(group)),
        }
    }

    /// Returns true if a member is out, but the superblocks do not record it.
    fn is_counted_on(&self, member: MemberIndex) -> bool {
        let missing = MemberSet::EMPTY.with(member);
        let is_recorded = if self.settings.read_only {
            self.metadata.was_out(member)
        } else {
            !self.metadata.may_count_on(missing)
        };
        self.members.missing().contains(member) && !is_recorded
    }

    fn lacks_regions(&self, member: MemberIndex) -> u64 {
        let regions = &self.regions;
        // Nothing is written without a member before the superblocks record that it is out.
        if !regions.are_stored()
            || !self.members.lost().contains(member)
            || self.is_counted_on(member)
        {
            return 0;
        }
        let missed = |group| regions.next_missed(group);
        if self.members.missing().contains(member) {
            return regions.live_regions(GroupIndex(0), missed);
        }
        let from = self.filled_below(member).group();
        if self.rebuild.is_returning(member) {
            regions.live_regions(from, missed)
        } else {
            regions.live_regions(from, |group| regions.next_written(group))
        }
    }
}
