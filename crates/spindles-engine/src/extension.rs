//! Extends an array on its members, if these have more room than it uses: the map continues where
//! it ended, and nothing is moved.
//!
//! ```text
//!  Reading ──bitmaps read──▶ Zeroing ──flushed──▶ Recording ──superblocks written──▶ larger
//! ```
//!
//! The regions get new bits, next to the bits in use until then. A written region may continue
//! beyond the old end, or include rows that were never written: the extension zeroes these rows.
//! All changes are durable before the first superblock has the new size. Until then the array does
//! not rely on any changed block.

use crate::{
    PlanError,
    growth::{geometry_of, lay_regions, may_change},
    regions::{Part, Regions},
};
use alloc::vec::Vec;
use core::ops::Range;
use spindles_block::{MemberIndex, MemberSet};
use spindles_format::{ArrayRecord, DeviceRecord, MEMBER_BLOCKS_MAX};
use spindles_layout::{Group, GroupIndex};

/// The extent of an array before it got larger.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Its number of redundancy groups.
    groups: u64,
    /// The length of the chunks of the last group.
    last_blocks: u32,
    /// Groups in a region.
    region_groups: u32,
    /// The bit of its first region.
    region: u32,
}

/// Returns the most blocks that an array can have on its members, whose devices are `devices`.
///
/// # Errors
///
/// The reason why it can't get larger, whatever room they have.
pub fn largest(record: &ArrayRecord, devices: &[DeviceRecord]) -> Result<u64, PlanError> {
    may_change(record)?;
    if record.region_groups == 0 {
        return Err(PlanError::NoRegions);
    }
    let old = geometry_of(record)?;
    let new = geometry_of(&extended(record, devices, old.members_at_end(), u64::MAX))?;
    if new.continues(&old) {
        Ok(new.blocks())
    } else {
        Err(PlanError::Moves)
    }
}

/// Returns the members at the end of an array that have the least room.
fn least(at_end: MemberSet, devices: &[DeviceRecord]) -> MemberSet {
    let room = |member: &MemberIndex| devices[usize::from(member.0)].data_blocks();
    let least = at_end.iter().map(|member| room(&member)).min();
    at_end
        .iter()
        .filter(|member| Some(room(member)) == least)
        .collect()
}

/// Returns the record with these members extended to the room that they have, up to a limit.
fn extended(
    record: &ArrayRecord,
    devices: &[DeviceRecord],
    members: MemberSet,
    blocks_max: u64,
) -> ArrayRecord {
    let mut record = record.clone();
    for member in members.iter() {
        let at = usize::from(member.0);
        let room = devices[at].data_blocks().min(blocks_max);
        let counted_on = &mut record.member[at].data_blocks;
        *counted_on = room.max(*counted_on);
    }
    record
}

