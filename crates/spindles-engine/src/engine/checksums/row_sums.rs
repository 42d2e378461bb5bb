//! The row sums of stripe ranges' writes, and what they prove.
//!
//! The sum of a row is kept with each of its parity blocks (`RowSum`). It is computed in two steps.
//! Before the new data is checksummed, the data that a stripe range leaves unchanged is added; the
//! new data follows afterwards.

use crate::{
    Engine, Mutation, RangeId,
    checksums::{
        Pages,
        row_sums::{ChecksumsOf, RowSums},
    },
    index,
    plan::{Step, Strategy},
    slots::SlotSet,
    stripe::Next,
};
use spindles_format::{RowSum, stored_checksum};

impl Engine {
    /// Returns the checksum of a slot in a row, counted from the first current row, as it is
    /// stored.
    pub(crate) fn checksum_at(&self, id: RangeId, sums: ChecksumsOf, slot: u8, row: u32) -> u32 {
        let range = self.workspace.checksums_range(&self.ranges, id, sums, slot);
        stored_checksum(self.workspace.checksums()[range.start + index(row)])
    }

    /// Returns the checksum at hand of a data block, read or made; `None` if there is none.
    fn checksum_of_data(&self, id: RangeId, slot: u8, row: u32) -> Option<u32> {
        let range = &self.ranges[id];
        if range.rows.made_checksums.contains(slot) {
            Some(self.checksum_at(id, ChecksumsOf::Made, slot, row))
        } else if range.rows.zeros.contains(slot) {
            Some(stored_checksum(self.checksum_of_zeros()))
        } else if range.rows.read_checksums.contains(slot) {
            Some(self.checksum_at(id, ChecksumsOf::Read, slot, row))
        } else {
            None
        }
    }

    /// Returns the sum over data blocks of a row. `None` if the checksum of one is not at hand.
    pub(crate) fn row_sum_of(&self, id: RangeId, data: SlotSet, row: u32) -> Option<RowSum> {
        data.iter().try_fold(RowSum::default(), |sum, slot| {
            Some(sum.with(slot, self.checksum_of_data(id, slot, row)?))
        })
    }

    /// Computes the checksums of recovered or computed blocks in these slots, as this step.
    pub(crate) fn checksum_made(&mut self, id: RangeId, step: Step, slots: SlotSet) {
        self.ranges[id].rows.made_checksums = slots;
        self.take_step(id, step);
    }

    /// Uses recovered data of the current rows if it is proved: by the row sum, or by the checksum
    /// that its own member keeps.
    pub(crate) fn recovered(&mut self, id: RangeId) -> Next {
        let blocks = self.ranges[id].blocks;
        if !self.ranges[id].rows.old_contents.is_empty() {
            if (0..blocks).all(|row| self.proves_old(id, row)) {
                return Next::After(Step::Prove);
            }
            return self.ranges[id].leave_old_contents();
        }
        let proved = (0..blocks).all(|row| self.is_proved(id, row));
        if proved || self.mutated(Mutation::TrustRecovered) {
            return Next::After(Step::Prove);
        }
        if self.ranges[id].halve() {
            return Next::Plan;
        }
        // A parity that was used for the recovery is not the parity of this row.
        let shape = self.ranges[id].shape;
        let range = &mut self.ranges[id];
        let used = range.plan.reads.lowest(u32::from(shape.data));
        range.rows.unreadable = range.rows.unreadable.or(used.and(shape.redundant()));
        range.seen.corrupt = true;
        Next::Plan
    }

    fn is_proved(&self, id: RangeId, row: u32) -> bool {
        let range = &self.ranges[id];
        let shape = range.shape;
        let parity = range
            .rows
            .read_checksums
            .or(range.rows.zeros)
            .and(shape.redundant());
        if let Some(sum) = self.row_sum_of(id, shape.all_data(), row)
            && parity
                .iter()
                .any(|slot| self.entry(id, slot, row).row_sum == sum)
        {
            return true;
        }
        let missing = self.ranges.missing_slots(&self.members, id);
        let is_own = |slot| {
            let held = range.plan.reads.or(range.plan.writes).contains(slot);
            let sum = self.checksum_at(id, ChecksumsOf::Made, slot, row);
            held && !missing.contains(slot) && self.entry(id, slot, row).checksum == sum
        };
        let complete = self.pages.as_ref().is_some_and(Pages::is_complete);
        let knows = |slot| self.entry(id, slot, row).row_sum != RowSum::NONE;
        let agreed = !complete && !parity.iter().any(knows);
        range.rows.made_checksums.iter().all(is_own) || agreed
    }

