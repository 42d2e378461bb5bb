//! iozone of 1992 (V1.16): one file is written in records from start to end, then read.
//!
//! The clock stops before the file is closed. Nothing is made durable unless `fsync` is set, as in
//! the original's build for BSD.

use super::phases::{ONE, phase};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts, step};
use crate::file::{
    Access, Action, At, FileCounted, FileId, FileIssue, FilePhase, FilePlan, FileWorkload,
    Parameter,
};
use crate::plan::size_words;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "iozone",
    summary: "iozone of 1992: a file written record after record, then read",
    parameters: &[
        Parameter::bytes("size", 256 << 20, 512, 1 << 44, "bytes of the file")
            .multiple_of(512)
            .scaled(1 << 20),
        Parameter::bytes("record", 65_536, 512, 16 << 20, "bytes of a record").multiple_of(512),
        Parameter::words(
            "fsync",
            &["no", "yes"],
            "make the file durable before the clock stops",
        ),
        Parameter::words(
            "auto",
            &["no", "yes"],
            "1, 2, 4, 8 and 16 MB with records of 512 to 8192 bytes instead",
        ),
    ],
    takes_archive: false,
    actors: None,
    files: |_| Ok(1),
    check: |plan| {
        let (size, record) = (plan.value("size"), plan.value("record"));
        (size < record && plan.is("auto", "no")).then(|| {
            format!(
                "a file of {size} bytes does not hold a record of {record}: choose a larger size"
            )
        })
    },
    phases,
    bytes: |plan| cases(plan).iter().map(|(size, _)| *size).max().unwrap_or(0),
    start,
};

/// Returns the sizes of the file and of its records.
fn cases(plan: &FilePlan) -> Vec<(u64, u32)> {
    if plan.is("auto", "no") {
        return vec![(plan.value("size"), plan.small("record"))];
    }
    let mut cases = Vec::new();
    for megabytes in [1, 2, 4, 8, 16] {
        for record in [512, 1024, 2048, 4096, 8192] {
            cases.push((megabytes << 20, record));
        }
    }
    cases
}

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let cases = cases(plan);
    let only = cases.len() == 1;
    let both = |(size, record): (u64, u32)| {
        let name = |what: &str| {
            if only {
                String::from(what)
            } else {
                format!("{what} {}M {record}", size >> 20)
            }
        };
        let count = size / u64::from(record);
        let one = |what: &str, does: &str, counted| {
            let of = size_words(record.into());
            let summary = format!("{does} {count} records of {of}");
            FilePhase {
                parameters: vec![("size", size), ("record", record.into())],
                ..phase(&name(what), summary, counted, 1, record)
            }
        };
        [
            one("write", "writes", FileCounted::WrittenBytes),
            one("read", "reads", FileCounted::ReadBytes),
        ]
    };
    cases.into_iter().flat_map(both).collect()
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let (size, record) = cases(plan)[phase / 2];
    let file = FileId(0);
    let open = |action| FileIssue::new(action).untimed();
    let script = if phase.is_multiple_of(2) {
        let write = move |_| FileIssue::new(Action::Write(ONE, At::Position, record));
        let script = Script::new()
            .then(open(Action::Create(file, ONE, Access::ReadWrite)))
            .repeat(size / u64::from(record), [step(write)]);
        if plan.is("fsync", "yes") {
            script.then(FileIssue::new(Action::Fsync(ONE)))
        } else {
            script
        }
    } else {
        let read = move |_| FileIssue::new(Action::Read(ONE, At::Position, record));
        Script::new()
            .then(open(Action::Open(file, ONE, Access::Read)))
            .repeat(size / u64::from(record), [step(read)])
    };
    let script = script.then(FileIssue::new(Action::Close(ONE)).untimed());
    Scripts::start(vec![script], |_| "iozone.tmp".to_owned())
}
