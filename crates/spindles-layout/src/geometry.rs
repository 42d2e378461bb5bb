//! The map of one array: from its blocks to groups of chunks on the members, and back.

use crate::divisor::Divisor;
use crate::growth::Older;
use crate::level::{Shape, Sizes};
use crate::zone::{Bounds, Zone, to_usize};
use crate::{
    CHUNK_BYTES_MAX, GeometryError, Group, GroupIndex, Layout, Level, Location, Redundancy,
};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX, MemberIndex, MemberSet};

/// The parameters of a [`Geometry`].
#[derive(Clone, Debug)]
pub struct Spec {
    /// The level.
    pub level: &'static Level,
    /// The layout; `None` for the level's default.
    pub layout: Option<Layout>,
    /// The length of a chunk, in blocks.
    pub chunk_blocks: u32,
    /// The size of each member's data area, in blocks.
    pub member_blocks: Vec<u64>,
}

/// The map of one array. Only the mark of a growing array ever changes.
#[derive(Clone, Debug)]
pub struct Geometry {
    pub(crate) level: &'static Level,
    pub(crate) layout: Layout,
    pub(crate) members: u8,
    pub(crate) blocks: u64,
    pub(crate) groups: u64,
    pub(crate) chunk_blocks: u32,
    pub(crate) data_chunks: u8,
    slots: u8,
    /// Data blocks of a group.
    stripe: Divisor,
    chunk: Divisor,
    /// In rising order of their first blocks; none is empty.
    pub(crate) zones: Vec<Zone>,
    member_blocks_used: Vec<u64>,
    /// The map before growth, which still applies from a mark on; `None` unless the array is
    /// growing.
    pub(crate) older: Option<Box<Older>>,
}

/// The limit that lets all bytes of an array be counted in 64 bits.
const BLOCKS_MAX: u128 = (1 << 64) / 4096;

impl Geometry {
    /// Creates the map of an array, or returns why it is impossible.
    pub fn new(spec: &Spec) -> Result<Self, GeometryError> {
        let level = spec.level;
        let members = u8::try_from(spec.member_blocks.len())
            .ok()
            .filter(|members| *members <= MEMBERS_MAX)
            .ok_or(GeometryError::TooManyMembers(spec.member_blocks.len()))?;
        if members < level.members_min {
            return Err(GeometryError::TooFewMembers { level, members });
        }
        let layout = spec.layout.unwrap_or_else(|| level.layout_default());
        let shape = shape_of(level, layout, members)?;
        if spec.chunk_blocks == 0 {
            return Err(GeometryError::ChunkZero);
        }
        if spec.chunk_blocks > CHUNK_BYTES_MAX / BlockSize::B512.bytes() {
            return Err(GeometryError::ChunkTooLarge);
        }
        let total: u128 = spec.member_blocks.iter().map(|b| u128::from(*b)).sum();
        if total > BLOCKS_MAX {
            return Err(GeometryError::TooLarge);
        }

        let parity_chunks = match level.redundancy {
            Redundancy::Parity(chunks) => chunks,
            _ => 0,
        };
        let (data_chunks, slots) = match parity_chunks {
            0 => (1, shape.copies),
            _ => (members - parity_chunks, members),
        };
        let chunk_blocks = u64::from(spec.chunk_blocks);
        let zones = zones(spec, layout, shape, parity_chunks)?;
        let last = zones.last().expect("a level with members has a zone");
        let member_blocks_used = (spec.member_blocks.iter())
            .map(|blocks| match level.sizes {
                Sizes::Sequence => *blocks,
                Sizes::Zones => blocks - blocks % chunk_blocks,
                Sizes::Smallest => last.end,
            })
            .collect();
        Ok(Self {
            level,
            layout,
            members,
            blocks: last.end_block,
            groups: last.end_group,
            chunk_blocks: spec.chunk_blocks,
            data_chunks,
            slots,
            stripe: Divisor::new(chunk_blocks * u64::from(data_chunks)),
            chunk: Divisor::new(chunk_blocks),
            zones,
            member_blocks_used,
            older: None,
        })
    }

