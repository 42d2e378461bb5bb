//! `spindles serve --fuse`, used as people use a file: by programs of every kind, loop devices and
//! file systems.

#![allow(clippy::print_stdout, reason = "what is skipped")]
#![allow(clippy::unwrap_used, reason = "the loop devices of other tests")]

use crate::loop_devices;

use crate::world::{Run, Running, World, pattern, until};
use loop_devices::Loop;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Files in the tree of the file system tests: most tests use fewer, to save time.
const FILES: usize = 1_500;
const FILES_MAX: usize = 10_000;

/// How the server receives requests.
#[derive(Clone, Copy)]
enum Way {
    /// However the system is configured.
    Either,
    /// Read from the device.
    Device,
    /// Over `io_uring`, which needs support in the kernel; root may enable it.
    Ring,
}

/// Enables `io_uring` for FUSE mounts.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Restores the switch when dropped, even if a test fails.
struct Switched<'a>(&'a File, &'static [u8]);

impl Drop for Switched<'_> {
    fn drop(&mut self) {
        self.0
            .write_all_at(self.1, 0)
            .expect("it was written before");
    }
}

impl Way {
    fn is_over_ring(self) -> Option<bool> {
        match self {
            Self::Either => None,
            Self::Device => Some(false),
            Self::Ring => Some(true),
        }
    }

    /// Starts a server that uses this way. The kernel decides when serving begins, so the switch is
    /// set only meanwhile, and by one test at a time, across processes too.
    fn begin<T>(self, begin: impl FnOnce() -> T) -> Result<T, String> {
        let Some(over_ring) = self.is_over_ring() else {
            return Ok(begin());
        };
        let failed = |error| format!("{SWITCH}: {error}");
        let switch = File::options().read(true).write(true).open(SWITCH);
        let switch = match switch {
            Ok(switch) => switch,
            Err(_) if !over_ring && !fs::read(SWITCH).is_ok_and(|it| it.starts_with(b"Y")) => {
                return Ok(begin());
            }
            Err(error) => return Err(failed(error)),
        };
        switch.lock().map_err(failed)?;
        let was_on = read_at(&switch, 0, 1) == b"Y";
        let value = |on| -> &'static [u8] { if on { b"1" } else { b"0" } };
        let _switched = Switched(&switch, value(was_on));
        switch.write_all_at(value(over_ring), 0).map_err(failed)?;
        Ok(begin())
    }
}

/// Defines tests that run in both ways.
macro_rules! both_ways {
    ($($case:ident,)*) => {
        mod over_the_device {
            $(#[test] fn $case() { super::$case(super::Way::Device); })*
        }
        mod over_a_ring {
            $(#[test] fn $case() { super::$case(super::Way::Ring); })*
        }
    };
}

both_ways! {
    programs_use_an_array_as_a_file,
    two_files_show_the_same_array,
    a_read_only_array_is_not_written,
    the_file_holds_ext4,
    a_file_system_survives_a_lost_member,
    a_killed_server_leaves_no_mount,
    an_open_file_is_unmounted_lazily,
    unmounting_ends_the_server,
    programs_find_the_holes_of_a_file,
}

/// Array 'pool' of these files.
fn array(level: &str, members: &str, bytes: usize) -> World {
    let bytes = u64::try_from(bytes).expect("64 bits");
    let pool = World::new(&members.replace(',', " "), bytes);
    pool.does(&format!("create pool {level}({members})"));
    pool
}

/// Serves the array as a file in its folder. An error gives the reason if that is impossible here.
fn serve<'a>(way: Way, pool: &'a World, more: &str) -> Result<Served<'a>, String> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        return Err(format!("/dev/fuse: {error}"));
    }
    let served = way.begin(|| begin(pool, more))??;
    if let Some(over_ring) = way.is_over_ring() {
        let status = pool.json("status pool");
        let (clients, rings) = (&status["served"]["clients"], &status["served"]["over_ring"]);
        let expected = if over_ring { clients.as_u64() } else { Some(0) };
        assert_eq!(rings.as_u64(), expected, "{status}");
    }
    Ok(served)
}

/// Starts serving, and waits until kernel and server have negotiated.
fn begin<'a>(pool: &'a World, more: &str) -> Result<Served<'a>, String> {
    let mut server = pool.begin(&format!("serve pool --fuse file{more}"));
    server.ready()?;
    let file = pool.path("file");
    server.says(&format!("array 'pool' is served: {}", file.display()));
    for file in ["file"].into_iter().chain(more.split(' ')) {
        drop(fs::metadata(pool.path(file)));
    }
    Ok(Served { file, server, pool })
}

