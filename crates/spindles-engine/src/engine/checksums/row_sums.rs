//! Row sums of what columns write, and what they prove.
//!
//! The sum of a row is kept beside each of its parity blocks (`RowSum`). It is taken in two steps: over
//! the data that a column leaves as it is before that of the new data is summed up, and over the new
//! data when that is.

use crate::{
    Engine, Mutation,
    checksums::row_sums::{RowSums, Sums},
    index,
    plan::{Strategy, Work},
    slots::SlotSet,
};
use core::ops::Range;
use spindles_format::{RowSum, stored_checksum};

impl Engine {
    /// Where the checksums of a slot are: those of a column lie together, slot after slot.
    pub(crate) fn sums_range(&self, id: u32, sums: Sums, slot: u8) -> Range<usize> {
        let column = &self.columns[index(id)];
        let (slots, skipped) = match sums {
            Sums::Read => (column.read_sums, 0),
            Sums::Made => (column.made_sums, column.read_sums.count()),
            Sums::New => {
                let others = column.read_sums.count() + column.made_sums.count();
                (column.new_sums, others)
            }
        };
        let before = skipped + slots.and(SlotSet::range(0, slot)).count();
        let start = index(id) * self.checksums_of_column + index(before * column.blocks);
        start..start + index(column.blocks)
    }

    /// The checksum of a slot in a row, counted from the first under way, as it would be kept.
    pub(crate) fn sum_at(&self, id: u32, sums: Sums, slot: u8, row: u32) -> u32 {
        let range = self.sums_range(id, sums, slot);
        stored_checksum(self.checksums[range.start + index(row)])
    }

    /// The checksum of a data block as it is at hand, read or made: `None` where it is neither.
    fn sum_of_data(&self, id: u32, slot: u8, row: u32) -> Option<u32> {
        let column = &self.columns[index(id)];
        if column.made_sums.contains(slot) {
            Some(self.sum_at(id, Sums::Made, slot, row))
        } else if column.zeros.contains(slot) {
            Some(stored_checksum(self.sum_of_zeros()))
        } else if column.read_sums.contains(slot) {
            Some(self.sum_at(id, Sums::Read, slot, row))
        } else {
            None
        }
    }

    /// The checksum of a block of zeros.
    pub(crate) fn sum_of_zeros(&self) -> u32 {
        let pages = self.pages.as_ref().expect("blocks have checksums");
        pages.of_zeros
    }

    /// The sum over data blocks of a row that are at hand. `None` where one of them is not.
    pub(crate) fn row_sum_of(&self, id: u32, data: SlotSet, row: u32) -> Option<RowSum> {
        data.iter().try_fold(RowSum::default(), |sum, slot| {
            Some(sum.with(slot, self.sum_of_data(id, slot, row)?))
        })
    }

    /// Sums up what was recovered, or computed, of these slots.
    pub(crate) fn sum_up_made(&mut self, id: u32, slots: SlotSet) {
        self.columns[index(id)].made_sums = slots;
        self.work_step(id, Work::Prove);
    }

    /// Data of the rows under way was recovered from the rest: it is used where that is proved. By the
    /// sum of its row, or by what its own member keeps of it.
    pub(crate) fn recovered(&mut self, id: u32) {
        let blocks = self.columns[index(id)].blocks;
        let proved = (0..blocks).all(|row| self.is_proved(id, row));
        let trusts = self.believes || self.read_only && self.trust_unsettled;
        if proved || trusts || self.mutated(Mutation::TrustRecovered) {
            return self.work(id, Some(Work::Recover));
        }
        if self.halve(id) {
            return self.plan_column(id);
        }
        // One of the parities that it was recovered from is not that of this row.
        let shape = self.shape(id);
        let column = &mut self.columns[index(id)];
        let used = column.plan.reads.lowest(u32::from(shape.data));
        column.unreadable = column.unreadable.or(used.and(shape.redundant()));
        column.corrupt = true;
        self.plan_column(id);
    }

