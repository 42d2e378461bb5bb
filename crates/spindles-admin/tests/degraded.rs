//! Arrays that lack members: which data can be read, when writes are allowed, and how devices and
//! whole inner arrays replace lost members.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Devices, degraded, place, read_only, run, strs};
use spindles_admin::assemble::{ArrayReport, AssembleError, AssembleOptions};
use spindles_admin::create::CreateOptions;
use spindles_admin::grow;
use spindles_admin::reading::assemble_to_read;
use spindles_admin::rebuild::{RebuildOptions, Rebuilt, rebuild};
use spindles_admin::settings::set_degraded_writes;
use spindles_array::{Target, await_resync, positions};
use spindles_block::{BlockSize, Operation, RequestError};
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;

impl Devices {
    /// Writes `byte` to the beginning of the array, and closes it or lets it crash.
    fn write(&self, names: &[&str], options: &AssembleOptions, byte: u8, closes: bool) {
        self.write_at(names, options, byte, 0, BLOCKS, closes);
    }

    fn write_at(
        &self,
        names: &[&str],
        options: &AssembleOptions,
        byte: u8,
        block: u64,
        blocks: u32,
        closes: bool,
    ) {
        let mut target = self.assemble(names, options).unwrap().target;
        let buffer = target.allocate(blocks);
        target.buffer_mut(buffer).fill(byte);
        let write = Operation::Write { fua: true };
        run(target.as_mut(), write, block, blocks, place(buffer)).unwrap();
        if closes {
            target.close().unwrap();
        }
    }

    /// Corrupts the fifth block full of `byte`, if the device has that many of them.
    fn rot(&self, name: &str, byte: u8) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        let blocks = bytes.chunks_exact_mut(4096);
        let mut blocks = blocks.filter(|block| block.iter().all(|own| *own == byte));
        let Some(block) = blocks.nth(4) else {
            return;
        };
        block[7] ^= 0x40;
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Returns the byte that fills the beginning of the array; `None` if bytes differ.
    fn read(&self, names: &[&str], options: &AssembleOptions) -> Option<u8> {
        let mut target = self.assemble(names, options).unwrap().target;
        let buffer = target.allocate(BLOCKS);
        let read = run(target.as_mut(), Operation::Read, 0, BLOCKS, place(buffer));
        let bytes = target.buffer(buffer);
        let same = bytes.iter().all(|byte| *byte == bytes[0]);
        let byte = bytes[0];
        target.close().unwrap();
        read.ok().filter(|()| same).map(|()| byte)
    }
}

const BYTES: u64 = 8 << 20;
/// The number of blocks written: some stripes.
const BLOCKS: u32 = 128;

fn options() -> CreateOptions {
    CreateOptions {
        block_size: BlockSize::B4096,
        chunk_bytes: Some(64 << 10),
        ..CreateOptions::new("test")
    }
}

/// The outer array's superblock is on the lost member, and the inner array was not closed. Both
/// arrays are still identified, even by a reader.
#[test]
fn an_unclean_degraded_inner_array_is_recognized() {
    let expressions = ["raid0(raid5(a,b,c),d)", "raid1(raid6(a,b,c,d),e)"];
    for expression in expressions {
        let names = &["a", "b", "c", "d", "e"][..=expression.matches(',').count()];
        let folder = Devices::new(names, BYTES);
        folder.create(expression, &options());
        let writing = AssembleOptions::default();
        folder.write(names, &writing, 0x5a, false);
        let before = folder.contents();
        let looked = folder.assemble(&names[1..], &read_only()).unwrap();
        assert!(looked.report.missing().is_empty(), "{:?}", looked.report);
        assert!(!looked.report.is_clean());
        drop(looked);
        let read = folder.read(&names[1..], &read_only());
        assert_eq!(read, Some(0x5a), "{expression}");
        assert!(before == folder.contents(), "{expression} was written to");
        assert!(is_refused(&folder, &names[1..]), "{expression}");
        assert_eq!(folder.read(&names[1..], &degraded()), Some(0x5a));
    }
}