struct Served<'a> {
    file: PathBuf,
    server: Running,
    pool: &'a World,
}

impl Served<'_> {
    fn open(&self) -> File {
        let opened = File::options().read(true).write(true).open(&self.file);
        opened.expect("it can be opened")
    }

    /// Runs a program on the file; `@` stands for the file, `%` for the folder.
    fn run(&self, line: &str) -> Run {
        let folder = self.pool.folder().to_str().expect("UTF-8");
        let file = self.file.to_str().expect("UTF-8");
        let words = line.split_whitespace();
        let words = words.map(|word| word.replace('@', file).replace('%', folder));
        let mut command = Command::new("timeout");
        let command = command.args(["--kill-after=5", "60"]).args(words);
        self.pool.run_command(command).ends(0)
    }

    /// Kills the process that would unmount the file; `file` says if the server `made` or `found`
    /// it. Returns the warnings of `status` afterwards.
    fn loses_its_watcher(&self, file: &str) -> String {
        let watcher = format!("serve-watch fuse {file} {}", self.file.display());
        succeeds(Command::new("pkill").args(["-KILL", "-f", &watcher]));
        let status = || self.pool.run("status pool").error;
        until("the warning", || {
            status().contains("the process that unmounts")
        });
        status()
    }

    fn loop_device(&self) -> Result<Loop, String> {
        Loop::with(&self.file, &["--direct-io=on", "--sector-size", "4096"])
    }

    /// Stops the server as an administrator does.
    fn stop(self) -> Run {
        self.server.stop()
    }

    /// Waits until the server ends by itself.
    fn ends(self) -> Run {
        self.server.end(None).ends(0)
    }

    fn kill(mut self) {
        self.server.kill();
    }
}

/// A mounted file system; unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(device: &Loop, at: &'a Path) -> Self {
        succeeds(Command::new("mount").arg(&device.0).arg(at));
        Self(at)
    }

    fn unmount(self) {
        succeeds(Command::new("umount").arg(self.0));
        std::mem::forget(self);
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.0).status());
    }
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{error}");
    out
}

/// Returns true if a program is installed; reports the skipped test if not.
fn has(test: &str, program: &str) -> bool {
    let found = Command::new("which").arg(program).output();
    let found = found.is_ok_and(|found| found.status.success());
    if !found {
        println!("SKIPPED: {test}: {program} is not installed");
    }
    found
}

/// Skips the test if something is impossible here.
macro_rules! or_skip {
    ($test:literal, $made:expr) => {
        match $made {
            Ok(made) => made,
            Err(reason) => return println!("SKIPPED: {}: {reason}", $test),
        }
    };
}

fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("a table");
    let path = path.to_str().expect("UTF-8");
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == Some(path))
}

fn read_at(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    file.read_exact_at(&mut read, offset)
        .expect("it can be read");
    read
}