    /// The level.
    pub fn level(&self) -> &'static Level {
        self.level
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The layout's name, such as `left-symmetric` or `near 2`; empty if the level has only one.
    pub fn layout_name(&self) -> String {
        self.layout.to_string()
    }

    /// A note for the creator of an array that is legal but rarely intended; `None` for others.
    pub fn note(&self) -> Option<&'static str> {
        let (members, note) = self.level.note?;
        (self.members < members).then_some(note)
    }

    /// The number of members.
    pub fn members(&self) -> u8 {
        self.members
    }

    /// The number of blocks of the array.
    pub fn blocks(&self) -> u64 {
        match &self.older {
            None => self.blocks,
            Some(older) => older.geometry.blocks,
        }
    }

    /// The number of groups of the array; of both maps while it grows.
    pub fn groups(&self) -> u64 {
        match &self.older {
            None => self.groups,
            Some(older) => older.first_group + older.geometry.groups,
        }
    }

    /// The length of a chunk, in blocks.
    pub fn chunk_blocks(&self) -> u32 {
        self.chunk_blocks
    }

    /// The number of data chunks of every group.
    pub fn data_chunks(&self) -> u8 {
        self.data_chunks
    }

    /// The number of redundant chunks of every group: parity or further copies.
    pub fn redundancy(&self) -> u8 {
        self.slots - self.data_chunks
    }

    /// The number of parity chunks of every group; 0 if redundancy is copies.
    pub fn parity_chunks(&self) -> u8 {
        match self.level.redundancy {
            Redundancy::Parity(chunks) => chunks,
            _ => 0,
        }
    }

    /// The number of blocks of a member's data area that the array uses.
    pub fn member_blocks_used(&self, member: MemberIndex) -> u64 {
        self.member_blocks_used[usize::from(member.0)]
    }

    /// Returns the place of a block. Panics for a block beyond the end; if the array grows, beyond
    /// its future end.
    #[inline]
    pub fn locate(&self, block: BlockIndex) -> Location {
        if let Some(older) = &self.older
            && (older.mark..older.geometry.blocks).contains(&block.0)
        {
            let mut location = older.geometry.locate(block);
            location.group.0 += older.first_group;
            return location;
        }
        assert!(block.0 < self.blocks, "a block beyond the end of the array");
        let zone = match &self.zones[0] {
            first if block.0 < first.end_block => first,
            _ => &self.zones[self.zones.partition_point(|zone| zone.end_block <= block.0)],
        };
        let (group, in_stripe) = self.stripe.div_rem(block.0 - zone.first_block);
        let (data_index, in_chunk) = match self.data_chunks {
            1 => (0, in_stripe),
            _ => self.chunk.div_rem(in_stripe),
        };
        let (turn, phase) = zone.period.div_rem(group);
        let slot = &zone.slots[to_usize(phase * u64::from(self.slots) + data_index)];
        let left = (u64::from(self.chunk_blocks) - in_chunk).min(zone.end_block - block.0);
        Location {
            group: GroupIndex(zone.first_group + group),
            data_index: u8::try_from(data_index).expect("less than the members"),
            block_in_chunk: u32::try_from(in_chunk).expect("less than the chunk"),
            blocks_left: u32::try_from(left).expect("at most the chunk"),
            member: slot.member,
            offset: BlockIndex(slot.offset.0 + turn * zone.period_blocks + in_chunk),
        }
    }

    /// Returns the number of blocks of the array in the groups before this one.
    pub fn blocks_before(&self, group: GroupIndex) -> u64 {
        if group.0 >= self.groups() {
            return self.blocks();
        }
        let mut filled = Group::empty();
        self.group_into(group, &mut filled);
        filled.first_block.0
    }

    /// Fills in a group. Allocates nothing and writes only the slots in use. Panics for a group
    /// beyond the end.
    pub fn group_into(&self, index: GroupIndex, out: &mut Group) {
        if let Some(older) = &self.older
            && index.0 >= older.first_group
        {
            let of_older = GroupIndex(index.0 - older.first_group);
            older.geometry.group_into(of_older, out);
            out.index = index;
            return;
        }
        assert!(index.0 < self.groups, "a group beyond the end of the array");
        let zone = match &self.zones[0] {
            first if index.0 < first.end_group => first,
            _ => &self.zones[self.zones.partition_point(|zone| zone.end_group <= index.0)],
        };
        let group = index.0 - zone.first_group;
        let chunk_blocks = u64::from(self.chunk_blocks);
        let first_block = zone.first_block + group * chunk_blocks * u64::from(self.data_chunks);
        let blocks = chunk_blocks.min(zone.end_block - first_block);
        out.index = index;
        out.first_block = BlockIndex(first_block);
        out.blocks = u32::try_from(blocks).expect("at most the chunk");
        out.data_chunks = self.data_chunks;
        out.parity_chunks = self.parity_chunks();
        out.len = self.slots;

        let (turn, phase) = zone.period.div_rem(group);
        let first_slot = to_usize(phase * u64::from(self.slots));
        let slots = &zone.slots[first_slot..][..usize::from(self.slots)];
        for (out, slot) in out.slots.iter_mut().zip(slots) {
            *out = *slot;
            out.offset.0 += turn * zone.period_blocks;
        }
    }

    /// The inverse of `group_into`: returns the group, the slot and the block in the chunk at
    /// `offset` of a member's data area. `None` if the array doesn't use it.
    pub fn find(&self, member: MemberIndex, offset: BlockIndex) -> Option<(GroupIndex, u8, u32)> {
        match &self.older {
            None => self.find_in_zones(member, offset),
            Some(older) => self.find_growing(older, member, offset),
        }
    }

    pub(crate) fn find_in_zones(
        &self,
        member: MemberIndex,
        offset: BlockIndex,
    ) -> Option<(GroupIndex, u8, u32)> {
        let chunk_blocks = u64::from(self.chunk_blocks);
        let mut zones = self.zones.iter();
        let (group, slot, block) =
            zones.find_map(|zone| zone.find(member, offset.0, chunk_blocks))?;
        let block = u32::try_from(block).expect("less than the chunk");
        Some((group, slot, block))
    }

    /// Returns true if all data can be read or computed without these members: every group keeps at
    /// least as many chunks as it has data chunks.
    pub fn survives(&self, missing: MemberSet) -> bool {
        missing.is_empty() || self.survives_more(missing).is_some()
    }

    /// Returns how many further members may be missing besides these, in any combination: the
    /// smallest surplus of chunks over data chunks among the groups. `None` if a group lacks data.
    pub fn survives_more(&self, missing: MemberSet) -> Option<u8> {
        match &self.older {
            None => self.zones_survive_more(missing),
            Some(older) => self.survives_more_growing(older, missing),
        }
    }

    pub(crate) fn zones_survive_more(&self, missing: MemberSet) -> Option<u8> {
        let groups = self.zones.iter().flat_map(|zone| {
            let groups = zone.period_groups.min(zone.end_group - zone.first_group);
            let phases = zone.slots.chunks_exact(usize::from(self.slots));
            phases.take(to_usize(groups))
        });
        let beyond_data = groups.map(|group| {
            let kept = (group.iter()).filter(|slot| !missing.contains(slot.member));
            let kept = u8::try_from(kept.count()).expect("at most the members");
            kept.checked_sub(self.data_chunks)
        });
        beyond_data.min().flatten()
    }
}

