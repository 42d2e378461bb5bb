//! Tests that kill commands before any of their writes. The data must be right at every moment, and
//! the same command must continue.

use crate::assemble::{ArrayReport, AssembleOptions, Assembled};
use crate::common::{Devices, degraded, place, run, strs};
use crate::create::CreateOptions;
use crate::grow::{GrowOptions, grow};
use crate::rebuild::{RebuildOptions, Rebuilt, rebuild};
use crate::rename::rename;
use crate::replace::{ReplaceOptions, replace};
use spindles_array::Stack;
use spindles_block::{BlockSize, BufferId, MemberResult, Operation};
use spindles_device::OpenOptions;
use spindles_device::probe::glance;
use spindles_device::queues::{Queue, Wait, Watch, WatchId};
use spindles_device::transfer::{FileIndex, Tag, Transfer};
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use std::cell::Cell;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

thread_local! {
    /// Writes that may still pass before the kill; `None` for no kill.
    static WRITES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The panic payload of a kill.
struct Killed;

/// A queue that performs the kill.
#[derive(Debug)]
struct Mortal(Box<dyn Queue>);

impl Queue for Mortal {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn add_file(&mut self, file: OwnedFd) -> io::Result<FileIndex> {
        self.0.add_file(file)
    }

    fn remove_file(&mut self, file: FileIndex) {
        self.0.remove_file(file);
    }

    fn add_buffer(&mut self, buffer: BufferId, start: NonNull<u8>, bytes: usize) {
        self.0.add_buffer(buffer, start, bytes);
    }

    fn start(&mut self, transfer: Transfer) {
        if transfer.operation.is_write() {
            match WRITES_LEFT.get() {
                Some(0) => resume_unwind(Box::new(Killed)),
                left => WRITES_LEFT.set(left.map(|left| left - 1)),
            }
        }
        self.0.start(transfer);
    }

    fn watch(&mut self, watch: Watch) -> io::Result<()> {
        self.0.watch(watch)
    }

    fn next_ready(&mut self) -> Option<WatchId> {
        self.0.next_ready()
    }

    fn watches(&self) -> bool {
        self.0.watches()
    }

    fn hand_over(&mut self) {
        self.0.hand_over();
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        self.0.next_done()
    }

    fn turn(&mut self, wait: Wait) {
        self.0.turn(wait);
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}

/// Wraps the queue of an array about to be opened or changed, if a kill is armed.
pub(crate) fn opening(stack: &mut Stack) {
    if WRITES_LEFT.get().is_some() {
        stack.wrap_queue(|queue| Box::new(Mortal(queue)));
    }
}

const BLOCKS: u32 = 64;

/// An array on devices with one-letter names.
struct World {
    devices: Devices,
    requests: OpenOptions,
}

impl World {
    fn path(&self, name: &str) -> String {
        self.devices.path(name)
    }

    fn folder(&self) -> &Path {
        self.devices.0.path()
    }

    /// Returns the paths of devices whose names are separated by spaces.
    fn paths(&self, names: &str) -> Vec<String> {
        names.split(' ').map(|name| self.path(name)).collect()
    }

    fn options(&self) -> AssembleOptions {
        AssembleOptions {
            open: self.requests.clone(),
            ..degraded()
        }
    }

    fn open(&self, names: &str) -> Assembled {
        let names: Vec<&str> = names.split(' ').collect();
        self.devices.assemble(&names, &self.options()).unwrap()
    }

    /// Reads or writes the first blocks, which all hold the same byte.
    fn run(&self, names: &str, write: Option<u8>) -> (u8, ArrayReport) {
        let Assembled { mut target, report } = self.open(names);
        let buffer = target.allocate(BLOCKS);
        target.buffer_mut(buffer).fill(write.unwrap_or(0));
        let operation = write.map_or(Operation::Read, |_| Operation::Write { fua: true });
        run(target.as_mut(), operation, 0, BLOCKS, place(buffer)).unwrap();
        let bytes = target.buffer(buffer);
        let byte = bytes[0];
        assert!(bytes.iter().all(|other| *other == byte));
        target.close().unwrap();
        (byte, report)
    }

    fn rebuild(&self, left: &str, onto: &str) -> Result<Rebuilt, String> {
        let onto = if onto.len() == 1 {
            Expression::Leaf(self.path(onto))
        } else {
            self.devices.expression(onto)
        };
        let options = RebuildOptions {
            assemble: self.options(),
            onto: Some(onto),
            ..RebuildOptions::default()
        };
        let rebuilt = rebuild(&strs(&self.paths(left)), &options, &mut |_, _| true);
        rebuilt.map_err(|error| error.to_string())
    }
}

/// Runs `what`, killed before write `at`. `None` if it finished earlier.
fn kill<T>(at: u32, what: impl FnOnce() -> Result<T, String>) -> Option<()> {
    WRITES_LEFT.set(Some(at));
    let ended = catch_unwind(AssertUnwindSafe(what));
    WRITES_LEFT.set(None);
    match ended {
        Ok(done) => {
            done.unwrap();
            None
        }
        Err(killed) => {
            assert!(killed.is::<Killed>(), "before write {at}");
            Some(())
        }
    }
}

/// Creates a folder, in memory if possible: it needs no durability.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Creates an array of devices with one-letter names.
fn world_of(array: &str, options: &CreateOptions, device_bytes: u64) -> World {
    let world = World {
        devices: Devices(in_memory()),
        requests: OpenOptions {
            requests_max: 8,
            ..OpenOptions::default()
        },
    };
    for name in names_in(array) {
        world.devices.add(name, device_bytes);
    }
    world.devices.create(array, options);
    world
}

/// Returns the one-letter names.
fn names_in(array: &str) -> Vec<&str> {
    let words = array.split(['(', ',', ')']);
    words.filter(|name| name.len() == 1).collect()
}

/// Tests a rebuild of `array` after device a is lost and the array was written without it. Kills
/// the rebuild before each of its first writes, and before some of the others.
fn killed_anywhere(
    array: &str,
    block_size: BlockSize,
    left: &str,
    onto: &str,
    new: &[(&str, u64)],
) {
    let options = CreateOptions {
        block_size,
        chunk_bytes: Some(4096),
        // Without checksums, reads return whatever is on the devices.
        checksum: (block_size == BlockSize::B4096).then_some(ChecksumKind::None),
        ..CreateOptions::new("g")
    };
    let world = world_of(array, &options, 1 << 20);
    world.run(&names_in(array).join(" "), Some(1));
    world.run(left, Some(2));
    for (name, bytes) in new {
        world.devices.add(name, *bytes);
    }
    let begin = in_memory();
    copy_all(world.folder(), begin.path());
    let names: Vec<&str> = new.iter().map(|(name, _)| *name).collect();
    // Only the replacement, and one device that is useless without the others.
    let half: Vec<&str> = (left.split(' '))
        .filter(|name| !"cd".contains(name))
        .collect();
    let half = [half.as_slice(), &names].concat().join(" ");
    let mut at = 0;
    loop {
        copy_all(begin.path(), world.folder());
        let killed = kill(at, || world.rebuild(left, onto));
        let what = format!("{array} onto {onto}, killed before write {at}");
        if killed.is_some() {
            check_killed_resumes(&world, left, onto, &names, &what);
        }
        // The lost device is useless when it comes back.
        let back = format!("a {left} {}", names.join(" "));
        let (byte, report) = world.run(&back, None);
        assert_eq!(byte, 2, "{what}");
        assert!(!report.is_degraded(), "{what}: {report:?}");
        let refused = report.refused.concat();
        let is_old = refused.contains("outdated") || refused.contains("replaced");
        assert!(is_old, "{what}: {refused}");
        assert_eq!(world.run(&half, None).0, 2, "{what}");
        if killed.is_none() {
            assert!(at > 20, "{at} writes");
            return;
        }
        at += 1 + at / 8;
    }
}

/// Checks that a killed rebuild left the data readable, and that the next rebuild finishes it.
fn check_killed_resumes(world: &World, left: &str, onto: &str, names: &[&str], what: &str) {
    let save = in_memory();
    copy_all(world.folder(), save.path());
    // The intact inner array keeps its data, alone and together with the new devices.
    assert_eq!(world.run("c d", None).0, 2, "{what}");
    copy_all(save.path(), world.folder());
    let with_new = [&[left], labelled_in(world, names).as_slice()].concat();
    assert_eq!(world.run(&with_new.join(" "), None).0, 2, "{what}");
    copy_all(save.path(), world.folder());
    match world.rebuild(left, onto) {
        Ok(rebuilt) => assert!(rebuilt.through, "{what}"),
        // It was complete except for the last writes.
        Err(error) => assert!(error.contains("/x is member "), "{what}: {error}"),
    }
}

/// Returns the devices that already have a superblock.
fn labelled_in<'a>(world: &World, names: &[&'a str]) -> Vec<&'a str> {
    let is_ours = |name: &&&str| glance(&world.path(name)).unwrap().record().is_ok();
    names.iter().filter(is_ours).copied().collect()
}

