//! filebench's varmail: threads of a mail server, each in a loop of thirteen operations on a set of
//! small files.

use super::phases::{ONE, endless, making_ready};
use crate::file::fileset::{self, Fileset, preallocated};
use crate::file::plan::{FileKind, HOW_LONG};

use crate::file::{
    Access, Action, Answer, At, FileCounted, FileId, FileIssue, FileNext, FilePhase, FilePlan,
    FileWorkload, Parameter,
};
use crate::plan::size_words;
use crate::stream::Random;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "varmail",
    summary: "filebench's varmail: 60 threads make, append to, fsync, read and remove small files \
        for 300 s",
    parameters: &[
        Parameter::bytes(
            "filesize",
            10_000,
            1,
            1 << 30,
            "mean bytes of a file, gamma distributed",
        ),
        Parameter::count(
            "nfiles",
            100_000,
            100,
            1 << 22,
            "files of the set, in one folder",
        )
        .scaled(500),
        Parameter::count("nthreads", 60, 1, 1024, "threads"),
        Parameter::bytes(
            "meanappendsize",
            16_384,
            1,
            1 << 20,
            "appends are smaller, all sizes alike",
        ),
        Parameter::bytes(
            "iosize",
            1 << 20,
            512,
            16 << 20,
            "bytes of a read of whole files",
        ),
        Parameter::count(
            "prealloc",
            80,
            1,
            99,
            "percent of the files that exist at the start",
        ),
        HOW_LONG,
    ],
    takes_archive: false,
    actors: Some("nthreads"),
    files: super::NEEDS_FILE_SYSTEM,
    check: |plan| {
        let (files, threads) = (plan.value("nfiles"), plan.value("nthreads"));
        (files < threads * 4).then(|| {
            format!(
                "{files} files are too few for {threads} threads, which would wait for one \
                 another: choose at least {} files, or fewer threads",
                threads * 4
            )
        })
    },
    phases,
    bytes: |plan| {
        let file = plan.value("filesize") + plan.value("meanappendsize");
        plan.value("nfiles") * file.next_multiple_of(4096)
    },
    start,
};

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let (files, threads) = (plan.value("nfiles"), plan.small("nthreads"));
    let iosize = plan.small("iosize");
    let summary = format!(
        "{threads} threads on {files} files of {}: delete; create, append, fsync; open, read, \
         append, fsync; open, read",
        size_words(plan.value("filesize"))
    );
    let buffer = iosize.max(plan.small("meanappendsize"));
    vec![
        making_ready(1, 1 << 20),
        endless(summary, FileCounted::Operations, threads, buffer),
    ]
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let (seed, files) = (plan.seed, plan.value("nfiles"));
    let there = preallocated(seed, files, plan.value("prealloc"));
    if phase == 0 {
        return Box::new(MakeReady::new(seed, &there, plan.value("filesize")));
    }
    let thread = |actor| Thread {
        random: Random::new(seed, "varmail", actor),
        at: 0,
        file: FileId(0),
    };
    Box::new(Varmail {
        set: Fileset::new(&there),
        threads: (0..plan.small("nthreads")).map(thread).collect(),
        append_below: plan.value("meanappendsize"),
        iosize: plan.small("iosize"),
        waiting: VecDeque::new(),
        freed: 0,
    })
}

const FOLDERS: [FileId; 2] = [FileId(u32::MAX), FileId(u32::MAX - 1)];

fn path(file: FileId) -> String {
    match FOLDERS.iter().position(|folder| *folder == file) {
        Some(0) => "bigfileset".to_owned(),
        Some(_) => "bigfileset/00000001".to_owned(),
        None => fileset::name(file),
    }
}

/// Creates the folders and the files that exist at the start.
struct MakeReady {
    queue: VecDeque<FileIssue>,
    files: Box<dyn Iterator<Item = (FileId, u64)> + Send>,
}