/// Returns the superblock record of an array that gets larger: to `wanted` blocks or a little less,
/// or as far as its members have room. `record` and `devices` describe a closed, clean and complete
/// array.
///
/// # Errors
///
/// The reason why it can't get that large.
pub fn plan_size(
    record: &ArrayRecord,
    devices: &[DeviceRecord],
    wanted: Option<u64>,
) -> Result<(ArrayRecord, Extent), PlanError> {
    let blocks_max = largest(record, devices)?;
    let old = geometry_of(record)?;
    let at_end = old.members_at_end();
    let block_bytes = u64::from(record.block_size.bytes());
    let wanted = wanted.unwrap_or(blocks_max);
    let (bytes, bytes_max) = (old.blocks() * block_bytes, blocks_max * block_bytes);
    if wanted < old.blocks() {
        return Err(PlanError::Shrinks { bytes });
    }
    if wanted > blocks_max {
        let least = least(at_end, devices);
        return Err(PlanError::NoRoom { bytes_max, least });
    }
    // Find the most blocks of each member with which the array does not exceed `wanted`.
    let (mut fits, mut beyond) = (0, MEMBER_BLOCKS_MAX + 1);
    while fits + 1 < beyond {
        let middle = fits.midpoint(beyond);
        let new = geometry_of(&extended(record, devices, at_end, middle))?;
        if new.blocks() <= wanted {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    let mut grown = extended(record, devices, at_end, fits);
    let geometry = geometry_of(&grown)?;
    if geometry.blocks() == old.blocks() {
        return Err(PlanError::AsLarge {
            bytes,
            bytes_max,
            least: least(at_end, devices),
        });
    }
    let mut last = Group::empty();
    old.group_into(GroupIndex(old.groups() - 1), &mut last);
    let extent = Extent {
        groups: old.groups(),
        last_blocks: last.blocks,
        region_groups: record.region_groups,
        region: record.growth.region,
    };
    let taken = extent.part().regions();
    lay_regions(&mut grown, devices, &taken, &geometry, geometry.groups())?;
    Ok((grown, extent))
}

impl Extent {
    fn part(&self) -> Part {
        Part::new(0..self.groups, self.region_groups, self.region.into())
    }

    /// The end of the bits of its old regions.
    pub(crate) fn regions_end(&self) -> u64 {
        self.part().regions().end
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Reading,
    /// Regions from here on are still to be checked.
    Zeroing(u64),
    Recording,
}

/// The work to do before the superblocks say the new size.
#[derive(Clone, Debug)]
pub(crate) struct Extension {
    old: Part,
    last_blocks: u32,
    stage: Stage,
}

impl Extension {
    pub(crate) fn new(extent: &Extent) -> Self {
        Self {
            old: extent.part(),
            last_blocks: extent.last_blocks,
            stage: Stage::Reading,
        }
    }

    /// Gives the new regions the bits of the old ones. Both bitmaps are read.
    pub(crate) fn begin(&mut self, regions: &mut Regions) {
        self.stage = Stage::Zeroing(regions.part_regions().start);
        regions.take_in(self.old.regions(), |regions, region| {
            self.taken_in(regions, region)
        });
    }

    /// Takes the next regions that have rows to zero, at most `most`. Returns none if all are
    /// zeroed, and `None` if they were before, or are not known yet.
    pub(crate) fn next_to_zero(&mut self, regions: &Regions, most: usize) -> Option<Vec<u64>> {
        let Stage::Zeroing(from) = self.stage else {
            return None;
        };
        let left = from..regions.part_regions().end;
        let next = left
            .filter(|region| self.lacks(regions, *region))
            .take(most);
        let next: Vec<u64> = next.collect();
        self.stage = match next.last() {
            Some(last) => Stage::Zeroing(last + 1),
            None => Stage::Recording,
        };
        Some(next)
    }

    /// Returns true if work is left before superblocks may be written.
    pub(crate) fn is_preparing(&self) -> bool {
        self.stage != Stage::Recording
    }

    /// Returns the number of rows of a group that hold contents, from its first row on.
    pub(crate) fn rows_held(&self, regions: &Regions, group: GroupIndex, blocks: u32) -> u32 {
        let groups = self.old.groups();
        if !groups.contains(&group.0) || !regions.holds(self.old.of(group)) {
            0
        } else if group.0 + 1 == groups.end {
            self.last_blocks
        } else {
            blocks
        }
    }

    /// Returns the old regions that a new one includes.
    fn taken_in(&self, regions: &Regions, region: u64) -> Range<u64> {
        let groups = regions.groups(region);
        let end = groups.end.min(self.old.groups().end);
        if groups.start >= end {
            return 0..0;
        }
        self.old.of(GroupIndex(groups.start))..self.old.of(GroupIndex(end - 1)) + 1
    }

    /// Returns true if a new region is written, and has rows that were not.
    fn lacks(&self, regions: &Regions, region: u64) -> bool {
        let goes_on = regions.groups(region).end >= self.old.groups().end;
        let mut old = self.taken_in(regions, region);
        regions.holds(region) && (goes_on || !old.all(|old| regions.holds(old)))
    }
}
