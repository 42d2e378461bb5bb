//! The table of dialects. A new dialect is a file, its `mod` line and its row.

use crate::dialect::Dialect;

mod ccd;
mod raidctl;
mod vinum;

/// All dialects.
pub static DIALECTS: &[&Dialect] = &[&ccd::DIALECT, &raidctl::DIALECT, &vinum::DIALECT];
