//! What members keep of each block: its checksum, and beside parity the row sum.

use spindles_format::{CHECKSUM_BLANK, CHECKSUM_LOST, CHECKSUM_NONE, RowSum, stored_checksum};

/// What is kept of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// As `stored_checksum` makes it, or one of the three that say that there is none.
    pub(crate) checksum: u32,
    /// Of parity: the sum of its row. `RowSum::NONE` where that is not known.
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

    /// The entry of contents with this checksum.
    pub(crate) fn of(sum: u32, row_sum: RowSum) -> Self {
        Self {
            checksum: stored_checksum(sum),
            row_sum,
        }
    }

    /// The checksum, if there is one.
    pub(crate) fn known(self) -> Option<u32> {
        is_known(self.checksum).then_some(self.checksum)
    }

    /// Whether it says that the block has this checksum.
    pub(crate) fn is_of(self, sum: u32) -> bool {
        self.checksum == stored_checksum(sum)
    }
}

/// Whether what is kept of a block is a checksum, and does not only say why there is none.
pub(crate) fn is_known(kept: u32) -> bool {
    ![CHECKSUM_NONE, CHECKSUM_BLANK, CHECKSUM_LOST].contains(&kept)
}
