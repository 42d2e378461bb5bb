//! Arrays of format version 1, made when it was frozen, in `format_v1/`: every later version opens
//! them, reads the data back, and finds nothing wrong.
//!
//! Fixtures are never regenerated, because users' disks hold arrays like the fixtures.
//! `SPINDLES_UPDATE=1` makes only missing ones.

use spindles_format::{AreaKind, ArrayRecord, DeviceRecord, MemberState};
use spindles_format::{SLOT_BYTES, SUPERBLOCK_BYTES, decode};
use spindles_layout::LEVELS;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Bytes in a line of the text form of a member.
const LINE: usize = 16;

/// Bytes of a part: the unit in which the test data repeats.
const ALIKE: usize = 4096;

/// Prefix of lines that list the parts which must hold the second data.
const SECOND: &str = "second";

/// What happens to an array after it is created and filled.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// The last member is removed, and more is written.
    Degraded,
    /// Like `Degraded`, but the writer is killed: records are in the log.
    DegradedKilled,
    /// A writer is killed: regions are in doubt.
    Killed,
    /// The last member is removed, more is written, and the power fails: all writes are in the log,
    /// none in place. The test knows the contents of the log.
    Logged,
    /// A member is removed, more is written, and the member comes back.
    Returning,
    /// A member is removed, and a new one takes its place.
    Rebuilt,
    /// Like `Rebuilt`, but killed before the new member is filled.
    Rebuilding,
    /// A member is added, and the growth is killed before all is moved.
    Growing,
    /// The array has a spare.
    Spare,
}

struct Fixture {
    /// Begins with the name of the level; for nested arrays, of the outer one.
    name: &'static str,
    array: &'static str,
    options: &'static [&'static str],
    /// Set if the journal has a separate device.
    journal: bool,
    then: Then,
}

const fn plain(name: &'static str, array: &'static str) -> Fixture {
    Fixture {
        name,
        array,
        options: &["--chunk", "16K"],
        journal: false,
        then: Then::Nothing,
    }
}

const fn later(name: &'static str, array: &'static str, then: Then) -> Fixture {
    Fixture {
        then,
        ..plain(name, array)
    }
}

const fn with(
    name: &'static str,
    array: &'static str,
    options: &'static [&'static str],
) -> Fixture {
    Fixture {
        options,
        ..plain(name, array)
    }
}

const BARE: &[&str] = &[
    "--checksum",
    "none",
    "--consistency",
    "none",
    "--chunk",
    "16K",
];
const LOGGED: &[&str] = &["--checksum", "none", "--chunk", "16K"];
const RESYNCED: &[&str] = &["--consistency", "resync", "--chunk", "16K"];
const SECTORS: &[&str] = &["--block-size", "512", "--chunk", "2K"];

const FIXTURES: &[Fixture] = &[
    with("concat", "concat(a,b)", &[]),
    with("concat-bare", "concat(a,b)", BARE),
    plain("raid0", "raid0(a,b,c)"),
    with("raid0-bare", "raid0(a,b,c)", BARE),
    plain("raid1", "raid1(a,b)"),
    with("raid1-bare", "raid1(a,b)", BARE),
    with("raid1-resync", "raid1(a,b,c)", RESYNCED),
    later("raid1-killed", "raid1(a,b)", Then::Killed),
    plain("raid10", "raid10(a,b,c,d)"),
    plain("raid10-far", "raid10:far2(a,b,c)"),
    plain("raid10-offset", "raid10:offset2(a,b,c)"),
    plain("raid4", "raid4(a,b,c)"),
    plain("raid5", "raid5(a,b,c)"),
    plain("raid5-left-asymmetric", "raid5:left-asymmetric(a,b,c)"),
    plain("raid5-right-symmetric", "raid5:right-symmetric(a,b,c)"),
    plain("raid5-right-asymmetric", "raid5:right-asymmetric(a,b,c)"),
    with("raid5-bare", "raid5(a,b,c)", BARE),
    with("raid5-logged", "raid5(a,b,c)", LOGGED),
    with("raid5-resync", "raid5(a,b,c)", RESYNCED),
    with("raid5-512", "raid5(a,b,c)", SECTORS),
    Fixture {
        journal: true,
        ..plain("raid5-journal", "raid5(a,b,c)")
    },
    later("raid5-degraded", "raid5(a,b,c)", Then::Degraded),
    later(
        "raid5-degraded-killed",
        "raid5(a,b,c)",
        Then::DegradedKilled,
    ),
    later("raid5-killed", "raid5(a,b,c)", Then::Killed),
    later("raid5-rebuilt", "raid5(a,b,c)", Then::Rebuilt),
    later("raid5-log-counts", "raid5(a,b,c)", Then::Logged),
    Fixture {
        journal: true,
        ..later("raid5-journal-counts", "raid5(a,b,c)", Then::Logged)
    },
    later("raid5-returning", "raid5(a,b,c)", Then::Returning),
    later("raid5-rebuilding", "raid5(a,b,c)", Then::Rebuilding),
    later("raid5-growing", "raid5(a,b,c)", Then::Growing),
    later("raid5-spare", "raid5(a,b,c)", Then::Spare),
    plain("raid5-nested", "raid5(raid1(a,b),c,d)"),
    later("raid5-nested-killed", "raid5(raid1(a,b),c,d)", Then::Killed),
    plain("raid6", "raid6(a,b,c,d)"),
    plain("raid6-left-asymmetric", "raid6:left-asymmetric(a,b,c,d)"),
    later("raid6-log-counts", "raid6(a,b,c,d)", Then::Logged),
    later("raid6-killed", "raid6(a,b,c,d)", Then::Killed),
    plain("raid7", "raid7(a,b,c,d,e)"),
];

