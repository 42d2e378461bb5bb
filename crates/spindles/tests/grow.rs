//! Kills `spindles grow` of filled arrays at random moments, and takes members away: the growth
//! resumes, and every block keeps its contents.

#![allow(clippy::print_stdout, reason = "the figures")]

use crate::torture::random::Random;
use crate::world::{World, pattern};
use std::time::{Duration, Instant};

const BYTES: usize = 20 << 20;
const MEMBER_BYTES: u64 = 24 << 20;

/// A way to grow: the array, the numbers of devices before and after, and the options.
struct Way {
    expression: &'static str,
    before: usize,
    options: &'static str,
    after: usize,
}

const fn way(expression: &'static str, before: usize, options: &'static str, after: usize) -> Way {
    Way {
        expression,
        before,
        options,
        after,
    }
}

const WAYS: [Way; 5] = [
    way("raid5(d0,d1,d2)", 3, "--add d3", 4),
    way("raid5(d0,d1,d2)", 3, "--add d3 --add d4", 5),
    way("raid1(d0,d1)", 2, "--add d2 --level raid5", 3),
    way("raid5(d0,d1,d2)", 3, "--add d3 --level raid6", 4),
    way("raid5(d0,d1,d2)", 3, "--chunk 64K", 3),
];

/// The names of the first devices, with this text in between.
fn devices(count: usize, between: &str) -> String {
    let names = (0..count).map(|at| format!("d{at}"));
    names.collect::<Vec<_>>().join(between)
}

fn contents() -> Vec<u8> {
    pattern(BYTES, 1)
}

/// Makes an array with the contents, and files for the new devices.
fn prepare(way: &Way) -> World {
    let folder = World::new(&devices(way.after, " "), MEMBER_BYTES);
    folder.does(&format!("create grown {} --chunk 16K", way.expression));
    folder.put("data", contents());
    folder.does(&format!("copy data array:{}", devices(way.before, ",")));
    folder
}

/// Reads the array from the devices that are present.
fn read(folder: &World, count: usize, without: Option<usize>) -> Vec<u8> {
    let there = (0..count).filter(|at| Some(*at) != without);
    let there: Vec<String> = there.map(|at| format!("d{at}")).collect();
    let array = there.join(",");
    folder.does(&format!("copy array:{array} out --bytes {BYTES} --force"));
    folder.read("out")
}

/// The command that grows the array.
fn grow(way: &Way) -> String {
    let devices = devices(way.before, " ");
    format!("grow {devices} {}", way.options)
}

#[test]
fn every_growth_preserves_the_data() {
    for way in &WAYS {
        let folder = prepare(way);
        folder.does(&grow(way));
        assert!(read(&folder, way.after, None) == contents());
        folder
            .does(&format!("scrub {}", devices(way.after, " ")))
            .prints("nothing is wrong");
        for lost in 0..way.after {
            assert!(read(&folder, way.after, Some(lost)) == contents());
        }
    }
}

/// Begins a growth by one device that is never closed: before the device is labelled, or after this
/// many further steps.
fn begin(folder: &World, way: &Way, steps: Option<usize>) {
    let all: Vec<String> = (0..way.after)
        .map(|at| folder.full(&format!("d{at}")))
        .collect();
    let old: Vec<&str> = all[..way.before].iter().map(String::as_str).collect();
    let options = spindles_admin::assemble::AssembleOptions::default();
    let mut target =
        spindles_admin::grow::begin(&old, &all[way.before], &options).expect("it can grow");
    let Some(steps) = steps else {
        return;
    };
    let is_labelled = || {
        let bytes = folder.read(&format!("d{}", way.before));
        [4096, 32768].map(|at| bytes[at..].starts_with(b"SPINDLES"))
    };
    while is_labelled() == [false; 2] {
        assert!(target.work(), "it has something to do");
    }
    for _ in 0..steps {
        target.work();
    }
}

fn moved_bytes(folder: &World, count: usize) -> Option<u64> {
    let status = folder.json(&format!("status {}", devices(count, " ")));
    status["growing"]["moved_bytes"].as_u64()
}

/// A former member is not mistaken for a device that the array grew by.
fn refuses_member(folder: &World, device: &str) {
    let member = &device[1..];
    let expected = format!("{device} is member {member} of array 'grown'; take another device");
    folder
        .ends(&format!("grow grown --add {device}"), 1)
        .warns(expected);
}

