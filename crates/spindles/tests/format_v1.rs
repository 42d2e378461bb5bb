//! Arrays of version 1 of the format that were made when it was frozen, in `format_v1/`: every later
//! version opens them, reads what was written, and finds nothing wrong.
//!
//! A fixture is never made anew: what it holds is what users have on their disks. `SPINDLES_UPDATE=1`
//! makes those that are not there yet.

use spindles_layout::LEVELS;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Members are written down in lines of so many bytes.
const LINE: usize = 16;

/// Bytes that are alike in what an array holds.
const ALIKE: usize = 4096;

/// What happens to an array after it was made and filled.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// The last member is taken away, and more is written.
    Degraded,
    /// The same, and the writer is killed: records are in the log.
    DegradedKilled,
    /// A writer is killed: regions are in doubt.
    Killed,
    /// A member is taken away, and a new one takes its place.
    Rebuilt,
}

struct Fixture {
    /// Begins with the name of the level, or of the outer one.
    name: &'static str,
    array: &'static str,
    options: &'static [&'static str],
    /// A device of its own for the journal.
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
    plain("raid5-nested", "raid5(raid1(a,b),c,d)"),
    plain("raid6", "raid6(a,b,c,d)"),
    plain("raid6-left-asymmetric", "raid6:left-asymmetric(a,b,c,d)"),
    later("raid6-killed", "raid6(a,b,c,d)", Then::Killed),
    plain("raid7", "raid7(a,b,c,d,e)"),
];

impl Fixture {
    fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_v1");
        folder.join(format!("{}.txt", self.name))
    }

    /// The names of the members: letters in the expression.
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

    fn was_killed(&self) -> bool {
        matches!(self.then, Then::Killed | Then::DegradedKilled)
    }

    fn member_bytes(&self) -> u64 {
        if self.was_killed() {
            2 << 20
        } else {
            512 << 10
        }
    }

    /// How much is written at the beginning of the array.
    fn data_bytes(&self) -> usize {
        if self.was_killed() {
            768 << 10
        } else {
            72 << 10
        }
    }
}

/// What was written first, or what a writer that was killed was writing.
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
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

fn array_of(devices: &[String]) -> String {
    format!("array:{}", devices.join(","))
}

/// Lines of one member: where, how often the same follows, and the bytes. Zeros are left out.
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

/// Makes the devices that are written down in a text. Their names.
fn make(folder: &Path, text: &str) -> Vec<String> {
    let mut devices = BTreeMap::<String, Vec<u8>>::new();
    let mut bytes: &mut Vec<u8> = &mut Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [first, second, third] = words[..] else {
            panic!("{line}: not three words");
        };
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

/// Begins to write, and kills the writer. Whether that left regions in doubt.
fn kill_writer(folder: &Path, devices: &[String], after: Duration) -> bool {
    let mut writer = Command::new(env!("CARGO_BIN_EXE_spindles"));
    let arguments = ["copy", "second", &array_of(devices)];
    let writer = writer.args(arguments).current_dir(folder);
    let writer = writer.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut writer = writer.expect("the command runs");
    sleep(after);
    writer.kill().expect("it is ours");
    writer.wait().expect("it was there");
    let mut arguments = vec!["status", "--scan", "."];
    arguments.extend(devices.iter().map(String::as_str));
    let status = run(folder, &arguments);
    String::from_utf8_lossy(&status.stdout).contains("to be settled after a crash")
}

/// Makes an array as this program makes it now, and writes it down.
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
    match fixture.then {
        Then::Nothing => {}
        Then::Degraded => {
            without_last(&mut devices);
            succeed(
                folder,
                &["copy", "second", &array_of(&devices), "--degraded"],
            );
        }
        Then::DegradedKilled => {
            without_last(&mut devices);
            succeed(
                folder,
                &["copy", "first", &array_of(&devices), "--degraded"],
            );
            if !kill_writer(folder, &devices, after) {
                return None;
            }
        }
        Then::Killed => {
            if !kill_writer(folder, &devices, after) {
                return None;
            }
        }
        Then::Rebuilt => {
            without_last(&mut devices);
            let new = fs::File::create(folder.join("n")).expect("space");
            new.set_len(fixture.member_bytes()).expect("space");
            let mut rebuild = vec!["rebuild"];
            rebuild.extend(devices.iter().map(String::as_str));
            rebuild.extend(["--onto", "n"]);
            succeed(folder, &rebuild);
            devices.push("n".to_owned());
        }
    }
    let text = devices.iter().map(|device| {
        let bytes = fs::read(folder.join(device)).expect("it is there");
        write_down(device, &bytes)
    });
    Some(text.collect())
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

/// Whether every part is what was written first, or where that may be, second.
fn check_data(fixture: &Fixture, held: &[u8]) {
    let bytes = fixture.data_bytes();
    assert_eq!(held.len(), bytes, "{}", fixture.name);
    let (first, second) = (data(bytes, false), data(bytes, true));
    let parts = (first.chunks(ALIKE).zip(second.chunks(ALIKE))).zip(held.chunks(ALIKE));
    for (at, ((first, second), held)) in parts.enumerate() {
        let legal = match fixture.then {
            Then::Nothing | Then::Rebuilt => held == first,
            Then::Degraded => held == second,
            Then::Killed | Then::DegradedKilled => held == first || held == second,
        };
        assert!(legal, "{}: block {at}", fixture.name);
    }
}

fn check(fixture: &Fixture) {
    let text = fs::read_to_string(fixture.path());
    let text = text.unwrap_or_else(|_| panic!("{}: SPINDLES_UPDATE=1 makes it", fixture.name));
    let folder = TempDir::new().expect("space");
    let folder = folder.path();
    let devices = make(folder, &text);
    let bytes = fixture.data_bytes().to_string();
    for _ in 0..2 {
        if folder.join("held").exists() {
            fs::remove_file(folder.join("held")).expect("it is ours");
        }
        // The first opening may recover, the second reads what the first left.
        let array = array_of(&devices);
        succeed(folder, &["copy", &array, "held", "--bytes", &bytes]);
        check_data(
            fixture,
            &fs::read(folder.join("held")).expect("it was written"),
        );
    }
    let mut scrub = vec!["scrub"];
    scrub.extend(devices.iter().map(String::as_str));
    if fixture.has_redundancy() || fixture.options != BARE {
        let told = succeed(folder, &scrub);
        assert!(
            told.contains("nothing is wrong"),
            "{}: {told}",
            fixture.name
        );
    }
    // It takes writes.
    fs::write(folder.join("new"), data(fixture.data_bytes(), true)).expect("space");
    let array = array_of(&devices);
    succeed(folder, &["copy", "new", &array, "--verify"]);
}

#[test]
fn arrays_of_version_1_open_for_ever() {
    for fixture in FIXTURES {
        if std::env::var_os("SPINDLES_UPDATE").is_some() && !fixture.path().exists() {
            update(fixture);
        }
        check(fixture);
    }
}

#[test]
fn every_level_and_every_file_is_among_them() {
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
