//! Arrays that lack members: what of them is read, what may be written, and how members and whole inner
//! arrays take the places of those that are lost.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::run;
use spindles_block::{BlockSize, BufferSlice, Operation};
use spindles_io::assemble::{AssembleError, AssembleOptions, Assembled, assemble};
use spindles_io::create::{CreateOptions, create};
use spindles_io::reading::assemble_to_read;
use spindles_io::rebuild::{RebuildOptions, rebuild};
use spindles_io::settings::set_degraded_writes;
use spindles_io::{OpenOptions, Target, grow};
use spindles_layout::Expression;
use std::fs::{self, File};

/// A folder with devices.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(names: &[&str]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for name in names {
            let file = File::create(folder.path(name)).unwrap();
            file.set_len(8 << 20).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// `raid5(a,b,c)` with the devices of this folder, which all have names of one letter.
    fn create(&self, text: &str, options: &CreateOptions) {
        let mut whole = String::new();
        let letters: Vec<char> = text.chars().collect();
        for (at, letter) in letters.iter().enumerate() {
            let ends = matches!(letters.get(at + 1), Some(',' | ')'));
            let begins = at > 0 && matches!(letters[at - 1], '(' | ',');
            if begins && ends {
                whole.push_str(&self.path(&letter.to_string()));
            } else {
                whole.push(*letter);
            }
        }
        let expression = Expression::parse(&whole).unwrap();
        create(&expression, options, &mut |_, _| true).unwrap();
    }

    fn assemble(
        &self,
        names: &[&str],
        options: &AssembleOptions,
    ) -> Result<Assembled, AssembleError> {
        let paths: Vec<String> = names.iter().map(|name| self.path(name)).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assemble(&paths, options)
    }

    /// Writes `byte` to the beginning of the array, and closes it or lets it crash.
    fn write(&self, names: &[&str], options: &AssembleOptions, byte: u8, closes: bool) {
        let mut target = self.assemble(names, options).unwrap().target;
        let buffer = target.allocate(BLOCKS);
        target.buffer_mut(buffer).fill(byte);
        let place = BufferSlice {
            buffer,
            first_block: 0,
        };
        let write = Operation::Write { fua: true };
        run(target.as_mut(), write, 0, BLOCKS, place).unwrap();
        if closes {
            target.close().unwrap();
        }
    }

    /// What the beginning of the array holds, where that is the same byte.
    fn read(&self, names: &[&str], options: &AssembleOptions) -> Option<u8> {
        let mut target = self.assemble(names, options).unwrap().target;
        let buffer = target.allocate(BLOCKS);
        let place = BufferSlice {
            buffer,
            first_block: 0,
        };
        let read = run(target.as_mut(), Operation::Read, 0, BLOCKS, place);
        let bytes = target.buffer(buffer);
        let same = bytes.iter().all(|byte| *byte == bytes[0]);
        let byte = bytes[0];
        target.close().unwrap();
        read.ok().filter(|()| same).map(|()| byte)
    }

    /// All that is in the folder, to be compared.
    fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let mut contents: Vec<_> = files
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect();
        contents.sort_unstable();
        contents
    }
}

/// So much is written: some stripes.
const BLOCKS: u32 = 128;

fn options() -> CreateOptions {
    CreateOptions {
        block_size: BlockSize::B4096,
        chunk_bytes: Some(64 << 10),
        ..CreateOptions::new("test")
    }
}

fn read_only() -> AssembleOptions {
    AssembleOptions {
        open: OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    }
}

