//! Arrays with superblocks: created, assembled in any order and with members missing, and nested.
//! A refused command leaves every byte unchanged.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Devices, Loop, place, read_only, run, skip, strs};
use spindles_admin::assemble::{AssembleError, AssembleOptions, Assembled, assemble, examine};
use spindles_admin::attach::ChangeError;
use spindles_admin::create::{CreateError, CreateOptions, Sync, create};
use spindles_admin::rebuild::{RebuildOptions, rebuild};
use spindles_admin::replace::{ReplaceOptions, replace};
use spindles_array::{Target, positions};
use spindles_block::{BlockSize, Operation};
use spindles_device::OpenOptions;
use spindles_engine::{ArrayState, Policy};
use spindles_format::Found;
use spindles_layout::{Expression, LEVELS, Redundancy};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Assembles without confirmation if absent members may be newer; `tests/degraded.rs` tests the
/// confirmation.
fn open(folder: &Devices, names: &[&str]) -> Result<Assembled, AssembleError> {
    let options = AssembleOptions {
        degraded: true,
        open: soon(),
        ..AssembleOptions::default()
    };
    folder.assemble(names, &options)
}

fn options() -> CreateOptions {
    CreateOptions {
        chunk_bytes: Some(64 << 10),
        checksum: Some(spindles_format::ChecksumKind::None),
        open: soon(),
        ..CreateOptions::new("test")
    }
}

/// Waits for a busy device only briefly. On a busy machine the kernel closes the files of a dropped
/// target a little late.
fn soon() -> OpenOptions {
    OpenOptions {
        busy_timeout: Duration::from_secs(1),
        ..OpenOptions::default()
    }
}

/// Writes a pattern over the whole target, or checks it.
fn pattern(target: &mut dyn Target, seed: u64, write: bool) {
    let block_bytes = u64::from(target.facts().block_size.bytes());
    let blocks_max = target.facts().request_blocks_max.min(64);
    let buffer = target.allocate(blocks_max);
    let end = target.facts().blocks;
    let mut block = 0;
    while block < end {
        let blocks = u32::try_from((end - block).min(u64::from(blocks_max))).unwrap();
        let bytes = usize::try_from(u64::from(blocks) * block_bytes).unwrap();
        let wanted = common::pattern(seed << 32 | block, bytes);
        let operation = if write {
            target.buffer_mut(buffer)[..bytes].copy_from_slice(&wanted);
            Operation::Write { fua: false }
        } else {
            Operation::Read
        };
        let done = run(target, operation, block, blocks, place(buffer));
        assert_eq!(done, Ok(()));
        if !write {
            assert!(target.buffer(buffer)[..bytes] == wanted, "block {block}");
        }
        block += u64::from(blocks);
    }
}

fn fill(folder: &Devices, names: &[&str], seed: u64) {
    let mut assembled = open(folder, names).unwrap();
    pattern(assembled.target.as_mut(), seed, true);
    assembled.target.close().unwrap();
}

fn check(folder: &Devices, names: &[&str], seed: u64) -> Assembled {
    let mut assembled = open(folder, names).unwrap();
    pattern(assembled.target.as_mut(), seed, false);
    assembled
}

/// Every level: written through one assembly, read through all others that it survives.
#[test]
fn every_level_reads_back_through_every_assembly() {
    let names = ["a", "b", "c", "d", "e"];
    for level in LEVELS {
        let folder = Devices::new(&names, 3 * MIB);
        let created = folder.create(&format!("{}(a,b,c,d,e)", level.name), &options());
        let redundant = level.redundancy != Redundancy::None;
        assert_eq!(created.sync == Sync::Unwritten, redundant, "{level}");
        fill(&folder, &names, 1);
        check(&folder, &["d", "b", "e", "a", "c"], 1)
            .target
            .close()
            .unwrap();
        if redundant {
            // From here on b is recorded as missing.
            let assembled = check(&folder, &["e", "d", "c", "a"], 1);
            assert!(assembled.report.is_degraded(), "{level}");
            assembled.target.close().unwrap();
            fill(&folder, &["a", "c", "d", "e"], 2);
            let assembled = check(&folder, &names, 2);
            let report = &assembled.report;
            let refused = report.refused.join("\n");
            assert!(refused.contains("/b: stale"), "{level}: {refused}");
            assert_eq!(positions(report.missing()), "member 1", "{level}");
            assembled.target.close().unwrap();
        } else {
            let before = folder.contents();
            let error = open(&folder, &["a", "c", "d", "e"]).unwrap_err();
            assert!(
                error.to_string().contains("member 1 of 5 missing"),
                "{error}"
            );
            assert!(folder.contents() == before, "{level}");
        }
    }
}

