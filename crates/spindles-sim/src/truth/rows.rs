//! The rows that blocks of disks belong to, and what clients were writing in them.

use crate::disk::View;
use crate::stack::{Row, Spot, Stack, group_of, solve};
use spindles_block::BlockIndex;
use spindles_layout::{Group, Role};
use std::collections::BTreeSet;

impl Stack {
    /// Returns the row that a block of a disk belongs to; `None` for metadata.
    pub(crate) fn row_of(&self, disk: usize, block: BlockIndex) -> Option<Row> {
        let (array, member, offset) = self.spot_at(disk, block)?.parts();
        let geometry = &self.arrays[array].geometry;
        let (index, _, block_in_chunk) = geometry.find(member, offset)?;
        Some(Row {
            array,
            member,
            group: group_of(geometry, index),
            block_in_chunk,
        })
    }

    /// Returns true if corruption in a row can be proved. This requires that, with corruption
    /// undone, parity matches the data and the stored checksums of parity are current.
    pub(super) fn row_is_whole(&self, array: usize, group: &Group, row: u64) -> bool {
        let this = &self.arrays[array];
        let mut held = Vec::new();
        for slot in group.slots() {
            if this.lost.contains(slot.member) {
                continue;
            }
            let offset = slot.offset.plus(row);
            let block = this.data_start[usize::from(slot.member.0)].plus(offset.0);
            let bytes = match self.disk_place(array, slot.member, block) {
                Some((disk, block)) if self.is_rotten(disk, block) => {
                    Some(self.decayed[&(disk, block.0)].right.clone())
                }
                Some((disk, block)) => Some(self.disk_block(disk, block, View::Current)),
                None => self.raw_block(array, slot.member, block, View::Current),
            };
            let Some(bytes) = bytes else {
                return false;
            };
            let is_parity = matches!(slot.role, Role::Parity(_));
            if is_parity && !self.is_summed(Spot::of(array, slot, row), &bytes) {
                return false;
            }
            held.push((slot.code_index, bytes));
        }
        let mut others = held.iter().skip(usize::from(group.data_chunks));
        others.all(|(index, bytes)| solve(group, &held, *index) == *bytes)
    }

    /// Returns true if clients were writing the data in this block of a disk, given the sectors
    /// they were writing. After a crash, the block may be torn, and so may the blocks that could
    /// verify it.
    pub(crate) fn is_in_doubt(
        &self,
        disk: usize,
        block: BlockIndex,
        doubts: &BTreeSet<u64>,
    ) -> bool {
        let Some(Row {
            array,
            member,
            group,
            block_in_chunk: row,
        }) = self.row_of(disk, block)
        else {
            return false;
        };
        if array != self.top() {
            return !doubts.is_empty();
        }
        let sectors = self.sectors(disk, block);
        let slot = group.slots().iter().find(|slot| slot.member == member);
        let chunk = match slot.expect("it was found there").role {
            Role::Data(chunk) => u64::from(chunk),
            Role::Copy(_) => 0,
            Role::Parity(_) => return false, // It is recomputed.
        };
        let first = group.first_block.0 + chunk * u64::from(group.blocks) + u64::from(row);
        let per_block = sectors.end - sectors.start;
        let written = first * per_block..(first + 1) * per_block;
        doubts.range(written).next().is_some()
    }

    /// Returns true if clients were writing a block in the row of a disk's block.
    pub(super) fn is_row_in_doubt(
        &self,
        disk: usize,
        block: BlockIndex,
        doubts: &BTreeSet<u64>,
    ) -> bool {
        let row = self.row_of(disk, block);
        row.is_some_and(|row| {
            let mut places = row.places(self);
            places.any(|place| {
                place.is_none_or(|(disk, block)| self.is_in_doubt(disk, block, doubts))
            })
        })
    }
}
