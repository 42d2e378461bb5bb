//! CSV of the traces of MSR Cambridge: times of 100 ns since 1601, bytes.

use super::super::fields::{at_commas, small, whole};
use super::super::format::{Parser, TraceFormat};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceOperation, TraceRequest, When};
use alloc::boxed::Box;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "msr",
    summary: "CSV of MSR Cambridge: times of 100 ns since 1601, bytes",
    recognises: |line| {
        line.starts_with(HEADER_BEGIN)
            || at_commas::<7>(line, FIELDS).is_ok_and(|fields| operation(fields[3]).is_some())
    },
    parser: || Box::new(Msr::default()),
    writer: None,
};

const FIELDS: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
const HEADER_BEGIN: &[u8] = b"Timestamp,Hostname";

#[derive(Debug, Default)]
struct Msr {
    /// Set after the first line, which may be a header.
    is_begun: bool,
    /// The time of the first request.
    first: Option<u64>,
}

fn operation(text: &[u8]) -> Option<TraceOperation> {
    if text.eq_ignore_ascii_case(b"read") {
        Some(TraceOperation::Read)
    } else if text.eq_ignore_ascii_case(b"write") {
        Some(TraceOperation::Write)
    } else {
        None
    }
}

impl Parser for Msr {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        if !core::mem::replace(&mut self.is_begun, true) && line.starts_with(HEADER_BEGIN) {
            if line == FIELDS.as_bytes() {
                return Ok(());
            }
            return Err(Problem::Columns {
                text: shown(line),
                known: FIELDS,
            });
        }
        let [time, _, disk, kind, offset, size, response] = at_commas(line, FIELDS)?;
        let ticks = whole("Timestamp", time)?;
        let first = *self.first.get_or_insert(ticks);
        let ns = |ticks: u64, field, text: &[u8]| {
            let ns = ticks.checked_mul(100);
            ns.ok_or_else(|| Problem::TooLarge {
                field,
                text: shown(text),
            })
        };
        let since = ticks
            .checked_sub(first)
            .ok_or_else(|| Problem::TimeGoesBack {
                at_ns: 0,
                before_ns: (first - ticks).saturating_mul(100),
            })?;
        let response_ticks = whole("ResponseTime", response)?;
        sink(TraceRequest {
            when: When::At(ns(since, "Timestamp", time)?),
            operation: operation(kind).ok_or_else(|| Problem::Operation {
                text: shown(kind),
                known: "Read, Write",
            })?,
            offset_bytes: whole("Offset", offset)?,
            bytes: whole("Size", size)?,
            client: small("DiskNumber", disk)?,
            response_ns: Some(ns(response_ticks, "ResponseTime", response)?),
        });
        Ok(())
    }
}