fn shape_of(level: &'static Level, layout: Layout, members: u8) -> Result<Shape, GeometryError> {
    let copies = match level.redundancy {
        Redundancy::CopyOnEveryMember => members,
        Redundancy::Copies => layout.copies(),
        Redundancy::None | Redundancy::Parity(_) => 1,
    };
    if level.redundancy == Redundancy::Copies && !(2..=members).contains(&copies) {
        return Err(GeometryError::WrongCopies { copies, members });
    }
    Ok(Shape {
        members,
        copies,
        sections: layout.counts[1],
        first_chunk: 0,
    })
}

fn zones(
    spec: &Spec,
    layout: Layout,
    shape: Shape,
    parity_chunks: u8,
) -> Result<Vec<Zone>, GeometryError> {
    let chunk_blocks = u64::from(spec.chunk_blocks);
    check_sizes(spec, blocks_min(spec, layout, shape, parity_chunks))?;
    let cuts = zone_cuts(spec);
    let mut zones: Vec<Zone> = Vec::with_capacity(cuts.len());
    for (members, start, end) in cuts {
        let (first_block, first_group) = match zones.last() {
            None => (0, 0),
            Some(zone) => (zone.end_block, zone.end_group),
        };
        let of_zone = u8::try_from(members.len()).expect("at most all");
        let first_chunk = first_block / chunk_blocks % u64::from(of_zone);
        let shape = Shape {
            members: of_zone,
            first_chunk: u8::try_from(first_chunk).expect("less than the members"),
            ..shape
        };
        let bounds = Bounds {
            members,
            start,
            end,
            first_block,
            first_group,
        };
        zones.push(Zone::new(
            layout,
            shape,
            parity_chunks,
            chunk_blocks,
            bounds,
        ));
    }
    Ok(zones)
}

