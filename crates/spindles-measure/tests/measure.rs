//! The crate's tests in a single executable: building several would take longer than running them.

mod analysis;
mod checker;
mod deciding;
pub(crate) mod example;
mod prediction_check;
mod schema;
mod together;
mod verdicts;