    fn is_proved(&self, id: u32, row: u32) -> bool {
        let column = &self.columns[index(id)];
        let shape = column.shape;
        let parity = column.read_sums.or(column.zeros).and(shape.redundant());
        if let Some(sum) = self.row_sum_of(id, shape.all_data(), row)
            && parity
                .iter()
                .any(|slot| self.entry(id, slot, row).row_sum == sum)
        {
            return true;
        }
        let missing = self.missing_slots(id);
        let is_own = |slot| {
            let held = column.plan.reads.or(column.plan.writes).contains(slot);
            let sum = self.sum_at(id, Sums::Made, slot, row);
            held && !missing.contains(slot) && self.entry(id, slot, row).checksum == sum
        };
        let complete = self.pages.as_ref().is_some_and(|pages| pages.complete);
        let knows = |slot| self.entry(id, slot, row).row_sum != RowSum::NONE;
        let agreed = !complete && !parity.iter().any(knows) && !self.in_doubt(id);
        column.made_sums.iter().all(is_own) || agreed
    }

    /// Begins the row sums of what a column is about to write: over the data that stays as it is.
    pub(crate) fn begin_row_sums(&mut self, id: u32) {
        if !self.writes_row_sums(id) {
            return;
        }
        let column = &self.columns[index(id)];
        let (shape, renewed, reads) = (column.shape, column.renewed(), column.plan.reads);
        let by_difference = column.plan.strategy == Strategy::ReadModifyWrite;
        let places = self.row_sums_range(id);
        if !by_difference {
            for (at, row) in places.zip(0..) {
                self.row_sums[at] = self.row_sum_of(id, shape.all_data().minus(renewed), row);
            }
            return;
        }
        let parity = reads.and(shape.redundant()).first();
        let parity = parity.expect("old parity was read");
        for (at, row) in places.clone().zip(0..) {
            let before = self.entry(id, parity, row).row_sum;
            self.row_sums[at] = (before != RowSum::NONE).then_some(before);
        }
        if self.mutated(Mutation::StaleRowSum) {
            return;
        }
        for slot in renewed.iter() {
            let old = self.sums_range(id, Sums::Read, slot);
            let sums = self.row_sums[places.clone()].iter_mut();
            for (sum, &old) in sums.zip(&self.checksums[old]) {
                *sum = sum.map(|sum| sum.without(slot, stored_checksum(old)));
            }
        }
    }

    /// Ends them: with the new data.
    pub(crate) fn end_row_sums(&mut self, id: u32) {
        if !self.writes_row_sums(id) {
            return;
        }
        let column = &self.columns[index(id)];
        let (renewed, new_sums) = (column.renewed(), column.new_sums);
        let of_zeros = stored_checksum(self.sum_of_zeros());
        let places = self.row_sums_range(id);
        for slot in renewed.iter() {
            if !new_sums.contains(slot) {
                for sum in &mut self.row_sums[places.clone()] {
                    *sum = sum.map(|sum| sum.with(slot, of_zeros));
                }
                continue;
            }
            let new = self.sums_range(id, Sums::New, slot);
            let sums = self.row_sums[places.clone()].iter_mut();
            for (sum, &new) in sums.zip(&self.checksums[new]) {
                *sum = sum.map(|sum| sum.with(slot, stored_checksum(new)));
            }
        }
    }

    /// Where the row sums are of the rows under way of a column.
    fn row_sums_range(&self, id: u32) -> Range<usize> {
        let start = index(id) * self.row_sums_of_column;
        start..start + index(self.columns[index(id)].blocks)
    }

    /// Whether a column writes parity that is no row of zeros.
    fn writes_row_sums(&self, id: u32) -> bool {
        let computes = self.columns[index(id)].plan.strategy != Strategy::Direct;
        self.has_checksums() && computes && self.writes_parity(id)
    }

    fn writes_parity(&self, id: u32) -> bool {
        let column = &self.columns[index(id)];
        let parity = column.plan.writes.and(column.shape.redundant());
        !column.shape.copies && !parity.is_empty()
    }

    /// The sums of the rows that a column writes, for its parity.
    pub(crate) fn row_sums(&self, id: u32) -> RowSums {
        if self.writes_row_sums(id) {
            RowSums::At(self.row_sums_range(id))
        } else if self.has_checksums() && self.writes_parity(id) {
            let of_zeros = stored_checksum(self.sum_of_zeros());
            RowSums::Alike(RowSum::of_zeros(self.shape(id).data, of_zeros))
        } else {
            RowSums::Alike(RowSum::NONE)
        }
    }
}
