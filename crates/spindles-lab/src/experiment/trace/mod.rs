//! Trace files: their requests, and the distributions of those.

mod file;
mod profile;

pub use file::{STANDARD_INPUT, TraceFile, TraceFileError};
pub use profile::{ClassProfile, HotSpot, Profile, TENTHS};
