//! Checksums of blocks and of rows: their pages in memory, and the row sums of stripe ranges.

pub(crate) mod entries;
pub(crate) mod pages;
pub(crate) mod row_sums;

pub(crate) use pages::Pages;
pub(crate) use row_sums::{ChecksumsOf, RowSums};

/// The least number of blocks of one stripe range whose checksums can be at hand.
pub(crate) const CHECKSUMS_MIN: usize = 256;

/// The maximum number of rows in a stripe range that needs no checksums at hand: such a stripe
/// range uses at most two pages per member.
pub(crate) const ROWS_MAX: u32 = 512;
