//! Recovery after a crash.

mod rows;
