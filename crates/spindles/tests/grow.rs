//! Kills `spindles grow` of filled arrays at random moments, and takes members away: the growth
//! resumes, and every block keeps its contents.

#![allow(clippy::print_stdout, reason = "the figures")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BYTES: usize = 20 << 20;
const MEMBER_BYTES: u64 = 24 << 20;

/// A way to grow: the array, the numbers of devices before and after, and the options.
struct Way {
    expression: &'static str,
    before: usize,
    arguments: &'static [&'static str],
    after: usize,
}

const WAYS: [Way; 5] = [
    Way {
        expression: "raid5(d0,d1,d2)",
        before: 3,
        arguments: &["--add", "d3"],
        after: 4,
    },
    Way {
        expression: "raid5(d0,d1,d2)",
        before: 3,
        arguments: &["--add", "d3", "--add", "d4"],
        after: 5,
    },
    Way {
        expression: "raid1(d0,d1)",
        before: 2,
        arguments: &["--add", "d2", "--level", "raid5"],
        after: 3,
    },
    Way {
        expression: "raid5(d0,d1,d2)",
        before: 3,
        arguments: &["--add", "d3", "--level", "raid6"],
        after: 4,
    },
    Way {
        expression: "raid5(d0,d1,d2)",
        before: 3,
        arguments: &["--chunk", "64K"],
        after: 3,
    },
];

fn devices(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("d{at}")).collect()
}

fn contents() -> Vec<u8> {
    let words = u64::try_from(BYTES / 8).expect("small");
    let word = |at: u64| (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..words).flat_map(|at| word(at).to_le_bytes()).collect()
}

fn spindles(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("SPINDLES_SCAN", ".")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    spindles(folder, arguments).output().expect("it runs")
}

fn check(output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// Makes an array with the contents, and files for the new devices.
fn prepare(way: &Way) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for name in devices(way.after) {
        let file = std::fs::File::create(folder.path().join(name)).expect("a file");
        file.set_len(MEMBER_BYTES).expect("sparse");
    }
    let create = ["create", "grown", way.expression, "--chunk", "16K"];
    check(&run(folder.path(), &create));
    std::fs::write(folder.path().join("data"), contents()).expect("a file");
    let array = format!("array:{}", devices(way.before).join(","));
    check(&run(folder.path(), &["copy", "data", &array]));
    folder
}

/// Reads the array from the devices that are present.
fn read(folder: &Path, count: usize, without: Option<usize>) -> Vec<u8> {
    let there: Vec<String> = devices(count)
        .into_iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != without)
        .map(|(_, name)| name)
        .collect();
    let array = format!("array:{}", there.join(","));
    let bytes = BYTES.to_string();
    check(&run(folder, &["copy", &array, "out", "--bytes", &bytes]));
    let out = std::fs::read(folder.join("out")).expect("it was written");
    std::fs::remove_file(folder.join("out")).expect("it is there");
    out
}

fn grow(folder: &Path, way: &Way, resumes: bool) -> Command {
    let count = if resumes { way.after } else { way.before };
    let devices = devices(count);
    let mut arguments = vec!["grow"];
    arguments.extend(devices.iter().map(String::as_str));
    if !resumes {
        arguments.extend(way.arguments);
    }
    spindles(folder, &arguments)
}

#[test]
fn every_growth_preserves_the_data() {
    for way in &WAYS {
        let folder = prepare(way);
        check(&grow(folder.path(), way, false).output().expect("it runs"));
        assert!(read(folder.path(), way.after, None) == contents());
        let names = devices(way.after);
        let mut scrub = vec!["scrub"];
        scrub.extend(names.iter().map(String::as_str));
        let scrubbed = run(folder.path(), &scrub);
        check(&scrubbed);
        let text = String::from_utf8_lossy(&scrubbed.stdout);
        assert!(text.contains("nothing is wrong"), "{text}");
        for lost in 0..way.after {
            assert!(read(folder.path(), way.after, Some(lost)) == contents());
        }
    }
}

/// Resumes a killed growth with the same command, wherever it was.
fn finish(folder: &Path, way: &Way) {
    let again = grow(folder, way, false).output().expect("it runs");
    let text = String::from_utf8_lossy(&again.stderr);
    let over = way.after == way.before && text.contains("nothing would change");
    assert!(over || again.status.success(), "{text}");
}

