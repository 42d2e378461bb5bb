//! Room for the computations of stripe ranges: their operands, the checksums that they make, and
//! the row sums of the parity that they write.

use crate::{RangeId, index};
use alloc::{vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BufferSlice, Operand};
use spindles_format::RowSum;

/// The room of all stripe ranges.
#[derive(Clone, Debug)]
pub(crate) struct Workspace {
    operands: Vec<Operand>,
    operands_each: usize,
    /// Checksums of blocks that were read, recovered or are to be written.
    checksums: Vec<u32>,
    checksums_each: usize,
    /// Row sums of rows whose parity is written.
    row_sums: Vec<Option<RowSum>>,
    row_sums_each: usize,
}

impl Workspace {
    /// Reserves room for this many stripe ranges, with this many operands, checksums and row sums
    /// each.
    pub(crate) fn new(ranges: u32, operands: usize, checksums: usize, row_sums: usize) -> Self {
        let ranges = index(ranges);
        let none = Operand {
            index: 0,
            slice: BufferSlice::NONE,
        };
        Self {
            operands: vec![none; ranges * operands],
            operands_each: operands,
            checksums: vec![0; ranges * checksums],
            checksums_each: checksums,
            row_sums: vec![None; ranges * row_sums],
            row_sums_each: row_sums,
        }
    }

    /// Returns where the operands of a stripe range begin.
    #[inline]
    pub(crate) fn operands_start(&self, id: RangeId) -> usize {
        id.index() * self.operands_each
    }

    /// Returns the operands from `start` on.
    #[inline]
    pub(crate) fn operands(&self, start: usize) -> &[Operand] {
        &self.operands[start..]
    }

    #[inline]
    pub(crate) fn set_operand(&mut self, at: usize, operand: Operand) {
        self.operands[at] = operand;
    }

    /// Returns where the checksums of a stripe range begin.
    #[inline]
    pub(crate) fn checksums_start(&self, id: RangeId) -> usize {
        id.index() * self.checksums_each
    }

    /// The number of checksums of each stripe range.
    pub(crate) fn checksums_each(&self) -> usize {
        self.checksums_each
    }

    /// Returns the checksums of all stripe ranges.
    #[inline]
    pub(crate) fn checksums(&self) -> &[u32] {
        &self.checksums
    }

    #[inline]
    pub(crate) fn checksums_mut(&mut self, places: Range<usize>) -> &mut [u32] {
        &mut self.checksums[places]
    }

    /// Returns where the row sums of a stripe range begin.
    #[inline]
    pub(crate) fn row_sums_start(&self, id: RangeId) -> usize {
        id.index() * self.row_sums_each
    }

    /// Returns the row sums of all stripe ranges.
    #[inline]
    pub(crate) fn row_sums(&self) -> &[Option<RowSum>] {
        &self.row_sums
    }

    #[inline]
    pub(crate) fn set_row_sum(&mut self, at: usize, sum: Option<RowSum>) {
        self.row_sums[at] = sum;
    }

    /// Changes row sums, each with the checksum of the same row. Unknown row sums stay unknown.
    pub(crate) fn change_row_sums(
        &mut self,
        rows: Range<usize>,
        checksums: Range<usize>,
        change: impl Fn(RowSum, u32) -> RowSum,
    ) {
        let sums = self.row_sums[rows].iter_mut();
        for (sum, &checksum) in sums.zip(&self.checksums[checksums]) {
            *sum = sum.map(|sum| change(sum, checksum));
        }
    }
}