/// An opening for reading only recovers in memory. No byte and no time stamp of a member changes,
/// with and without a member, and clients may not write.
#[test]
fn a_read_only_opening_changes_no_byte_and_no_time() {
    for expression in [
        "raid0(a,b)",
        "raid1(a,b,c)",
        "raid5(a,b,c)",
        "raid6(a,b,c,d)",
        "raid1(raid5(a,b,c),d)",
    ] {
        let names = &["a", "b", "c", "d"][..=expression.matches(',').count()];
        let folder = Devices::new(names, BYTES);
        folder.create(expression, &options());
        let writing = AssembleOptions::default();
        folder.write(names, &writing, 1, true);
        folder.write(names, &writing, 2, false);
        let times = || {
            let paths = folder.paths(names).into_iter();
            let times = paths.map(|path| {
                let facts = fs::metadata(path).unwrap();
                (
                    facts.modified().unwrap(),
                    facts.ctime_nsec(),
                    facts.blocks(),
                )
            });
            times.collect::<Vec<_>>()
        };
        let before = (folder.contents(), times());
        let is_alone = expression == "raid0(a,b)";
        for left in [names, &names[..names.len() - usize::from(!is_alone)]] {
            assert_eq!(folder.read(left, &read_only()), Some(2), "{expression}");
            let mut target = folder.assemble(left, &read_only()).unwrap().target;
            let buffer = target.allocate(1);
            let write = Operation::Write { fua: false };
            let refused = run(target.as_mut(), write, 0, 1, place(buffer));
            assert_eq!(refused, Err(RequestError::ReadOnly), "{expression}");
            target.close().unwrap();
            let after = (folder.contents(), times());
            assert!(
                before == after,
                "{expression} without {}",
                names.len() - left.len()
            );
        }
        assert_eq!(folder.read(names, &writing), Some(2), "{expression}");
    }
}

/// Returns the refusal to write without `degraded`, having checked that no byte changed.
fn refusal(folder: &Devices, names: &[&str]) -> Option<AssembleError> {
    let before = folder.contents();
    let refusal = folder.assemble(names, &AssembleOptions::default()).err()?;
    let asks = matches!(
        refusal,
        AssembleError::MayBeNewer { .. } | AssembleError::HoldsLastWrites { .. }
    );
    assert!(asks, "{refusal}");
    assert!(before == folder.contents(), "{names:?}: it was written to");
    Some(refusal)
}

fn is_refused(folder: &Devices, names: &[&str]) -> bool {
    refusal(folder, names).is_some()
}

/// After a crash, absent members and parity may hold data that writing would discard. Confirmation
/// is required once, before any write.
#[test]
fn unclean_data_of_absent_members_is_not_discarded_without_consent() {
    let reads = Some(2);
    for (expression, left, array, missing) in [
        ("raid4(a,b,c)", &["a", "b"][..], "test", "member 2"),
        ("raid5(a,b,c)", &["b", "c"], "test", "member 0"),
        ("raid6(a,b,c,d)", &["a", "b", "d"], "test", "member 2"),
        (
            "raid6(a,b,c,d,e)",
            &["a", "b", "d"],
            "test",
            "members 2 and 4",
        ),
        (
            "raid7(a,b,c,d,e)",
            &["a", "b", "c", "d"],
            "test",
            "member 4",
        ),
        (
            "raid0(raid5(a,b,c),d)",
            &["a", "c", "d"],
            "test.0",
            "member 1",
        ),
        // The outer array has a copy of all data, but confirmation is required all the same.
        (
            "raid1(raid5(a,b,c),d)",
            &["a", "c", "d"],
            "test.0",
            "member 1",
        ),
    ] {
        let all = &["a", "b", "c", "d", "e"][..=expression.matches(',').count()];
        let folder = Devices::new(all, BYTES);
        folder.create(expression, &options());
        let asks = AssembleOptions::default();
        folder.write(all, &asks, 1, true);
        folder.write(all, &asks, 2, false);
        // No other opening needs confirmation, and durable data is read.
        let report = folder.assemble(left, &read_only()).unwrap().report;
        let lacks = |report: &&ArrayReport| {
            let last_writes = positions(report.given_up.last_writes);
            report.name == array && !report.clean && last_writes == missing
        };
        assert!(
            report.arrays().iter().any(lacks),
            "{expression}: {report:?}"
        );
        assert_eq!(folder.read(left, &read_only()), reads, "{expression}");
        let refused = refusal(&folder, left).unwrap().to_string();
        let first = format!("array '{array}' was not closed in order, and lacks {missing}");
        assert!(refused.starts_with(&first), "{expression}: {refused}");
        for remedy in [&format!("bring {missing} back"), "--degraded"] {
            assert!(refused.contains(remedy), "{expression}: {refused}");
        }
        // With all members nothing is lost, even after others have looked at the array.
        assert_eq!(folder.read(all, &read_only()), reads, "{expression}");
        // From here on the members are recorded as missing, and all writes are logged, so another
        // crash loses no data.
        folder.write(left, &degraded(), 3, false);
        assert!(!is_refused(&folder, left), "{expression}");
        assert_eq!(folder.read(left, &asks), Some(3), "{expression}");
    }
}

