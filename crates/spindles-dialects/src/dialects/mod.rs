//! The table of dialects. A new dialect is a file, its `mod` line and its row.

use crate::dialect::Dialect;

mod raidctl;

/// All dialects.
pub static DIALECTS: &[&Dialect] = &[&raidctl::DIALECT];
