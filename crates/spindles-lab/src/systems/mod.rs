//! The systems under test: makes them, exports them to the kernel, and removes all traces of them.

pub(crate) mod arrays;
pub(crate) mod claims;
pub(crate) mod controlled;
pub(crate) mod export;
mod left_over;
mod mounts;
pub(crate) mod pool;
pub(crate) mod scratch;
pub mod targets;
pub(crate) mod undo;
