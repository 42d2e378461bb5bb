//! Recovery after a crash.

mod overlay;
mod rows;
