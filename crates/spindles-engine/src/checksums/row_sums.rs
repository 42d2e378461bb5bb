//! How far the sums of the rows of a stripe range are known.

use core::ops::Range;
use spindles_format::RowSum;

/// Of which blocks of a stripe range checksums are at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumsOf {
    /// Those that were read.
    Read,
    /// Those that were recovered from others, or computed.
    Made,
    /// Those that are to be written.
    New,
}

/// The row sums that a stripe range writes with its parity.
#[derive(Clone, Debug)]
pub(crate) enum RowSums {
    /// Computed, in these places.
    At(Range<usize>),
    /// The same for all rows.
    Alike(RowSum),
}

impl RowSums {
    /// The one of a row, counted from the first under way.
    #[inline]
    pub(crate) fn of(&self, computed: &[Option<RowSum>], row: usize) -> RowSum {
        match self {
            Self::At(places) => computed[places.clone()][row].unwrap_or(RowSum::NONE),
            Self::Alike(sum) => *sum,
        }
    }
}