/// Arrays that have parity, or may get it by growing, have room for row sums.
#[test]
fn arrays_that_can_have_parity_have_row_sums() {
    for level in LEVELS {
        let names = &["a", "b", "c", "d", "e"][..usize::from(level.members_min.max(2))];
        for checksum in [None, options().checksum] {
            let folder = Devices::new(names, 2 * MIB);
            let options = CreateOptions {
                checksum,
                ..options()
            };
            let text = format!("{}({})", level.name, names.join(","));
            folder.create(&text, &options);
            let found = examine(&folder.path("a")).unwrap().found;
            let (array, _) = found.record().unwrap();
            let may_have = match level.redundancy {
                Redundancy::CopyOnEveryMember | Redundancy::Parity(_) => true,
                Redundancy::None | Redundancy::Copies => false,
            };
            assert_eq!(array.row_sums, may_have && checksum.is_none(), "{text}");
        }
    }
}

#[test]
fn nested_arrays_are_assembled_inside_out() {
    let names = ["a", "b", "c", "d", "e", "f"];
    for expression in [
        "raid0(raid5(a,b,c),raid5(d,e,f))",
        "raid1(raid0(a,b,c),raid0(d,e,f))",
        "raid1(raid0(a,b),c)",
        "raid5(raid1(a,b),raid0(raid1(c,d)),concat(e,f))",
    ] {
        let folder = Devices::new(&names, 4 * MIB);
        folder.create(expression, &options());
        let is_in = |name: &&str| expression.split(['(', ',', ')']).any(|word| word == *name);
        let used: Vec<&str> = names.into_iter().filter(is_in).collect();
        assert!(open(&folder, &used).unwrap().report.is_clean());
        fill(&folder, &used, 7);
        let mut backwards = used.clone();
        backwards.reverse();
        check(&folder, &backwards, 7).target.close().unwrap();
        let without: Vec<&str> = used.iter().copied().filter(|name| *name != "b").collect();
        let assembled = check(&folder, &without, 7);
        assert!(assembled.report.is_degraded(), "{expression}");
        assembled.target.close().unwrap();
    }
}

/// An inner array that lacks too much is a missing member of the outer one.
#[test]
fn an_array_survives_a_lost_inner_array() {
    let folder = Devices::new(&["a", "b", "c", "d"], 4 * MIB);
    folder.create("raid1(raid0(a,b),raid0(c,d))", &options());
    fill(&folder, &["a", "b", "c", "d"], 3);
    let assembled = check(&folder, &["c", "b", "d"], 3);
    let warnings = assembled.report.refused.join("\n");
    assert!(
        warnings.contains("array 'test.0' can't be opened"),
        "{warnings}"
    );
    assembled.target.close().unwrap();
    let error = open(&folder, &["a", "c"]).unwrap_err().to_string();
    assert!(
        error.contains("'test.0'") && error.contains("'test.1'"),
        "{error}"
    );
    // Only one half of an array of arrays: the other half is reported as missing.
    let folder = Devices::new(&["a", "b", "c", "d"], 4 * MIB);
    folder.create("raid0(raid1(a,b),raid1(c,d))", &options());
    let error = open(&folder, &["a", "b"]).unwrap_err().to_string();
    assert!(
        error.contains("array 'test' can't be opened: member 1 of 2"),
        "{error}"
    );
}

