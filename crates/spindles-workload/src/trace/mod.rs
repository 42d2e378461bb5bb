//! Traces: recorded requests, as text in several formats. Reads and writes them in bounded memory;
//! callers move the bytes.

mod facts;
mod fields;
mod format;
mod formats;
mod problem;
mod reader;
mod request;

#[cfg(test)]
mod tests;

pub use facts::TraceFacts;
pub use format::{TraceFormat, Unwritable};
pub use formats::{FORMATS, named};
pub use problem::{Problem, TraceError};
pub use reader::{TraceReader, TraceWriter, WriteError};
pub use request::{TraceOperation, TraceRequest, When};
