//! Vinum's objects: read from lines, placed on drives, made arrays of, and written.

mod arrays;
mod config;
mod drives;
mod write;

pub(crate) use arrays::arrays;
pub(crate) use config::Config;
pub(crate) use write::write;
