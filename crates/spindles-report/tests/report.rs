//! All tests of this crate in one executable: building several would take longer than running them.

mod browser;
mod golden;
mod legacy;
mod odd_records;