/// One after the other, because other tests measure time.
#[test]
fn a_killed_rebuild_of_an_inner_array_resumes() {
    let (b4096, b512) = (BlockSize::B4096, BlockSize::B512);
    let small = [("x", 1 << 20)];
    let large = [("x", 3 << 20), ("y", 5 << 20)];
    let array = "raid1(raid0(a,b),raid0(c,d))";
    killed_anywhere(array, b4096, "b c d", "x", &small);
    killed_anywhere(array, b4096, "b c d", "raid1(x,y)", &large);
    killed_anywhere("raid1(raid0(b,a),raid0(c,d))", b512, "b c d", "x", &small);
}

/// A second rename, to the same or another name, names all arrays as if they had been created so.
#[test]
fn the_next_rename_repairs_a_killed_one() {
    let array = "raid1(raid0(a,b),raid0(c,raid1(d,e)))";
    let options = CreateOptions {
        chunk_bytes: Some(4096),
        ..CreateOptions::new("old")
    };
    let world = world_of(array, &options, 1 << 20);
    let begin = in_memory();
    copy_all(world.folder(), begin.path());
    let paths = world.devices.paths(&names_in(array));
    let paths = strs(&paths);
    let renamed = |to: &str| {
        let renamed = rename(&paths, to, &mut |_, _| true);
        renamed.map_err(|error| error.to_string())
    };
    let (mut at, mut mixed) = (0, 0);
    loop {
        copy_all(begin.path(), world.folder());
        let killed = kill(at, || renamed("new"));
        let names = || -> Vec<String> {
            let Assembled { target, report } = world.open("a b c d e");
            target.close().unwrap();
            let arrays = report.arrays();
            arrays.iter().map(|array| array.name.clone()).collect()
        };
        let of = |to: &str| ["", ".0", ".1", ".1.1"].map(|inner| format!("{to}{inner}"));
        if killed.is_none() {
            assert_eq!(names(), of("new"));
            assert!(mixed > 0, "{at} writes");
            return;
        }
        mixed += usize::from(names() != of("old") && names() != of("new"));
        let again = ["new", "third"][usize::from(at % 2 == 1)];
        renamed(again).unwrap();
        assert_eq!(names(), of(again), "killed before write {at}");
        at += 3; // Kill before every third write: all writes take a minute.
    }
}