/// Crashed arrays whose missing members hold no data that writing would discard.
#[test]
fn a_crash_needs_no_consent_if_nothing_is_discarded() {
    let plain = options();
    let unsummed = CreateOptions {
        checksum: Some(ChecksumKind::None),
        ..options()
    };
    let allowed = CreateOptions {
        degraded_writes: true,
        ..options()
    };
    for (expression, left, options) in [
        ("raid10(a,b,c,d)", &["a", "c", "d"][..], &plain),
        ("raid5(a,b,c)", &["a", "b", "c"], &plain),
        // Whole stripes are logged too.
        ("raid5(a,b,c)", &["a", "c"], &unsummed),
        ("raid5(a,b,c)", &["a", "c"], &allowed),
        ("raid1(raid5(a,b,c),d)", &["a", "c", "d"], &allowed),
    ] {
        let all = &["a", "b", "c", "d"][..=expression.matches(',').count()];
        let folder = Devices::new(all, BYTES);
        folder.create(expression, options);
        let asks = AssembleOptions::default();
        folder.write(all, &asks, 1, true);
        folder.write(all, &asks, 2, false);
        let what = format!("{expression} of {left:?}, {:?}", options.checksum);
        assert!(!is_refused(&folder, left), "{what}");
        assert_eq!(folder.read(left, &asks), Some(2), "{what}");
    }
}

/// A missing member that could have gone on alone and also took part in the crash is reported as
/// both.
#[test]
fn a_refusal_names_everything_that_would_be_discarded() {
    let folder = Devices::new(&["a", "b", "c", "d"], BYTES);
    folder.create("raid6(a,b,c,d)", &options());
    let asks = AssembleOptions::default();
    folder.write(&["a", "b", "c", "d"], &asks, 1, false);
    let refused = refusal(&folder, &["a", "c"]).unwrap().to_string();
    for text in ["may be newer", "blocks of the last writes before a crash"] {
        assert!(refused.contains(text), "{refused}");
    }
    // A device that is present but takes no part is named with its remedy.
    folder.resize("b", 1 << 20);
    let refused = refusal(&folder, &["a", "b", "c", "d"]).unwrap().to_string();
    for text in ["lacks member 1 of 4", "truncated"] {
        assert!(refused.contains(text), "{refused}");
    }
    folder.write(&["a", "b", "c", "d"], &degraded(), 2, true);
    assert!(!is_refused(&folder, &["a", "b", "c", "d"]));
}