/// Begins a growth by one device that is never closed: before the device is labelled, or after this
/// many further steps.
fn begin(folder: &Path, way: &Way, steps: Option<usize>) {
    let path = |name: String| folder.join(name).display().to_string();
    let all: Vec<String> = devices(way.after).into_iter().map(path).collect();
    let old: Vec<&str> = all[..way.before].iter().map(String::as_str).collect();
    let open = spindles_device::OpenOptions::default();
    let mut target =
        spindles_admin::grow::begin(&old, &all[way.before], &open).expect("it can grow");
    let Some(steps) = steps else {
        return;
    };
    let new = folder.join(format!("d{}", way.before));
    let says_so = || {
        let bytes = std::fs::read(&new).expect("a file");
        [4096, 32768].map(|at| bytes[at..].starts_with(b"SPINDLES"))
    };
    while says_so() == [false; 2] {
        assert!(target.work(), "it has something to do");
    }
    for _ in 0..steps {
        target.work();
    }
}

fn moved_bytes(folder: &Path, names: &[String]) -> Option<u64> {
    let mut status = vec!["status", "--json"];
    status.extend(names.iter().map(String::as_str));
    let status = run(folder, &status);
    let json: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    json["growing"]["moved_bytes"].as_u64()
}

/// A former member is not mistaken for a device that the array grew by.
fn refuses_member(folder: &Path, device: &str) {
    let run = run(folder, &["grow", "grown", "--add", device]);
    let text = String::from_utf8_lossy(&run.stderr);
    let member = &device[1..];
    let expected = format!("{device} is member {member} of array 'grown'; take another device");
    assert!(
        run.status.code() == Some(1) && text.contains(&expected),
        "{text}"
    );
}

#[test]
fn the_same_command_resumes_a_growth() {
    let way = &WAYS[0];
    for steps in [None, Some(0), Some(50)] {
        let folder = prepare(way);
        let folder = folder.path();
        begin(folder, way, steps);
        check(&grow(folder, way, false).output().expect("it runs"));
        assert!(read(folder, way.after, Some(1)) == contents(), "{steps:?}");
        // By its name too, and again when the growth is complete.
        let again = run(folder, &["grow", "grown", "--add", "d3"]);
        check(&again);
        let text = String::from_utf8_lossy(&again.stdout);
        assert!(text.contains("has grown that way already"), "{text}");
        refuses_member(folder, "d1");
        let other = run(
            folder,
            &["grow", "grown", "--add", "d3", "--level", "raid6"],
        );
        let text = String::from_utf8_lossy(&other.stderr);
        assert!(
            text.contains("is a member of array 'grown' already"),
            "{text}"
        );
    }
    // A command with other options does not resume it, and a former member does not count as a new
    // device.
    let folder = prepare(way);
    refuses_member(folder.path(), "d2");
    begin(folder.path(), way, Some(0));
    let other = ["grow", "d0", "d1", "d2", "--add", "d3", "--level", "raid6"];
    let text = run(folder.path(), &other).stderr;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("grows already, to something else"), "{text}");
}

#[test]
fn a_growth_can_be_aborted_until_data_was_moved() {
    let way = &WAYS[0];
    let (mut given_up, mut too_late) = (0, 0);
    let cases = [
        (Some(0), way.after),
        (Some(0), way.before),
        (Some(400), way.after),
    ];
    for (steps, given) in cases {
        let folder = prepare(way);
        let folder = folder.path();
        let idle = run(folder, &["grow", "d0", "d1", "d2", "--abort"]);
        let text = String::from_utf8_lossy(&idle.stderr);
        assert!(text.contains("is not growing"), "{text}");
        begin(folder, way, steps);
        let lacking = run(folder, &["grow", "d0", "d2", "d3", "--abort"]);
        assert!(!lacking.status.success());
        let names = devices(given);
        let mut abort = vec!["grow", "--abort"];
        abort.extend(names.iter().map(String::as_str));
        let moved = moved_bytes(folder, &names);
        let aborted = run(folder, &abort);
        let text = String::from_utf8_lossy(&aborted.stderr);
        if !aborted.status.success() {
            too_late += 1;
            assert!(text.contains("can't be given up any more"), "{text}");
            assert!(steps > Some(0), "{steps:?} {text}");
            check(&grow(folder, way, false).output().expect("it runs"));
            assert!(read(folder, way.after, Some(0)) == contents());
            continue;
        }
        given_up += 1;
        assert_eq!(moved, Some(0), "{steps:?}");
        assert_eq!(moved_bytes(folder, &devices(way.before)), None);
        let all = run(folder, &["status", "d0", "d1", "d2", "d3"]);
        assert_ne!(all.status.code(), Some(101), "{all:?}");
        for lost in [None, Some(1)] {
            assert!(read(folder, way.before, lost) == contents(), "{steps:?}");
        }
        // After that, the array can grow again, with that device or another one.
        let mut again = grow(folder, way, false);
        again.arg("--force");
        check(&again.output().expect("it runs"));
        assert!(read(folder, way.after, Some(2)) == contents(), "{steps:?}");
    }
    assert!(given_up > 0 && too_late > 0, "{given_up} {too_late}");
}