fn programs_use_an_array_as_a_file(way: Way) {
    let pool = array("raid5", "a,b,c", 24 * MIB);
    let served = or_skip!(
        "programs_use_an_array_as_a_file",
        serve(way, &pool, " --json")
    );
    let found = fs::metadata(&served.file).expect("it is there");
    let bytes = usize::try_from(found.len()).expect("64 bits");
    assert!(found.is_file() && found.mode() & 0o777 == 0o600 && bytes > 40 * MIB);
    // With direct I/O, from the program's memory to the array's, in requests of maximum length.
    pool.put("in", pattern(32 * MIB, 1));
    served.run("dd if=%/in of=@ bs=1M oflag=direct conv=notrunc,fsync");
    served.run("dd if=@ of=%/out bs=64k count=512 iflag=direct");
    assert!(pool.read("out") == pattern(32 * MIB, 1));
    // Like a device of that size.
    served.run("fallocate --punch-hole --offset 1M --length 20M @");
    served.run("fallocate --zero-range --offset 30000001 --length 3000001 @");
    served.run("fallocate --length 40M @");
    let file = served.open();
    let mut expected = pattern(32 * MIB, 1);
    expected[MIB..21 * MIB].fill(0);
    expected[30_000_001..33_000_002].fill(0);
    assert!(read_at(&file, 0, 32 * MIB) == expected, "after fallocate");
    let size = found.len();
    assert_eq!(file.write_at(&[7; 5000], size - 100).expect("a part"), 100);
    let full = file.write_at(&[7; 5000], size).expect_err("it is full");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(
        file.read_at(&mut [0; 5000], size - 100).expect("a part"),
        100
    );
    assert_eq!(file.read_at(&mut [0; 5000], size).expect("the end"), 0);
    file.set_len(4096).expect_err("its size is fixed");
    fs::write(&served.file, b"from the start").expect("as into a device");
    assert_eq!(fs::metadata(&served.file).expect("it is there").len(), size);
    assert_eq!(read_at(&file, 0, 14), b"from the start");
    drop(file);
    let run = served.stop();
    assert_eq!(run.error.lines().count(), 1, "{run:?}");
    let (json, output) = (run.json(), run.out);
    assert!(json["payload_bytes"].as_u64() >= Some(32 << 20), "{output}");
    match way {
        // io_uring uses buffers of its own, so all of the payload is copied.
        Way::Ring => assert_eq!(json["copied_bytes"], json["payload_bytes"], "{output}"),
        // Only the few bytes that did not begin at a block were copied.
        _ => assert!(json["copied_bytes"].as_u64() <= Some(100), "{output}"),
    }
    assert!(!pool.path("file").exists(), "the file is left");
}

/// A number from a line of `/proc/…/status`, in this base.
fn status_of(process: &str, line: &str, base: u32) -> u64 {
    let table = fs::read_to_string(format!("/proc/{process}/status")).expect("a table");
    number_in(&table, line, base)
}

/// A number from a line of the text of `/proc/…/status`, in this base.
fn number_in(table: &str, line: &str, base: u32) -> u64 {
    let value = table.lines().find_map(|it| it.strip_prefix(line));
    let value = value.expect("there is that line").trim();
    let digits = value.split(' ').next().expect("a value");
    u64::from_str_radix(digits, base).expect("a number")
}

/// In the sandbox the server still mounts, unmounts and opens devices: helpers do it.
#[test]
fn a_sandboxed_server_mounts_and_opens_devices() {
    let way = Way::Either;
    let pool = array("raid5", "a,b,c", 8 * MIB);
    let elsewhere = World::new("new", 9 << 20);
    let (new, letters) = (elsewhere.full("new"), elsewhere.full("letters"));
    elsewhere.put("letters", "x".repeat(9 * MIB));
    let served = or_skip!(
        "a_sandboxed_server_mounts_and_opens_devices",
        serve(way, &pool, "")
    );
    let status = pool.json("status pool");
    let sandbox = status["served"]["sandbox"].as_array().expect("a list");
    let holds = |begin: &str| {
        let mut parts = sandbox.iter().filter_map(Value::as_str);
        parts.any(|part| part.starts_with(begin))
    };
    for part in ["no new privileges", "no capabilities", "seccomp"] {
        assert!(holds(part), "{part}: {sandbox:?}");
    }
    let process = served.server.id();
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let threads = threads.flatten().map(|thread| thread.file_name());
    let ids: Vec<String> = threads.filter_map(|id| id.into_string().ok()).collect();
    let mut checked = 0;
    for id in &ids {
        // A thread that answered `status` may have ended since.
        let Ok(table) = fs::read_to_string(format!("/proc/{process}/task/{id}/status")) else {
            continue;
        };
        let privileges = number_in(&table, "CapPrm:", 16);
        let filtered = number_in(&table, "Seccomp:", 10);
        let ipc_lock = 1 << 14;
        assert_eq!((privileges & !ipc_lock, filtered), (0, 2), "{id}");
        checked += 1;
    }
    assert!(checked > 0, "{ids:?}");
    // Elsewhere, new devices and devices of an array are refused.
    pool.does(&format!("spare add {new} --array pool"));
    let why = format!(
        "{letters} holds something else, and a server in its sandbox opens such files only in the \
         folders"
    );
    let refused = |line: &str| {
        let refused = pool.ends(&line.replace('%', &letters), 1);
        refused.warns([&why, "--no-sandbox"]);
    };
    refused("spare add % --array pool --force");
    refused("add % pool --force");
    refused("replace a --onto % pool --force");
    // The array itself is refused as a device.
    pool.ends("add file pool --force", 1)
        .warns("is the array itself");
    pool.does("fail a pool");
    pool.until("the spare", |pool| {
        pool.run("status pool").out.contains("healthy")
    });
    refused("rebuild pool --onto % --force");
    let file = served.file.clone();
    pool.does("stop pool");
    served.ends().warns_no("could not");
    assert!(!file.exists() && !is_mounted(&file), "it is left");
}

