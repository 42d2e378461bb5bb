//! iologs of fio, version 2: actions without times, and waits between them. The lines of version 3
//! are the same behind their time.

use super::super::fields::whole;
use super::super::format::{Parser, TraceFormat};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceOperation, TraceRequest, When};
use alloc::boxed::Box;
use alloc::vec::Vec;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "fio-iolog-2",
    summary: "iolog of fio, version 2: waits in microseconds",
    recognises: |line| line.starts_with(b"fio version 2 "),
    parser: || Box::new(Version2::default()),
    writer: None,
};

pub(super) const VERSIONS: &str = "'fio version 2 iolog' or 'fio version 3 iolog'";
const FIELDS: &str = "file, action, offset, bytes";
const ACTIONS: &str = "read, write, trim, sync, datasync, wait, add, open, close";

/// The files of a log. The client of a request is the number of its file.
#[derive(Debug, Default)]
pub(super) struct Files(Vec<Vec<u8>>);

/// Later files share a number: memory is bounded.
const FILES_MAX: usize = 1024;

impl Files {
    fn number(&mut self, name: &[u8]) -> u32 {
        let known = self.0.iter().position(|known| known == name);
        let number = known.unwrap_or(self.0.len());
        if known.is_none() && number < FILES_MAX {
            self.0.push(name.to_vec());
        }
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}

/// The action of a line.
#[derive(Debug)]
pub(super) struct Action {
    /// `None` for a wait.
    operation: Option<TraceOperation>,
    offset_bytes: u64,
    bytes: u64,
    client: u32,
}

impl Action {
    /// Returns its request; `None` for a wait.
    pub(super) fn request(&self, when: When) -> Option<TraceRequest> {
        let operation = self.operation?;
        let has_place = operation != TraceOperation::Flush;
        let of_place = |value: u64| if has_place { value } else { 0 };
        Some(TraceRequest {
            when,
            operation,
            offset_bytes: of_place(self.offset_bytes),
            bytes: of_place(self.bytes),
            client: self.client,
            response_ns: None,
        })
    }
}

/// Reads file, action and place; `None` if the action only concerns the file itself.
pub(super) fn action<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
    files: &mut Files,
) -> Result<Option<Action>, Problem> {
    let mut fields: [&[u8]; 4] = [&[]; 4];
    let mut found = 0;
    for field in &mut fields {
        let Some(word) = words.next() else { break };
        *field = word;
        found += 1;
    }
    found += words.count();
    let [name, action, offset, bytes] = fields;
    let wrong_fields = Problem::Fields {
        found,
        wanted: FIELDS,
    };
    let operation = match action {
        b"add" | b"open" | b"close" if found == 2 => return Ok(None),
        b"read" => Some(TraceOperation::Read),
        b"write" => Some(TraceOperation::Write),
        b"trim" => Some(TraceOperation::Trim),
        b"sync" | b"datasync" => Some(TraceOperation::Flush),
        b"wait" => None,
        b"" | b"add" | b"open" | b"close" => return Err(wrong_fields),
        other => {
            return Err(Problem::Operation {
                text: shown(other),
                known: ACTIONS,
            });
        }
    };
    // The length of a wait may be left out.
    let bytes = match operation {
        None if found == 3 => b"0",
        _ if found == 4 => bytes,
        _ => return Err(wrong_fields),
    };
    Ok(Some(Action {
        operation,
        offset_bytes: whole("the offset", offset)?,
        bytes: whole("the length", bytes)?,
        client: files.number(name),
    }))
}

#[derive(Debug, Default)]
struct Version2 {
    is_begun: bool,
    files: Files,
    /// Sum of the waits before this line.
    at_ns: u64,
}

impl Parser for Version2 {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        if !core::mem::replace(&mut self.is_begun, true) {
            return match line {
                b"fio version 2 iolog" => Ok(()),
                other => Err(Problem::Version {
                    text: shown(other),
                    known: VERSIONS,
                }),
            };
        }
        let words = super::super::fields::words(line);
        let Some(action) = action(words, &mut self.files)? else {
            return Ok(());
        };
        if let Some(request) = action.request(When::At(self.at_ns)) {
            sink(request);
            return Ok(());
        }
        let wait_ns = action.offset_bytes.checked_mul(1000);
        let at_ns = wait_ns.and_then(|wait_ns| self.at_ns.checked_add(wait_ns));
        self.at_ns = at_ns.ok_or_else(|| Problem::TooLarge {
            field: "the wait",
            text: shown(line),
        })?;
        Ok(())
    }
}