/// If the absent members hold all data by themselves, they may have gone on alone. Confirmation is
/// required once; the answer is recorded.
#[test]
fn possibly_newer_data_needs_consent_before_any_write() {
    // The remaining members, and whether the absent ones could have gone on alone.
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
        let folder = Devices::new(all, BYTES);
        folder.create(expression, &options());
        folder.write(all, &AssembleOptions::default(), 1, true);
        let looked = folder.assemble(left, &read_only()).unwrap().report;
        let may_be_newer = |report: &ArrayReport| {
            let mut arrays = report.arrays().into_iter();
            arrays.any(|array| !array.given_up.newer.is_empty())
        };
        assert!(looked.last_written_s > 0, "{expression}: {looked:?}");
        assert_eq!(may_be_newer(&looked), asks, "{expression}: {looked:?}");
        // A reader needs no confirmation.
        assert_eq!(folder.read(left, &read_only()), Some(1));
        assert_eq!(is_refused(&folder, left), asks, "{expression} of {left:?}");
        folder.write(left, &degraded(), 2, true);
        // From here on the others are known to be older.
        assert!(!is_refused(&folder, left), "{expression} of {left:?}");
        folder.write(left, &AssembleOptions::default(), 3, true);
        let report = folder.assemble(left, &read_only()).unwrap().report;
        assert!(!may_be_newer(&report), "{expression}: {report:?}");
        assert_eq!(folder.read(all, &AssembleOptions::default()), Some(3));
    }
}

