//! Runs every workload on files against a file system in memory. Checks that its operations are
//! possible, that its counts match the originals, and that equal seeds give equal operations.

extern crate std;

use super::*;
use crate::file::plan::Value;
use crate::file::{Action, Answer, At, Class, FileId, FileIssue, FileNext, Slot};
use alloc::format;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::string::String;
use std::string::ToString as _;
use std::vec;
use std::vec::Vec;

/// The counts of a phase.
#[derive(Debug, Default, PartialEq, Eq)]
struct Done {
    count: BTreeMap<Class, u64>,
    read_bytes: u64,
    written_bytes: u64,
    log_writes: u64,
    /// A hash of all operations in order.
    order: u64,
}

impl Done {
    fn of(&self, class: Class) -> u64 {
        self.count.get(&class).copied().unwrap_or(0)
    }

    fn operations(&self) -> u64 {
        let operations = self.count.iter().filter(|(class, _)| class.is_operation());
        operations.map(|(_, count)| count).sum()
    }
}

/// A file system in memory, which keeps the sizes of files.
#[derive(Default)]
struct Disk {
    sizes: BTreeMap<String, u64>,
    folders: BTreeSet<String>,
    open: BTreeMap<(u32, Slot), (String, u64)>,
}

impl Disk {
    /// Carries out an operation; panics if a real file system would refuse it.
    fn act(&mut self, actor: u32, issue: &FileIssue, path: impl Fn(FileId) -> String) -> Answer {
        let mut bytes_moved = 0;
        match issue.action {
            Action::Mkdir(folder) => {
                let folder = path(folder);
                self.assert_parent(&folder);
                assert!(self.folders.insert(folder));
            }
            Action::Create(file, slot, _) => {
                let file = path(file);
                self.assert_parent(&file);
                self.sizes.insert(file.clone(), 0);
                assert!(self.open.insert((actor, slot), (file, 0)).is_none());
            }
            Action::Open(file, slot, _) => {
                let file = path(file);
                assert!(self.sizes.contains_key(&file), "{file} is not there");
                assert!(self.open.insert((actor, slot), (file, 0)).is_none());
            }
            Action::Close(slot) => assert!(self.open.remove(&(actor, slot)).is_some()),
            Action::Read(slot, at, bytes) => bytes_moved = self.read(actor, slot, at, bytes),
            Action::GetBytes(slot, bytes) => {
                bytes_moved = self.read(actor, slot, At::Position, bytes);
            }
            Action::ReadWhole(slot, _) => {
                let (file, position) = self.open.get_mut(&(actor, slot)).unwrap();
                bytes_moved = self.sizes.get(file).copied().unwrap_or(0);
                *position = bytes_moved;
            }
            Action::Write(slot, at, bytes) => bytes_moved = self.write(actor, slot, at, bytes),
            Action::PutBytes(slot, bytes) => {
                bytes_moved = self.write(actor, slot, At::Position, bytes);
            }
            Action::Append(slot, bytes) => {
                let (file, position) = self.open.get_mut(&(actor, slot)).unwrap();
                *position = self.sizes[file];
                bytes_moved = self.write(actor, slot, At::Position, bytes);
            }
            Action::Seek(slot, to) => self.open.get_mut(&(actor, slot)).unwrap().1 = to,
            Action::SeekBack(slot, bytes) => {
                let position = &mut self.open.get_mut(&(actor, slot)).unwrap().1;
                *position = position.checked_sub(bytes.into()).unwrap();
            }
            Action::Fsync(slot) => assert!(self.open.contains_key(&(actor, slot))),
            Action::SetTimes(file) | Action::SetMode(file) | Action::Stat(file) => {
                assert!(self.sizes.contains_key(&path(file)));
            }
            Action::Unlink(file) => assert!(self.sizes.remove(&path(file)).is_some()),
            Action::SyncAll | Action::Think(_) | Action::Nothing => {}
        }
        Answer { bytes: bytes_moved }
    }