/// The same replacement starts over, without force for the new device.
#[test]
fn a_killed_replacement_starts_over() {
    let (array, old) = ("raid1(raid1(a,b),raid0(c,d))", "b");
    let options = CreateOptions {
        chunk_bytes: Some(4096),
        ..CreateOptions::new("g")
    };
    let world = world_of(array, &options, 1 << 20);
    let all = names_in(array).join(" ");
    let mut others = names_in(array);
    others.retain(|name| *name != old);
    let others = others.join(" ");
    world.run(&all, Some(2));
    world.devices.add("x", 1 << 20);
    let begin = in_memory();
    copy_all(world.folder(), begin.path());
    let replaced = || {
        let options = ReplaceOptions {
            assemble: world.options(),
            old: world.path(old),
            onto: world.path("x"),
            overwrite: false,
        };
        let given = world.paths(&others);
        let replaced = replace(&strs(&given), &options, &mut |_, _| true);
        replaced.map_err(|error| error.to_string())
    };
    let holds = || glance(&world.path("x")).unwrap();
    let (mut at, mut spares, mut repeated) = (0, 0, 0);
    loop {
        copy_all(begin.path(), world.folder());
        let killed = kill(at, replaced);
        let what = format!("{array}, killed before write {at}");
        let found = holds();
        spares += usize::from(found.spare().is_some());
        if killed.is_none() {
            assert!(spares > 10, "{spares} of {at}");
            assert!(repeated > 0, "{repeated} of {at}");
            break;
        }
        let save = in_memory();
        copy_all(world.folder(), save.path());
        assert_eq!(world.run(&all, None).0, 2, "{what}");
        copy_all(save.path(), world.folder());
        let (byte, report) = world.run(&format!("{all} x"), None);
        assert_eq!(byte, 2, "{what}");
        assert!(!report.is_degraded(), "{what}");
        let has_place = report.devices().contains(&world.path("x").as_str());
        copy_all(save.path(), world.folder());
        match replaced() {
            Ok(_) => repeated += usize::from(has_place),
            // It was complete except for the last writes.
            Err(error) => assert!(
                has_place && error.contains("/x is member 1 of array 'g.0'"),
                "{what}: {error}"
            ),
        }
        let (byte, report) = world.run(&format!("{others} x"), None);
        assert_eq!(byte, 2, "{what}");
        assert!(!report.is_degraded(), "{what}");
        at += 1;
    }
}