impl Fixture {
    fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_v1");
        folder.join(format!("{}.txt", self.name))
    }

    /// The names of the members: single letters in the expression.
    fn members(&self) -> Vec<String> {
        let is_name = |word: &&str| word.len() == 1;
        let words = self.array.split(['(', ')', ',', ':']).filter(is_name);
        words.map(str::to_owned).collect()
    }

    fn has_redundancy(&self) -> bool {
        !["concat", "raid0"]
            .iter()
            .any(|level| self.array.starts_with(level))
    }

    fn member_bytes(&self) -> u64 {
        match self.then {
            Then::Killed | Then::DegradedKilled => 2 << 20,
            Then::Logged | Then::Rebuilding | Then::Growing => 16 << 20,
            _ => 512 << 10,
        }
    }

    /// Bytes written at the beginning of the array.
    fn data_bytes(&self) -> usize {
        match self.then {
            Then::Killed | Then::DegradedKilled | Then::Logged | Then::Growing => 768 << 10,
            Then::Rebuilding => 2 << 20,
            _ => 72 << 10,
        }
    }
}

/// The data written first, or the second data, which a killed writer was writing.
fn data(bytes: usize, second: bool) -> Vec<u8> {
    let alike = |at: usize| {
        let word = (u64::try_from(at).expect("few") * 2 + u64::from(second) + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let unit = [word, word.rotate_left(31)].map(u64::to_le_bytes).concat();
        unit.repeat(ALIKE / unit.len())
    };
    (0..bytes / ALIKE).flat_map(alike).collect()
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
    let command = command.args(arguments).current_dir(folder);
    command.output().expect("the command runs")
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).expect("text")
}

fn array_of(devices: &[String]) -> String {
    format!("array:{}", devices.join(","))
}

/// The text form of a member: lines with offset, repetitions and bytes. Zeros are left out.
fn write_down(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("device {name} {}\n", bytes.len());
    let lines: Vec<&[u8]> = bytes.chunks(LINE).collect();
    let mut at = 0;
    for alike in lines.chunk_by(|a, b| a == b) {
        let line = alike[0];
        if line.iter().any(|&byte| byte != 0) {
            let hex: String = line.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("text");
                hex
            });
            writeln!(text, "{:x} {} {hex}", at * LINE, alike.len()).expect("text");
        }
        at += alike.len();
    }
    text
}

/// Makes the devices from their text form. Returns their names.
fn make(folder: &Path, text: &str) -> Vec<String> {
    let mut devices = BTreeMap::<String, Vec<u8>>::new();
    let mut bytes: &mut Vec<u8> = &mut Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [first, second, third] = words[..] else {
            panic!("{line}: not three words");
        };
        if first == SECOND {
            continue;
        }
        if first == "device" {
            bytes = devices.entry(second.to_owned()).or_default();
            bytes.resize(third.parse().expect("a length"), 0);
            continue;
        }
        let start = usize::from_str_radix(first, 16).expect("an offset");
        let count: usize = second.parse().expect("a count");
        let byte = |at: usize| u8::from_str_radix(&third[at..at + 2], 16).expect("hexadecimal");
        let unit: Vec<u8> = (0..third.len()).step_by(2).map(byte).collect();
        let whole = unit.repeat(count);
        bytes[start..start + whole.len()].copy_from_slice(&whole);
    }
    for (name, bytes) in &devices {
        fs::write(folder.join(name), bytes).expect("space");
    }
    devices.into_keys().collect()
}

