//! The ascii traces of `DiskSim`: milliseconds, device, block of 512 bytes, blocks, flags.

use super::super::fields::{at_blanks, decimal, sectors, small, words};
use super::super::format::{Parser, TraceFormat};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceOperation, TraceRequest, When};
use alloc::boxed::Box;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "disksim",
    summary: "ascii of DiskSim: milliseconds, device, block, blocks, flags",
    recognises: |line| {
        let is_number = |word: &[u8]| {
            let mut bytes = word.iter();
            bytes.all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b'-' | b'x'))
        };
        words(line).count() == 5 && words(line).all(is_number)
    },
    parser: || Box::new(DiskSim),
    writer: None,
};

const FIELDS: &str = "milliseconds, device, block, blocks, flags";

/// The flag of a read; a write has none.
const READ: u64 = 1;

#[derive(Debug)]
struct DiskSim;

impl Parser for DiskSim {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        let [time, device, block, blocks, flags] = at_blanks(line, FIELDS)?;
        let flags = hexadecimal(flags)?;
        sink(TraceRequest {
            when: When::At(decimal("the time", time, 6)?),
            operation: if flags & READ == 0 {
                TraceOperation::Write
            } else {
                TraceOperation::Read
            },
            offset_bytes: sectors("the block", block)?,
            bytes: sectors("the number of blocks", blocks)?,
            client: small("the device", device)?,
            response_ns: None,
        });
        Ok(())
    }
}

fn hexadecimal(text: &[u8]) -> Result<u64, Problem> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    let digits = core::str::from_utf8(digits).ok();
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| Problem::Operation {
        text: shown(text),
        known: "0 (write), 1 (read)",
    })
}
