//! Room for the computations of stripe ranges: their scratch space, their operands, the checksums
//! that they make, and the row sums of the parity that they write.

use crate::{
    RangeId, checksums::row_sums::ChecksumsOf, index, plan::Shape, slots::SlotSet, stripe::Ranges,
};
use alloc::{vec, vec::Vec};
use core::ops::Range;
use spindles_block::{BufferId, BufferSlice, Operand};
use spindles_format::RowSum;
use spindles_layout::Geometry;

/// The scratch space of stripe ranges, in rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scratch {
    buffer: BufferId,
    row_blocks: u32,
    /// The first stripe range with scratch space. With one slot in each group, only jobs need it.
    first: u32,
    /// The rows of a stripe range: every chunk, and the parity it should have.
    rows: u32,
}

impl Scratch {
    /// Returns the scratch space of an array. `clients` is the number of stripe ranges for
    /// requests.
    pub(crate) fn new(
        buffer: BufferId,
        row_blocks: u32,
        shape: Shape,
        geometry: &Geometry,
        clients: u32,
    ) -> Self {
        let parity = geometry.parity_chunks();
        let older = geometry.older().map_or(0, Geometry::parity_chunks);
        let (first, rows) = match shape.slots {
            1 => (clients, 1),
            slots => (0, u32::from(slots) + u32::from(parity.max(older))),
        };
        Self {
            buffer,
            row_blocks,
            first,
            rows,
        }
    }

    /// The number of blocks for `ranges` stripe ranges.
    pub(crate) fn blocks(&self, ranges: u32) -> u32 {
        (ranges - self.first) * self.rows * self.row_blocks
    }

    /// Returns the place of a row of a stripe range.
    #[inline]
    pub(crate) fn row(&self, range: u32, row: u8) -> BufferSlice {
        let row = (range - self.first) * self.rows + u32::from(row);
        BufferSlice {
            buffer: self.buffer,
            first_block: row * self.row_blocks,
        }
    }
}

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

    /// Returns where the checksums of a slot are. Those of a stripe range lie together, slot after
    /// slot.
    pub(crate) fn checksums_range(
        &self,
        ranges: &Ranges,
        id: RangeId,
        sums: ChecksumsOf,
        slot: u8,
    ) -> Range<usize> {
        let range = &ranges[id];
        let (slots, skipped) = match sums {
            ChecksumsOf::Read => (range.rows.read_checksums, 0),
            ChecksumsOf::Made => (range.rows.made_checksums, range.rows.read_checksums.count()),
            ChecksumsOf::New => {
                let others = range.rows.read_checksums.count() + range.rows.made_checksums.count();
                (range.rows.new_checksums, others)
            }
        };
        let before = skipped + slots.and(SlotSet::range(0, slot)).count();
        let start = self.checksums_start(id) + index(before * range.blocks);
        start..start + index(range.blocks)
    }

    /// Returns where the row sums of a stripe range's current rows are.
    pub(crate) fn row_sums_range(&self, ranges: &Ranges, id: RangeId) -> Range<usize> {
        let start = self.row_sums_start(id);
        start..start + index(ranges[id].blocks)
    }

    pub(crate) fn put_operand(
        &mut self,
        ranges: &Ranges,
        id: RangeId,
        cursor: &mut usize,
        slot: u8,
        slice: BufferSlice,
    ) {
        let code_index = ranges.slot(id, slot).code_index;
        let operand = Operand {
            index: code_index,
            slice,
        };
        self.set_operand(*cursor, operand);
        *cursor += 1;
    }
}