    fn assert_parent(&self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            assert!(self.folders.contains(parent), "no folder for {path}");
        }
    }

    fn read(&mut self, actor: u32, slot: Slot, at: At, bytes: u32) -> u64 {
        let (file, position) = self.open.get_mut(&(actor, slot)).unwrap();
        let from = match at {
            At::Position => *position,
            At::Offset(offset) => offset,
        };
        let moved = self.sizes[file].saturating_sub(from).min(bytes.into());
        if at == At::Position {
            *position += moved;
        }
        moved
    }

    fn write(&mut self, actor: u32, slot: Slot, at: At, bytes: u32) -> u64 {
        let (file, position) = self.open.get_mut(&(actor, slot)).unwrap();
        let from = match at {
            At::Position => *position,
            At::Offset(offset) => offset,
        };
        let end = from + u64::from(bytes);
        // A file may be removed while another actor has it open.
        if let Some(size) = self.sizes.get_mut(file) {
            *size = end.max(*size);
        }
        if at == At::Position {
            *position = end;
        }
        bytes.into()
    }
}

/// Runs a phase, its actors in turn, for at most `steps` steps.
fn run(disk: &mut Disk, plan: &FilePlan, phase: usize, steps: u64) -> Done {
    let actors = plan.phases()[phase].actors;
    let buffer_bytes = plan.phases()[phase].buffer_bytes;
    let mut workload = plan.start(phase);
    let mut ready: VecDeque<(u32, Option<Answer>)> = (0..actors).map(|at| (at, None)).collect();
    let (mut waiting, mut left) = (BTreeSet::new(), actors);
    let mut done = Done::default();
    let mut steps_left = steps;
    while let Some((actor, answer)) = ready.pop_front() {
        match workload.step(actor, answer) {
            FileNext::Do(issue) => {
                let name = |file| workload.path(file);
                let answer = disk.act(actor, &issue, name);
                if issue.timed {
                    *done.count.entry(issue.class).or_default() += 1;
                }
                let text = std::format!("{actor} {issue:?}");
                for byte in text.bytes() {
                    done.order = done.order.rotate_left(5) ^ u64::from(byte);
                }
                let moved = match issue.action {
                    Action::Read(_, _, bytes) | Action::GetBytes(_, bytes) => {
                        assert!(bytes <= buffer_bytes);
                        &mut done.read_bytes
                    }
                    Action::ReadWhole(..) => &mut done.read_bytes,
                    Action::Write(_, _, bytes) | Action::PutBytes(_, bytes) => {
                        assert!(bytes <= buffer_bytes);
                        done.log_writes += u64::from(bytes == 256 << 10);
                        &mut done.written_bytes
                    }
                    _ => &mut done.written_bytes,
                };
                *moved += answer.bytes;
                ready.push_back((actor, Some(answer)));
            }
            FileNext::Wait => assert!(waiting.insert(actor)),
            FileNext::Done => left -= 1,
        }
        while let Some(woken) = workload.woken() {
            if waiting.remove(&woken) {
                ready.push_back((woken, None));
            }
        }
        steps_left -= 1;
        if steps_left == 0 {
            disk.open.clear();
            return done;
        }
        assert!(!ready.is_empty() || left == 0, "all wait for one another");
    }
    assert_eq!(left, 0, "some wait for ever");
    assert!(disk.open.is_empty(), "all is closed at the end");
    done
}

fn chosen(text: &str) -> BTreeMap<String, Value> {
    let one = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        let value = match value.parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Word(value.to_string()),
        };
        (name.to_string(), value)
    };
    text.split_whitespace().map(one).collect()
}

fn plan(name: &str, text: &str) -> FilePlan {
    let kind = by_name(name).unwrap();
    kind.plan(&chosen(text), 1.0, 1).unwrap()
}

/// Runs all phases in order.
fn run_all(plan: &FilePlan, steps: u64) -> Vec<Done> {
    let mut disk = Disk::default();
    let phases = 0..plan.phases().len();
    phases.map(|at| run(&mut disk, plan, at, steps)).collect()
}