/// The superblock of the outer array is on the member that is lost, and the inner one was not closed: it is
/// known what the arrays are, for who only reads them too.
#[test]
fn an_inner_array_that_crashed_and_lacks_a_member_is_known_for_what_it_is() {
    for expression in ["raid0(raid5(a,b,c),d)", "raid1(raid6(a,b,c,d),e)"] {
        let names = &["a", "b", "c", "d", "e"][..=expression.matches(',').count()];
        let folder = Folder::new(names);
        folder.create(expression, &options());
        let writing = AssembleOptions::default();
        folder.write(names, &writing, 0x5a, false);
        let before = folder.contents();
        let looked = folder.assemble(&names[1..], &read_only()).unwrap();
        assert!(looked.report.missing().is_empty(), "{:?}", looked.report);
        assert!(!looked.report.is_clean());
        drop(looked);
        // Data has no such checksums: what only a replay would tell is not taken for it.
        assert_eq!(folder.read(&names[1..], &read_only()), None, "{expression}");
        assert!(before == folder.contents(), "{expression} was written to");
        assert_eq!(folder.read(&names[1..], &writing), Some(0x5a));
    }
}

fn degraded() -> AssembleOptions {
    AssembleOptions {
        degraded: true,
        ..AssembleOptions::default()
    }
}

/// Who is refused because what is away may be newer, with nothing written.
fn is_refused(folder: &Folder, names: &[&str]) -> bool {
    let before = folder.contents();
    let refused = match folder.assemble(names, &AssembleOptions::default()) {
        Err(AssembleError::MayBeNewer { .. }) => true,
        Err(error) => panic!("{error}"),
        Ok(_) => return false,
    };
    assert!(before == folder.contents(), "{names:?}: it was written to");
    refused
}

/// Where what is away holds all data by itself it may have gone on alone: that is asked once, and known from
/// then on.
#[test]
fn what_may_be_newer_is_asked_for_before_anything_is_written() {
    // What is left, and whether what is away could have gone on alone.
    for (expression, left, asks) in [
        ("raid1(a,b)", &["a"][..], true),
        ("raid1(a,b,c)", &["b", "c"], true),
        ("raid10(a,b,c,d)", &["a", "c"], true),
        ("raid10(a,b,c,d)", &["a", "c", "d"], false),
        ("raid6(a,b,c,d)", &["a", "c"], true),
        ("raid6(a,b,c,d)", &["a", "c", "d"], false),
        ("raid5(a,b,c)", &["b", "c"], false),
        ("raid1(raid0(a,b),raid0(c,d))", &["a", "b"], true),
        ("raid5(raid1(a,b),c,d)", &["a", "c", "d"], true),
        ("raid5(raid1(a,b),c,d)", &["a", "b", "c"], false),
    ] {
        let all = &["a", "b", "c", "d"][..=expression.matches(',').count()];
        let folder = Folder::new(all);
        folder.create(expression, &options());
        folder.write(all, &AssembleOptions::default(), 1, true);
        let looked = folder.assemble(left, &read_only()).unwrap().report;
        let told = looked.warnings().join("; ");
        assert!(told.contains("last written 20"), "{expression}: {told}");
        assert_eq!(told.contains("may be newer"), asks, "{expression}: {told}");
        // Whoever only reads is not asked.
        assert_eq!(folder.read(left, &read_only()), Some(1));
        assert_eq!(is_refused(&folder, left), asks, "{expression} of {left:?}");
        folder.write(left, &degraded(), 2, true);
        // It is known from here on that the others are older.
        assert!(!is_refused(&folder, left), "{expression} of {left:?}");
        folder.write(left, &AssembleOptions::default(), 3, true);
        let told = folder.assemble(left, &read_only()).unwrap().report;
        let told = told.warnings().join("; ");
        assert!(!told.contains("may be newer"), "{expression}: {told}");
        assert_eq!(folder.read(all, &AssembleOptions::default()), Some(3));
    }
}

/// Of a device that is there it is known what it did, whatever becomes of it.
#[test]
fn of_what_is_there_nothing_is_asked() {
    let folder = Folder::new(&["a", "b"]);
    folder.create("raid1(a,b)", &options());
    let old = fs::read(folder.path("b")).unwrap();
    let both = AssembleOptions::default();
    for byte in 1..4 {
        folder.write(&["a", "b"], &both, byte, true);
    }
    // An old copy.
    fs::write(folder.path("b"), old).unwrap();
    folder.write(&["a", "b"], &both, 4, true);
    assert_eq!(folder.read(&["a"], &both), Some(4));
}

