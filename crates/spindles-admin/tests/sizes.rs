//! Members of different sizes: the used size of each area belongs to the array. It does not depend
//! on the members present, or on later replacements.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{Tmpfs, degraded, mount, pattern, place, run, skip, strs};
use spindles_admin::assemble::{AssembleOptions, Assembled, assemble};
use spindles_admin::create::{CreateError, CreateOptions, create};
use spindles_admin::grow::{GrowOptions, Grown, NewSize, grow};
use spindles_admin::rebuild::{RebuildOptions, rebuild};
use spindles_admin::replace::{ReplaceOptions, replace};
use spindles_admin::scrub::scrub;
use spindles_array::{Target, await_resync};
use spindles_block::{BlockSize, Operation, SizeBytes};
use spindles_engine::{ArrayState, Scrub};
use spindles_layout::Expression;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// Sparse devices in a folder, given by name and size.
struct Devices {
    // Unmounted before the folder is removed.
    tmpfs: Option<Tmpfs>,
    folder: tempfile::TempDir,
}

impl Devices {
    fn new(sizes: &[(&str, u64)]) -> Self {
        let devices = Self {
            tmpfs: None,
            folder: tempfile::tempdir().unwrap(),
        };
        devices.add_all(sizes)
    }

    /// On a file system without a file size limit: ext4 limits files to 16 TiB.
    fn without_end(sizes: &[(&str, u64)]) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let tmpfs = Tmpfs::new(&folder.path().join("tmpfs"))?;
        mount(&tmpfs.0, "remount,size=1g")?;
        let tmpfs = Some(tmpfs);
        Ok(Self { tmpfs, folder }.add_all(sizes))
    }

    fn add_all(self, sizes: &[(&str, u64)]) -> Self {
        for (name, bytes) in sizes {
            self.add(name, *bytes);
        }
        self
    }

    fn add(&self, name: &str, bytes: u64) {
        let file = File::create(self.path(name)).unwrap();
        file.set_len(bytes).unwrap();
    }

    fn path(&self, name: &str) -> String {
        let folder = match &self.tmpfs {
            Some(tmpfs) => &tmpfs.0,
            None => self.folder.path(),
        };
        folder.join(name).to_str().unwrap().to_owned()
    }

    fn paths(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.path(name)).collect()
    }

    fn create(&self, level: &str, names: &[&str]) {
        let devices = self.paths(names).join(",");
        let created = Self::try_create(&format!("{level}({devices})"), BlockSize::B4096);
        created.unwrap();
    }

    /// Creates an array over any contents of the devices.
    fn try_create(text: &str, block_size: BlockSize) -> Result<(), CreateError> {
        let options = CreateOptions {
            block_size,
            force: true,
            ..CreateOptions::new("g")
        };
        let expression = Expression::parse(text).unwrap();
        create(&expression, &options, &mut |_, _| true).map(drop)
    }

    /// Adds a device filled with non-zero bytes.
    fn add_used(&self, name: &str, bytes: u64) {
        let used = vec![0xa5; usize::try_from(bytes).unwrap()];
        fs::write(self.path(name), used).unwrap();
    }

    /// Replaces each device by a larger one full of old data.
    fn replace_all(&self, names: &[&str], larger: &[(&str, u64)]) {
        let mut names = names.to_vec();
        for (at, (new, bytes)) in larger.iter().enumerate() {
            self.add_used(new, *bytes);
            self.replace(&names, names[at], new);
            names[at] = new;
        }
    }

    /// Replaces a member, whatever the new device holds.
    fn replace(&self, names: &[&str], old: &str, new: &str) {
        let options = ReplaceOptions {
            old: self.path(old),
            onto: self.path(new),
            overwrite: true,
            ..ReplaceOptions::default()
        };
        replace(&strs(&self.paths(names)), &options, &mut |_, _| true).unwrap();
    }

    fn grow(&self, names: &[&str], size: NewSize) -> Result<Grown, String> {
        let options = GrowOptions {
            size: Some(size),
            ..GrowOptions::default()
        };
        let paths = self.paths(names);
        let grown = grow(&strs(&paths), &options, &mut |_, _| true);
        grown.map_err(|error| error.to_string())
    }

    /// Returns the contents of the array.
    fn contents(&self, names: &[&str]) -> Vec<u8> {
        let mut target = self.open(names).target;
        let (blocks, mut contents) = (target.facts().blocks, Vec::new());
        let most: u32 = 1024;
        let buffer = target.allocate(most);
        for block in (0..blocks).step_by(usize::try_from(most).unwrap()) {
            let count = u32::try_from((blocks - block).min(most.into())).unwrap();
            run(
                target.as_mut(),
                Operation::Read,
                block,
                count,
                place(buffer),
            )
            .unwrap();
            let bytes = target.facts().block_size.bytes() * count;
            let bytes = usize::try_from(bytes).unwrap();
            contents.extend_from_slice(&target.buffer(buffer)[..bytes]);
        }
        target.close().unwrap();
        contents
    }

    /// Returns true if a scrub finds nothing.
    fn is_sound(&self, names: &[&str]) -> bool {
        let paths = self.paths(names);
        let mut flaws = 0;
        let scrubbed = scrub(
            &strs(&paths),
            &AssembleOptions::default(),
            Scrub::default(),
            &mut |_| flaws += 1,
            &mut |_, _| true,
        );
        scrubbed.unwrap().through && flaws == 0
    }

    fn open(&self, names: &[&str]) -> Assembled {
        assemble(&strs(&self.paths(names)), &degraded()).unwrap()
    }

    /// Writes at places all over the array.
    fn write(&self, names: &[&str], seed: u64) {
        let mut target = self.open(names).target;
        transfer(target.as_mut(), seed, true);
        target.close().unwrap();
    }

    /// Checks the written places and brings all members up to date.
    fn compare(&self, names: &[&str], seed: u64) -> ArrayState {
        let mut target = self.open(names).target;
        transfer(target.as_mut(), seed, false);
        assert!(await_resync(target.as_mut(), &mut |_, _| true));
        while target.rebuild_progress().is_some() {
            assert!(target.work(), "a rebuild ends");
        }
        let state = target.status().unwrap().state;
        target.close().unwrap();
        state
    }
}