/// The same command continues, without force for the new device.
#[test]
fn a_killed_growth_or_rebuild_needs_no_force() {
    let options = CreateOptions {
        chunk_bytes: Some(4096),
        ..CreateOptions::new("g")
    };
    for (left, grows) in [("a b c", true), ("a b", false)] {
        let world = world_of("raid5(a,b,c)", &options, 4 << 20);
        world.run("a b c", Some(2));
        world.devices.add("x", 4 << 20);
        let begin = in_memory();
        copy_all(world.folder(), begin.path());
        let command = || {
            if !grows {
                return world.rebuild(left, "x").map(drop);
            }
            let options = GrowOptions {
                assemble: world.options(),
                add: vec![world.path("x")],
                ..GrowOptions::default()
            };
            let grown = grow(&strs(&world.paths(left)), &options, &mut |_, _| true);
            grown.map(drop).map_err(|error| error.to_string())
        };
        let (mut at, mut not_begun) = (0, 0);
        loop {
            copy_all(begin.path(), world.folder());
            if kill(at, command).is_none() {
                assert!(not_begun > 0, "{left}: never killed before x was a member");
                break;
            }
            let found = glance(&world.path("x")).unwrap();
            not_begun += u32::from(found.record().is_err());
            command().unwrap_or_else(|error| panic!("{left}, killed before write {at}: {error}"));
            let (byte, report) = world.run(&format!("{left} x"), None);
            assert_eq!(byte, 2, "{left}, killed before write {at}");
            assert!(!report.is_degraded(), "{left}, killed before write {at}");
            at += if at < 40 { 1 } else { 9 };
        }
    }
}