/// The memory of the server is locked: the kernel could not reclaim it by writing to the array.
#[test]
fn server_memory_is_locked_if_permitted() {
    let way = Way::Either;
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = or_skip!(
        "server_memory_is_locked_if_permitted",
        serve(way, &pool, "")
    );
    let process = served.server.id().to_string();
    let may = status_of("self", "CapEff:", 16);
    let (ipc_lock, sys_resource) = (1 << 14, 1 << 24);
    if may & ipc_lock == 0 {
        println!("SKIPPED: server_memory_is_locked_if_permitted: CAP_IPC_LOCK is missing");
    } else {
        let locked_kib = status_of(&process, "VmLck:", 10);
        assert!(locked_kib > 1000, "{locked_kib} KiB");
    }
    if may & sys_resource == 0 {
        println!("SKIPPED: server_memory_is_locked_if_permitted: CAP_SYS_RESOURCE is missing");
    } else {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("a line");
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let flags: u64 = fields
            .split(' ')
            .nth(6)
            .expect("flags")
            .parse()
            .expect("a number");
        // Memory allocation does no I/O, see PR_SET_IO_FLUSHER.
        assert_ne!(flags & 0x0008_0000, 0, "{flags:x}");
    }
    served.stop();
}

/// The kernel caches no data: a write through one path is visible to reads through every other.
fn two_files_show_the_same_array(way: Way) {
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = or_skip!(
        "two_files_show_the_same_array",
        serve(way, &pool, " --fuse other")
    );
    let other = pool.path("other");
    until("the mount", || is_mounted(&other));
    let other = File::options().read(true).write(true).open(other);
    let (one, other) = (served.open(), other.expect("it is there"));
    for round in 0..3 {
        let (first, second) = (pattern(MIB, 2 * round), pattern(MIB, 2 * round + 1));
        one.write_all_at(&first, 777).expect("it writes");
        assert!(read_at(&other, 777, MIB) == first);
        other.write_all_at(&second, 777).expect("it writes");
        assert!(read_at(&one, 777, MIB) == second);
    }
    drop((one, other));
    served.stop();
}

#[test]
fn qemu_converts_onto_the_file() {
    let way = Way::Either;
    let pool = array("raid6", "a,b,c,d", 24 * MIB);
    let served = or_skip!("qemu_converts_onto_the_file", serve(way, &pool, ""));
    if !has("qemu_converts_onto_the_file", "qemu-img") {
        return;
    }
    let mut bytes = pattern(24 * MIB, 2);
    bytes[MIB..3 * MIB].fill(0);
    pool.put("in", bytes);
    served.run("qemu-img convert -f raw -O qcow2 %/in %/in.qcow2");
    served.run("qemu-img convert -n -t none -f qcow2 -O raw %/in.qcow2 @");
    served.run("qemu-img compare -f raw -F raw %/in @");
    served.stop();
}

/// A program that copies from the file can find holes.
fn programs_find_the_holes_of_a_file(way: Way) {
    let pool = array("raid5", "a,b,c", 24 * MIB);
    let served = or_skip!("programs_find_the_holes_of_a_file", serve(way, &pool, ""));
    if !has("programs_find_the_holes_of_a_file", "qemu-img") {
        return;
    }
    let bytes = pattern(MIB, 4);
    let (start, at) = (16 * MIB + 777, (16 << 20) + 777);
    served.open().write_all_at(&bytes, at).expect("it writes");
    let map = served.run("qemu-img map --output=json -f raw @").json();
    let extents = map.as_array().expect("extents").iter();
    let data = extents.filter(|extent| extent["data"] == true);
    let number = |extent: &Value, what| extent[what].as_u64().expect("a number");
    let data: Vec<_> = data
        .map(|data| (number(data, "start"), number(data, "length")))
        .collect();
    let all: u64 = data.iter().map(|(_, bytes)| bytes).sum();
    let first = data.first().expect("there is data").0;
    assert!(first <= at && all <= 8 << 20, "{map}");
    served.run("qemu-img convert -f raw -O raw @ %/out");
    let out = pool.read("out");
    assert!(out[start..][..MIB] == bytes);
    assert!(
        out[..start]
            .iter()
            .chain(&out[start + MIB..])
            .all(|byte| *byte == 0)
    );
    // Discarded ranges are holes again.
    served.run("fallocate --punch-hole --offset 0 --length 48MiB @");
    served
        .run("qemu-img map --output=json -f raw @")
        .says_no("\"data\": true");
    served.stop();
}