/// Without bitmaps, used devices may not be zero, so parity is computed at creation.
#[test]
fn devices_not_known_to_be_zero_are_synced() {
    let without_bitmaps = CreateOptions {
        consistency: Policy::by_name("none"),
        ..options()
    };
    let (sync, steps, _) = created_on_noise(&without_bitmaps);
    assert_eq!(sync, Sync::Done);
    assert!(steps.is_sorted(), "{steps:?}");
    assert!(steps.last().is_some_and(|(done, total)| done == total));
}

/// With bitmaps nothing has to be synced, and no old data is visible.
#[test]
fn unwritten_blocks_read_as_zeros() {
    let (sync, steps, contents) = created_on_noise(&options());
    assert_eq!((sync, steps), (Sync::Unwritten, vec![]));
    assert!(contents.iter().all(|&byte| byte == 0));
}

/// Creates an array on devices that hold noise. Returns the kind of sync, its progress, and the
/// contents, which are the same from every set of members.
fn created_on_noise(options: &CreateOptions) -> (Sync, Vec<(u64, u64)>, Vec<u8>) {
    let folder = Devices::new(&["a", "b", "c"], 4 * MIB);
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let noise = vec![0x11 * u8::try_from(index + 1).unwrap(); 3 << 20];
        let file = File::options().write(true).open(folder.path(name)).unwrap();
        file.write_all_at(&noise, MIB / 2).unwrap();
    }
    let mut steps = Vec::new();
    let expression = folder.expression("raid5(a,b,c)");
    let options = &CreateOptions {
        force: true,
        ..options.clone()
    };
    let created = create(&expression, options, &mut |done, total| {
        steps.push((done, total));
        true
    })
    .unwrap();
    let whole = open(&folder, &["a", "b", "c"]).unwrap();
    assert_eq!(whole.target.status().unwrap().jobs, []);
    let read = |names: &[&str]| {
        let mut assembled = folder.assemble(names, &read_only()).unwrap();
        let target = assembled.target.as_mut();
        let blocks = target.facts().request_blocks_max;
        let blocks = blocks.min(u32::try_from(target.facts().blocks).unwrap());
        let buffer = target.allocate(blocks);
        run(target, Operation::Read, 0, blocks, place(buffer)).unwrap();
        target.buffer(buffer).to_vec()
    };
    whole.target.close().unwrap();
    let all = read(&["a", "b", "c"]);
    for names in [["a", "b"], ["b", "c"], ["c", "a"]] {
        assert!(read(&names) == all, "{names:?}");
    }
    (created.sync, steps, all)
}

/// A member that was absent for a while gets the writes that it missed, and nothing else.
#[test]
fn a_returning_member_gets_its_missed_writes() {
    let folder = Devices::new(&["a", "b"], 64 * MIB);
    folder.create("raid1(a,b)", &options());
    fill(&folder, &["a", "b"], 1);
    let before = open(&folder, &["a"]).unwrap();
    let mut target = before.target;
    let buffer = target.allocate(1);
    target.buffer_mut(buffer).fill(0x77);
    let write = Operation::Write { fua: false };
    run(target.as_mut(), write, 3, 1, place(buffer)).unwrap();
    target.close().unwrap();
    let mut assembled = open(&folder, &["a", "b"]).unwrap();
    let started = assembled.target.counters().devices[1].bytes_written;
    while assembled.target.status().unwrap().state != ArrayState::Healthy {
        assert!(assembled.target.work(), "it becomes healthy");
    }
    let written = assembled.target.counters().devices[1].bytes_written - started;
    assert!((1..8 * MIB).contains(&written), "{written}");
    assembled.target.close().unwrap();
    let contents = |name| {
        let bytes = fs::read(folder.path(name)).unwrap();
        bytes[usize::try_from(8 * MIB).unwrap()..].to_vec()
    };
    assert!(contents("a") == contents("b"), "they are copies again");
}