/// Parameters small enough for a test.
const SMALL: &[(&str, &str)] = &[
    ("bonnie", "size=2097152"),
    ("bonnie++", "size=2097152 files=300"),
    ("iozone", "size=1048576 record=16384"),
    ("cp", "size=1048576 processes=3"),
    ("touch", "files=300 order=at-random"),
    ("untar", "files=300 archive=folder"),
    ("mixed", "size=4194304 readers=2"),
    ("multistreamread", "filesize=4194304"),
    ("multistreamwrite", "filesize=4194304 nthreads=2"),
    ("varmail", "nfiles=500 nthreads=16"),
    ("oltp", "filesize=1048576 nshadows=50"),
];

#[test]
fn every_workload_issues_valid_operations_and_replays() {
    assert_eq!(SMALL.len(), KINDS.len());
    for ((name, text), kind) in SMALL.iter().zip(KINDS) {
        assert_eq!(*name, kind.name);
        let small = plan(name, text);
        let first = run_all(&small, 100_000);
        assert_eq!(first, run_all(&small, 100_000), "{name}");
        let phases = small.phases();
        assert!(phases.iter().any(|phase| phase.counted.is_some()));
        for (phase, done) in phases.iter().zip(&first) {
            assert!(done.operations() > 0, "{name} {}", phase.name);
            assert!(!phase.summary.is_empty());
        }
    }
}

#[test]
fn bonnie_transfers_its_size_each_phase_and_seeks_4000_times() {
    for (name, order) in [
        (
            "bonnie",
            [
                "putc",
                "rewrite",
                "block-write",
                "getc",
                "block-read",
                "seeks",
            ],
        ),
        (
            "bonnie++",
            [
                "putc",
                "block-write",
                "rewrite",
                "getc",
                "block-read",
                "seeks",
            ],
        ),
    ] {
        let plus = name == "bonnie++";
        let text = if plus {
            "size=4194304 files=0"
        } else {
            "size=4194304"
        };
        let plan = plan(name, text);
        let names: Vec<String> = plan.phases().into_iter().map(|phase| phase.name).collect();
        assert_eq!(names, order);
        let all = run_all(&plan, u64::MAX);
        let size = 4 << 20;
        for (phase, done) in names.iter().zip(&all) {
            let expected = match phase.as_str() {
                "putc" | "block-write" => (0, size),
                "rewrite" => (size, size),
                "getc" | "block-read" => (size, 0),
                _ => (done.read_bytes, done.written_bytes),
            };
            assert_eq!((done.read_bytes, done.written_bytes), expected, "{phase}");
            let syncs = match (plus, phase.as_str()) {
                (true, "putc" | "block-write" | "rewrite") => 1,
                (true, "seeks") => 5,
                _ => 0,
            };
            assert_eq!(done.of(Class::Fsync), syncs, "{phase}");
        }
        let seeks = &all[5];
        let (tickets, seekers) = if plus { (8192, 5) } else { (4000, 3) };
        assert_eq!(seeks.of(Class::Read), tickets);
        let written = seeks.of(Class::Write);
        assert!(
            (tickets / 10..=tickets / 10 + seekers).contains(&written),
            "{written}"
        );
    }
    // A file of two gibibytes or more stays one file, as in bonnie++ 2.00a.
    let plan = plan(
        "bonnie++",
        "size=2148532224 files=0 chunk=1048576 stdio=1048576",
    );
    let mut disk = Disk::default();
    // The putc phase writes 20 MiB, unless more is requested.
    let put = run(&mut disk, &plan, 0, u64::MAX).written_bytes;
    run(&mut disk, &plan, 1, u64::MAX);
    let sizes: Vec<u64> = disk.sizes.values().copied().collect();
    assert_eq!(sizes, [2_148_532_224]);
    let got = run(&mut disk, &plan, 3, u64::MAX).read_bytes;
    assert_eq!((put, got), (20 << 20, 20 << 20));
    assert_eq!(run(&mut disk, &plan, 5, u64::MAX).of(Class::Read), 8192);
}

#[test]
fn cp_copies_zeros_or_files() {
    let size = 1_000_000 / 4096 * 4096;
    let text = |source| format!("size={size} processes=2 source={source}");
    let all = run_all(&plan("cp", &text("zero")), u64::MAX);
    let bytes = |done: &Done| (done.read_bytes, done.written_bytes);
    let both = 2 * size;
    let zeros: Vec<_> = all.iter().map(bytes).collect();
    assert_eq!(zeros, [(0, both), (both, 0)]);
    let all = run_all(&plan("cp", &text("file")), u64::MAX);
    let files: Vec<_> = all.iter().map(bytes).collect();
    assert_eq!(files, [(0, both), (both, both), (both, 0)]);
}