/// Two halves that each went on alone are refused, with the names, as ever.
#[test]
fn two_halves_that_went_on_alone_are_refused() {
    let folder = Folder::new(&["a", "b"]);
    folder.create("raid1(a,b)", &options());
    folder.write(&["a"], &degraded(), 1, true);
    folder.write(&["b"], &degraded(), 2, true);
    let refused = folder.assemble(&["a", "b"], &degraded()).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("split brain"), "{refused}");
    for name in ["a", "b"] {
        assert!(refused.contains(&folder.path(name)), "{refused}");
    }
}

/// An array may have it for its own that nothing is asked, when it is created or later, and arrays inside
/// it have it too.
#[test]
fn an_array_may_be_written_without_a_question() {
    let own = CreateOptions {
        degraded_writes: true,
        ..options()
    };
    let folder = Folder::new(&["a", "b", "c", "d"]);
    folder.create("raid0(raid1(a,b),raid1(c,d))", &own);
    let paths: Vec<String> = ["a", "b", "c", "d"].map(|name| folder.path(name)).into();
    let all: Vec<&str> = paths.iter().map(String::as_str).collect();
    let set = |devices: &[&str], options: &AssembleOptions, allowed| {
        set_degraded_writes(devices, options, allowed).map(drop)
    };
    let asks = AssembleOptions::default();
    let before = folder.contents();
    set(&all, &asks, false).unwrap();
    assert!(before != folder.contents());
    assert!(is_refused(&folder, &["a", "c"]));
    // That is written too, so it is asked for.
    let some = [all[0], all[2]];
    assert!(set(&some, &asks, true).is_err());
    set(&all, &asks, true).unwrap();
    folder.write(&["a", "c"], &asks, 5, true);
    assert_eq!(folder.read(&["a", "c", "b", "d"], &asks), Some(5));
}

/// A crash in the middle of a growth, with a member away: who reads gets what was written, is told before
/// anything is noted, and moves nothing on.
#[test]
fn who_only_reads_moves_no_growth_on() {
    let folder = Folder::new(&["a", "b", "c", "d"]);
    let small = CreateOptions {
        chunk_bytes: Some(16 << 10),
        ..options()
    };
    folder.create("raid5(a,b,c)", &small);
    let writing = AssembleOptions::default();
    folder.write(&["a", "b", "c"], &writing, 0x5a, true);
    let paths: Vec<String> = ["a", "b", "c", "d"].map(|name| folder.path(name)).into();
    let all: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut target = grow::begin(&all[..3], all[3], &OpenOptions::default()).unwrap();
    let moved = |target: &dyn Target| {
        let status = target.status().unwrap();
        status.growth.map_or(0, |growth| growth.done_bytes)
    };
    while moved(target.as_ref()) == 0 {
        assert!(target.work());
    }
    drop(target);
    let grown = |names: &[&str]| {
        let report = folder.assemble(names, &read_only()).unwrap().report;
        report.growing.as_ref().map(|growing| growing.moved_bytes)
    };
    let left = ["a", "c", "d"];
    let before = grown(&left).unwrap();
    let paths: Vec<String> = left.map(|name| folder.path(name)).into();
    let devices: Vec<&str> = paths.iter().map(String::as_str).collect();
    let mut told = Vec::new();
    let contents = folder.contents();
    let mut tell = |line: String| {
        assert!(contents == folder.contents(), "told before it happens");
        told.push(line);
    };
    let assembled = assemble_to_read(&devices, &writing, &mut tell).unwrap();
    assert!(
        told.concat().contains("it is noted that member 1"),
        "{told:?}"
    );
    let mut target = assembled.target;
    for _ in 0..1000 {
        target.work();
    }
    target.close().unwrap();
    // At most a window that was staged has come to its places.
    let after = grown(&left).unwrap();
    assert!(after <= before + (1 << 20), "{before} and {after}");
    // It is clean now, and read as it is.
    let contents = folder.contents();
    let mut tell = |line: String| panic!("{line}");
    drop(assemble_to_read(&devices, &writing, &mut tell).unwrap());
    assert!(contents == folder.contents());
    // What was away comes back, and gets what it missed.
    let report = folder
        .assemble(&["a", "b", "c", "d"], &read_only())
        .unwrap();
    let refused = report.report.refused.concat();
    assert!(refused.contains("knows what it missed"), "{refused}");
    drop(report);
    assert_eq!(folder.read(&["a", "b", "c", "d"], &writing), Some(0x5a));
}