/// The history of a present device is known, whatever its fate, so no confirmation is required.
#[test]
fn present_members_need_no_consent() {
    let folder = Devices::new(&["a", "b"], BYTES);
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

/// Confirmation can be disabled for an array when it is created or later. The setting also applies
/// to the arrays inside it.
#[test]
fn an_array_that_allows_degraded_writes_needs_no_consent() {
    let own = CreateOptions {
        degraded_writes: true,
        ..options()
    };
    let folder = Devices::new(&["a", "b", "c", "d"], BYTES);
    folder.create("raid0(raid1(a,b),raid1(c,d))", &own);
    let paths = folder.paths(&["a", "b", "c", "d"]);
    let all = strs(&paths);
    let set = |devices: &[&str], options: &AssembleOptions, allowed| {
        set_degraded_writes(devices, options, allowed).map(drop)
    };
    let asks = AssembleOptions::default();
    let before = folder.contents();
    set(&all, &asks, false).unwrap();
    assert!(before != folder.contents());
    assert!(is_refused(&folder, &["a", "c"]));
    // Changing the setting writes too, so it requires confirmation.
    let some = [all[0], all[2]];
    assert!(set(&some, &asks, true).is_err());
    set(&all, &asks, true).unwrap();
    folder.write(&["a", "c"], &asks, 5, true);
    assert_eq!(folder.read(&["a", "c", "b", "d"], &asks), Some(5));
}

/// A crash in the middle of growth, with a member absent. A reader gets the data written, is warned
/// before anything is recorded, and does not continue the growth.
#[test]
fn a_read_only_opening_does_not_advance_a_growth() {
    let folder = Devices::new(&["a", "b", "c", "d"], BYTES);
    let small = CreateOptions {
        chunk_bytes: Some(16 << 10),
        ..options()
    };
    folder.create("raid5(a,b,c)", &small);
    let writing = AssembleOptions::default();
    folder.write(&["a", "b", "c"], &writing, 0x5a, true);
    let paths = folder.paths(&["a", "b", "c", "d"]);
    let all = strs(&paths);
    let mut target = grow::begin(&all[..3], all[3], &AssembleOptions::default()).unwrap();
    let moved = |target: &dyn Target| {
        let status = target.status().unwrap();
        status.growth.expect("it goes on").done_bytes
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
    let paths = folder.paths(&left);
    let devices = strs(&paths);
    let mut messages = Vec::new();
    let contents = folder.contents();
    let mut tell = |line: String| {
        assert!(contents == folder.contents(), "warned before any change");
        messages.push(line);
    };
    let assembled = assemble_to_read(&devices, &degraded(), &mut tell).unwrap();
    assert!(
        messages
            .concat()
            .contains("member 1 is recorded as missing"),
        "{messages:?}"
    );
    let mut target = assembled.target;
    for _ in 0..1000 {
        target.work();
    }
    target.close().unwrap();
    // At most one staged window is moved to its final place.
    let after = grown(&left).unwrap();
    assert!(after <= before + (1 << 20), "{before} and {after}");
    // The array is clean now, and read without changes.
    let contents = folder.contents();
    let mut tell = |line: String| panic!("{line}");
    drop(assemble_to_read(&devices, &writing, &mut tell).unwrap());
    assert!(contents == folder.contents());
    // The absent member comes back, and gets the data it missed.
    let report = folder
        .assemble(&["a", "b", "c", "d"], &read_only())
        .unwrap();
    let refused = report.report.refused.concat();
    assert!(refused.contains("knows what it missed"), "{refused}");
    drop(report);
    assert_eq!(folder.read(&["a", "b", "c", "d"], &writing), Some(0x5a));
}

/// If the absent members may be newer, reading a crashed array writes nothing.
#[test]
fn reading_half_an_unclean_mirror_writes_nothing() {
    let folder = Devices::new(&["a", "b"], BYTES);
    folder.create("raid1(a,b)", &options());
    folder.write(&["a", "b"], &AssembleOptions::default(), 1, false);
    let contents = folder.contents();
    let one = folder.path("a");
    let mut output = String::new();
    let asks = AssembleOptions::default();
    drop(assemble_to_read(&[&one], &asks, &mut |line| output += &line).unwrap());
    assert!(contents == folder.contents());
    assert!(output.contains("--degraded"), "{output}");
    let read = assemble_to_read(&[&one], &degraded(), &mut |_| ()).unwrap();
    read.target.close().unwrap();
    assert_eq!(folder.read(&["a"], &asks), Some(1));
}

impl Devices {
    fn rebuild(&self, left: &[&str], onto: &str, overwrite: bool) -> Result<Rebuilt, String> {
        let options = RebuildOptions {
            assemble: degraded(),
            onto: Some(match onto {
                device if device.len() == 1 => Expression::Leaf(self.path(device)),
                array => self.expression(array),
            }),
            overwrite,
            ..RebuildOptions::default()
        };
        let rebuilt = rebuild(&strs(&self.paths(left)), &options, &mut |_, _| true);
        rebuilt.map_err(|error| error.to_string())
    }

    /// Returns the error of an impossible rebuild, which must write nothing.
    fn refuses(&self, left: &[&str], onto: &str) -> String {
        let before = self.contents();
        let error = self.rebuild(left, onto, false).unwrap_err();
        assert!(before == self.contents(), "{onto}: {error}");
        error
    }

    fn resize(&self, name: &str, bytes: u64) {
        let file = File::options().write(true).open(self.path(name)).unwrap();
        file.set_len(bytes).unwrap();
    }
}

/// Losing a device loses its inner array, if that has no redundancy. A large enough device replaces
/// the whole inner array.
#[test]
fn a_device_replaces_a_whole_inner_array() {
    let folder = Devices::new(&["a", "b", "c", "d", "e"], BYTES);
    folder.create("raid1(raid0(a,b),raid0(c,d))", &options());
    let all = &["a", "b", "c", "d"];
    folder.write(all, &AssembleOptions::default(), 0x77, true);
    let small = folder.refuses(&["a", "b"], "e");
    assert!(small.contains("is itself an array"), "{small}");
    folder.resize("e", 32 << 20);
    let rebuilt = folder.rebuild(&["a", "b"], "e", false).unwrap();
    assert_eq!(rebuilt.members.len(), 1, "{rebuilt:?}");
    // From the new device alone, and from all.
    assert_eq!(folder.read(&["e"], &read_only()), Some(0x77));
    let report = folder.assemble(&["a", "b", "e"], &read_only()).unwrap();
    assert!(!report.report.is_degraded());
}

/// An inner array without a usable device is missing: the outer array is opened without it.
#[test]
fn an_unopenable_inner_array_is_missing_from_the_outer_array() {
    let folder = Devices::new(&["a", "b", "c", "d", "e", "f"], BYTES);
    folder.create("raid5(raid1(a,b),raid1(c,d),raid1(e,f))", &options());
    let writing = AssembleOptions::default();
    let all = ["a", "b", "c", "d", "e", "f"];
    folder.write(&all, &writing, 0x5a, true);
    folder.resize("e", 1 << 20);
    folder.resize("f", 1 << 20);
    let opened = folder.assemble(&all, &writing).unwrap();
    assert!(opened.report.is_degraded());
    let warnings = opened.report.refused.join("; ");
    assert!(warnings.contains("truncated"), "{warnings}");
    opened.target.close().unwrap();
    assert_eq!(folder.read(&all, &writing), Some(0x5a));
}

/// An inner array whose members each went on alone is missing from the outer one, which reports the
/// reason.
#[test]
fn a_split_brain_inner_array_is_missing_from_the_outer_array() {
    let folder = Devices::new(&["a", "b", "c", "d"], BYTES);
    folder.create("raid1(raid1(a,b),raid1(c,d))", &options());
    let all = ["a", "b", "c", "d"];
    folder.write(&["a", "b", "c"], &degraded(), 1, true);
    folder.write(&["d"], &degraded(), 2, true);
    let report = folder.assemble(&all, &read_only()).unwrap().report;
    let warnings = report.refused.join("; ");
    for part in ["split brain", &folder.path("c"), &folder.path("d")] {
        assert!(warnings.contains(part), "{warnings}");
    }
    assert_eq!(folder.read(&all, &read_only()), Some(1));
    // The contents of the inner array may be newer.
    let refusal = refusal(&folder, &all).unwrap().to_string();
    assert!(refusal.contains("split brain"), "{refusal}");
    folder.write(&all, &degraded(), 3, true);
    assert_eq!(folder.read(&["a"], &read_only()), Some(3));
}

/// An inner array that the outer one goes on without is not written, and requires no confirmation.
#[test]
fn a_stale_inner_array_is_not_written() {
    let folder = Devices::new(&["a", "b", "c", "d"], BYTES);
    folder.create("raid1(raid1(a,b),raid1(c,d))", &options());
    let all = ["a", "b", "c", "d"];
    folder.write(&all, &AssembleOptions::default(), 1, true);
    folder.write(&["a", "b", "c"], &degraded(), 2, true);
    let before = fs::read(folder.path("d")).unwrap();
    let asks_nothing = AssembleOptions::default();
    let opened = folder.assemble(&["a", "b", "d"], &asks_nothing).unwrap();
    let warnings = opened.report.refused.join("; ");
    assert!(warnings.contains("'test.1': stale"), "{warnings}");
    let mut target = opened.target;
    assert!(await_resync(target.as_mut(), &mut |_, _| true));
    target.close().unwrap();
    folder.write(&["a", "b", "d"], &asks_nothing, 3, true);
    assert!(before == fs::read(folder.path("d")).unwrap());
    folder.write(&all, &asks_nothing, 4, true);
    let mut target = folder.assemble(&all, &asks_nothing).unwrap().target;
    while target.rebuild_progress().is_some() && target.work() {}
    target.close().unwrap();
    assert_eq!(folder.read(&["c", "d"], &read_only()), Some(4));
}

/// The remaining devices of an inner array and a new device form another inner array in its place.
#[test]
fn an_inner_array_is_recreated_from_survivors_and_a_new_device() {
    let folder = Devices::new(&["a", "b", "c", "d", "e"], BYTES);
    folder.create("raid1(raid0(a,b),raid0(c,d))", &options());
    let all = &["a", "b", "c", "d"];
    folder.write(all, &AssembleOptions::default(), 0x77, true);
    // The final figure is reported at once, and nothing is written.
    folder.resize("e", 1 << 20);
    let small = folder.refuses(&["a", "b", "d"], "e");
    assert!(small.contains("new ones of at least 8 MiB"), "{small}");
    folder.resize("e", 7 << 20);
    folder.refuses(&["a", "b", "d"], "e");
    folder.resize("e", 8 << 20);
    let rebuilt = folder.rebuild(&["a", "b", "d"], "e", false).unwrap();
    let made = rebuilt.made.unwrap();
    assert_eq!((made.name.as_str(), made.level), ("test.1", "raid0"));
    assert_eq!(made.devices, ["e", "d"].map(|name| folder.path(name)));
    let report = folder.assemble(&["a", "b", "d", "e"], &read_only());
    let report = report.unwrap().report;
    assert!(!report.is_degraded(), "{report:?}");
    assert_eq!(folder.read(&["d", "e"], &read_only()), Some(0x77));
    // A second rebuild finds no work left.
    let again = folder.refuses(&["a", "b", "d"], "e");
    assert!(again.contains("is member 0 of array 'test.1'"), "{again}");
    // The lost device is back, and belongs to no array.
    let options = AssembleOptions::default();
    folder.write(&["a", "b", "d", "e"], &options, 0x78, true);
    let report = folder.assemble(&["a", "b", "c", "d", "e"], &options);
    let report = report.unwrap().report;
    assert!(!report.is_degraded(), "{report:?}");
    assert!(report.refused.concat().contains("outdated"), "{report:?}");
    assert_eq!(folder.read(&["c", "d", "e"], &read_only()), Some(0x78));
}

/// An array of any level replaces a missing member.
#[test]
fn an_array_replaces_a_missing_member() {
    for (array, all, left, onto, made) in [
        // An inner array that lacks too many devices, replaced by other devices or by its remaining
        // devices.
        (
            "raid1(raid0(a,b),raid0(c,d))",
            "abcd",
            "ab",
            "raid5(x,y,z)",
            "xyz",
        ),
        (
            "raid1(raid0(a,b),raid0(c,d))",
            "abcd",
            "abd",
            "raid0(x,d)",
            "xd",
        ),
        (
            "raid1(raid0(a,b),raid0(c,d))",
            "abcd",
            "abd",
            "concat(d,x,y)",
            "dxy",
        ),
        // A device.
        ("raid1(a,b)", "ab", "a", "raid0(x,y)", "xy"),
        ("raid5(a,b,c)", "abc", "ab", "raid1(x,y)", "xy"),
        // Three levels.
        (
            "raid1(raid0(raid1(a,b),raid1(c,d)),raid0(e,f))",
            "abcdef",
            "cdef",
            "raid0(raid1(x,y),raid1(c,d))",
            "xycd",
        ),
    ] {
        let folder = Devices::new(&["a", "b", "c", "d", "e", "f", "x", "y", "z"], BYTES);
        for new in ["x", "y", "z"] {
            folder.resize(new, 9 << 20);
        }
        folder.create(array, &options());
        let letters = |text: &'static str| -> Vec<&'static str> {
            text.split("").filter(|part| !part.is_empty()).collect()
        };
        folder.write(&letters(all), &AssembleOptions::default(), 0x55, true);
        let rebuilt = folder
            .rebuild(&letters(left), onto, false)
            .unwrap_or_else(|error| panic!("{array} onto {onto}: {error}"));
        assert_eq!(rebuilt.made.unwrap().devices.len(), made.len(), "{onto}");
        let mut now = letters(left);
        now.retain(|name| !made.contains(name));
        now.extend(letters(made));
        let report = folder.assemble(&now, &read_only()).unwrap().report;
        assert!(
            !report.is_degraded() && report.is_clean(),
            "{array}: {report:?}"
        );
        // The data of a mirror's other member is read from the new array.
        let asked = if array.contains("raid5") {
            now.into_iter().filter(|name| *name != "a").collect()
        } else {
            letters(made)
        };
        assert_eq!(folder.read(&asked, &read_only()), Some(0x55), "{array}");
    }
}

#[test]
fn an_array_unfit_as_a_replacement_is_refused() {
    let folder = Devices::new(&["a", "b", "c", "d", "x", "y"], BYTES);
    folder.create("raid1(raid0(a,b),raid0(c,d))", &options());
    folder.write(&["a", "b", "c", "d"], &AssembleOptions::default(), 1, true);
    let left = &["a", "b", "d"];
    for (onto, why) in [
        ("raid1(x,y)", "x, y are too small"),
        ("raid1(x,d)", "what is left, "),
        (
            "raid0(x,b)",
            "b is member 1 of array 'test.0'; take another device",
        ),
    ] {
        let error = folder
            .refuses(left, onto)
            .replace(&format!("{}/", folder.0.path().display()), "");
        assert!(error.contains(why), "{onto}: {error}");
    }
    fs::write(folder.path("x"), vec![7; 8 << 20]).unwrap();
    let error = folder.refuses(left, "raid0(x,d)");
    assert!(
        error.contains("x holds data") && error.contains("--force"),
        "{error}"
    );
    folder.rebuild(left, "raid0(x,d)", true).unwrap();
    // For a lost nest of arrays, the message shows its structure.
    let folder = Devices::new(&["a", "b", "c", "d", "e", "f", "x"], BYTES);
    folder.create("raid1(raid0(raid1(a,b),raid1(c,d)),raid0(e,f))", &options());
    let error = folder.refuses(&["c", "d", "e", "f"], "x");
    assert!(error.contains("--onto 'raid0(DEV,DEV)'"), "{error}");
}

/// In-flight writes are logged on a journal device.
#[test]
fn an_inner_array_is_recreated_in_an_array_with_a_journal_device() {
    let folder = Devices::new(&["a", "b", "c", "d", "e", "f", "j", "x"], BYTES);
    let options = CreateOptions {
        journal: Some(folder.path("j")),
        ..options()
    };
    folder.create("raid5(raid0(a,b),raid0(c,d),raid0(e,f))", &options);
    let all = &["a", "b", "c", "d", "e", "f", "j"];
    folder.write(all, &AssembleOptions::default(), 0x33, true);
    folder.write(&["b", "c", "d", "e", "f", "j"], &degraded(), 0x44, false);
    folder
        .rebuild(&["b", "c", "d", "e", "f", "j"], "x", false)
        .unwrap();
    let report = folder.assemble(&["x", "b", "c", "d", "e", "f", "j"], &read_only());
    assert!(!report.unwrap().report.is_degraded());
    assert_eq!(
        folder.read(&["x", "b", "c", "d", "j"], &read_only()),
        Some(0x44)
    );
}

/// Arrays without redundancy inside arrays with redundancy. A crash leaves a region in doubt, and a
/// block in it, durable long before, becomes corrupt. The outer array repairs it, since it keeps
/// the block's checksum.
#[test]
fn corruption_in_an_unclean_inner_array_is_repaired() {
    let writing = AssembleOptions::default();
    for (expression, names) in [
        ("raid1(raid0(a,b),raid0(c,d))", "abcd"),
        ("raid5(raid0(a,b),concat(c,d),e)", "abcde"),
        ("raid6(raid0(a,b),raid0(c,d),e,f)", "abcdef"),
        ("raid10(concat(a,b),concat(c,d))", "abcd"),
    ] {
        let names: Vec<String> = names.chars().map(String::from).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let folder = Devices::new(&names, BYTES);
        folder.create(expression, &options());
        folder.write(&names, &writing, 0x11, true);
        folder.write(&names, &writing, 0x22, true);
        folder.write_at(&names, &writing, 0x22, 0, 1, false);
        folder.rot("a", 0x22);
        assert_eq!(folder.read(&names, &writing), Some(0x22), "{expression}");
        assert_eq!(folder.read(&names, &writing), Some(0x22), "{expression}");
    }
}
