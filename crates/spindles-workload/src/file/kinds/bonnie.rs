//! Bonnie as Tim Bray wrote it (1990, 1996): six phases in its own order on one file.
//!
//! Each phase ends when its file is closed; nothing is made durable. The original's sleep of 5 s
//! before the seeks is left out.

use super::phases::{ONE, phase, rotating};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts, step};
use crate::file::{
    Access, Action, Answer, At, Class, FileCounted, FileId, FileIssue, FileNext, FilePhase,
    FilePlan, FileWorkload, Parameter,
};
use crate::plan::size_words;
use crate::stream::Random;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "bonnie",
    summary: "Bonnie of 1996: putc, rewrite, block write, getc, block read and 4000 seeks on one \
        file",
    parameters: &[
        Parameter::bytes("size", 100 << 20, 1 << 20, 1 << 44, "bytes of the file")
            .multiple_of(1 << 20)
            .scaled(1 << 20),
        Parameter::bytes(
            "chunk",
            8192,
            512,
            1 << 20,
            "bytes of a block; 16384 in the release of 1996",
        )
        .multiple_of(512),
        Parameter::count("seeks", 4000, 1, 1 << 32, "seeks of all seekers together"),
        Parameter::count("seekers", 3, 1, 256, "processes that seek at once"),
        Parameter::bytes(
            "stdio",
            4096,
            512,
            1 << 20,
            "bytes that putc and getc move at once",
        ),
    ],
    takes_archive: false,
    actors: Some("seekers"),
    files: |_| Ok(1),
    check: |_| None,
    phases,
    bytes: |plan| plan.value("size"),
    start,
};

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    [
        "putc",
        "rewrite",
        "block-write",
        "getc",
        "block-read",
        "seeks",
    ]
    .map(|name| phase_of(plan, name))
    .into()
}

/// Returns a phase of Bonnie or of its successor.
pub(super) fn phase_of(plan: &FilePlan, name: &str) -> FilePhase {
    let (chunk, stdio) = (plan.small("chunk"), plan.small("stdio"));
    let (seeks, seekers) = (plan.value("seeks"), plan.small("seekers"));
    let of = size_words(chunk.into());
    let (summary, counted, actors, buffer) = match name {
        "putc" => (
            "writes byte after byte through stdio".to_owned(),
            FileCounted::WrittenBytes,
            1,
            stdio,
        ),
        "getc" => (
            "reads byte after byte through stdio".to_owned(),
            FileCounted::ReadBytes,
            1,
            stdio,
        ),
        "rewrite" => (
            format!("reads {of}, changes an integer, writes them back; each byte counted once"),
            FileCounted::WrittenBytes,
            1,
            chunk,
        ),
        "block-write" => (
            format!("writes {of} after {of}"),
            FileCounted::WrittenBytes,
            1,
            chunk,
        ),
        "block-read" => (
            format!("reads {of} after {of}"),
            FileCounted::ReadBytes,
            1,
            chunk,
        ),
        _ => (
            format!(
                "{seeks} random reads of {of}, at most {seekers} at once, every 10th of \
                 each written back"
            ),
            FileCounted::Of(Class::Read),
            seekers,
            chunk,
        ),
    };
    phase(name, summary, counted, actors, buffer)
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let work = BonnieWork::of(plan, plan.value("size"), false);
    match phase {
        0 => work.put(),
        1 => work.rewrite(),
        2 => work.write(),
        3 => work.get(),
        4 => work.read(),
        _ => Seeks::start(plan, &work),
    }
}

/// The only file.
const FILE: FileId = FileId(0);

/// The common part of Bonnie and its successor.
pub(super) struct BonnieWork {
    size: u64,
    chunk: u32,
    /// Bytes that go through stdio, and how many it moves at once.
    characters: u64,
    stdio: u32,
    /// Set if the file is made durable before the clock stops.
    fsync: bool,
}

impl BonnieWork {
    pub(super) fn of(plan: &FilePlan, characters: u64, fsync: bool) -> Self {
        let chunk = plan.small("chunk");
        Self {
            characters,
            size: plan.value("size") / u64::from(chunk) * u64::from(chunk),
            chunk,
            stdio: plan.small("stdio"),
            fsync,
        }
    }

    /// Removes the file if `removes`, opens it, goes through `size` bytes in rounds of `unit`, and
    /// closes it.
    fn through(
        &self,
        opened: impl Fn(FileId) -> Action,
        (size, unit): (u64, u32),
        writes: bool,
        removes: bool,
        steps: impl FnOnce() -> Vec<Box<dyn FnMut(u64) -> FileIssue + Send>>,
    ) -> Box<dyn FileWorkload> {
        let mut script = Script::new();
        // The clock starts once the file is open.
        if removes {
            script = script.then(FileIssue::new(Action::Unlink(FILE)).untimed());
        }
        script = script.then(FileIssue::new(opened(FILE)).untimed());
        script = script.repeat(size / u64::from(unit), steps());
        if !writes && size == self.size {
            // The read that finds the end.
            let read = Action::Read(ONE, At::Position, unit);
            script = script.then(FileIssue::new(read));
        } else if writes && self.fsync {
            script = script.then(FileIssue::new(Action::Fsync(ONE)));
        }
        script = script.then(FileIssue::new(Action::Close(ONE)));
        Scripts::start(vec![script], name_of)
    }

