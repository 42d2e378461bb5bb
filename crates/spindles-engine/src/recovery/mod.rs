//! Crash recovery: settles the rows of regions in doubt, one by one, before they are read.

pub(crate) mod decide;
pub(crate) mod log_index;
pub(crate) mod rows;