/// Writes or checks places all over the array.
fn transfer(target: &mut dyn Target, seed: u64, write: bool) {
    const BLOCKS: u32 = 8;
    let buffer = target.allocate(BLOCKS);
    let end = target.facts().blocks - u64::from(BLOCKS);
    let slice = place(buffer);
    // The first write to a region writes all its checksums.
    let steps = if end > 1 << 28 { 4 } else { 40 };
    for step in 0..=steps {
        let block = end * step / steps;
        let bytes = target.buffer(buffer).len();
        let wanted = pattern(seed + block, bytes);
        let operation = if write {
            target.buffer_mut(buffer).copy_from_slice(&wanted);
            Operation::Write { fua: false }
        } else {
            Operation::Read
        };
        let done = run(target, operation, block, BLOCKS, slice);
        assert_eq!(done, Ok(()), "block {block}");
        if !write {
            assert!(target.buffer(buffer) == wanted, "block {block}");
        }
    }
}

/// Levels and members, each of a different size.
const ARRAYS: &[(&str, &[(&str, u64)])] = &[
    ("raid1", &[("a", 64 * MIB), ("b", 200 * MIB)]),
    (
        "raid5",
        &[("a", 64 * MIB), ("b", 80 * MIB), ("c", 100 * MIB)],
    ),
    (
        "raid6",
        &[
            ("a", 300 * MIB),
            ("b", MIB),
            ("c", 64 * MIB),
            ("d", 2048 * MIB),
        ],
    ),
    (
        "raid10",
        &[
            ("a", 4 * MIB),
            ("b", 900 * MIB),
            ("c", 70 * MIB),
            ("d", 3000 * MIB),
        ],
    ),
    (
        "raid5",
        &[("a", 100 * MIB), ("b", 3000 * MIB), ("c", 3000 * MIB)],
    ),
];

/// With any member absent, the others have all writes; and the absent member comes back.
#[test]
fn any_of_unequal_members_may_leave_and_return() {
    for (level, sizes) in ARRAYS {
        let devices = Devices::new(sizes);
        let names: Vec<&str> = sizes.iter().map(|(name, _)| *name).collect();
        devices.create(level, &names);
        devices.write(&names, 1);
        for (at, away) in (2..).zip(&names) {
            let left: Vec<&str> = names.iter().copied().filter(|name| name != away).collect();
            let state = devices.compare(&left, at - 1);
            assert_eq!(state, ArrayState::Degraded, "{level} without {away}");
            devices.write(&left, at);
            let state = devices.compare(&names, at);
            assert_eq!(state, ArrayState::Healthy, "{level}: {away} is back");
        }
    }
}

