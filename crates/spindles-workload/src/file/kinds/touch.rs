//! `touch` of ten thousand files in one folder, `touch` of them again, and `rm`: one process.

use super::phases::{ONE, phase};
use crate::file::plan::FileKind;
use crate::file::script::{Script, Scripts, step};
use crate::file::{
    Access, Action, Class, FileCounted, FileId, FileIssue, FilePhase, FilePlan, FileWorkload,
    Parameter,
};
use crate::stream::Random;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "touch",
    summary: "10,000 empty files in one folder: made, touched again, removed",
    parameters: &[
        Parameter::count("files", 10_000, 1, 1 << 22, "files in the folder").scaled(200),
        Parameter::words(
            "order",
            &["in-order", "at-random"],
            "order in which they are touched again and removed",
        ),
        Parameter::words(
            "fsync",
            &["no", "yes"],
            "make each file durable once it is made",
        ),
    ],
    takes_archive: false,
    actors: None,
    files: super::NEEDS_FILE_SYSTEM,
    check: |_| None,
    phases,
    bytes: |plan| plan.value("files") * 4096,
    start,
};

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let files = plan.value("files");
    let one = |name: &str, does: &str, class| {
        let summary = format!("{does} {files} empty files in one folder");
        phase(name, summary, FileCounted::Of(class), 1, 512)
    };
    vec![
        one("touch", "makes", Class::Create),
        one("retouch", "sets the times of", Class::Utime),
        one("unlink", "removes", Class::Delete),
    ]
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let files = plan.small("files");
    let mut order: Vec<u32> = (0..files).collect();
    if phase > 0 && plan.is("order", "at-random") {
        Random::new(plan.seed, "touch/order", 0).shuffle(&mut order);
    }
    let of = move |round: u64| FileId(order[usize::try_from(round).expect("less than the count")]);
    let steps = match phase {
        0 => {
            let made = step(move |round| {
                FileIssue::new(Action::Create(of(round), ONE, Access::ReadWrite))
            });
            let closed = step(|_| FileIssue::new(Action::Close(ONE)));
            if plan.is("fsync", "yes") {
                let durable = step(|_| FileIssue::new(Action::Fsync(ONE)));
                vec![made, durable, closed]
            } else {
                vec![made, closed]
            }
        }
        1 => vec![step(move |round| {
            FileIssue::new(Action::SetTimes(of(round)))
        })],
        _ => vec![step(move |round| FileIssue::new(Action::Unlink(of(round))))],
    };
    let script = Script::new().repeat(files.into(), steps);
    Scripts::start(vec![script], |file| format!("file{:05}", file.0))
}