fn a_read_only_array_is_not_written(way: Way) {
    let pool = array("raid1", "a,b", 8 * MIB);
    let before = pool.read("a");
    let served = or_skip!(
        "a_read_only_array_is_not_written",
        serve(way, &pool, " --read-only")
    );
    let found = fs::metadata(&served.file).expect("it is there");
    assert_eq!(found.mode() & 0o777, 0o400);
    let opened = File::options().write(true).open(&served.file);
    assert_eq!(
        opened.expect_err("it is read only").kind(),
        std::io::ErrorKind::ReadOnlyFilesystem
    );
    fs::read(&served.file).expect("it can be read");
    served.stop();
    assert!(pool.read("a") == before);
}

/// The files of a tree: path and contents. Some are empty, most are small, few exceed one request.
fn tree(files: usize) -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    let file = |at: usize| {
        let bytes = match (at % 1000, at % 100) {
            (1, _) => 1_200_000 + at,
            (_, small) => small * small,
        };
        let folder = format!("{}/{}", at % 10, at % 70);
        let seed = 1_000_003 * u64::try_from(at).expect("64 bits");
        (
            Path::new(&folder).join(at.to_string()),
            pattern(bytes, seed),
        )
    };
    (0..files).map(file)
}

fn unpack(at: &Path, files: usize) {
    for (path, bytes) in tree(files) {
        let path = at.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("it is written");
    }
}

fn compare(at: &Path, files: usize) {
    for (path, bytes) in tree(files) {
        let found = fs::read(at.join(&path)).expect("it is there");
        assert!(found == bytes, "{} has changed", path.display());
    }
}

/// Makes a file system on a loop device on the array, unpacks a tree, and checks it afterwards.
/// `meanwhile` runs while the tree is unpacked. Returns the messages of the server.
fn holds_a_file_system(
    test: &str,
    (make, check): (&str, &str),
    way: Way,
    pool: &World,
    files: usize,
    meanwhile: impl FnOnce(),
) -> Option<String> {
    // These tests dominate the run time; one after the other is no slower.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let words = |line: &str, device: &Loop| {
        let words = line.split(' ').map(str::to_owned);
        words.chain([device.0.clone()]).collect::<Vec<_>>()
    };
    let run = |line: &str, device: &Loop| {
        let words = words(line, device);
        succeeds(Command::new(&words[0]).args(&words[1..]));
    };
    let program = |line: &str| line.split(' ').next().map(str::to_owned);
    let programs = [program(make), program(check)];
    if programs.iter().flatten().any(|program| !has(test, program)) {
        return None;
    }
    let served = match serve(way, pool, "") {
        Ok(served) => served,
        Err(reason) => {
            println!("SKIPPED: {test}: {reason}");
            return None;
        }
    };
    let device = match served.loop_device() {
        Ok(device) => device,
        Err(reason) => {
            println!("SKIPPED: {test}: {reason}");
            return None;
        }
    };
    let at = pool.path("mnt");
    fs::create_dir(&at).expect("a folder");
    run(make, &device);
    let mounted = Mounted::new(&device, &at);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let unpacking = scope.spawn(|| unpack(&at, files));
        meanwhile();
        unpacking.join().expect("it does not panic");
    });
    mounted.unmount();
    let mounted = Mounted::new(&device, &at);
    compare(&at, files);
    mounted.unmount();
    run(check, &device);
    println!(
        "{test}: {files} files: {:.1} s",
        began.elapsed().as_secs_f64()
    );
    drop(device);
    Some(served.stop().warns_no("still open").error)
}

const EXT4: (&str, &str) = ("mkfs.ext4 -q -F", "fsck.ext4 -f -n");

fn the_file_holds_ext4(way: Way) {
    let pool = array("raid5", "a,b,c", 200 * MIB);
    let files = match way {
        Way::Ring => FILES,
        _ => FILES_MAX,
    };
    holds_a_file_system("the_file_holds_ext4", EXT4, way, &pool, files, || {});
}

