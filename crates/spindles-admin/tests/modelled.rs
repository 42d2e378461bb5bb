//! Arrays on modelled disks are created, closed, opened and degraded in virtual time. They take as
//! long with real payload as with zeros.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

use crate::common::{pattern, strs};

use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_array::{Areas, Target};
use spindles_block::{BlockIndex, Instant, MemberIndex, Operation, Request};
use spindles_device::modelled::{Room, Stored};
use spindles_device::{DeviceCounters, OpenError, OpenOptions};
use spindles_engine::{Command, Scrub};
use spindles_layout::Expression;
use spindles_model::{Draw, Parameters, parse_preset};
use std::collections::BTreeMap;

const DISK: &str = r#"
    name = "disk"
    kind = "fixed"
    sectors = { value = 65536, how = "assumed", source = "test" }
    read_latency_ms = { value = 0.09, how = "assumed", source = "test" }
    read_rate_mb_s = { value = 200, how = "assumed", source = "test" }
"#;

fn disk() -> Parameters {
    parse_preset("disk.toml", DISK).unwrap()
}

/// Adds disks to a room; returns their names.
fn disks(room: &mut Room, count: usize) -> Vec<String> {
    let add = |number| room.add(&format!("disk#{number}"), &disk(), &Draw::nominal(1), &[]);
    (0..count).map(add).collect::<Result<_, _>>().unwrap()
}

/// The times and counters of a course of work.
#[derive(Debug, PartialEq, Eq)]
struct Course {
    replies: Vec<(u64, Instant)>,
    counters: Vec<Vec<DeviceCounters>>,
    ends: Vec<Instant>,
}

/// Sends requests, four at a time, and checks what reads return if payload is stored.
fn work(
    target: &mut dyn Target,
    (stored, seed): (Stored, u64),
    written: &mut BTreeMap<u64, u8>,
    course: &mut Course,
) {
    const DEPTH: usize = 4;
    const BLOCKS: u32 = 40;
    let blocks = target.facts().blocks;
    let areas = Areas::new(target, DEPTH as u32, BLOCKS);
    let mut state = seed;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let mut sent = 0;
    let mut busy = [false; DEPTH];
    let mut asked = [None; DEPTH];
    while sent < 300 || busy.contains(&true) {
        while sent < 300
            && let Some(slot) = busy.iter().position(|busy| !busy)
        {
            // Each slot writes in its own part, so that the contents of reads are known.
            let part = blocks / DEPTH as u64;
            let length = 1 + draw(u64::from(BLOCKS));
            let block = slot as u64 * part + draw(part - length);
            let operation = match draw(10) {
                0 => Operation::Flush,
                1..5 => Operation::Read,
                5 => Operation::Write { fua: true },
                _ => Operation::Write { fua: false },
            };
            let is_flush = operation == Operation::Flush;
            if matches!(operation, Operation::Write { .. }) {
                let value = draw(250) as u8 + 1;
                let area = &mut target.buffer_mut(areas.buffer())[areas.bytes_of(slot)];
                area.fill(if stored == Stored::All { value } else { 0 });
                for block in block..block + length {
                    written.insert(block, value);
                }
            }
            asked[slot] = (operation == Operation::Read).then_some((block, length));
            let request = Request {
                token: slot as u64,
                operation,
                block: BlockIndex(if is_flush { 0 } else { block }),
                blocks: if is_flush { 0 } else { length as u32 },
                buffer: areas.of(slot),
            };
            target.submit(request).unwrap();
            busy[slot] = true;
            sent += 1;
        }
        let reply = target.poll(true).unwrap();
        reply.result.unwrap();
        let slot = reply.token as usize;
        busy[slot] = false;
        course.replies.push((reply.token, target.clock().now()));
        if let (Some((block, length)), Stored::All) = (asked[slot].take(), stored) {
            let bytes = &target.buffer(areas.buffer())[areas.bytes_of(slot)];
            for (block, bytes) in (block..block + length).zip(bytes.chunks(4096)) {
                let value = written.get(&block).copied().unwrap_or(0);
                assert!(bytes.iter().all(|byte| *byte == value), "block {block}");
            }
        }
    }
}