/// Returns the number of blocks that the first group needs of each member.
fn blocks_min(spec: &Spec, layout: Layout, shape: Shape, parity_chunks: u8) -> u64 {
    let slots = if parity_chunks == 0 {
        shape.copies
    } else {
        shape.members
    };
    let rows = (0..slots).map(|slot| (layout.row.place)(shape, 0, slot).row + 1);
    let sections = (layout.row.period)(shape).sections;
    let rows_min = rows.max().map_or(1, u64::from).max(u64::from(sections));
    match spec.level.sizes {
        Sizes::Sequence => 1,
        Sizes::Zones | Sizes::Smallest => rows_min * u64::from(spec.chunk_blocks),
    }
}

/// Returns an error if a member has fewer blocks than this.
fn check_sizes(spec: &Spec, blocks_min: u64) -> Result<(), GeometryError> {
    match member_sizes(spec).find(|(_, blocks)| *blocks < blocks_min) {
        None => Ok(()),
        Some((member, blocks)) => Err(GeometryError::MemberTooSmall {
            member,
            blocks,
            blocks_min,
        }),
    }
}

/// Returns each member with its size in blocks.
fn member_sizes(spec: &Spec) -> impl Iterator<Item = (MemberIndex, u64)> + Clone {
    (0..)
        .map(MemberIndex)
        .zip(spec.member_blocks.iter().copied())
}

/// Returns the members of each zone, and its start and end on them.
fn zone_cuts(spec: &Spec) -> Vec<(Vec<MemberIndex>, u64, u64)> {
    let chunk_blocks = u64::from(spec.chunk_blocks);
    let sizes = member_sizes(spec);
    match spec.level.sizes {
        Sizes::Sequence => sizes
            .map(|(member, size)| (vec![member], 0, size))
            .collect(),
        Sizes::Smallest => {
            let smallest = spec.member_blocks.iter().min().expect("at least one");
            let end = smallest - smallest % chunk_blocks;
            vec![(sizes.map(|(member, _)| member).collect(), 0, end)]
        }
        Sizes::Zones => {
            let whole = |size: u64| size - size % chunk_blocks;
            let mut ends: Vec<u64> = sizes.clone().map(|(_, size)| whole(size)).collect();
            ends.sort_unstable();
            ends.dedup();
            let starts = core::iter::once(0).chain(ends.iter().copied());
            let reaches = |end: u64| {
                let members = sizes.clone().filter(move |(_, size)| *size >= end);
                members.map(|(member, _)| member).collect()
            };
            (starts.zip(&ends))
                .map(|(start, end)| (reaches(*end), start, *end))
                .collect()
        }
    }
}