#[test]
fn a_stopped_initial_sync_is_reported() {
    let folder = Devices::new(&["a", "b"], 8 * MIB);
    fs::write(folder.path("b"), vec![0x77; 8 << 20]).unwrap();
    let expression = folder.expression("raid1(a,b)");
    let without_bitmaps = CreateOptions {
        consistency: Policy::by_name("none"),
        force: true,
        ..options()
    };
    let created = create(&expression, &without_bitmaps, &mut |_, _| false).unwrap();
    assert_eq!(created.sync, Sync::Stopped);
    let assembled = open(&folder, &["a", "b"]).unwrap();
    assert!(!assembled.report.clean);
}

#[test]
fn impossible_names_are_refused_and_nothing_is_changed() {
    let folder = Devices::new(&["a", "b"], 4 * MIB);
    let before = folder.contents();
    for name in ["", "-x", "a/b", "a,b", "a:b", "a\nb", &"long".repeat(13)] {
        let named = CreateOptions {
            name: name.to_owned(),
            ..options()
        };
        let error = folder.try_create("raid0(a,b)", &named).unwrap_err();
        assert!(matches!(error, CreateError::Name { .. }), "{name}: {error}");
    }
    assert!(folder.contents() == before);
}

/// An open device can be neither assembled nor overwritten.
#[test]
fn a_device_in_use_is_refused() {
    let folder = Devices::new(&["a", "b", "c"], 4 * MIB);
    folder.create("raid1(a,b)", &options());
    let opened = open(&folder, &["a", "b"]).unwrap();
    let error = open(&folder, &["a", "b"]).unwrap_err().to_string();
    let by = format!("in use by pid {} (", std::process::id());
    assert!(error.contains(&by), "{error}");
    let forced = CreateOptions {
        force: true,
        ..options()
    };
    let error = folder.try_create("raid1(c,a)", &forced).unwrap_err();
    assert!(error.to_string().contains(&by), "{error}");
    // Inspecting superblocks is harmless.
    assert!(examine(&folder.path("a")).unwrap().found.record().is_ok());
    opened.target.close().unwrap();
    open(&folder, &["a", "b"]).unwrap();
}

/// With force, the previous contents are gone for good.
#[test]
fn force_clears_old_contents() {
    let folder = Devices::new(&["a", "b"], 4 * MIB);
    let gpt = File::options().write(true).open(folder.path("a")).unwrap();
    gpt.write_all_at(b"EFI PART", 512).unwrap();
    gpt.write_all_at(b"EFI PART", 4 * MIB - 512).unwrap();
    assert_eq!(examine(&folder.path("a")).unwrap().sightings.len(), 2);
    let forced = CreateOptions {
        force: true,
        ..options()
    };
    let created = folder.create("raid1(a,b)", &forced);
    assert_eq!(created.wiped.len(), 1);
    assert_eq!(created.wiped[0].1, "a GPT partition table");
    assert_eq!(examine(&folder.path("a")).unwrap().sightings, []);
    // Over an existing array: the members now belong to the new array.
    let created = folder.create("raid0(b,a)", &forced);
    let assembled = open(&folder, &["a", "b"]).unwrap();
    assert_eq!(assembled.report.uuid, created.uuid);
    assert_eq!(assembled.report.level.name, "raid0");
}