/// Where what is away may be newer, reading what a crash left writes nothing.
#[test]
fn who_only_reads_half_a_mirror_that_crashed_writes_nothing() {
    let folder = Folder::new(&["a", "b"]);
    folder.create("raid1(a,b)", &options());
    folder.write(&["a", "b"], &AssembleOptions::default(), 1, false);
    let contents = folder.contents();
    let one = folder.path("a");
    let mut told = String::new();
    let asks = AssembleOptions::default();
    drop(assemble_to_read(&[&one], &asks, &mut |line| told += &line).unwrap());
    assert!(contents == folder.contents());
    assert!(told.contains("--degraded"), "{told}");
    let read = assemble_to_read(&[&one], &degraded(), &mut |_| ()).unwrap();
    read.target.close().unwrap();
    assert_eq!(folder.read(&["a"], &asks), Some(1));
}

/// A leaf that is lost takes its inner array with it, where that has no redundancy: a device that is large
/// enough takes the place of all of it.
#[test]
fn a_device_takes_the_place_of_a_whole_inner_array() {
    let folder = Folder::new(&["a", "b", "c", "d", "e"]);
    folder.create("raid1(raid0(a,b),raid0(c,d))", &options());
    let all = &["a", "b", "c", "d"];
    folder.write(all, &AssembleOptions::default(), 0x77, true);
    let paths: Vec<String> = ["a", "b", "d"].map(|name| folder.path(name)).into();
    let left: Vec<&str> = paths.iter().map(String::as_str).collect();
    let onto = RebuildOptions {
        assemble: degraded(),
        onto: Some(folder.path("e")),
        ..RebuildOptions::default()
    };
    let before = folder.contents();
    let small = rebuild(&left, &onto, &mut |_, _| true)
        .unwrap_err()
        .to_string();
    assert!(small.contains("is itself an array"), "{small}");
    assert!(before == folder.contents());
    let file = File::options().write(true).open(folder.path("e")).unwrap();
    file.set_len(32 << 20).unwrap();
    let rebuilt = rebuild(&left, &onto, &mut |_, _| true).unwrap();
    assert_eq!(rebuilt.members.len(), 1, "{rebuilt:?}");
    // From the new device alone, and from all.
    assert_eq!(folder.read(&["e"], &read_only()), Some(0x77));
    let report = folder.assemble(&["a", "b", "e"], &read_only()).unwrap();
    assert!(!report.report.is_degraded());
}

/// An inner array of which no device can be used is missing: the outer one is opened without it.
#[test]
fn an_inner_array_that_can_not_be_opened_is_missing_from_the_outer_one() {
    let folder = Folder::new(&["a", "b", "c", "d", "e", "f"]);
    folder.create("raid5(raid1(a,b),raid1(c,d),raid1(e,f))", &options());
    let writing = AssembleOptions::default();
    let all = ["a", "b", "c", "d", "e", "f"];
    folder.write(&all, &writing, 0x5a, true);
    for name in ["e", "f"] {
        let file = File::options().write(true).open(folder.path(name));
        file.unwrap().set_len(1 << 20).unwrap();
    }
    let opened = folder.assemble(&all, &writing).unwrap();
    assert!(opened.report.is_degraded());
    let warnings = opened.report.warnings().join("; ");
    assert!(warnings.contains("truncated"), "{warnings}");
    opened.target.close().unwrap();
    assert_eq!(folder.read(&all, &writing), Some(0x5a));
}
