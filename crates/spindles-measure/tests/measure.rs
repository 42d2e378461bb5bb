//! All tests of this crate in one executable: building several would take longer than running them.

mod analysis;
mod schema;
mod together;
mod verdicts;