/// The text form of the parts known to hold the second data: offset and count of each run.
fn write_down_second(second: &[bool]) -> String {
    let mut text = String::new();
    let mut at = 0;
    for alike in second.chunk_by(|a, b| a == b) {
        if alike[0] {
            writeln!(text, "{SECOND} {at} {}", alike.len()).expect("text");
        }
        at += alike.len();
    }
    text
}

/// Reads that text form; `None` if there is none.
fn read_second(text: &str, parts: usize) -> Option<Vec<bool>> {
    let mut second = vec![false; parts];
    for line in text.lines().filter(|line| line.starts_with(SECOND)) {
        let words: Vec<usize> = line.split(' ').skip(1).flat_map(str::parse).collect();
        second[words[0]..words[0] + words[1]].fill(true);
    }
    second.contains(&true).then_some(second)
}

/// Decodes the newest superblock of a member.
fn superblock(device: &[u8]) -> (ArrayRecord, DeviceRecord) {
    let slots = SLOT_BYTES.map(|at| usize::try_from(at).expect("small"));
    let good = slots
        .iter()
        .flat_map(|&at| decode(&device[at..at + SUPERBLOCK_BYTES]));
    good.max_by_key(|(array, _)| array.generation)
        .expect("a member")
}

fn read(folder: &Path, devices: &[String]) -> Vec<Vec<u8>> {
    let read = |device| fs::read(folder.join(device)).expect("it is there");
    devices.iter().map(read).collect()
}

/// Starts a command, and kills it after a while.
fn kill(folder: &Path, arguments: &[&str], after: Duration) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
    let command = command.args(arguments).current_dir(folder);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the command runs");
    sleep(after);
    child.kill().expect("it is ours");
    child.wait().expect("it was there");
}

/// Starts a writer, and kills it. Returns true if that left regions in doubt.
fn kill_writer(folder: &Path, devices: &[String], after: Duration) -> bool {
    kill(folder, &["copy", "second", &array_of(devices)], after);
    let mut arguments = vec!["status", "--scan", "."];
    arguments.extend(devices.iter().map(String::as_str));
    let status = run(folder, &arguments);
    String::from_utf8_lossy(&status.stdout).contains("to resync after a crash")
}

/// Simulates a power failure after a killed writer whose writes are all in the log: resets the data
/// in place and its checksums. Returns what the array holds then; `None` if part of the log is no
/// longer valid.
fn fail_power(
    fixture: &Fixture,
    folder: &Path,
    devices: &[String],
    before: &[Vec<u8>],
) -> Option<Vec<bool>> {
    let after = read(folder, devices);
    let (array, _) = superblock(&after[0]);
    if array.journal.tail == 0 || !array.journal.tail.is_multiple_of(1 << 32) {
        return None;
    }
    let placed = hold(fixture, devices, &after);
    let mut failed = after.clone();
    let members = devices.iter().position(|device| device == "log");
    for at in 0..members.unwrap_or(devices.len()) {
        let (_, device) = superblock(&before[at]);
        for kind in [AreaKind::DATA, AreaKind::CHECKSUMS] {
            let area = device.area(kind).expect("every member has it");
            let from = usize::try_from(area.offset_bytes).expect("small");
            let to = from + usize::try_from(area.length_bytes).expect("small");
            failed[at][from..to].copy_from_slice(&before[at][from..to]);
        }
        fs::write(folder.join(&devices[at]), &failed[at]).expect("space");
    }
    let held = hold(fixture, devices, &failed);
    assert!(held == placed, "{}: the log lacks something", fixture.name);
    (held.contains(&true) && held.contains(&false)).then_some(held)
}

/// Which parts of an array on these devices hold the second data after recovery.
fn hold(fixture: &Fixture, devices: &[String], contents: &[Vec<u8>]) -> Vec<bool> {
    let folder = TempDir::new().expect("space");
    for (device, bytes) in devices.iter().zip(contents) {
        fs::write(folder.path().join(device), bytes).expect("space");
    }
    let bytes = fixture.data_bytes();
    let arguments = [
        "copy",
        &array_of(devices),
        "held",
        "--bytes",
        &bytes.to_string(),
    ];
    succeed(folder.path(), &arguments);
    let held = fs::read(folder.path().join("held")).expect("it was written");
    let second = data(bytes, true);
    let parts = held.chunks(ALIKE).zip(second.chunks(ALIKE));
    parts.map(|(held, second)| held == second).collect()
}

