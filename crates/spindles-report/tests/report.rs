//! The tests of this crate in one executable: building several executables takes longer than
//! running the tests.

mod browser;
#[path = "../../spindles-measure/tests/example.rs"]
pub(crate) mod example;
mod golden;
mod legacy;
mod odd_records;
