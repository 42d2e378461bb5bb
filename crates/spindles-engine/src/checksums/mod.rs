//! Checksums of blocks and sums of rows: the pages in memory that have them, and what a row sum says.

pub(crate) mod entries;
pub(crate) mod pages;
pub(crate) mod row_sums;

pub(crate) use pages::Pages;
pub(crate) use row_sums::{RowSums, Sums};

/// Blocks whose checksums one column can have at hand, at least.
pub(crate) const SUMS_MIN: usize = 256;

/// The longest column that needs none at hand: it has two pages of each member at most.
pub(crate) const ROWS_MAX: u32 = 512;