#[test]
fn the_same_command_resumes_a_growth() {
    let way = &WAYS[0];
    for steps in [None, Some(0), Some(50)] {
        let folder = prepare(way);
        begin(&folder, way, steps);
        folder.does(&grow(way));
        assert!(read(&folder, way.after, Some(1)) == contents(), "{steps:?}");
        // By its name too, and again when the growth is complete.
        folder
            .does("grow grown --add d3")
            .prints("has grown that way already");
        refuses_member(&folder, "d1");
        folder
            .run("grow grown --add d3 --level raid6")
            .warns("is a member of array 'grown' already");
    }
    // A command with other options does not resume it, and a former member does not count as a new
    // device.
    let folder = prepare(way);
    refuses_member(&folder, "d2");
    begin(&folder, way, Some(0));
    folder
        .run("grow d0 d1 d2 --add d3 --level raid6")
        .warns("grows already, to something else");
}

#[test]
fn a_growth_can_be_aborted_until_data_was_moved() {
    let way = &WAYS[0];
    let (mut given_up, mut too_late) = (0, 0);
    for (steps, given) in [(0, way.after), (0, way.before), (400, way.after)] {
        let folder = prepare(way);
        folder.run("grow d0 d1 d2 --abort").warns("is not growing");
        begin(&folder, way, Some(steps));
        folder.run("grow d0 d2 d3 --abort").refused();
        let moved = moved_bytes(&folder, given);
        let aborted = folder.run(&format!("grow --abort {}", devices(given, " ")));
        if aborted.status != 0 {
            too_late += 1;
            aborted.warns("can no longer be cancelled");
            assert!(steps > 0);
            folder.does(&grow(way));
            assert!(read(&folder, way.after, Some(0)) == contents());
            continue;
        }
        given_up += 1;
        assert_eq!(moved, Some(0), "{steps}");
        assert_eq!(moved_bytes(&folder, way.before), None);
        let all = folder.run("status d0 d1 d2 d3");
        assert_ne!(all.status, 101, "{all:?}");
        for lost in [None, Some(1)] {
            assert!(read(&folder, way.before, lost) == contents(), "{steps}");
        }
        // After that, the array can grow again, with that device or another one.
        folder.does(&format!("{} --force", grow(way)));
        assert!(read(&folder, way.after, Some(2)) == contents(), "{steps}");
    }
    assert!(given_up > 0 && too_late > 0, "{given_up} {too_late}");
}

#[test]
fn a_growth_killed_at_any_moment_resumes() {
    let rounds = std::env::var("GROW_ROUNDS").map_or(6, |rounds| rounds.parse().expect("a number"));
    let mut random = Random::new(std::process::id().into());
    let (mut midway, mut lost) = (0, 0);
    for round in 0..rounds {
        let way = &WAYS[round % WAYS.len()];
        let folder = prepare(way);
        let begun = Instant::now();
        folder.kill(&grow(way), Duration::from_millis(random.between(30, 180)));
        let took = begun.elapsed();
        if moved_bytes(&folder, way.after) > Some(0) {
            midway += 1;
            if random.one_in(2) {
                // One device is lost for good.
                let gone = random.index(way.after);
                folder.remove(&format!("d{gone}"));
                lost += 1;
                let is_whole = || read(&folder, way.after, Some(gone)) == contents();
                assert!(is_whole(), "round {round}");
                let there = devices(way.after, " ").replace(&format!("d{gone}"), "");
                let line = format!("grow --degraded {there}");
                let grown = folder.run(&line.split_whitespace().collect::<Vec<_>>().join(" "));
                let is_over = grown.error.contains("is not growing");
                assert!(grown.status == 0 || is_over, "{grown:?}");
                assert!(is_whole(), "round {round}");
                continue;
            }
        }
        // Repeating the command resumes the growth.
        let again = folder.run(&grow(way));
        let is_over = way.after == way.before && again.error.contains("nothing would change");
        assert!(is_over || again.status == 0, "{again:?}");
        let is_whole = read(&folder, way.after, None) == contents();
        assert!(is_whole, "round {round}, {took:?}");
    }
    println!("{rounds} rounds, {midway} killed midway, {lost} of them lost a member");
}

/// A growth that is not supported is refused, and writes nothing.
#[test]
fn an_unsupported_growth_is_refused_with_the_reason() {
    let folder = prepare(&WAYS[0]);
    folder.put("small", vec![0; 1 << 20]);
    folder.put("other", vec![0; 24 << 20]);
    for (options, reason) in [
        ("", "is not growing"),
        (" --level raid6", "can't grow that way"),
        (" --add d3 --level raid0", "is not built"),
        (" --add d3 --level raid1", "less parity is not built"),
        (" --add small", "too small"),
        (" --add d1", "is given twice"),
        (" --add missing", "missing"),
        (" --chunk 16K", "nothing would change"),
        (" --chunk 1", "--chunk"),
        (" --chunk 4M", "can't grow that way"),
        (" --level raid99", "there is no level"),
    ] {
        let before = folder.contents();
        let refused = folder.run(&format!("grow d0 d1 d2{options}")).refused();
        refused.warns(reason);
        assert!(folder.contents() == before, "{options} wrote something");
    }
}