/// Two halves that continued without each other.
#[test]
fn split_brain_and_old_copies_are_refused() {
    let folder = Devices::new(&["a", "b", "c"], 4 * MIB);
    folder.create("raid1(a,b,c)", &options());
    folder.copy("a", "old");
    fill(&folder, &["a", "b", "c"], 1);
    let assembled = open(&folder, &["old", "b", "c"]).unwrap();
    assert!(assembled.report.refused.join("\n").contains("/old: stale"));
    assembled.target.close().unwrap();
    // b and c have recorded that a is missing; a doesn't know.
    fill(&folder, &["a"], 2);
    let before = folder.contents();
    let error = open(&folder, &["a", "b", "c"]).unwrap_err().to_string();
    assert!(error.starts_with("split brain: "), "{error}");
    let times = error.split_once("; last written: ").unwrap().1;
    assert_eq!(times.matches(" on 20").count(), 2, "{times}");
    for name in ["/a", "/b", "/c"] {
        assert!(error.contains(name), "{error}");
    }
    assert!(folder.contents() == before);
    check(&folder, &["b", "c"], 1).target.close().unwrap();
    check(&folder, &["a"], 2).target.close().unwrap();
}

/// A crash between the superblock writes of members: the newer superblock is written to the other
/// member.
#[test]
fn a_lagging_member_is_updated() {
    let folder = Devices::new(&["a", "b"], 4 * MIB);
    folder.create("raid1(a,b)", &options());
    fill(&folder, &["a", "b"], 5);
    let generation = |name: &str| {
        let found: Found = examine(&folder.path(name)).unwrap().found;
        found.record().unwrap().0.generation
    };
    let last = generation("a");
    let b = File::options().write(true).open(folder.path("b")).unwrap();
    let slot = if last % 2 == 0 { 4096 } else { 32768 };
    b.write_all_at(&[0xff; 600], slot).unwrap();
    assert_eq!(generation("b"), last - 1);
    let assembled = folder.assemble(&["a", "b"], &read_only()).unwrap();
    drop(assembled);
    assert_eq!(generation("b"), last - 1, "read-only changes nothing");
    let assembled = open(&folder, &["a", "b"]).unwrap();
    assert!(!assembled.report.is_degraded());
    drop(assembled);
    assert_eq!(generation("b"), last);
    check(&folder, &["a", "b"], 5).target.close().unwrap();
}

#[test]
fn blocks_of_512_bytes_work() {
    let folder = Devices::new(&["a", "b", "c"], 2 * MIB + 512);
    let small = CreateOptions {
        block_size: BlockSize::B512,
        chunk_bytes: Some(3 * 512),
        ..options()
    };
    folder.create("raid5(a,b,c)", &small);
    fill(&folder, &["a", "b", "c"], 8);
    check(&folder, &["c", "a"], 8).target.close().unwrap();
    assert!(Path::new(&folder.path("a")).exists());
}

/// Block devices of both sector sizes, and one that another process holds.
#[test]
fn block_devices_work_and_those_in_use_are_refused() {
    let folder = Devices::new(&["a", "b"], 4 * MIB);
    let loops = [("a", 512), ("b", 4096)]
        .map(|(name, sector)| Loop::new(Path::new(&folder.path(name)), sector));
    let [Ok(a), Ok(b)] = loops else {
        let reason = loops.into_iter().find_map(Result::err).unwrap();
        return skip("superblocks on loop devices", &reason);
    };
    let expression = Expression::parse(&format!("raid1({},{})", a.0, b.0)).unwrap();
    let small = CreateOptions {
        block_size: BlockSize::B512,
        ..options()
    };
    let error = create(&expression, &small, &mut |_, _| true).unwrap_err();
    assert!(
        error.to_string().contains("has sectors of 4096 bytes"),
        "{error}"
    );
    let created = create(&expression, &options(), &mut |_, _| true).unwrap();
    assert_eq!(created.sync, Sync::Unwritten);
    let devices = [b.0.as_str(), a.0.as_str()];
    let mut assembled = assemble(&devices, &AssembleOptions::default()).unwrap();
    pattern(assembled.target.as_mut(), 4, true);
    let writing = AssembleOptions {
        open: soon(),
        ..AssembleOptions::default()
    };
    let error = assemble(&devices, &writing).unwrap_err();
    assert!(
        error.to_string().contains("in use by another program"),
        "{error}"
    );
    assembled.target.close().unwrap();
    let mut assembled = assemble(&devices[..1], &read_only()).unwrap();
    pattern(assembled.target.as_mut(), 4, false);
    assembled.target.close().unwrap();
    let link = folder.path("link");
    std::os::unix::fs::symlink(&a.0, &link).unwrap();
    let expression = Expression::parse(&format!("raid1({},{link})", a.0)).unwrap();
    let error = create(&expression, &options(), &mut |_, _| true).unwrap_err();
    assert!(matches!(error, CreateError::SameDevice { .. }), "{error}");
}