/// A new device of the same size as the lost one is large enough, and so is a larger one.
#[test]
fn a_device_of_the_same_size_replaces_a_member() {
    for (level, sizes) in ARRAYS {
        for (away, bytes) in *sizes {
            let devices = Devices::new(sizes);
            let names: Vec<&str> = sizes.iter().map(|(name, _)| *name).collect();
            devices.create(level, &names);
            devices.write(&names, 1);
            let mut names: Vec<&str> = names.into_iter().filter(|name| name != away).collect();
            devices.add("new", *bytes);
            let options = RebuildOptions {
                onto: Some(Expression::Leaf(devices.path("new"))),
                assemble: degraded(),
                ..RebuildOptions::default()
            };
            rebuild(&strs(&devices.paths(&names)), &options, &mut |_, _| true).unwrap();
            names.push("new");
            assert_eq!(devices.compare(&names, 1), ArrayState::Healthy, "{level}");
        }
    }
}

/// The array uses the same sizes, even when only members with more room are left.
#[test]
fn all_members_may_be_replaced_by_larger_ones() {
    for (level, sizes) in ARRAYS {
        let devices = Devices::new(sizes);
        let mut names: Vec<String> = sizes.iter().map(|(name, _)| (*name).to_owned()).collect();
        devices.create(level, &strs(&names));
        devices.write(&strs(&names), 1);
        for (at, (old, bytes)) in sizes.iter().enumerate() {
            let new = format!("larger-{old}");
            devices.add(&new, 3 * bytes + 200 * MIB);
            devices.replace(&strs(&names), old, &new);
            names[at] = new;
        }
        let names = strs(&names);
        assert_eq!(devices.compare(&names, 1), ArrayState::Healthy, "{level}");
        devices.write(&names, 2);
        let left = &names[1..];
        assert_eq!(devices.compare(left, 2), ArrayState::Degraded, "{level}");
        devices.write(left, 3);
        assert_eq!(devices.compare(&names, 3), ArrayState::Healthy, "{level}");
    }
}

