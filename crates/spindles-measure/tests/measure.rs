//! The crate's tests in a single executable: building several would take longer than running them.

mod analysis;
mod checker;
pub(crate) mod example;
mod schema;
mod together;
mod verdicts;