/// Makes an array with the current program, and returns its text form.
fn generate(fixture: &Fixture, folder: &Path, after: Duration) -> Option<String> {
    let mut devices = fixture.members();
    let mut create = vec!["create", "pool", fixture.array];
    create.extend(fixture.options);
    if fixture.journal {
        devices.push("log".to_owned());
        create.extend(["--journal", "log"]);
    }
    for device in &devices {
        let file = fs::File::create(folder.join(device)).expect("space");
        let is_log = device == "log";
        let length = if is_log {
            8 << 20
        } else {
            fixture.member_bytes()
        };
        file.set_len(length).expect("space");
    }
    let bytes = fixture.data_bytes();
    fs::write(folder.join("first"), data(bytes, false)).expect("space");
    fs::write(folder.join("second"), data(bytes, true)).expect("space");
    succeed(folder, &create);
    succeed(folder, &["copy", "first", &array_of(&devices)]);
    let without_last = |devices: &mut Vec<String>| {
        let last = devices.pop().expect("members");
        fs::remove_file(folder.join(last)).expect("it was there");
    };
    let new = |name: &str| {
        let new = fs::File::create(folder.join(name)).expect("space");
        new.set_len(fixture.member_bytes()).expect("space");
    };
    let mut known = String::new();
    match fixture.then {
        Then::Nothing => {}
        Then::Degraded | Then::Returning => {
            let all = devices.clone();
            let last = read(folder, &all).pop().expect("members");
            without_last(&mut devices);
            let array = array_of(&devices);
            succeed(folder, &["copy", "second", &array, "--degraded"]);
            if fixture.then == Then::Returning {
                fs::write(folder.join(&all[all.len() - 1]), last).expect("space");
                devices = all;
            }
        }
        Then::DegradedKilled => {
            without_last(&mut devices);
            let array = array_of(&devices);
            succeed(folder, &["copy", "first", &array, "--degraded"]);
            if !kill_writer(folder, &devices, after) {
                return None;
            }
        }
        Then::Logged => {
            let log = fixture.journal.then(|| devices.pop()).flatten();
            without_last(&mut devices);
            devices.extend(log);
            let array = array_of(&devices);
            succeed(folder, &["copy", "first", &array, "--degraded"]);
            let before = read(folder, &devices);
            if !kill_writer(folder, &devices, after) {
                return None;
            }
            known = write_down_second(&fail_power(fixture, folder, &devices, &before)?);
        }
        Then::Killed => {
            if !kill_writer(folder, &devices, after) {
                return None;
            }
        }
        Then::Rebuilt | Then::Rebuilding => {
            without_last(&mut devices);
            new("n");
            let mut rebuild = vec!["rebuild"];
            rebuild.extend(devices.iter().map(String::as_str));
            rebuild.extend(["--onto", "n"]);
            if fixture.then == Then::Rebuilt {
                succeed(folder, &rebuild);
            } else {
                kill(folder, &rebuild, after);
            }
            devices.push("n".to_owned());
            let (array, _) = superblock(&read(folder, &devices)[0]);
            let state = array.members().last().expect("members").state;
            let filling = matches!(state, MemberState::Rebuilding { mark, .. } if mark.0 > 0);
            if filling != (fixture.then == Then::Rebuilding) {
                return None;
            }
        }
        Then::Growing => {
            new("n");
            let mut grow = vec!["grow"];
            grow.extend(devices.iter().map(String::as_str));
            grow.extend(["--add", "n"]);
            kill(folder, &grow, after);
            devices.push("n".to_owned());
            let (array, _) = superblock(&read(folder, &devices)[0]);
            let moved = array.growth.older.map_or(0, |older| older.mark.0);
            if moved == 0 {
                return None;
            }
        }
        Then::Spare => {
            new("n");
            succeed(
                folder,
                &["spare", "add", "n", "--array", &devices.join(",")],
            );
            devices.push("n".to_owned());
        }
    }
    let text = devices.iter().map(|device| {
        let bytes = fs::read(folder.join(device)).expect("it is there");
        write_down(device, &bytes)
    });
    Some(text.chain([known]).collect())
}

