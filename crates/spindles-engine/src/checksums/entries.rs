//! The entry that members keep of each block: its checksum, and for parity the row sum.

use spindles_format::{CHECKSUM_BLANK, CHECKSUM_LOST, CHECKSUM_NONE, RowSum, stored_checksum};

/// The entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The checksum as `stored_checksum` returns it, or one of the three values for "none".
    pub(crate) checksum: u32,
    /// For parity the sum of its row. `RowSum::NONE` if unknown.
    pub(crate) row_sum: RowSum,
}

impl Entry {
    /// The checksum is lost: no contents fit.
    pub(crate) const LOST: Self = Self {
        checksum: CHECKSUM_LOST,
        row_sum: RowSum::NONE,
    };

    /// The block was never written, and is in a blank row.
    pub(crate) const BLANK: Self = Self {
        checksum: CHECKSUM_BLANK,
        row_sum: RowSum::NONE,
    };

    /// Creates the entry of contents with this checksum.
    #[inline]
    pub(crate) fn of(sum: u32, row_sum: RowSum) -> Self {
        Self {
            checksum: stored_checksum(sum),
            row_sum,
        }
    }

    /// Returns the checksum; `None` if there is none.
    pub(crate) fn known(self) -> Option<u32> {
        is_known(self.checksum).then_some(self.checksum)
    }

    /// Returns true if this is the entry of contents with this checksum.
    pub(crate) fn is_of(self, sum: u32) -> bool {
        self.checksum == stored_checksum(sum)
    }
}

/// Returns true if `kept` is a checksum, not a value that says why there is none.
pub(crate) fn is_known(kept: u32) -> bool {
    ![CHECKSUM_NONE, CHECKSUM_BLANK, CHECKSUM_LOST].contains(&kept)
}
