//! iologs of fio, version 3: every line begins with its time in microseconds.

use super::super::fields::{decimal, words};
use super::super::format::{Parser, TraceFormat};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceRequest, When};
use super::fio_iolog_2::{Files, VERSIONS, action};
use alloc::boxed::Box;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "fio-iolog-3",
    summary: "iolog of fio, version 3: times in microseconds",
    recognises: |line| line.starts_with(b"fio version "),
    parser: || Box::new(Version3::default()),
    writer: None,
};

#[derive(Debug, Default)]
struct Version3 {
    is_begun: bool,
    files: Files,
}

impl Parser for Version3 {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        if !core::mem::replace(&mut self.is_begun, true) {
            return match line {
                b"fio version 3 iolog" => Ok(()),
                other => Err(Problem::Version {
                    text: shown(other),
                    known: VERSIONS,
                }),
            };
        }
        let mut words = words(line);
        let time = words.next().unwrap_or_default();
        let at_ns = decimal("the time", time, 0)?
            .checked_mul(1000)
            .ok_or_else(|| Problem::TooLarge {
                field: "the time",
                text: shown(time),
            })?;
        let Some(action) = action(words, &mut self.files)? else {
            return Ok(());
        };
        match action.request(When::At(at_ns)) {
            Some(request) => sink(request),
            None => {
                return Err(Problem::Operation {
                    text: shown(b"wait"),
                    known: "read, write, trim, sync, datasync, add, open, close",
                });
            }
        }
        Ok(())
    }
}
