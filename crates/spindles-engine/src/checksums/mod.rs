//! Checksums of blocks and sums of rows: the pages in memory that have them, and what a row sum says.

pub(crate) mod entries;
pub(crate) mod pages;
pub(crate) mod row_sums;

pub(crate) use pages::Pages;
pub(crate) use row_sums::{ChecksumsOf, RowSums};

/// Blocks whose checksums one stripe range can have at hand, at least.
pub(crate) const CHECKSUMS_MIN: usize = 256;

/// The longest stripe range that needs none at hand: it has two pages of each member at most.
pub(crate) const ROWS_MAX: u32 = 512;