/// Creates an array, works on it, scrubs it, loses a disk, works on, and rebuilds.
fn course(level: &str, count: usize, stored: Stored) -> Course {
    let mut room = Room::new(stored);
    let names = disks(&mut room, count + 1);
    let members = names[..count].join(",");
    let expression = if level.contains('*') {
        let half = count / 2;
        let halves = [names[..half].join(","), names[half..count].join(",")];
        level
            .replacen('*', &halves[0], 1)
            .replacen('*', &halves[1], 1)
    } else {
        format!("{level}({members})")
    };
    let expression = Expression::parse(&expression).unwrap();
    let mut options = CreateOptions::new("modelled");
    options.degraded_writes = true;
    create(&expression, &options, &mut |_, _| true).unwrap();
    let mut course = Course {
        replies: Vec::new(),
        counters: Vec::new(),
        ends: Vec::new(),
    };
    let members = strs(&names[..count]);
    let mut written = BTreeMap::new();
    let end = |course: &mut Course, target: Box<dyn Target>| {
        course.counters.push(target.counters().devices);
        let clock = target.clock();
        target.close().unwrap();
        course.ends.push(clock.now());
    };
    let mut target = assemble(&members, &AssembleOptions::default())
        .unwrap()
        .target;
    work(&mut *target, (stored, 1), &mut written, &mut course);
    if target.begin_scrub(Scrub::default()).is_ok() {
        while target.status().unwrap().job("scrub").is_some() {
            assert!(target.work());
        }
    }
    end(&mut course, target);
    let mut target = assemble(&members, &AssembleOptions::default())
        .unwrap()
        .target;
    if target.facts().array.as_ref().unwrap().redundancy > 0 && !level.contains('*') {
        target.command(Command::Fail(MemberIndex(0))).unwrap();
    }
    work(&mut *target, (stored, 2), &mut written, &mut course);
    end(&mut course, target);
    course
}

#[test]
fn zeros_take_as_long_as_real_payload() {
    for (level, count) in [
        ("raid0", 3),
        ("raid1", 2),
        ("raid10", 4),
        ("raid4", 4),
        ("raid5", 4),
        ("raid6", 5),
        ("raid7", 6),
        ("concat", 2),
    ] {
        let real = course(level, count, Stored::All);
        let zeros = course(level, count, Stored::Metadata);
        assert_eq!(real, zeros, "{level}");
        assert_eq!(real, course(level, count, Stored::All), "{level} again");
        assert!(
            real.replies.last().unwrap().1 > Instant(1_000_000),
            "{level}"
        );
    }
}

#[test]
fn an_array_in_arrays_stores_everything() {
    let real = course("raid0(raid5(*),raid5(*))", 6, Stored::All);
    assert_eq!(real, course("raid0(raid5(*),raid5(*))", 6, Stored::All));
}

#[test]
fn modelled_and_real_devices_are_not_mixed() {
    let mut room = Room::new(Stored::All);
    let names = disks(&mut room, 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").to_string_lossy().into_owned();
    std::fs::write(&file, pattern(1, 4096)).unwrap();
    std::fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    let mut other = Room::new(Stored::All);
    let stranger = other
        .add("stranger", &disk(), &Draw::nominal(1), &[])
        .unwrap();
    for second in [&file, &stranger] {
        for expression in [
            format!("raid1({},{second})", names[0]),
            format!("raid1({second},{})", names[0]),
        ] {
            let expression = Expression::parse(&expression).unwrap();
            let mut options = CreateOptions::new("mixed");
            options.force = true;
            let error = create(&expression, &options, &mut |_, _| true).unwrap_err();
            assert!(error.to_string().contains("all modelled"), "{error}");
        }
    }
    drop(room);
    let gone = spindles_array::open_device(&names[0], &OpenOptions::default());
    assert!(matches!(gone.unwrap_err(), OpenError::Modelled { .. }));
}