#[test]
fn iozone_has_4096_records_of_64_kib_in_256_mib() {
    let all = run_all(&plan("iozone", ""), u64::MAX);
    assert_eq!(all[0].of(Class::Write), 4096);
    assert_eq!(all[1].of(Class::Read), 4096);
    assert_eq!(
        (all[0].written_bytes, all[1].read_bytes),
        (256 << 20, 256 << 20)
    );
    // Opening and closing are not timed.
    assert_eq!((all[0].operations(), all[1].operations()), (4096, 4096));
    let auto = plan("iozone", "auto=yes").phases();
    assert_eq!(auto.len(), 50);
    assert_eq!(auto[0].name, "write 1M 512");
    assert_eq!(auto[49].name, "read 16M 8192");
    assert_eq!(auto[49].parameters, [("size", 16 << 20), ("record", 8192)]);
}

#[test]
fn files_are_touched_twice_and_removed() {
    let all = run_all(&plan("touch", ""), u64::MAX);
    let counts = [(0, Class::Create), (1, Class::Utime), (2, Class::Delete)];
    for (phase, class) in counts {
        assert_eq!(all[phase].of(class), 10_000);
    }
    let untar = run_all(&plan("untar", ""), u64::MAX);
    assert_eq!(untar[0].of(Class::Create), 15_556);
    assert_eq!(untar[0].of(Class::Mkdir), 1_010);
    assert_eq!(untar[0].of(Class::Utime), 15_556);
    assert_eq!(untar[1].of(Class::Sync), 1);
    // An untar from an archive file reads all of it.
    let read = &run_all(&plan("untar", "archive=folder files=300"), u64::MAX);
    assert_eq!(read[0].written_bytes, read[1].read_bytes);
}

#[test]
fn varmail_counts_13_operations_for_4_that_read_or_write() {
    let all = run_all(&plan("varmail", ""), 1_000_000);
    let done = &all[1];
    let moved = done.of(Class::ReadWhole) + done.of(Class::Append);
    let ratio = done.operations() * 100 / moved;
    assert!((324..=326).contains(&ratio), "{ratio}");
    let prealloc = all[0].of(Class::Create);
    assert!((79_500..80_500).contains(&prealloc), "{prealloc}");
    // Append sizes are uniform below 16 KiB.
    let mean = done.written_bytes / done.of(Class::Append);
    assert!((8_000..8_400).contains(&mean), "{mean}");
}

#[test]
fn oltp_reads_as_often_as_it_writes_and_writes_its_log_once_for_3200_reads() {
    let all = run_all(&plan("oltp", "filesize=4194304"), 2_000_000);
    let done = &all[1];
    let reads = done.of(Class::Read);
    let writes = done.of(Class::AioWrite) - done.log_writes;
    assert!(reads > 100_000, "{reads}");
    assert!(
        (90..=110).contains(&(writes * 100 / reads)),
        "{reads} {writes}"
    );
    let expected = reads / 3200;
    assert!(
        done.log_writes.abs_diff(expected) <= 2,
        "{} {expected}",
        done.log_writes
    );
    assert!(done.of(Class::AioWait) > 0);
}

#[test]
fn writes_during_reads_are_two_percent_of_the_bytes_read() {
    for beside in ["one-writer", "in-place"] {
        let text = std::format!("size=67108864 readers=2 beside={beside}");
        let all = run_all(&plan("mixed", &text), u64::MAX);
        assert_eq!((all[1].read_bytes, all[1].written_bytes), (128 << 20, 0));
        let total = all[2].read_bytes + all[2].written_bytes;
        let permille = all[2].written_bytes * 1000 / total;
        assert!((15..=25).contains(&permille), "{beside}: {permille}");
    }
}