fn update(fixture: &Fixture) {
    for milliseconds in 1..200 {
        let folder = TempDir::new().expect("space");
        let after = Duration::from_millis(milliseconds / 2);
        if let Some(text) = generate(fixture, folder.path(), after) {
            fs::write(fixture.path(), text).expect("the folder is there");
            return;
        }
    }
    panic!("{}: no writer was killed in the middle", fixture.name);
}

/// Checks that every part holds the first data or, where allowed, the second.
fn check_data(fixture: &Fixture, known: Option<&[bool]>, held: &[u8]) {
    let bytes = fixture.data_bytes();
    assert_eq!(held.len(), bytes, "{}", fixture.name);
    let (first, second) = (data(bytes, false), data(bytes, true));
    let parts = (first.chunks(ALIKE).zip(second.chunks(ALIKE))).zip(held.chunks(ALIKE));
    for (at, ((first, second), held)) in parts.enumerate() {
        let expected = match fixture.then {
            Then::Degraded | Then::Returning => Some(true),
            Then::Killed | Then::DegradedKilled => None,
            Then::Logged => Some(known.expect("it says so")[at]),
            Then::Nothing | Then::Rebuilt | Then::Rebuilding | Then::Growing | Then::Spare => {
                Some(false)
            }
        };
        let legal = match expected {
            Some(is_second) => held == if is_second { second } else { first },
            None => held == first || held == second,
        };
        assert!(legal, "{}: part {at}", fixture.name);
    }
}

/// Reads the array, and checks its contents.
fn check_array(
    fixture: &Fixture,
    folder: &Path,
    known: Option<&[bool]>,
    devices: &[String],
) -> Vec<u8> {
    let bytes = fixture.data_bytes().to_string();
    let array = array_of(devices);
    succeed(folder, &["copy", &array, "held", "--bytes", &bytes]);
    let held = fs::read(folder.join("held")).expect("it was written");
    fs::remove_file(folder.join("held")).expect("it is ours");
    check_data(fixture, known, &held);
    held
}

fn check(fixture: &Fixture) {
    let text = fs::read_to_string(fixture.path());
    let text = text.unwrap_or_else(|_| panic!("{}: SPINDLES_UPDATE=1 makes it", fixture.name));
    let folder = TempDir::new().expect("space");
    let folder = folder.path();
    let devices = make(folder, &text);
    let known = read_second(&text, fixture.data_bytes() / ALIKE);
    // The first opening may recover; later reads must agree with it.
    let held = check_array(fixture, folder, known.as_deref(), &devices);
    let again = check_array(fixture, folder, known.as_deref(), &devices);
    assert!(held == again, "{}: it did not stay", fixture.name);
    let call = |command: &str| {
        let mut arguments = vec![command];
        arguments.extend(devices.iter().map(String::as_str));
        succeed(folder, &arguments)
    };
    match fixture.then {
        Then::Growing => drop(call("grow")),
        Then::Rebuilding | Then::Returning => drop(call("rebuild")),
        _ => {}
    }
    if fixture.has_redundancy() || fixture.options != BARE {
        let message = call("scrub");
        let fine = message.contains("nothing is wrong");
        assert!(fine, "{}: {message}", fixture.name);
    }
    assert!(held == check_array(fixture, folder, known.as_deref(), &devices));
    if fixture.then == Then::Spare {
        // The spare replaces a missing member.
        let mut left = devices.clone();
        let lost = left.remove(0);
        fs::remove_file(folder.join(lost)).expect("it was there");
        let mut rebuild = vec!["rebuild"];
        rebuild.extend(left.iter().map(String::as_str));
        succeed(folder, &rebuild);
        return drop(check_array(fixture, folder, known.as_deref(), &left));
    }
    // The array accepts writes.
    fs::write(folder.join("new"), data(fixture.data_bytes(), true)).expect("space");
    let array = array_of(&devices);
    succeed(folder, &["copy", "new", &array, "--verify"]);
}

#[test]
fn arrays_of_version_1_can_be_opened() {
    for fixture in FIXTURES {
        if std::env::var_os("SPINDLES_UPDATE").is_some() && !fixture.path().exists() {
            update(fixture);
        }
        check(fixture);
    }
}

#[test]
fn fixtures_include_every_level_and_every_file() {
    for level in LEVELS {
        let has = |fixture: &Fixture| fixture.array.starts_with(&format!("{}(", level.name));
        assert!(FIXTURES.iter().any(has), "{}", level.name);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_v1");
    for file in fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("a file").path();
        assert!(
            FIXTURES.iter().any(|fixture| fixture.path() == path),
            "{}",
            path.display()
        );
    }
}
