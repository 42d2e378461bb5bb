//! filebench's `multistreamread` and `multistreamwrite`: four large files, with threads that each
//! go through one.

use super::phases::{ONE, endless, fill, making_ready};
use crate::file::plan::HOW_LONG;
use crate::file::script::{Script, Scripts};
use crate::file::{
    Access, Action, Answer, At, FileCounted, FileId, FileIssue, FileNext, FilePhase, FilePlan,
    FileWorkload, Parameter,
};
use crate::plan::size_words;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::bytes(
        "filesize",
        10 << 30,
        1 << 20,
        1 << 44,
        "bytes of each of the four files",
    )
    .multiple_of(1 << 20)
    .scaled(16 << 20),
    Parameter::count("nthreads", 1, 1, 64, "threads on each file"),
    Parameter::bytes("iosize", 1 << 20, 512, 16 << 20, "bytes of an operation").multiple_of(512),
    Parameter::words(
        "grow",
        &["yes", "no"],
        "whether writers grow their files, as the original does, or start over at the end",
    ),
    HOW_LONG,
];

pub(super) const FILES: u32 = 4;

pub(super) fn phases(plan: &FilePlan, does: &str, counted: FileCounted) -> Vec<FilePhase> {
    let (threads, iosize) = (plan.small("nthreads"), plan.small("iosize"));
    let summary = format!(
        "{does} four files of {} at once, {} at a time, {threads} on each",
        size_words(plan.value("filesize")),
        size_words(iosize.into())
    );
    vec![
        making_ready(FILES, 1 << 20),
        endless(summary, counted, FILES * threads, iosize),
    ]
}

pub(super) fn bytes(plan: &FilePlan) -> u64 {
    plan.value("filesize") * u64::from(FILES)
}

pub(super) fn start(plan: &FilePlan, phase: usize, writes: bool) -> Box<dyn FileWorkload> {
    if phase == 0 {
        let filesize = plan.value("filesize");
        let scripts = (0..FILES).map(|file| fill(Script::new(), FileId(file), filesize, 1 << 20));
        return Scripts::start(scripts.collect(), naming);
    }
    let actors = FILES * plan.small("nthreads");
    Box::new(Streams {
        writes,
        iosize: plan.small("iosize"),
        threads: plan.small("nthreads"),
        written_max: if plan.is("grow", "no") {
            plan.value("filesize")
        } else {
            u64::MAX
        },
        actors: (0..actors).map(|_| (StreamState::Closed, 0)).collect(),
    })
}

fn naming(file: FileId) -> String {
    format!("largefile{}", file.0 + 1)
}

#[derive(Clone, Copy, PartialEq)]
enum StreamState {
    Closed,
    Open,
    /// A read found the end: seeks back to the start.
    AtEnd,
}

/// A reader starts over at the end of its file, and counts the read that found it. A writer starts
/// over after `written_max` bytes.
struct Streams {
    writes: bool,
    iosize: u32,
    threads: u32,
    written_max: u64,
    /// The state of each actor, and the bytes written since it started over.
    actors: Vec<(StreamState, u64)>,
}

impl FileWorkload for Streams {
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> FileNext {
        let (state, written) = &mut self.actors[usize::try_from(actor).expect("an actor of ours")];
        if *state == StreamState::Closed {
            *state = StreamState::Open;
            let file = FileId(actor / self.threads);
            let open = Action::Open(file, ONE, Access::ReadWrite);
            return FileNext::Do(FileIssue::new(open).untimed());
        }
        let action = if self.writes && *written + u64::from(self.iosize) > self.written_max {
            *written = 0;
            Action::Seek(ONE, 0)
        } else if self.writes {
            *written += u64::from(self.iosize);
            Action::Write(ONE, At::Position, self.iosize)
        } else if *state == StreamState::Open && answer == Some(Answer { bytes: 0 }) {
            *state = StreamState::AtEnd;
            Action::Seek(ONE, 0)
        } else {
            *state = StreamState::Open;
            Action::Read(ONE, At::Position, self.iosize)
        };
        FileNext::Do(FileIssue::new(action))
    }

    fn path(&self, file: FileId) -> String {
        naming(file)
    }
}
