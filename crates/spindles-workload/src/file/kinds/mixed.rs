//! Reads at full speed with a few writes: readers alone, then the same readers with writes.
//!
//! `beside = one-writer`: a writer on its own file, which keeps to its share of the bytes that were
//! read. `beside = in-place`: with that probability, an operation of a reader is a write at its
//! position.

use super::phases::{ONE, fill, making_ready, phase};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts};
use crate::file::{
    Access, Action, Answer, At, FileCounted, FileId, FileIssue, FileNext, FilePhase, FilePlan,
    FileWorkload, Parameter,
};
use crate::plan::size_words;
use crate::stream::Random;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "mixed",
    summary: "readers at full speed, alone and with writes of 2 % of the bytes read",
    parameters: &[
        Parameter::bytes(
            "size",
            256 << 20,
            1 << 20,
            1 << 44,
            "bytes of the file of each reader",
        )
        .multiple_of(1 << 20)
        .scaled(4 << 20),
        Parameter::count("readers", 1, 1, 256, "readers, each with a file of its own"),
        Parameter::count("percent", 2, 1, 100, "bytes written for 100 that are read"),
        Parameter::bytes("chunk", 65_536, 512, 1 << 20, "bytes of an operation").multiple_of(512),
        Parameter::words("beside", &["one-writer", "in-place"], "who writes"),
    ],
    takes_archive: false,
    actors: Some("readers"),
    files: |plan| Ok(plan.value("readers") + 1),
    check: |_| None,
    phases,
    bytes: |plan| plan.value("size") * (plan.value("readers") + 1),
    start,
};

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let (readers, chunk) = (plan.small("readers"), plan.small("chunk"));
    let percent = plan.value("percent");
    let of = size_words(chunk.into());
    let reads = match readers {
        1 => format!("one reader, {of} after {of}"),
        many => format!("{many} readers at once, {of} after {of}"),
    };
    let writer = u32::from(plan.is("beside", "one-writer"));
    vec![
        making_ready(readers + 1, 1 << 20),
        phase(
            "alone",
            reads.clone(),
            FileCounted::ReadBytes,
            readers,
            chunk,
        ),
        phase(
            "beside",
            format!("{reads}, with writes of {percent} % of the bytes read"),
            FileCounted::ReadBytes,
            readers + writer,
            chunk,
        ),
    ]
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let (readers, size) = (plan.small("readers"), plan.value("size"));
    if phase == 0 {
        // The writer's file is the last.
        let scripts = (0..=readers).map(|actor| fill(Script::new(), FileId(actor), size, 1 << 20));
        return Scripts::start(scripts.collect(), naming);
    }
    let percent = if phase == 1 { 0 } else { plan.value("percent") };
    let in_place = plan.is("beside", "in-place");
    let reader = |actor| Reader {
        random: Random::new(plan.seed, "mixed", actor),
        state: ActorState::Closed,
    };
    Box::new(Mixed {
        size,
        chunk: plan.small("chunk"),
        percent,
        in_place,
        readers: (0..readers).map(reader).collect(),
        reading: readers,
        read_bytes: 0,
        writer: ActorState::Closed,
        written_bytes: 0,
        is_waiting: false,
        woken: false,
    })
}

fn naming(file: FileId) -> String {
    format!("stream.{}", file.0)
}

#[derive(Clone, Copy)]
enum ActorState {
    Closed,
    /// Bytes of the file processed so far.
    At(u64),
    Closing,
    Done,
}

struct Reader {
    random: Random,
    state: ActorState,
}

struct Mixed {
    size: u64,
    chunk: u32,
    /// Bytes written for 100 read; 0 in the phase without writes.
    percent: u64,
    in_place: bool,
    readers: Vec<Reader>,
    /// Number of readers still running.
    reading: u32,
    read_bytes: u64,
    writer: ActorState,
    written_bytes: u64,
    /// Set while the writer waits, and once it may continue.
    is_waiting: bool,
    woken: bool,
}

impl Mixed {
    fn reader(&mut self, actor: u32, answer: Option<Answer>) -> Option<FileIssue> {
        self.read_bytes += answer.map_or(0, |answer| answer.bytes);
        let access = if self.in_place && self.percent > 0 {
            Access::ReadWrite
        } else {
            Access::Read
        };
        let reader = &mut self.readers[usize::try_from(actor).expect("an actor of ours")];
        let (issue, state) = match reader.state {
            ActorState::Closed => (
                FileIssue::new(Action::Open(FileId(actor), ONE, access)).untimed(),
                ActorState::At(0),
            ),
            ActorState::At(done) if done + u64::from(self.chunk) <= self.size => {
                let writes = self.in_place && reader.random.below(100) < self.percent;
                let action = if writes {
                    Action::Write(ONE, At::Position, self.chunk)
                } else {
                    Action::Read(ONE, At::Position, self.chunk)
                };
                (
                    FileIssue::new(action),
                    ActorState::At(done + u64::from(self.chunk)),
                )
            }
            ActorState::At(_) => {
                self.reading -= 1;
                (
                    FileIssue::new(Action::Close(ONE)).untimed(),
                    ActorState::Closing,
                )
            }
            ActorState::Closing | ActorState::Done => {
                reader.state = ActorState::Done;
                return None;
            }
        };
        reader.state = state;
        Some(issue)
    }

    /// Returns true if the writer is behind its share.
    fn may_write(&self) -> bool {
        let next = self.written_bytes + u64::from(self.chunk);
        next * 100 <= self.read_bytes * self.percent
    }

    fn write(&mut self) -> FileNext {
        let (issue, state) = match self.writer {
            ActorState::Closed => {
                let file = FileId(u32::try_from(self.readers.len()).expect("few"));
                let open = Action::Open(file, ONE, Access::ReadWrite);
                (FileIssue::new(open).untimed(), ActorState::At(0))
            }
            ActorState::At(_) if self.reading == 0 => (
                FileIssue::new(Action::Close(ONE)).untimed(),
                ActorState::Closing,
            ),
            ActorState::At(done) if self.may_write() => {
                self.written_bytes += u64::from(self.chunk);
                // Start over at the end.
                let offset = done % (self.size / u64::from(self.chunk) * u64::from(self.chunk));
                let write = Action::Write(ONE, At::Offset(offset), self.chunk);
                (
                    FileIssue::new(write),
                    ActorState::At(done + u64::from(self.chunk)),
                )
            }
            ActorState::At(_) => {
                self.is_waiting = true;
                return FileNext::Wait;
            }
            ActorState::Closing | ActorState::Done => return FileNext::Done,
        };
        self.writer = state;
        FileNext::Do(issue)
    }
}

impl FileWorkload for Mixed {
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> FileNext {
        let is_reader = usize::try_from(actor).is_ok_and(|at| at < self.readers.len());
        if !is_reader {
            return self.write();
        }
        let next = self.reader(actor, answer);
        if self.is_waiting && (self.reading == 0 || self.may_write()) {
            self.is_waiting = false;
            self.woken = true;
        }
        next.map_or(FileNext::Done, FileNext::Do)
    }

    fn woken(&mut self) -> Option<u32> {
        let writer = u32::try_from(self.readers.len()).expect("few");
        core::mem::take(&mut self.woken).then_some(writer)
    }

    fn path(&self, file: FileId) -> String {
        naming(file)
    }
}
