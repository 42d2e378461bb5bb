//! `cp /dev/zero FILE` and `cp FILE /dev/null`: concurrent processes, each with its own file.
//!
//! Zeros are written from memory: the read of `/dev/zero`, which only fills memory, is left out.
//! With `source=file` each process copies another file instead, written before.

use super::phases::{ONE, fill, making_ready, phase};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts, step};
use crate::file::{
    Access, Action, At, FileCounted, FileId, FileIssue, FilePhase, FilePlan, FileWorkload,
    Parameter, Slot,
};
use crate::plan::size_words;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
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
        Parameter::words(
            "source",
            &["zero", "file"],
            "what is copied: zeros, or another file",
        ),
    ],
    takes_archive: false,
    actors: Some("processes"),
    files: |plan| Ok(plan.value("processes") * each(plan)),
    check: |_| None,
    phases,
    bytes: |plan| plan.value("size") * plan.value("processes") * each(plan),
    start,
};

/// The file that is copied.
const SOURCE: Slot = Slot(1);

/// Returns the number of files of each process.
fn each(plan: &FilePlan) -> u64 {
    if plan.is("source", "file") { 2 } else { 1 }
}

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
    let measured = [
        one("write", "writes", FileCounted::WrittenBytes),
        one("read", "reads", FileCounted::ReadBytes),
    ];
    let sources = plan.is("source", "file");
    let sources = sources.then(|| making_ready(processes, FILL_BYTES));
    sources.into_iter().chain(measured).collect()
}

/// Bytes that a source is written with at once.
const FILL_BYTES: u32 = 1 << 20;

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let (size, buffer) = (plan.value("size"), plan.small("buffer"));
    let processes = plan.small("processes");
    let sources = plan.is("source", "file").then_some(processes);
    let Some(phase) = phase.checked_sub(usize::from(sources.is_some())) else {
        let source = |actor| fill(Script::new(), FileId(processes + actor), size, FILL_BYTES);
        return Scripts::start((0..processes).map(source).collect(), naming(processes));
    };
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
        let source = sources
            .filter(|_| writes)
            .map(|first| FileId(first + actor));
        let read = |bytes| FileIssue::new(Action::Read(SOURCE, At::Position, bytes));
        let moved = move |bytes| {
            FileIssue::new(if writes {
                Action::Write(ONE, At::Position, bytes)
            } else {
                Action::Read(ONE, At::Position, bytes)
            })
        };
        let mut script = Script::new().then(FileIssue::new(open));
        let mut round = vec![step(move |_| moved(buffer))];
        if let Some(source) = source {
            let open = Action::Open(source, SOURCE, Access::Read);
            script = script.then(FileIssue::new(open));
            round.insert(0, step(move |_| read(buffer)));
        }
        script = script.repeat(rounds, round);
        if rest > 0 {
            let read = source.map(|_| read(rest));
            script = read
                .into_iter()
                .chain([moved(rest)])
                .fold(script, Script::then);
        }
        if source.is_some() {
            script = script.then(FileIssue::new(Action::Close(SOURCE)));
        }
        if !writes {
            script = script.then(moved(buffer)); // The read that finds the end.
        }
        if fsync {
            script = script.then(FileIssue::new(Action::Fsync(ONE)));
        }
        script.then(FileIssue::new(Action::Close(ONE)))
    };
    let scripts = (0..processes).map(script).collect();
    Scripts::start(scripts, naming(processes))
}

/// Returns the names of files: the sources follow the copies.
fn naming(processes: u32) -> impl Fn(FileId) -> String + Send + 'static {
    move |file| match file.0.checked_sub(processes) {
        None => format!("copy.{}", file.0),
        Some(source) => format!("source.{source}"),
    }
}
