//! A part of the array in which one layout repeats over one set of members, as tables.

use crate::divisor::Divisor;
use crate::level::{Layout, Shape};
use crate::{GroupIndex, Role, Slot};
use alloc::vec;
use alloc::vec::Vec;
use spindles_block::{BlockIndex, MemberIndex};

/// One zone; most arrays have exactly one.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) first_block: u64,
    pub(crate) end_block: u64,
    pub(crate) first_group: u64,
    pub(crate) end_group: u64,
    /// Groups after which the layout repeats.
    pub(crate) period: Divisor,
    pub(crate) period_groups: u64,
    /// The length of one period on the members, in blocks.
    pub(crate) period_blocks: u64,
    /// The slots of each group of the first period, with their offsets.
    pub(crate) slots: Vec<Slot>,
    /// The members of the zone.
    pub(crate) members: Vec<MemberIndex>,
    /// The start and the end of the zone on its members.
    start: u64,
    pub(crate) end: u64,
    period_rows: u64,
    section_rows: u64,
    /// For each section, row of the period and member of the zone: the group of the first period
    /// and its slot.
    inverse: Vec<Option<(u32, u8)>>,
}

/// The bounds of a zone.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) members: Vec<MemberIndex>,
    /// On its members.
    pub(crate) start: u64,
    /// On its members. Only zones of one member may end within a chunk.
    pub(crate) end: u64,
    /// In the array.
    pub(crate) first_block: u64,
    /// In the array.
    pub(crate) first_group: u64,
}

impl Zone {
    pub(crate) fn new(
        layout: Layout,
        shape: Shape,
        parity_chunks: u8,
        chunk_blocks: u64,
        bounds: Bounds,
    ) -> Self {
        let period = (layout.row.period)(shape);
        let period_rows = u64::from(period.rows);
        let sections = u64::from(period.sections);
        let (data_chunks, slots_in_group) = match parity_chunks {
            0 => (1, shape.copies),
            _ => (shape.members - parity_chunks, shape.members),
        };

        // Only zones of one member may end within a chunk.
        let length = bounds.end - bounds.start;
        let section_rows = length.div_ceil(chunk_blocks) / sections;

        let mut slots = Vec::new();
        let rows_of_all = usize::from(period.sections) * to_usize(period_rows);
        let mut inverse = vec![None; rows_of_all * usize::from(shape.members)];
        let mut groups = section_rows / period_rows * u64::from(period.groups);
        let rows_left = section_rows % period_rows;
        let mut fits = true;
        for phase in 0..period.groups {
            for slot in 0..slots_in_group {
                let place = (layout.row.place)(shape, phase, slot);
                let (row, section) = (u64::from(place.row), u64::from(place.section));
                fits &= row < rows_left;
                let rows = section * section_rows + row;
                slots.push(Slot {
                    member: bounds.members[usize::from(place.member.0)],
                    offset: BlockIndex(bounds.start + rows * chunk_blocks),
                    role: match (slot, slot.checked_sub(data_chunks)) {
                        (slot, None) => Role::Data(slot),
                        (_, Some(p)) if parity_chunks > 0 => Role::Parity(p),
                        (copy, _) => Role::Copy(copy),
                    },
                    code_index: place.code_index,
                });
                let line = to_usize(section * period_rows + row) * usize::from(shape.members);
                let entry = &mut inverse[line + usize::from(place.member.0)];
                assert!(entry.is_none(), "a layout puts two chunks in one place");
                *entry = Some((phase, slot));
            }
            groups += u64::from(fits);
        }

        let blocks = match shape.members {
            1 => length,
            _ => groups * u64::from(data_chunks) * chunk_blocks,
        };
        Self {
            first_block: bounds.first_block,
            end_block: bounds.first_block + blocks,
            first_group: bounds.first_group,
            end_group: bounds.first_group + groups,
            period: Divisor::new(u64::from(period.groups)),
            period_groups: u64::from(period.groups),
            period_blocks: period_rows * chunk_blocks,
            slots,
            members: bounds.members,
            start: bounds.start,
            end: bounds.end,
            period_rows,
            section_rows,
            inverse,
        }
    }

    /// Returns true if this is a zone of the same layout as `old`, and at least as long. Sections
    /// that get longer move those after them, so they don't continue.
    pub(crate) fn continues(&self, old: &Self) -> bool {
        self.first_block == old.first_block
            && self.first_group == old.first_group
            && self.start == old.start
            && self.end >= old.end
            && self.members == old.members
            && self.slots == old.slots
    }

    /// Returns the group and slot of a chunk-sized row on a member; `None` if the zone doesn't have
    /// it.
    pub(crate) fn find(
        &self,
        member: MemberIndex,
        offset: u64,
        chunk_blocks: u64,
    ) -> Option<(GroupIndex, u8, u64)> {
        let column = self.members.iter().position(|m| *m == member)?;
        if !(self.start..self.end).contains(&offset) {
            return None;
        }
        let (row, block) = (
            (offset - self.start) / chunk_blocks,
            (offset - self.start) % chunk_blocks,
        );
        let (section, row) = (row / self.section_rows, row % self.section_rows);
        let (turn, row) = (row / self.period_rows, row % self.period_rows);
        let line = to_usize(section * self.period_rows + row) * self.members.len();
        let (phase, slot) = (*self.inverse.get(line + column)?)?;
        let group = self.first_group + turn * self.period_groups + u64::from(phase);
        (group < self.end_group).then_some((GroupIndex(group), slot, block))
    }
}

pub(crate) fn to_usize(n: u64) -> usize {
    usize::try_from(n).expect("small enough for a table")
}
