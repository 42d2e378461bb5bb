//! Our own format: CSV with a line that names the version.

use super::super::fields::{at_commas, small, whole};
use super::super::format::{Parser, TraceFormat, Unwritable, Writer};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceOperation, TraceRequest, When};
use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::vec::Vec;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "spindles",
    summary: "our own: times in nanoseconds, or gaps after answers",
    recognises: |line| line.starts_with(b"# spindles trace"),
    parser: || Box::new(Own::Version),
    writer: Some(|| Box::new(OwnWriter { is_begun: false })),
};

const VERSION: &str = "# spindles trace 1";
const COLUMNS: [&str; 5] = ["operation", "offset", "bytes", "client", "response_ns"];
const HEADERS: &str = "time_ns,operation,offset,bytes,client,response_ns (or gap_ns for time_ns)";
const OPERATIONS: &str = "read, write, flush, trim, zero";

/// The next line.
#[derive(Debug)]
enum Own {
    Version,
    Header,
    Times,
    Gaps,
}

impl Parser for Own {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        let is_gaps = match self {
            Self::Version if line == VERSION.as_bytes() => {
                *self = Self::Header;
                return Ok(());
            }
            Self::Version => {
                return Err(Problem::Version {
                    text: shown(line),
                    known: VERSION,
                });
            }
            Self::Header => {
                *self = header(line)?;
                return Ok(());
            }
            Self::Times => false,
            Self::Gaps => true,
        };
        let fields = at_commas::<6>(line, HEADERS)?;
        let when = if is_gaps {
            When::After(whole("gap_ns", fields[0])?)
        } else {
            When::At(whole("time_ns", fields[0])?)
        };
        let mut operations = TraceOperation::ALL.into_iter();
        let operation = operations.find(|operation| operation.name().as_bytes() == fields[1]);
        let operation = operation.ok_or_else(|| Problem::Operation {
            text: shown(fields[1]),
            known: OPERATIONS,
        })?;
        sink(TraceRequest {
            when,
            operation,
            offset_bytes: whole("offset", fields[2])?,
            bytes: whole("bytes", fields[3])?,
            client: small("client", fields[4])?,
            response_ns: match fields[5] {
                b"" => None,
                text => Some(whole("response_ns", text)?),
            },
        });
        Ok(())
    }
}

/// Reads the names of the columns.
fn header(line: &[u8]) -> Result<Own, Problem> {
    let mut names = line.split(|byte| *byte == b',');
    let wrong = |name: Option<&[u8]>| Problem::Columns {
        text: shown(name.unwrap_or_default()),
        known: HEADERS,
    };
    let body = match names.next() {
        Some(b"time_ns") => Own::Times,
        Some(b"gap_ns") => Own::Gaps,
        other => return Err(wrong(other)),
    };
    for column in COLUMNS {
        let name = names.next();
        if name != Some(column.as_bytes()) {
            return Err(wrong(name));
        }
    }
    match names.next() {
        None => Ok(body),
        extra => Err(wrong(extra)),
    }
}

#[derive(Debug)]
struct OwnWriter {
    is_begun: bool,
}

impl Writer for OwnWriter {
    fn put(&mut self, request: &TraceRequest, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        let (name, ns) = match request.when {
            When::At(ns) => ("time_ns", ns),
            When::After(ns) => ("gap_ns", ns),
        };
        if !self.is_begun {
            self.is_begun = true;
            for text in [VERSION, "\n", name] {
                out.extend_from_slice(text.as_bytes());
            }
            for column in COLUMNS {
                out.push(b',');
                out.extend_from_slice(column.as_bytes());
            }
            out.push(b'\n');
        }
        number(out, ns);
        out.push(b',');
        out.extend_from_slice(request.operation.name().as_bytes());
        for value in [request.offset_bytes, request.bytes, request.client.into()] {
            out.push(b',');
            number(out, value);
        }
        out.push(b',');
        if let Some(ns) = request.response_ns {
            number(out, ns);
        }
        out.push(b'\n');
        Ok(())
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(number.to_string().as_bytes());
}