/// With an unknown feature that forbids writing, the array is read and not written.
#[test]
fn arrays_of_later_versions_are_read_only() {
    let folder = Devices::new(&["a", "b"], 2 * MIB);
    folder.create("raid1(a,b)", &options());
    fill(&folder, &["a", "b"], 6);
    let advance = |change: &dyn Fn(&mut spindles_format::Features)| {
        for name in ["a", "b"] {
            let found = examine(&folder.path(name)).unwrap().found;
            let (mut array, device) = found.record().unwrap().clone();
            array.generation += 1;
            change(&mut array.features);
            let mut bytes = [0; 4096];
            spindles_format::encode(&array, &device, &mut bytes);
            let file = File::options().write(true).open(folder.path(name)).unwrap();
            let slot = spindles_format::SLOT_BYTES[usize::from(array.generation % 2 == 1)];
            file.write_all_at(&bytes, slot).unwrap();
        }
    };
    advance(&|features| features.read_only = 1);
    let before = folder.contents();
    let assembled = check(&folder, &["a", "b"], 6);
    assert!(assembled.target.facts().read_only && assembled.report.read_only);
    assembled.target.close().unwrap();
    assert!(folder.contents() == before);
}

/// A stopped rebuild resumes; a stopped replacement leaves everything unchanged.
#[test]
fn stopped_rebuilds_resume_and_stopped_replacements_change_nothing() {
    let names = ["a", "b", "c"];
    let folder = Devices::new(&["a", "b", "c", "d", "e"], 16 * MIB);
    folder.create("raid5(a,b,c)", &options());
    fill(&folder, &names, 4);
    let (paths, new) = (folder.paths(&names), folder.path("d"));
    let devices = strs(&paths);
    let options = ReplaceOptions {
        old: folder.path("b"),
        onto: new.clone(),
        ..ReplaceOptions::default()
    };
    let stopped = replace(&devices, &options, &mut |_, _| false).unwrap_err();
    assert!(matches!(stopped, ChangeError::ReplaceStopped { .. }));
    let assembled = check(&folder, &names, 4);
    assert!(assembled.report.refused.is_empty() && !assembled.report.is_degraded());
    drop(assembled);
    let onto = RebuildOptions {
        onto: Some(Expression::Leaf(new)),
        ..RebuildOptions::default()
    };
    let left = [devices[0], devices[2]];
    let rebuilt = rebuild(&left, &onto, &mut |done, _| done == 0).unwrap();
    assert!(!rebuilt.through && rebuilt.members.is_empty());
    let new = folder.path("d");
    let with_it = [left[0], left[1], &new];
    let assembled = assemble(&with_it, &read_only()).unwrap();
    let (mut looked, name) = (assembled.target, assembled.report.name);
    while looked.work() {}
    let status = looked.status_of(&name).unwrap();
    let written = status.regions.unwrap().written;
    assert!(written > 0);
    let lacks: Vec<u64> = (status.members.iter())
        .map(|member| member.lacks_regions)
        .collect();
    // It is good up to the mark.
    assert!(lacks[0] == 0 && lacks[2] == 0, "{lacks:?}");
    assert!((1..=written).contains(&lacks[1]), "{lacks:?} of {written}");
    assert!(looked.status_of("another").is_none());
    drop(looked);
    let rebuilt = rebuild(&with_it, &RebuildOptions::default(), &mut |_, _| true).unwrap();
    assert!(rebuilt.through && rebuilt.members.len() == 1);
    check(&folder, &["d", "c"], 4);
}