#[test]
fn a_growth_killed_at_any_moment_resumes() {
    let rounds = std::env::var("GROW_ROUNDS").map_or(6, |rounds| rounds.parse().expect("a number"));
    let mut random = u64::from(std::process::id()) | 1;
    let mut below = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let (mut midway, mut lost) = (0, 0);
    for round in 0..rounds {
        let way = &WAYS[round % WAYS.len()];
        let folder = prepare(way);
        let folder = folder.path();
        let begun = Instant::now();
        let mut child = grow(folder, way, false).spawn().expect("it runs");
        std::thread::sleep(Duration::from_millis(30 + below(150)));
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
        let took = begun.elapsed();
        let names = devices(way.after);
        let mut status = vec!["status", "--json"];
        status.extend(names.iter().map(String::as_str));
        let status = run(folder, &status);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        let moved = text.split("\"moved_bytes\":").nth(1).map(|rest| {
            let rest = rest.trim_start();
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..end].parse::<u64>().expect("a number")
        });
        if moved.is_some_and(|moved| moved > 0) {
            midway += 1;
            if below(2) == 0 {
                // One device is lost for good.
                let gone =
                    usize::try_from(below(u64::try_from(way.after).expect("few"))).expect("few");
                std::fs::remove_file(folder.join(&names[gone])).expect("a file");
                lost += 1;
                assert!(
                    read(folder, way.after, Some(gone)) == contents(),
                    "round {round}"
                );
                let mut arguments = vec!["grow", "--degraded"];
                let there = names.iter().filter(|name| **name != names[gone]);
                arguments.extend(there.map(String::as_str));
                let output = run(folder, &arguments);
                let text = String::from_utf8_lossy(&output.stderr);
                let over = text.contains("is not growing");
                assert!(output.status.success() || over, "{text}");
                assert!(
                    read(folder, way.after, Some(gone)) == contents(),
                    "round {round}"
                );
                continue;
            }
        }
        finish(folder, way);
        assert!(
            read(folder, way.after, None) == contents(),
            "round {round}, {took:?}"
        );
    }
    println!("{rounds} rounds, {midway} killed midway, {lost} of them lost a member");
}

/// A growth that is not supported is refused, and writes nothing.
#[test]
fn an_unsupported_growth_is_refused_with_the_reason() {
    let way = &WAYS[0];
    let folder = prepare(way);
    let folder = folder.path();
    let before: Vec<Vec<u8>> = devices(way.after)
        .iter()
        .map(|name| std::fs::read(folder.join(name)).expect("a file"))
        .collect();
    std::fs::write(folder.join("small"), vec![0; 1 << 20]).expect("a file");
    std::fs::write(folder.join("other"), vec![0; 24 << 20]).expect("a file");
    let array = ["grow", "d0", "d1", "d2"];
    for (arguments, reason) in [
        (&[][..], "is not growing"),
        (&["--level", "raid6"][..], "can't grow that way"),
        (&["--add", "d3", "--level", "raid0"], "is not built"),
        (
            &["--add", "d3", "--level", "raid1"],
            "less parity is not built",
        ),
        (&["--add", "small"], "too small"),
        (&["--add", "d1"], "is given twice"),
        (&["--add", "missing"], "missing"),
        (&["--chunk", "16K"], "nothing would change"),
        (&["--chunk", "1"], "--chunk"),
        (&["--chunk", "4M"], "can't grow that way"),
        (&["--level", "raid99"], "there is no level"),
    ] {
        let arguments: Vec<&str> = array.iter().chain(arguments).copied().collect();
        let output = run(folder, &arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(text.contains(reason), "{arguments:?}: {text}");
    }
    for (name, before) in devices(way.after).iter().zip(&before) {
        let now = std::fs::read(folder.join(name)).expect("a file");
        assert!(now == *before, "{name} was written to");
    }
}