#[test]
fn the_file_holds_xfs() {
    // XFS needs 300 MiB.
    let xfs = ("mkfs.xfs -q -f", "xfs_repair -n");
    let pool = array("raid5", "a,b,c", 200 * MIB);
    holds_a_file_system("the_file_holds_xfs", xfs, Way::Either, &pool, FILES, || {});
}

#[test]
fn the_file_holds_btrfs() {
    let btrfs = ("mkfs.btrfs -q -f", "btrfs check");
    let pool = array("raid0", "a,b,c", 200 * MIB);
    holds_a_file_system(
        "the_file_holds_btrfs",
        btrfs,
        Way::Either,
        &pool,
        FILES,
        || {},
    );
}

/// A member is lost while a file system is written, which does not notice. The member is a served
/// file itself, whose server is killed.
fn a_file_system_survives_a_lost_member(way: Way) {
    let name = "a_file_system_survives_a_lost_member";
    let inner = array("raid1", "a,b", 200 * MIB);
    let member = or_skip!(
        "a_file_system_survives_a_lost_member",
        serve(way, &inner, "")
    );
    let mut pool = World::new("a b", 200 << 20);
    let file = inner.full("file");
    pool.search(&file);
    pool.does(&format!("create pool raid5({file},a,b)"));
    let message = holds_a_file_system(name, EXT4, way, &pool, FILES, || {
        std::thread::sleep(Duration::from_millis(200));
        member.kill();
    });
    assert!(
        message
            .is_none_or(|message| message.contains("member 0, ") && message.contains(" is out: "))
    );
}

/// A mount whose server was killed is removed, and data acknowledged by fsync is there.
fn a_killed_server_leaves_no_mount(way: Way) {
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = or_skip!("a_killed_server_leaves_no_mount", serve(way, &pool, ""));
    pool.ends("serve pool --fuse other", 1).warns("in use");
    assert!(!pool.path("other").exists(), "a file is left");
    pool.ends("serve pool --fuse file", 1)
        .warns("file is mounted already");
    let file = served.open();
    file.write_all_at(&pattern(MIB, 5), 777).expect("it writes");
    file.sync_all().expect("it flushes");
    let path = served.file.clone();
    served.kill();
    until("the end of the mount", || {
        !is_mounted(&path) && !path.exists()
    });
    file.sync_all().expect_err("no server");
    drop(file);
    let served = serve(way, &pool, "").expect("it was served before");
    assert!(read_at(&served.open(), 777, MIB) == pattern(MIB, 5));
    // If the watcher is killed too, the next server removes the mount.
    let message = served.loses_its_watcher("made");
    let umount = format!("`umount {}`, which ends the server", path.display());
    assert!(message.contains(&umount), "{message}");
    // The users of the file can't be found then, so `stop` needs --force.
    pool.ends("stop pool", 1).warns("can't find out whether");
    served.kill();
    until("the end of the file", || path.symlink_metadata().is_err());
    assert!(is_mounted(&path));
    let served = serve(way, &pool, "").expect("it was served before");
    assert!(read_at(&served.open(), 777, MIB) == pattern(MIB, 5));
    served.stop();
    // The file was made by an earlier server.
    assert!(!path.exists() && !is_mounted(&path));
}

/// Stopping a server too early reports who still uses it.
fn an_open_file_is_unmounted_lazily(way: Way) {
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = or_skip!("an_open_file_is_unmounted_lazily", serve(way, &pool, ""));
    let file = served.open();
    file.write_all_at(b"answered", 0).expect("it writes");
    let path = served.file.clone();
    let user = format!("(process {})", std::process::id());
    pool.ends("stop pool", 1)
        .warns("is in use by ")
        .warns(&user);
    file.write_all_at(b"answered", 0)
        .expect("it is served as before");
    let stopped = pool.run("stop pool --force");
    stopped.warns(["was still open", &user]);
    served
        .ends()
        .warns(["was still open", &user])
        .prints("array 'pool' is closed");
    file.write_all_at(b"too late", 0).expect_err("no server");
    assert!(!path.exists() && !is_mounted(&path));
    pool.does("copy array:pool back --bytes 8");
    assert_eq!(pool.read("back"), b"answered");
}