#[test]
fn stream_readers_count_the_read_at_end_of_file() {
    let all = run_all(&plan("multistreamread", "filesize=4194304"), 5_000);
    let done = &all[1];
    // Four reads and the one that finds the end, then back to the start.
    let times = done.of(Class::Seek);
    assert!(done.of(Class::Read).abs_diff(times * 5) <= 20);
    assert!(done.read_bytes.abs_diff(times * (4 << 20)) <= 16 << 20);
    let mut disk = Disk::default();
    let writes = plan("multistreamwrite", "filesize=4194304");
    run(&mut disk, &writes, 0, u64::MAX);
    run(&mut disk, &writes, 1, 100);
    assert!(
        disk.sizes.values().all(|size| *size >= 20 << 20),
        "it grows"
    );
    let mut disk = Disk::default();
    let stays = plan("multistreamwrite", "filesize=4194304 grow=no");
    run(&mut disk, &stays, 0, u64::MAX);
    run(&mut disk, &stays, 1, 1000);
    assert!(
        disk.sizes.values().all(|size| *size == 4 << 20),
        "it does not"
    );
}

#[test]
fn invalid_parameters_are_refused_with_a_remedy() {
    let check = |kind: &str, text: &str, scale: f64, expected: &str| {
        let found = by_name(kind).unwrap().plan(&chosen(text), scale, 1);
        assert_eq!(found.unwrap_err().to_string(), expected);
    };
    check(
        "touch",
        "number=5",
        1.0,
        "touch has no parameter \"number\": it has files, order, fsync",
    );
    check(
        "touch",
        "files=0",
        1.0,
        "files = 0 is not possible: give a whole number from 1 to 4194304",
    );
    check(
        "touch",
        "order=mixed",
        1.0,
        "order = mixed is not possible: give one of in-order, at-random",
    );
    check(
        "bonnie",
        "chunk=1000",
        1.0,
        "chunk = 1000 is not possible: give a size from 512 to 1048576 bytes that is a multiple of \
         512",
    );
    check(
        "touch",
        "",
        0.01,
        "at a scale of 0.01 the files would be 100, and below 200 the figures say nothing: choose \
         a scale of at least 0.02",
    );
    check(
        "varmail",
        "nfiles=100",
        1.0,
        "varmail: 100 files are too few for 60 threads, which would wait for one another: choose \
         at least 240 files, or fewer threads",
    );
    let scaled = by_name("bonnie")
        .unwrap()
        .plan(&chosen(""), 0.25, 1)
        .unwrap();
    assert_eq!(scaled.value("size"), 25 << 20);
    assert_eq!(scaled.value("seeks"), 4000);
    // A value that was deliberately chosen small stays possible.
    assert!(
        by_name("touch")
            .unwrap()
            .plan(&chosen("files=20"), 1.0, 1)
            .is_ok()
    );
    assert_eq!(
        vec![plan("oltp", "dsync=log").words()["dsync"].as_str()],
        ["log"]
    );
}

/// A lab may change the number of actors, and whether flushes take effect.
#[test]
fn a_plan_can_add_operations_and_omit_flushes() {
    let plan = |kind: &str| {
        let kind = by_name(kind).unwrap();
        kind.plan(&BTreeMap::new(), 1.0, 1).unwrap()
    };
    let doubled = plan("cp").with_actors(|actors| actors * 2).unwrap();
    assert_eq!(
        doubled.phases()[0].actors,
        2 * plan("cp").phases()[0].actors
    );
    assert!(plan("touch").with_actors(|actors| actors * 2).is_none());
    // No more than a kind allows.
    assert!(plan("cp").with_actors(|_| 1 << 40).is_none());
    let chosen = BTreeMap::from([("fsync".to_string(), Value::Word("yes".to_string()))]);
    let synced = by_name("iozone").unwrap().plan(&chosen, 1.0, 1).unwrap();
    let fsyncs = |plan: &FilePlan| {
        let mut workload = plan.start(0);
        let mut answer = None;
        let mut fsyncs = 0;
        while let FileNext::Do(issue) = workload.step(0, answer) {
            fsyncs += u32::from(matches!(issue.action, Action::Fsync(_)));
            answer = Some(Answer { bytes: 0 });
        }
        fsyncs
    };
    assert_eq!(
        (fsyncs(&synced), fsyncs(&synced.clone().without_syncs())),
        (1, 0)
    );
}