impl MakeReady {
    fn new(seed: u64, there: &[bool], mean: u64) -> Self {
        let sizes = fileset::sizes_of(seed, u64::try_from(there.len()).expect("fits"), mean);
        let files: Vec<(FileId, u64)> = (0..).map(FileId).zip(sizes).collect();
        let files: Vec<_> = files
            .into_iter()
            .zip(there)
            .filter_map(|(file, there)| there.then_some(file))
            .collect();
        let folders = FOLDERS.map(|folder| FileIssue::new(Action::Mkdir(folder)));
        Self {
            queue: folders.into(),
            files: Box::new(files.into_iter()),
        }
    }
}

impl FileWorkload for MakeReady {
    fn step(&mut self, _actor: u32, _answer: Option<Answer>) -> FileNext {
        if self.queue.is_empty()
            && let Some((file, bytes)) = self.files.next()
        {
            let create = Action::Create(file, ONE, Access::ReadWrite);
            self.queue.push_back(FileIssue::new(create));
            let mut left = bytes;
            while left > 0 {
                let now = u32::try_from(left).map_or(1 << 20, |left| left.min(1 << 20));
                let write = Action::Write(ONE, At::Position, now);
                self.queue.push_back(FileIssue::new(write));
                left -= u64::from(now);
            }
            self.queue.push_back(FileIssue::new(Action::Close(ONE)));
        }
        let next = self.queue.pop_front();
        next.map_or(FileNext::Done, FileNext::Do)
    }

    fn path(&self, file: FileId) -> String {
        path(file)
    }
}

struct Thread {
    random: Random,
    /// The next operation, which may be waiting for a file.
    at: u8,
    /// The file that it has taken or open.
    file: FileId,
}

struct Varmail {
    set: Fileset,
    threads: Vec<Thread>,
    append_below: u64,
    iosize: u32,
    /// Threads that found no free file.
    waiting: VecDeque<u32>,
    /// Number of waiting threads that may retry.
    freed: usize,
}

/// The length of the loop: `deletefile1` to `closefile3` of varmail.f.
const LOOP: u8 = 13;

impl Varmail {
    /// Applies the effect of the thread's last operation to the set.
    fn answered(&mut self, at: usize) {
        let Thread { at: next, file, .. } = self.threads[at];
        // The operation before `next` was answered.
        match (next + LOOP - 1) % LOOP {
            0 => self.set.removed(file),
            1 | 5 | 10 => self.set.opened(file),
            4 | 9 | 12 => self.set.closed(file),
            _ => return,
        }
        self.freed = self.waiting.len();
    }

    fn next(&mut self, at: usize) -> Option<FileIssue> {
        let thread = &mut self.threads[at];
        let action = match thread.at {
            0 => {
                let file = self.set.take_there()?;
                if self.set.is_open(file) {
                    // Not removed, and not counted: the original continues with the next operation.
                    self.set.give_back(file);
                    thread.at = 1;
                    return self.next(at);
                }
                thread.file = file;
                Action::Unlink(file)
            }
            1 => {
                thread.file = self.set.take_absent()?;
                Action::Create(thread.file, ONE, Access::ReadWrite)
            }
            2 | 7 => {
                let bytes = thread.random.below(self.append_below);
                Action::Append(ONE, u32::try_from(bytes).expect("bounded"))
            }
            3 | 8 => Action::Fsync(ONE),
            4 | 9 | 12 => Action::Close(ONE),
            5 | 10 => {
                thread.file = self.set.take_there()?;
                Action::Open(thread.file, ONE, Access::ReadWrite)
            }
            _ => Action::ReadWhole(ONE, self.iosize),
        };
        thread.at = (thread.at + 1) % LOOP;
        Some(FileIssue::new(action))
    }
}

impl FileWorkload for Varmail {
    fn step(&mut self, actor: u32, answer: Option<Answer>) -> FileNext {
        let at = usize::try_from(actor).expect("an actor of ours");
        if answer.is_some() {
            self.answered(at);
        }
        if let Some(issue) = self.next(at) {
            return FileNext::Do(issue);
        }
        self.waiting.push_back(actor);
        FileNext::Wait
    }

    fn woken(&mut self) -> Option<u32> {
        self.freed = self.freed.checked_sub(1)?;
        self.waiting.pop_front()
    }

    fn path(&self, file: FileId) -> String {
        path(file)
    }
}