/// An open file keeps `stop` from ending the server even if its folder was moved, or the mount is
/// detached.
#[test]
fn a_moved_file_is_still_in_use() {
    let pool = array("raid1", "a,b", 8 * MIB);
    fs::create_dir(pool.path("run")).expect("a folder");
    let path = pool.path("run/disk.img");
    let serve = "serve pool --fuse @run/disk.img";
    let mut server = pool.begin(serve);
    until("the mount", || is_mounted(&path) || server.has_ended());
    if !is_mounted(&path) {
        return println!("SKIPPED: a_moved_file_is_still_in_use: nothing is mounted here");
    }
    // The file is mounted before the server accepts commands.
    let takes_commands = || !pool.json("status pool")["served"].is_null();
    until("the server", takes_commands);
    let file = File::options().write(true).open(&path).expect("it opens");
    pool.rename("run", "moved");
    fs::create_dir(pool.path("run")).expect("a folder");
    fs::write(&path, "").expect("another's file");
    let moved = pool.path("moved/disk.img");
    let user = format!("(process {})", std::process::id());
    pool.ends("stop pool", 1).warns(&user);
    succeeds(Command::new("umount").arg("--lazy").arg(&moved));
    pool.ends("stop pool", 1).warns(&user);
    pool.run("status pool")
        .warns("was unmounted (umount --lazy)");
    file.write_all_at(b"answered", 0)
        .expect("it is served as before");
    drop(file);
    // The detached mount is unreachable, so closing its file ends the server.
    server.end(None);
    assert!(path.exists(), "another's");
    let server = pool.begin(serve);
    until("the mount", || is_mounted(&path));
    until("the server", takes_commands);
    pool.rename("run", "away");
    pool.does("stop pool");
    server.end(None);
    assert!(!is_mounted(&pool.path("away/disk.img")));
}

/// `stop` does not pull a disk from under a file system: it names the user, and how to release it.
#[test]
fn stop_refuses_a_mounted_array() {
    let name = "stop_refuses_a_mounted_array";
    let way = Way::Either;
    let pool = array("raid1", "a,b", 32 * MIB);
    let served = or_skip!("stop_refuses_a_mounted_array", serve(way, &pool, ""));
    let device = or_skip!("stop_refuses_a_mounted_array", served.loop_device());
    if !has(name, "mkfs.ext4") {
        return;
    }
    let at = pool.path("mnt");
    fs::create_dir(&at).expect("a folder");
    succeeds(Command::new("mkfs.ext4").args(["-q", "-F", &device.0]));
    let mounted = Mounted::new(&device, &at);
    let refused = pool.ends("stop pool", 1).error;
    for expected in [
        format!(
            "{}, which is array 'pool', is in use by the file system on",
            served.file.display()
        ),
        format!("umount {}; losetup --detach {}", at.display(), device.0),
    ] {
        assert!(refused.contains(&expected), "{refused}");
    }
    fs::write(at.join("more"), pattern(MIB, 1)).expect("it is served as before");
    mounted.unmount();
    let detach = format!("first: losetup --detach {}.", device.0);
    pool.ends("stop pool", 1).warns(&detach);
    drop(device);
    let stopped = pool.does("stop pool").out;
    assert_eq!(stopped, "array 'pool' is no longer served, and closed\n");
    served.ends();
}

fn unmounting_ends_the_server(way: Way) {
    let pool = array("raid1", "a,b", 8 * MIB);
    pool.put("file", "");
    let served = or_skip!("unmounting_ends_the_server", serve(way, &pool, ""));
    served.run("umount @");
    served.ends().prints("array 'pool' is closed");
    // The same without the watcher.
    let served = serve(way, &pool, "").expect("it was served before");
    served.loses_its_watcher("found");
    served.run("umount @");
    served
        .ends()
        .prints("array 'pool' is closed")
        .warns("the mount stays if the server dies")
        .warns_no("could not be unmounted");
    // The file existed before, so it stays.
    assert!(pool.path("file").exists());
}