    pub(super) fn put(&self) -> Box<dyn FileWorkload> {
        let unit = self.stdio;
        let made = |file| Action::Create(file, ONE, Access::ReadWrite);
        let put = move |_| FileIssue::new(Action::PutBytes(ONE, unit));
        let all = (self.characters, unit);
        self.through(made, all, true, false, || vec![step(put)])
    }

    pub(super) fn get(&self) -> Box<dyn FileWorkload> {
        let unit = self.stdio;
        let opened = |file| Action::Open(file, ONE, Access::Read);
        let get = move |_| FileIssue::new(Action::GetBytes(ONE, unit));
        let all = (self.characters, unit);
        self.through(opened, all, false, false, || vec![step(get)])
    }

    pub(super) fn write(&self) -> Box<dyn FileWorkload> {
        let chunk = self.chunk;
        // ext4 writes a truncated file to the disk as soon as it is closed, so remove it first.
        let made = |file| Action::Create(file, ONE, Access::ReadWrite);
        let write = move |round| {
            let write = Action::Write(ONE, At::Position, chunk);
            FileIssue::new(write).touching(rotating(round, chunk))
        };
        let all = (self.size, chunk);
        self.through(made, all, true, true, || vec![step(write)])
    }

    pub(super) fn read(&self) -> Box<dyn FileWorkload> {
        let chunk = self.chunk;
        let opened = |file| Action::Open(file, ONE, Access::Read);
        let read = move |round| {
            let read = Action::Read(ONE, At::Position, chunk);
            FileIssue::new(read).touching(rotating(round, chunk))
        };
        let all = (self.size, chunk);
        self.through(opened, all, false, false, || vec![step(read)])
    }

    pub(super) fn rewrite(&self) -> Box<dyn FileWorkload> {
        let chunk = self.chunk;
        let opened = |file| Action::Open(file, ONE, Access::ReadWrite);
        self.through(opened, (self.size, chunk), true, false, || {
            vec![
                step(move |_| FileIssue::new(Action::Read(ONE, At::Position, chunk))),
                step(move |_| FileIssue::new(Action::SeekBack(ONE, chunk))),
                step(move |round| {
                    let write = Action::Write(ONE, At::Position, chunk);
                    FileIssue::new(write).touching(rotating(round, chunk))
                }),
            ]
        })
    }
}

fn name_of(file: FileId) -> String {
    format!("Bonnie.{}", file.0)
}

/// A seeker writes back one in this many of its reads.
const UPDATE_EVERY: u64 = 10;

/// Seekers draw tickets; a ticket is one random chunk.
pub(super) struct Seeks {
    tickets: u64,
    chunk: u32,
    chunks: u64,
    seekers: Vec<Seeker>,
}

struct Seeker {
    random: Random,
    opened: bool,
    drawn: u64,
    /// The offset of the chunk that is written back next, and the integer that changes.
    write_back: Option<(u64, u32)>,
    /// Set until the file is made durable, and then closed, at the end.
    to_sync: bool,
    to_close: bool,
}

impl Seeks {
    pub(super) fn start(plan: &FilePlan, work: &BonnieWork) -> Box<dyn FileWorkload> {
        let seeker = |number| Seeker {
            random: Random::new(plan.seed, plan.kind.name, number),
            opened: false,
            drawn: 0,
            write_back: None,
            to_sync: work.fsync,
            to_close: true,
        };
        Box::new(Self {
            tickets: plan.value("seeks"),
            chunk: work.chunk,
            chunks: work.size / u64::from(work.chunk),
            seekers: (0..plan.small("seekers")).map(seeker).collect(),
        })
    }

    fn next(&mut self, actor: u32) -> Option<FileIssue> {
        let seeker = &mut self.seekers[usize::try_from(actor).expect("an actor of ours")];
        if !seeker.opened {
            seeker.opened = true;
            let open = Action::Open(FILE, ONE, Access::ReadWrite);
            return Some(FileIssue::new(open).untimed());
        }
        if let Some((offset, integer)) = seeker.write_back.take() {
            let write = Action::Write(ONE, At::Offset(offset), self.chunk);
            return Some(FileIssue::new(write).touching(integer));
        }
        if self.tickets > 0 {
            self.tickets -= 1;
            let offset = seeker.random.below(self.chunks) * u64::from(self.chunk);
            if seeker.drawn.is_multiple_of(UPDATE_EVERY) {
                let integer = seeker.random.below(u64::from(self.chunk / 4));
                let integer = u32::try_from(integer).expect("less than the chunk");
                seeker.write_back = Some((offset, integer));
            }
            seeker.drawn += 1;
            let read = Action::Read(ONE, At::Offset(offset), self.chunk);
            return Some(FileIssue::new(read));
        }
        if core::mem::take(&mut seeker.to_sync) {
            return Some(FileIssue::new(Action::Fsync(ONE)));
        }
        let closes = core::mem::take(&mut seeker.to_close);
        closes.then(|| FileIssue::new(Action::Close(ONE)))
    }
}

impl FileWorkload for Seeks {
    fn step(&mut self, actor: u32, _answer: Option<Answer>) -> FileNext {
        self.next(actor).map_or(FileNext::Done, FileNext::Do)
    }

    fn path(&self, file: FileId) -> String {
        name_of(file)
    }
}
