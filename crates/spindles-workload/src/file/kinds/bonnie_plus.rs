//! bonnie++ (Russell Coker): Bonnie's phases in another order, made durable before the clock stops,
//! with 8192 seeks by 5 seekers. Then small files are created, checked and removed, in order and at
//! random.

use super::bonnie::{BonnieWork, Seeks, phase_of};
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
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub(super) static KIND: FileKind = FileKind {
    name: "bonnie++",
    summary: "bonnie++: putc, block write, rewrite, getc, block read, 8192 seeks; then many small \
        files",
    parameters: &[
        Parameter::bytes(
            "size",
            1 << 30,
            1 << 20,
            1 << 44,
            "bytes of all files together",
        )
        .multiple_of(1 << 20)
        .scaled(4 << 20),
        Parameter::bytes("chunk", 8192, 512, 1 << 20, "bytes of a block").multiple_of(512),
        Parameter::count("seeks", 8192, 1, 1 << 32, "seeks of all seekers together"),
        Parameter::count("seekers", 5, 1, 256, "processes that seek at once"),
        Parameter::bytes(
            "stdio",
            4096,
            512,
            1 << 20,
            "bytes that putc and getc move at once",
        ),
        Parameter::bytes(
            "char-io",
            20 << 20,
            1 << 20,
            1 << 44,
            "bytes that putc and getc move at most, like its -f",
        )
        .multiple_of(1 << 20),
        Parameter::count(
            "files",
            16_384,
            0,
            1 << 22,
            "small files, 1024 for each of its -n; 0: none",
        )
        .scaled(256),
    ],
    takes_archive: false,
    actors: Some("seekers"),
    files: super::NEEDS_FILE_SYSTEM,
    check: |_| None,
    phases,
    bytes: |plan| plan.value("size") + plan.value("files") * 4096,
    start,
};

const PHASES: [&str; 6] = [
    "putc",
    "block-write",
    "rewrite",
    "getc",
    "block-read",
    "seeks",
];
/// The operations on small files, in both orders.
const WITH_FILES: [(&str, Class); 3] = [
    ("create", Class::Create),
    ("stat", Class::Stat),
    ("delete", Class::Delete),
];

fn phases(plan: &FilePlan) -> Vec<FilePhase> {
    let mut phases: Vec<FilePhase> = PHASES.map(|name| phase_of(plan, name)).into();
    let files = plan.value("files");
    if files > 0 {
        for order in ["in-order", "at-random"] {
            for (name, class) in WITH_FILES {
                phases.push(phase(
                    &format!("{name}-{order}"),
                    format!("{name}: {files} empty files in one folder, {order}"),
                    FileCounted::Of(class),
                    1,
                    512,
                ));
            }
        }
    }
    phases
}

fn start(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let characters = plan.value("char-io").min(plan.value("size"));
    let work = BonnieWork::of(plan, characters, true);
    match PHASES.get(phase) {
        Some(&"putc") => work.put(),
        Some(&"block-write") => work.write(),
        Some(&"rewrite") => work.rewrite(),
        Some(&"getc") => work.get(),
        Some(&"block-read") => work.read(),
        Some(_) => Seeks::start(plan, &work),
        None => small_files(plan, phase - PHASES.len()),
    }
}

/// Creates, stats and removes small files: first in the order of their names, then all three in the
/// same random order.
fn small_files(plan: &FilePlan, phase: usize) -> Box<dyn FileWorkload> {
    let files = plan.small("files");
    let in_order = phase < WITH_FILES.len();
    let names = Arc::new(names(plan.seed, files, in_order));
    let mut order: Vec<u32> = (0..files).collect();
    if !in_order {
        Random::new(plan.seed, "bonnie++/order", 0).shuffle(&mut order);
    }
    let of = move |round: u64| FileId(order[usize::try_from(round).expect("less than the count")]);
    let rounds = u64::from(files);
    let script = match WITH_FILES[phase % WITH_FILES.len()].1 {
        Class::Create => Script::new().repeat(
            rounds,
            [
                step(move |round| {
                    FileIssue::new(Action::Create(of(round), ONE, Access::ReadWrite))
                }),
                step(|_| FileIssue::new(Action::Close(ONE))),
            ],
        ),
        Class::Stat => Script::new().repeat(
            rounds,
            [step(move |round| FileIssue::new(Action::Stat(of(round))))],
        ),
        _ => Script::new().repeat(
            rounds,
            [step(move |round| FileIssue::new(Action::Unlink(of(round))))],
        ),
    };
    Scripts::start(vec![script], move |file| {
        names[usize::try_from(file.0).expect("32 bits fit")].clone()
    })
}

/// 7 digits and up to 12 random letters: digits first for the test in order, last for the other.
fn names(seed: u64, files: u32, in_order: bool) -> Vec<String> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut random = Random::new(seed, "bonnie++/names", 0);
    let mut one = |number: u32| {
        let letters: String = (0..random.below(13))
            .map(|_| {
                let at = usize::try_from(random.below(62)).expect("less than 62");
                char::from(LETTERS[at])
            })
            .collect();
        if in_order {
            format!("{number:07}{letters}")
        } else {
            format!("{letters}{number:07}")
        }
    };
    (0..files).map(&mut one).collect()
}