/// `spindles` takes no more memory or space on members of real sizes than on small ones, and the
/// devices' old contents are cleared. No step goes through a whole member.
#[test]
fn members_of_real_sizes_need_little_time_and_space() {
    for bytes in [TIB, 16 * TIB, 100 * TIB] {
        for block_size in [BlockSize::B512, BlockSize::B4096] {
            let names = ["a", "b", "c"];
            let devices = match Devices::without_end(&names.map(|name| (name, bytes))) {
                Ok(devices) => devices,
                Err(reason) => {
                    return skip("members_of_real_sizes_need_little_time_and_space", &reason);
                }
            };
            let paths = devices.paths(&names);
            for path in &paths {
                let file = File::options().write(true).open(path).unwrap();
                // Places of checksums and of data.
                for at in [300 * MIB, 400 * MIB, bytes / 2, bytes - MIB] {
                    file.write_all_at(&vec![0xa5; 64 << 10], at).unwrap();
                }
            }
            let paths = paths.join(",");
            Devices::try_create(&format!("raid5({paths})"), block_size).unwrap();
            assert!(devices.open(&names).report.is_clean());
            devices.write(&names, 1);
            assert_eq!(devices.compare(&names, 1), ArrayState::Healthy);
            assert_eq!(devices.compare(&names[1..], 1), ArrayState::Degraded);
            for name in names {
                let allocated = fs::metadata(devices.path(name)).unwrap().blocks() * 512;
                assert!(allocated < 20 * MIB, "{name} of {bytes}: {allocated}");
            }
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    let peak_kib: u64 = peak
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert!(peak_kib < 1 << 20, "{peak_kib} KiB");
}

/// Members up to the size limit of the format are accepted. Larger members are refused before the
/// first write.
#[test]
fn the_member_size_limit_is_reported_before_any_write() {
    for (block_size, limit) in [
        (BlockSize::B512, 1024 * TIB),
        (BlockSize::B4096, 8192 * TIB),
    ] {
        let sizes = [("a", limit), ("b", limit), ("c", limit + 4096)];
        let devices = match Devices::without_end(&sizes) {
            Ok(devices) => devices,
            Err(reason) => {
                return skip(
                    "the_member_size_limit_is_reported_before_any_write",
                    &reason,
                );
            }
        };
        let [a, b, c] = ["a", "b", "c"].map(|name| devices.path(name));
        let nested = format!("raid1({a},raid0({b},{c}))");
        Devices::try_create(&format!("raid1({a},{b})"), block_size).unwrap();
        let before = [&a, &b, &c].map(|path| first_bytes(path));
        for text in [format!("raid1({a},{c})"), nested] {
            let error = Devices::try_create(&text, block_size).unwrap_err();
            assert!(matches!(error, CreateError::TooLarge { .. }), "{error}");
        }
        assert!([&a, &b, &c].map(|path| first_bytes(path)) == before);
        devices.write(&["a", "b"], 1);
        assert_eq!(devices.compare(&["b"], 1), ArrayState::Degraded);
    }
}

fn first_bytes(path: &str) -> Vec<u8> {
    let mut bytes = vec![0; 64 << 10];
    let file = File::open(path).unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

const SMALL: u64 = 8 * MIB;

/// Levels with a layout, their number of members, and whether one may be absent.
const GROWING: &[(&str, usize, bool)] = &[
    ("raid1", 2, true),
    ("raid1", 3, true),
    ("raid4", 3, true),
    ("raid5", 3, true),
    ("raid6", 4, true),
    ("raid7", 5, true),
    ("raid10", 3, true),
    ("raid10:offset", 4, true),
    ("raid0", 3, false),
    ("concat", 2, false),
];

/// An array that grows onto larger members keeps its contents, followed by zeros, whatever these
/// members held. It is as redundant as an array created on them, and as large if the end of every
/// member is used.
#[test]
fn an_array_grows_onto_larger_members() {
    let block_sizes = [BlockSize::B512, BlockSize::B4096];
    for ((level, count, redundant), block_size) in GROWING.iter().zip(block_sizes.iter().cycle()) {
        let old: Vec<String> = (0..*count).map(|at| format!("old{at}")).collect();
        let sizes: Vec<(&str, u64)> = old.iter().map(|name| (name.as_str(), SMALL)).collect();
        let devices = Devices::new(&sizes);
        let paths = devices.paths(&strs(&old)).join(",");
        Devices::try_create(&format!("{level}({paths})"), *block_size).unwrap();
        devices.write(&strs(&old), 1);
        let before = devices.contents(&strs(&old));

        let new: Vec<String> = (0..*count).map(|at| format!("new{at}")).collect();
        let larger = |at: usize| 3 * SMALL + u64::try_from(at).unwrap() * 700_000 / 512 * 512;
        let larger: Vec<(&str, u64)> = (new.iter().enumerate())
            .map(|(at, name)| (name.as_str(), larger(at)))
            .collect();
        devices.replace_all(&strs(&old), &larger);
        let new = strs(&new);
        assert!(devices.contents(&new) == before, "{level}: nothing yet");

        let grown = devices.grow(&new, NewSize::Max).unwrap();
        assert!(grown.bytes > 2 * SMALL, "{level}: {} bytes", grown.bytes);
        let fresh: Vec<String> = (0..*count).map(|at| format!("fresh{at}")).collect();
        for (name, (_, bytes)) in fresh.iter().zip(&larger) {
            devices.add(name, *bytes);
        }
        let paths = devices.paths(&strs(&fresh)).join(",");
        Devices::try_create(&format!("{level}({paths})"), *block_size).unwrap();
        let fresh = devices.open(&strs(&fresh)).report.bytes;
        assert_eq!(grown.bytes == fresh, *level != "concat", "{level}");

        let after = devices.contents(&new);
        assert_eq!(u64::try_from(after.len()).unwrap(), grown.bytes);
        let (held, more) = after.split_at(before.len());
        assert!(held == before, "{level}: what it held");
        assert!(more.iter().all(|byte| *byte == 0), "{level}: its new room");
        assert!(devices.is_sound(&new), "{level}");
        assert!(devices.grow(&new, NewSize::Max).unwrap().already);
        if *redundant {
            assert!(devices.contents(&new[1..]) == after, "{level}: without one");
        }
        devices.write(&new, 2);
        if *redundant {
            assert_eq!(devices.compare(&new[1..], 2), ArrayState::Degraded);
            devices.write(&new[1..], 3);
            assert_eq!(devices.compare(&new, 3), ArrayState::Healthy, "{level}");
        }
        assert!(devices.is_sound(&new), "{level}");
    }
}

/// With members of different sizes, more room helps only on those that the array ends on.
#[test]
fn only_space_at_the_end_of_the_array_is_gained() {
    for (level, larger, gains) in [
        ("concat", ["b", "c"], [false, true]),
        ("raid0", ["a", "c"], [false, true]),
        ("raid10:far", ["a", "c"], [false, false]),
    ] {
        let sizes = [("a", SMALL), ("b", 2 * SMALL), ("c", 3 * SMALL)];
        for (larger, gains) in larger.into_iter().zip(gains) {
            let devices = Devices::new(&sizes);
            let names = ["a", "b", "c"];
            devices.create(level, &names);
            devices.write(&names, 1);
            let before = devices.contents(&names);
            let all = names.map(|name| if name == larger { "new" } else { name });
            devices.add_used("new", 6 * SMALL);
            devices.replace(&names, larger, "new");
            let grown = devices.grow(&all, NewSize::Max);
            match grown {
                Ok(grown) => assert_eq!(!grown.already, gains, "{level} with a larger {larger}"),
                Err(error) => {
                    assert!(error.contains("would have to be moved"), "{error}");
                    assert_eq!(level, "raid10:far");
                }
            }
            let after = devices.contents(&all);
            assert_eq!(after.len() > before.len(), gains, "{level}");
            let (held, more) = after.split_at(before.len());
            assert!(
                held == before && more.iter().all(|byte| *byte == 0),
                "{level}"
            );
        }
    }
}

/// A size is met to the stripe, from below, and may be requested again. An impossible size is
/// refused with the possible one. An array that lacks a member stays unchanged.
#[test]
fn an_array_has_the_requested_size() {
    let devices = Devices::new(&["a", "b", "c"].map(|name| (name, SMALL)));
    let names = ["d", "e", "f"];
    devices.create("raid5", &["a", "b", "c"]);
    devices.write(&["a", "b", "c"], 1);
    devices.replace_all(&["a", "b", "c"], &names.map(|name| (name, 8 * SMALL)));
    let error = devices.grow(&["d", "f"], NewSize::Max).unwrap_err();
    assert!(error.contains("lacks member 1"), "{error}");
    let before = devices.open(&names).report.bytes;
    let refuse = |size: u64| devices.grow(&names, NewSize::Bytes(size)).unwrap_err();
    assert!(refuse(before - 4096).contains("can't become smaller"));
    let most = refuse(1 << 40);
    let figure = most.split("have room for ").nth(1).unwrap();
    let (figure, rest) = figure.split_once(" at most: replace ").unwrap();
    assert!(
        rest.contains("/d, ") && rest.contains("/f by larger devices first"),
        "{most}"
    );
    let most = figure.replace(' ', "").parse::<SizeBytes>().unwrap().0;
    for bytes in [20 * MIB, 20 * MIB + 1, 33 * MIB + 4096, 100 * MIB] {
        let grown = devices.grow(&names, NewSize::Bytes(bytes)).unwrap();
        assert!(
            (bytes - 128 * 1024 + 1..=bytes).contains(&grown.bytes),
            "{bytes}"
        );
        let again = devices.grow(&names, NewSize::Bytes(bytes)).unwrap();
        assert!(again.already && again.bytes == grown.bytes);
        assert_eq!(
            devices.contents(&names).len(),
            usize::try_from(grown.bytes).unwrap()
        );
    }
    let grown = devices.grow(&names, NewSize::Bytes(most)).unwrap();
    assert_eq!(grown.bytes, most);
    assert!(devices.is_sound(&names));

    devices.add("g", 8 * SMALL);
    let options = GrowOptions {
        add: vec![devices.path("g")],
        ..GrowOptions::default()
    };
    let stopped = grow(&strs(&devices.paths(&names)), &options, &mut |_, _| false);
    assert!(!stopped.unwrap().through);
    let error = devices.grow(&names, NewSize::Max).unwrap_err();
    assert!(error.contains("grows already"), "{error}");
}
