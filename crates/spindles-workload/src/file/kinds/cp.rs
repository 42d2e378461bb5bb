//! `cp /dev/zero FILE` and `cp FILE /dev/null`: concurrent processes, each with its own file.
//!
//! Zeros are written from memory: the read of `/dev/zero`, which only fills memory, is left out.

use super::phases::{ONE, phase};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts, step};
use crate::file::{
    Access, Action, At, FileCounted, FileId, FileIssue, FilePhase, FilePlan, FileWorkload,
    Parameter,
};
use crate::plan::size_words;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "cp",
    summary: "cp /dev/zero to files, then these to /dev/null: 1 to 8 processes at once",
    parameters: &[
        Parameter::bytes("size", 64 << 20, 4096, 1 << 44, "bytes of each file")
            .multiple_of(4096)
            .scaled(1 << 20),
        Parameter::count(
            "processes",
            1,
            1,
            256,
            "processes, each with a file of its own",
        ),
        Parameter::bytes(
            "buffer",
            65_536,
            512,
            16 << 20,
            "bytes that are copied at once",
        )
        .multiple_of(512),
        Parameter::words(
            "fsync",
            &["no", "yes"],
            "make each file durable before it is closed",
        ),
    ],
    takes_archive: false,
    actors: Some("processes"),
    files: |plan| Ok(plan.value("processes")),
    check: |_| None,
    phases,
    bytes: |plan| plan.value("size") * plan.value("processes"),
    start,
};

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let (size, processes) = (plan.value("size"), plan.small("processes"));
    let buffer = plan.small("buffer");
    let (of, at_once) = (size_words(size), size_words(buffer.into()));
    let files = match processes {
        1 => format!("a file of {of}"),
        many => format!("{many} files of {of} at once"),
    };
    let one = |name: &str, does: &str, counted| {
        let summary = format!("{does} {files}, {at_once} at a time");
        phase(name, summary, counted, processes, buffer)
    };
    vec![
        one("write", "writes", FileCounted::WrittenBytes),
        one("read", "reads", FileCounted::ReadBytes),
    ]
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let (size, buffer) = (plan.value("size"), plan.small("buffer"));
    let (rounds, rest) = (size / u64::from(buffer), size % u64::from(buffer));
    let rest = u32::try_from(rest).expect("less than the buffer");
    let writes = phase == 0;
    let fsync = writes && plan.is("fsync", "yes");
    let script = |actor: u32| {
        let file = FileId(actor);
        let open = if writes {
            Action::Create(file, ONE, Access::ReadWrite)
        } else {
            Action::Open(file, ONE, Access::Read)
        };
        let moved = move |bytes| {
            FileIssue::new(if writes {
                Action::Write(ONE, At::Position, bytes)
            } else {
                Action::Read(ONE, At::Position, bytes)
            })
        };
        let mut script = Script::new()
            .then(FileIssue::new(open))
            .repeat(rounds, [step(move |_| moved(buffer))]);
        if rest > 0 {
            script = script.then(moved(rest));
        }
        if !writes {
            script = script.then(moved(buffer)); // The read that finds the end.
        }
        if fsync {
            script = script.then(FileIssue::new(Action::Fsync(ONE)));
        }
        script.then(FileIssue::new(Action::Close(ONE)))
    };
    let scripts = (0..plan.small("processes")).map(script).collect();
    Scripts::start(scripts, |file| format!("copy.{}", file.0))
}