/// Each of several arrays is a separate file, which ends without affecting the others.
#[test]
fn each_of_several_arrays_has_its_own_file() {
    let way = Way::Either;
    let pool = array("raid1", "a,b", 8 * MIB);
    for name in ["c", "d"] {
        pool.make(name, 8 << 20);
    }
    pool.does("create music raid0(c,d)");
    let served = or_skip!(
        "each_of_several_arrays_has_its_own_file",
        serve(way, &pool, " music --fuse other")
    );
    let other = pool.path("other");
    until("the mount", || is_mounted(&other));
    let sizes = [&served.file, &other].map(|path| path.metadata().expect("it is there").len());
    assert!(sizes[0] < 8 << 20 && sizes[1] > 8 << 20, "{sizes:?}");
    served.run("umount %/other");
    until("the closed array", || {
        pool.does("examine c d --json")
            .out
            .contains("\"clean\": true")
    });
    let bytes = pattern(MIB, 1);
    served.open().write_all_at(&bytes, 777).expect("it writes");
    assert!(read_at(&served.open(), 777, MIB) == bytes);
    let output = served.stop().out;
    assert!(output.starts_with("array 'music' is closed"), "{output}");
    assert!(output.contains("array 'pool' is closed"), "{output}");
}

#[test]
fn a_mount_that_hides_contents_is_refused() {
    let pool = array("raid1", "a,b", 8 * MIB);
    pool.put("mine", "mine");
    for (file, why) in [
        ("mine", "mine is not empty"),
        (".", "this is not the path of a file"),
        ("/proc", "/proc is mounted already"),
        ("none/file", "none/file: No such file"),
    ] {
        pool.ends(&format!("serve pool --fuse {file}"), 1)
            .warns(why);
    }
    assert_eq!(pool.read("mine"), b"mine");
}

/// The watcher of a mount, without a mount: it removes a file that was made for a server which
/// never mounted it, and nothing else.
#[test]
fn the_watcher_removes_only_created_files() {
    for (made, words, stays) in [
        ("made", "", false),
        ("found", "", true),
        // The server reports a mount, but no file system is mounted on the file.
        ("made", "mounted\nunmount\n", false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        fs::write(&file, "").expect("it is written");
        // Files that a server makes have these permissions.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o1600)).expect("it is ours");
        fs::write(&pipe, words).expect("it is written");
        let mut watcher = Command::new(env!("CARGO_BIN_EXE_spindles"));
        let watcher = watcher.args(["serve-watch", "fuse", made]).arg(&file);
        succeeds(watcher.stdin(File::open(&pipe).expect("it is there")));
        assert_eq!(file.exists(), stays, "{made} {words:?}");
    }
}

/// Without root, `fusermount3` mounts. Runs in a mount namespace where every user may open the
/// device, as on most systems.
#[test]
fn an_unprivileged_user_can_serve_an_array() {
    let name = "an_unprivileged_user_can_serve_an_array";
    if !has(name, "fusermount3") || !has(name, "setpriv") || !has(name, "unshare") {
        return;
    }
    let pool = array("raid1", "a,b", 8 * MIB);
    let script = r#"
set -eu
folder=$1 program=$2 pool=$3
mknod "$folder/device" c 10 229 && chmod 666 "$folder/device" &&
    mount --bind "$folder/device" /dev/fuse || exit 77
( : <>/dev/fuse ) 2>/dev/null || exit 77
chmod 755 "$folder" && chown nobody "$folder" "$folder/a" "$folder/b" &&
    cp "$program" "$folder/program"
cd "$folder"
user="setpriv --reuid=nobody --regid=nogroup --clear-groups"
serve() {
    rm -f error
    $user ./program serve "$pool" --fuse file >out 2>error &
    until grep -qs served error; do kill -0 $! || { cat error; exit 1; }; sleep 0.02; done
}
mounted() { grep -q "$folder/file" /proc/self/mountinfo; }
serve
mounted
printf hello | $user dd of=file conv=notrunc,fsync 2>/dev/null
kill $!
wait $!
! mounted
serve
test "$($user head -c 5 file)" = hello
kill -9 $!
wait $! 2>/dev/null || true
for try in $(seq 500); do mounted || exit 0; sleep 0.02; done
echo "it is left"
exit 1
"#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", script, "bash"]);
    command.arg(pool.folder());
    command.args([env!("CARGO_BIN_EXE_spindles"), &pool.unique("pool")]);
    let run = pool.run_command(&mut command);
    match run.status {
        0 => {}
        77 => println!("SKIPPED: {name}: no device can be made here: {}", run.error),
        _ if run.error.contains("unshare failed") => println!("SKIPPED: {name}: {}", run.error),
        _ => panic!("{run:?}"),
    }
}
