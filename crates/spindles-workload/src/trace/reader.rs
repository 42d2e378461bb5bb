//! Reads a trace from pieces of any length, in bounded memory.

use super::format::{Parser, TraceFormat, Unwritable, Writer};
use super::formats::recognised;
use super::problem::{Problem, TraceError};
use super::request::{TraceOperation, TraceRequest, When};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// The longest line of a trace.
const LINE_BYTES_MAX: usize = 4096;

/// Reads a trace. Feed it all bytes, then end it.
#[derive(Debug)]
pub struct TraceReader {
    /// `None` until the first line was seen.
    open: Option<(&'static TraceFormat, Box<dyn Parser>)>,
    /// The begin of a line whose end was not fed yet.
    partial: Vec<u8>,
    lines: u64,
    checks: Checks,
}

/// What every request must satisfy, whatever the format.
#[derive(Debug, Default)]
struct Checks {
    requests: u64,
    last_ns: u64,
}

impl Checks {
    fn check(&mut self, request: &TraceRequest) -> Result<(), Problem> {
        let has_place = request.operation != TraceOperation::Flush;
        if has_place == (request.bytes == 0) {
            return Err(Problem::Length {
                operation: request.operation.name(),
                bytes: request.bytes,
            });
        }
        if request.offset_bytes.checked_add(request.bytes).is_none() {
            return Err(Problem::End {
                offset_bytes: request.offset_bytes,
                bytes: request.bytes,
            });
        }
        if let When::At(at_ns) = request.when {
            if at_ns < self.last_ns {
                return Err(Problem::TimeGoesBack {
                    at_ns,
                    before_ns: self.last_ns,
                });
            }
            self.last_ns = at_ns;
        }
        self.requests += 1;
        Ok(())
    }
}

impl TraceReader {
    /// Creates a reader of a format; of the format that the first line shows if `None`.
    #[must_use]
    pub fn new(format: Option<&'static TraceFormat>) -> Self {
        Self {
            open: format.map(|format| (format, (format.parser)())),
            partial: Vec::new(),
            lines: 0,
            checks: Checks::default(),
        }
    }

    /// Returns the format, once known.
    #[must_use]
    pub fn format(&self) -> Option<&'static TraceFormat> {
        self.open.as_ref().map(|(format, _)| *format)
    }

    /// Reads the next bytes; passes on the requests of whole lines.
    ///
    /// # Errors
    /// If a line is no request of the format.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(TraceRequest),
    ) -> Result<(), TraceError> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            rest = &after[1..];
            if self.partial.is_empty() {
                self.line(line, sink)?;
            } else {
                let mut whole = core::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole, sink)?;
                whole.clear();
                self.partial = whole;
            }
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LINE_BYTES_MAX {
            return Err(error(self.lines + 1, Problem::TooLong));
        }
        Ok(())
    }

    /// Ends the trace; passes on the last requests.
    ///
    /// # Errors
    /// If the trace was cut off, or had no request.
    pub fn end(mut self, sink: &mut dyn FnMut(TraceRequest)) -> Result<(), TraceError> {
        if !self.partial.is_empty() {
            return Err(error(self.lines + 1, Problem::CutOff));
        }
        let mut found = Ok(());
        if let Some((_, parser)) = &mut self.open {
            let checks = &mut self.checks;
            parser.end(&mut |request| {
                if found.is_ok() {
                    found = checks.check(&request);
                    sink(request);
                }
            });
        }
        found.map_err(|problem| error(self.lines, problem))?;
        if self.checks.requests == 0 {
            return Err(error(self.lines.max(1), Problem::NoRequests));
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), TraceError> {
        self.lines += 1;
        let number = self.lines;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > LINE_BYTES_MAX {
            return Err(error(number, Problem::TooLong));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        if self.open.is_none() {
            let format = recognised(line);
            self.open = format.map(|format| (format, (format.parser)()));
        }
        let Some((_, parser)) = &mut self.open else {
            return Err(error(number, Problem::Unrecognised));
        };
        let checks = &mut self.checks;
        let mut found = Ok(());
        let parsed = parser.line(line, &mut |request| {
            if found.is_ok() {
                found = checks.check(&request);
                if found.is_ok() {
                    sink(request);
                }
            }
        });
        parsed.and(found).map_err(|problem| error(number, problem))
    }
}

const fn error(line: u64, problem: Problem) -> TraceError {
    TraceError { line, problem }
}

/// Writes a trace as text.
#[derive(Debug)]
pub struct TraceWriter {
    writer: Box<dyn Writer>,
    requests: u64,
}

/// A request that the format can't hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// The number of the request, counted from 1.
    pub request: u64,
    /// The reason.
    pub why: Unwritable,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "request {} {}: write the format spindles",
            self.request, self.why
        )
    }
}

impl core::error::Error for WriteError {}

impl TraceWriter {
    /// Creates a writer; `None` if the format is only read.
    #[must_use]
    pub fn new(format: &TraceFormat) -> Option<Self> {
        let writer = format.writer?();
        Some(Self {
            writer,
            requests: 0,
        })
    }

    /// Appends a request.
    ///
    /// # Errors
    /// If the format can't hold it.
    pub fn put(&mut self, request: &TraceRequest, out: &mut Vec<u8>) -> Result<(), WriteError> {
        self.requests += 1;
        let put = self.writer.put(request, out);
        put.map_err(|why| WriteError {
            request: self.requests,
            why,
        })
    }

    /// Appends the end.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.writer.end(out);
    }
}
