//! Problems of traces, with line and remedy.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use core::fmt;

/// A problem of a trace, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, counted from 1.
    pub line: u64,
    /// The problem of that line.
    pub problem: Problem,
}

/// What is wrong with a line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// No format has such a beginning.
    Unrecognised,
    /// The last line has no end.
    CutOff,
    /// The line is longer than any request.
    TooLong,
    /// The trace has no request.
    NoRequests,
    /// The line has another number of fields.
    Fields {
        /// The number of its fields.
        found: usize,
        /// The fields that a line has.
        wanted: &'static str,
    },
    /// A number is negative.
    Negative {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
    },
    /// A number does not fit.
    TooLarge {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
    },
    /// A field is no number.
    NotANumber {
        /// The field.
        field: &'static str,
        /// Its text.
        text: String,
    },
    /// A read or write of no bytes, or a flush of some.
    Length {
        /// The word for the operation.
        operation: &'static str,
        /// The length.
        bytes: u64,
    },
    /// The end of the request does not fit 64 bits.
    End {
        /// The first byte.
        offset_bytes: u64,
        /// The length.
        bytes: u64,
    },
    /// The operation is unknown.
    Operation {
        /// Its text.
        text: String,
        /// The known ones.
        known: &'static str,
    },
    /// The request is older than the one before.
    TimeGoesBack {
        /// Its time.
        at_ns: u64,
        /// The time of the request before.
        before_ns: u64,
    },
    /// The version of the format is unknown.
    Version {
        /// The first line.
        text: String,
        /// The first lines of known versions.
        known: &'static str,
    },
    /// A column is unknown, missing, or in another place.
    Columns {
        /// The column.
        text: String,
        /// The possible headers.
        known: &'static str,
    },
    /// The trace has a second device, with addresses of its own.
    SecondDevice {
        /// The device of the line.
        text: String,
        /// The device of the lines before.
        first: String,
    },
}

/// Most characters of a field that a message shows.
const SHOWN_MAX: usize = 40;

/// Returns a field as messages show it: short, and without control characters.
pub(super) fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut shown: String = text
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .take(SHOWN_MAX)
        .collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown += "...";
    }
    if shown.is_empty() {
        "nothing".clone_into(&mut shown);
    }
    shown
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecognised => f.write_str(
                "no known format begins like this: name the format with --format, and decompress \
                 the trace before",
            ),
            Self::CutOff => f.write_str(
                "the trace was cut off in this line: record it again, or remove the line; if the \
                 line is whole, end it with a newline",
            ),
            Self::TooLong => f.write_str("the line is too long: a request is one short line"),
            Self::NoRequests => {
                f.write_str("the trace ends without a request: give one with at least 1")
            }
            Self::Fields { found, wanted } => {
                write!(f, "{found} fields, and a line has these: {wanted}")
            }
            Self::Negative { field, text } => {
                write!(f, "{field} is {text}: a number from 0 on is possible")
            }
            Self::TooLarge { field, text } => write!(
                f,
                "{field} is {text}: bytes and nanoseconds up to 2^64 are possible"
            ),
            Self::NotANumber { field, text } => write!(f, "{field} is {text}: give a number"),
            Self::Length { operation, bytes } => match *operation {
                "flush" => write!(f, "a flush has no place: give 0 bytes, not {bytes}"),
                other => write!(f, "a {other} of {bytes} bytes: give at least 1"),
            },
            Self::End {
                offset_bytes,
                bytes,
            } => write!(
                f,
                "{bytes} bytes at {offset_bytes} end beyond 2^64: check the unit of both"
            ),
            Self::Operation { text, known } => {
                write!(f, "the operation is {text}: one of {known} is possible")
            }
            Self::TimeGoesBack { at_ns, before_ns } => write!(
                f,
                "it was sent {} ns before the request of an earlier line: sort the trace by time",
                before_ns - at_ns
            ),
            Self::Version { text, known } => {
                write!(f, "the trace begins with '{text}': known is {known}")
            }
            Self::Columns { text, known } => {
                write!(
                    f,
                    "the column {text} does not belong there: a header is {known}"
                )
            }
            Self::SecondDevice { text, first } => write!(
                f,
                "the request is for device {text}, and those before are for {first}: keep the \
                 lines of one device"
            ),
        }
    }
}

impl core::error::Error for TraceError {}
