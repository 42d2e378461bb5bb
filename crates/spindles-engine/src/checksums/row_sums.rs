//! The checksums and row sums at hand for a stripe range.

use core::ops::Range;
use spindles_format::RowSum;

/// The blocks of a stripe range whose checksums are at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumsOf {
    /// Blocks as read.
    Read,
    /// Recovered or computed blocks.
    Made,
    /// Blocks to write.
    New,
}

/// The row sums that a stripe range writes with its parity.
#[derive(Clone, Debug)]
pub(crate) enum RowSums {
    /// Computed, at these indices.
    At(Range<usize>),
    /// The same for all rows.
    Alike(RowSum),
}

impl RowSums {
    /// Returns the row sums of the current rows, if they differ; otherwise that of all rows.
    #[inline]
    pub(crate) fn in_rows<'a>(
        &self,
        computed: &'a [Option<RowSum>],
    ) -> (Option<&'a [Option<RowSum>]>, RowSum) {
        match self {
            Self::At(places) => (Some(&computed[places.clone()]), RowSum::NONE),
            Self::Alike(sum) => (None, *sum),
        }
    }

    /// Returns the row sum of a row, counted from the first current row.
    #[inline]
    pub(crate) fn of(&self, computed: &[Option<RowSum>], row: usize) -> RowSum {
        match self {
            Self::At(places) => computed[places.clone()][row].unwrap_or(RowSum::NONE),
            Self::Alike(sum) => *sum,
        }
    }
}
