//! `requests.csv` of measured drives: single requests, each sent some time after the answer to the
//! one before. The gap of a line follows its request.

use super::super::fields::{at_commas, decimal, sectors};
use super::super::format::{Parser, TraceFormat, Unwritable, Writer};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceOperation, TraceRequest, When};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "requests",
    summary: "requests.csv of a measured drive: sectors, microseconds, gaps after answers",
    recognises: |line| line.starts_with(b"operation,first_sector"),
    parser: || Box::new(Requests::default()),
    writer: Some(|| Box::new(RequestsWriter::default())),
};

const HEADER: &str = "operation,first_sector,sectors,response_us,gap_us";

#[derive(Debug, Default)]
struct Requests {
    has_header: bool,
    /// The gap between the last request's answer and the next request.
    gap_ns: u64,
}

impl Parser for Requests {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        if !self.has_header {
            self.has_header = true;
            return check_header(line);
        }
        let [operation, first, count, response, gap] = at_commas(line, HEADER)?;
        let operation = match operation {
            b"R" => TraceOperation::Read,
            b"W" => TraceOperation::Write,
            other => {
                return Err(Problem::Operation {
                    text: shown(other),
                    known: "R, W",
                });
            }
        };
        let request = TraceRequest {
            when: When::After(self.gap_ns),
            operation,
            offset_bytes: sectors("first_sector", first)?,
            bytes: sectors("sectors", count)?,
            client: 0,
            response_ns: Some(decimal("response_us", response, 3)?),
        };
        self.gap_ns = decimal("gap_us", gap, 3)?;
        sink(request);
        Ok(())
    }
}

fn check_header(line: &[u8]) -> Result<(), Problem> {
    if line == HEADER.as_bytes() {
        return Ok(());
    }
    let mut names = HEADER.split(',');
    let unknown = line
        .split(|byte| *byte == b',')
        .find(|name| names.next().map(str::as_bytes) != Some(*name));
    Err(Problem::Columns {
        text: shown(unknown.unwrap_or_default()),
        known: HEADER,
    })
}

#[derive(Debug, Default)]
struct RequestsWriter {
    /// The last request, whose line ends with the gap of the next.
    line: Option<String>,
}

impl Writer for RequestsWriter {
    fn put(&mut self, request: &TraceRequest, out: &mut Vec<u8>) -> Result<(), Unwritable> {
        let When::After(gap_ns) = request.when else {
            return Err(Unwritable::Times);
        };
        let operation = match request.operation {
            TraceOperation::Read => 'R',
            TraceOperation::Write => 'W',
            other => return Err(Unwritable::Operation(other.name())),
        };
        let response_ns = request.response_ns.ok_or(Unwritable::NoResponse)?;
        let (offset, bytes) = (request.offset_bytes, request.bytes);
        if !offset.is_multiple_of(512) || !bytes.is_multiple_of(512) {
            return Err(Unwritable::Sectors);
        }
        match self.line.take() {
            None => out.extend_from_slice(format!("{HEADER}\n").as_bytes()),
            Some(line) => out.extend_from_slice(format!("{line},{}\n", us(gap_ns)).as_bytes()),
        }
        let (first, count) = (offset / 512, bytes / 512);
        self.line = Some(format!("{operation},{first},{count},{}", us(response_ns)));
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(line) = self.line.take() {
            out.extend_from_slice(format!("{line},0\n").as_bytes());
        }
    }
}

/// Returns microseconds without needless digits.
fn us(ns: u64) -> String {
    let text = format!("{}.{:03}", ns / 1000, ns % 1000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    String::from(text)
}
