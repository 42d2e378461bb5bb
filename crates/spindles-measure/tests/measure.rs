//! The crate's tests in a single executable: building several would take longer than running them.

mod analysis;
mod schema;
mod together;
mod verdicts;
