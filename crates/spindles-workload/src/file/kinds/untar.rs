//! `tar -x`: unpacks a tree of source files, one after another; then makes everything durable.
//!
//! Each file is created, written and closed, and its times and permissions are set, like tar does.
//! The archive is read from memory, so that its own disk is not measured, from the same folder, or
//! from another folder.

use super::phases::{ONE, making_ready, phase};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts, step};
use crate::file::tree::FILES;
use crate::file::{
    Access, Action, Answer, At, Class, FileCounted, FileId, FileIssue, FileNext, FilePhase,
    FilePlan, FileWorkload, Parameter, Slot, Tree,
};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "untar",
    summary: "a source tree of 15,556 files unpacked, and made durable after that",
    parameters: &[
        Parameter::count(
            "files",
            FILES,
            1,
            1 << 22,
            "files of the tree, unless an archive is given",
        )
        .scaled(300),
        Parameter::words(
            "archive",
            &["memory", "folder"],
            "where the archive is read from",
        ),
    ],
    takes_archive: true,
    actors: None,
    files: super::NEEDS_FILE_SYSTEM,
    check: |_| None,
    phases,
    bytes: |plan| {
        let tree = tree(plan);
        let folders = u64::try_from(tree.entries.len()).expect("a count fits");
        // An archive elsewhere takes no space here.
        let archive = if is_file(plan) && plan.archive_folder().is_none() {
            2
        } else {
            1
        };
        tree.bytes() * archive + folders * 4096
    },
    start,
};

/// Bytes that tar reads and writes at once.
const CHUNK: u32 = 10_240;
/// Header of an entry, and the alignment of its data.
const HEADER: u64 = 512;
/// The archive, if it is a file in the folder.
const ARCHIVE: FileId = FileId(u32::MAX);
const ARCHIVE_SLOT: Slot = Slot(1);

fn tree(plan: &FilePlan) -> Arc<Tree> {
    match &plan.tree {
        Some(tree) => Arc::clone(tree),
        None => Arc::new(Tree::sources(plan.value("files"), plan.seed)),
    }
}

/// Returns true if the archive is a file.
fn is_file(plan: &FilePlan) -> bool {
    plan.is("archive", "folder") || plan.archive_folder().is_some()
}

/// Returns the archive's path, relative to the workload's folder.
fn archive_name(plan: &FilePlan) -> String {
    let folder = plan.archive_folder().map(|folder| format!("{folder}/"));
    format!("{}archive.tar", folder.unwrap_or_default())
}

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let from = match plan.archive_folder() {
        Some(_) => "an archive in another folder",
        None if is_file(plan) => "an archive in the same folder",
        None => "memory",
    };
    let files = plan
        .tree
        .as_ref()
        .map_or(plan.value("files"), |tree| tree.files());
    let mut phases = Vec::new();
    if is_file(plan) {
        phases.push(making_ready(1, 1 << 20));
    }
    let unpacks = format!("unpacks {files} files from {from}");
    phases.push(phase(
        "extract",
        unpacks,
        FileCounted::Of(Class::Create),
        1,
        CHUNK,
    ));
    let sync = phase(
        "sync",
        "makes everything durable that was unpacked",
        FileCounted::Of(Class::Sync),
        1,
        512,
    );
    phases.push(FilePhase {
        follows: true,
        ..sync
    });
    phases
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let archive = is_file(plan);
    let archive_name = archive_name(plan);
    let name = {
        let archive_name = archive_name.clone();
        move |_: FileId| archive_name.clone()
    };
    match (phase, archive) {
        (0, true) => {
            let tree = tree(plan);
            let entry = |bytes: u64| HEADER + bytes.next_multiple_of(HEADER);
            let each = tree.entries.iter();
            let bytes = each.map(|each| entry(each.bytes.unwrap_or(0))).sum();
            let script = super::phases::fill(Script::new(), ARCHIVE, bytes, 1 << 20);
            // Flush the archive: writeback to another disk must not overlap with reading it.
            let open = FileIssue::new(Action::Open(ARCHIVE, ONE, Access::ReadWrite));
            let script = script.then(open).then(FileIssue::new(Action::Fsync(ONE)));
            let script = script.then(FileIssue::new(Action::Close(ONE)));
            Scripts::start(vec![script], name)
        }
        (0, false) | (1, true) => Box::new(Unpack {
            tree: tree(plan),
            next: 0,
            archive,
            archive_name,
            queue: if archive {
                let open = Action::Open(ARCHIVE, ARCHIVE_SLOT, Access::Read);
                VecDeque::from([FileIssue::new(open)])
            } else {
                VecDeque::new()
            },
        }),
        _ => {
            let sync = step(|_| FileIssue::new(Action::SyncAll));
            Scripts::start(vec![Script::new().repeat(1, [sync])], name)
        }
    }
}

struct Unpack {
    tree: Arc<Tree>,
    next: usize,
    /// Set while the archive is open.
    archive: bool,
    archive_name: String,
    /// The remaining operations for the entry before `next`.
    queue: VecDeque<FileIssue>,
}

impl Unpack {
    fn prepare(&mut self) {
        let Some(entry) = self.tree.entries.get(self.next) else {
            if core::mem::take(&mut self.archive) {
                let close = FileIssue::new(Action::Close(ARCHIVE_SLOT));
                self.queue.push_back(close);
            }
            return;
        };
        let file = FileId(u32::try_from(self.next).expect("entries are bounded"));
        self.next += 1;
        let mut push = |action| self.queue.push_back(FileIssue::new(action));
        let from_archive = |mut left: u64, push: &mut dyn FnMut(Action)| {
            while self.archive && left > 0 {
                let now = u32::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
                push(Action::Read(ARCHIVE_SLOT, At::Position, now));
                left -= u64::from(now);
            }
        };
        from_archive(HEADER, &mut push);
        let Some(bytes) = entry.bytes else {
            push(Action::Mkdir(file));
            return;
        };
        push(Action::Create(file, ONE, Access::ReadWrite));
        from_archive(bytes.next_multiple_of(HEADER), &mut push);
        let mut left = bytes;
        while left > 0 {
            let now = u32::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            push(Action::Write(ONE, At::Position, now));
            left -= u64::from(now);
        }
        push(Action::Close(ONE));
        push(Action::SetTimes(file));
        push(Action::SetMode(file));
    }
}

impl FileWorkload for Unpack {
    fn step(&mut self, _actor: u32, _answer: Option<Answer>) -> FileNext {
        if self.queue.is_empty() {
            self.prepare();
        }
        let next = self.queue.pop_front();
        next.map_or(FileNext::Done, FileNext::Do)
    }

    fn path(&self, file: FileId) -> String {
        match self
            .tree
            .entries
            .get(usize::try_from(file.0).expect("32 bits fit"))
        {
            Some(entry) => entry.path.clone(),
            None => self.archive_name.clone(),
        }
    }
}
