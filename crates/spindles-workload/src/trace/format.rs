//! The row of a trace format.

use super::problem::Problem;
use super::request::TraceRequest;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// A format of traces.
#[derive(Debug)]
pub struct TraceFormat {
    /// The name that users type.
    pub name: &'static str,
    /// The summary for help.
    pub summary: &'static str,
    /// Returns true if a trace with this first line has the format.
    pub(super) recognises: fn(&[u8]) -> bool,
    /// Starts to parse a trace.
    pub(super) parser: fn() -> Box<dyn Parser>,
    /// Starts to write a trace; `None` if the format is only read.
    pub(super) writer: Option<fn() -> Box<dyn Writer>>,
}

impl TraceFormat {
    /// Returns true if traces can be written in it.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        self.writer.is_some()
    }
}

/// Turns lines into requests. Its memory is bounded, whatever the length of the trace.
pub(super) trait Parser: fmt::Debug + Send {
    /// Parses a line, without its end. Passes on requests whose answers are known or given up.
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem>;

    /// Passes on the rest after the last line.
    fn end(&mut self, _sink: &mut dyn FnMut(TraceRequest)) {}
}

/// Turns requests into lines.
pub(super) trait Writer: fmt::Debug + Send {
    /// Appends the lines of a request.
    fn put(&mut self, request: &TraceRequest, out: &mut Vec<u8>) -> Result<(), Unwritable>;

    /// Appends the rest after the last request.
    fn end(&mut self, _out: &mut Vec<u8>) {}
}

/// The reason why a format can't hold a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The format has gaps after answers, and the trace has times.
    Times,
    /// The format has a response time for every request.
    NoResponse,
    /// The format has reads and writes only.
    Operation(&'static str),
    /// The format has whole sectors only.
    Sectors,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times => f.write_str("has a time, and the format has gaps after answers"),
            Self::NoResponse => f.write_str("has no response time, and the format needs one"),
            Self::Operation(name) => write!(f, "is a {name}, and the format has reads and writes"),
            Self::Sectors => f.write_str("is not in sectors of 512 bytes, and the format is"),
        }
    }
}