    /// Begins the row sums of a write, with the data that stays unchanged.
    pub(crate) fn begin_row_sums(&mut self, id: RangeId) {
        if !self.ranges[id].writes_row_sums(self.has_checksums()) {
            return;
        }
        let range = &self.ranges[id];
        let (shape, renewed, reads) = (range.shape, range.renewed(), range.plan.reads);
        let by_difference = range.plan.strategy == Strategy::ReadModifyWrite;
        let places = self.workspace.row_sums_range(&self.ranges, id);
        if !by_difference {
            for (at, row) in places.zip(0..) {
                let sum = self.row_sum_of(id, shape.all_data().minus(renewed), row);
                self.workspace.set_row_sum(at, sum);
            }
            return;
        }
        let parity = reads.and(shape.redundant()).first();
        let parity = parity.expect("old parity was read");
        for (at, row) in places.clone().zip(0..) {
            let before = self.entry(id, parity, row).row_sum;
            self.workspace
                .set_row_sum(at, (before != RowSum::NONE).then_some(before));
        }
        if self.mutated(Mutation::StaleRowSum) {
            return;
        }
        for slot in renewed.iter() {
            let old = self
                .workspace
                .checksums_range(&self.ranges, id, ChecksumsOf::Read, slot);
            let change = |sum: RowSum, old| sum.without(slot, stored_checksum(old));
            (self.workspace).change_row_sums(places.clone(), old, change);
        }
    }

    /// Ends the row sums of a write, with the new data.
    pub(crate) fn end_row_sums(&mut self, id: RangeId) {
        if !self.ranges[id].writes_row_sums(self.has_checksums()) {
            return;
        }
        let range = &self.ranges[id];
        let (renewed, new_checksums) = (range.renewed(), range.rows.new_checksums);
        let of_zeros = stored_checksum(self.checksum_of_zeros());
        let places = self.workspace.row_sums_range(&self.ranges, id);
        for slot in renewed.iter() {
            if !new_checksums.contains(slot) {
                for at in places.clone() {
                    let sum = self.workspace.row_sums()[at];
                    let sum = sum.map(|sum| sum.with(slot, of_zeros));
                    self.workspace.set_row_sum(at, sum);
                }
                continue;
            }
            let new = self
                .workspace
                .checksums_range(&self.ranges, id, ChecksumsOf::New, slot);
            let change = |sum: RowSum, new| sum.with(slot, stored_checksum(new));
            (self.workspace).change_row_sums(places.clone(), new, change);
        }
    }

    /// Returns the row sums that a stripe range writes with its parity.
    pub(crate) fn row_sums(&self, id: RangeId) -> RowSums {
        if self.ranges[id].writes_row_sums(self.has_checksums()) {
            RowSums::At(self.workspace.row_sums_range(&self.ranges, id))
        } else if self.has_checksums() && self.ranges[id].writes_parity() {
            let of_zeros = stored_checksum(self.checksum_of_zeros());
            RowSums::Alike(RowSum::of_zeros(self.ranges[id].shape.data, of_zeros))
        } else {
            RowSums::Alike(RowSum::NONE)
        }
    }

    /// Returns true if members that were not out prove a row in which old contents stand in.
    pub(crate) fn proves_old(&self, id: RangeId, row: u32) -> bool {
        let old = self.ranges[id].rows.old_contents;
        let shape = self.ranges[id].shape;
        let present = shape
            .all()
            .minus(self.ranges.missing_slots(&self.members, id));
        let witnesses = present.minus(old).and(self.ranges[id].rows.unreadable);
        if shape.copies {
            let read = old.first().expect("a copy was read");
            let sum = self.checksum_at(id, ChecksumsOf::Read, read, row);
            return witnesses
                .iter()
                .any(|slot| self.entry(id, slot, row).checksum == sum);
        }
        let Some(sum) = self.row_sum_of(id, shape.all_data(), row) else {
            return false;
        };
        let agrees = |slot| self.entry(id, slot, row).row_sum == sum;
        let own = self.ranges[id].rows.made_checksums.and(witnesses);
        let is_own = |slot| {
            let sum = self.checksum_at(id, ChecksumsOf::Made, slot, row);
            self.entry(id, slot, row).checksum == sum
        };
        let current = witnesses.or(self.ranges[id].plan.reads).minus(old);
        let parity = shape.redundant();
        let is_proved =
            current.and(parity).iter().any(agrees) || !own.is_empty() && own.iter().all(is_own);
        is_proved && old.and(parity).iter().all(agrees)
    }

    /// Returns true if the old contents that were read are proved, or a recovery will prove them.
    pub(crate) fn may_use_old_contents(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let is_proved = |row| self.proves_old(id, row);
        range.rows.old_contents.is_empty()
            || !range.plan.recover.is_empty()
            || (0..range.blocks).all(is_proved)
    }
}
