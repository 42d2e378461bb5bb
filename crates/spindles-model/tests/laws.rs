//! Laws in closed form that any correct model follows: each to 1 % or to 3 standard errors.

use spindles_block::{Instant, Operation};
use spindles_model::{
    Answer, DeviceId, Draw, DriveTexts, Link, Parameters, Tag, Work, World, parse_drive,
    parse_preset,
};

/// `SplitMix64`.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An exponential time of this mean.
    pub(super) fn exponential_ns(&mut self, mean_ns: f64) -> u64 {
        let unit = (float(self.next() >> 11) + 0.5) / float(1 << 53);
        round(-unit.ln() * mean_ns)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures of tests")]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures of tests"
)]
fn round(value: f64) -> u64 {
    value.round() as u64
}

pub(super) fn close(found: f64, expected: f64) {
    let off = found / expected - 1.0;
    println!(
        "found {found:.4}, expected {expected:.4}: {:+.2} %",
        off * 100.0
    );
    assert!(off.abs() < 0.01, "found {found}, expected {expected}");
}

/// A preset whose numbers are `key = value` lines.
pub(super) fn preset(kind: &str, numbers: &str) -> Parameters {
    let number = |line: &str| {
        let (key, value) = line.split_once('=').unwrap();
        format!("{key} = {{ value = {value}, how = \"assumed\", source = \"test\" }}\n")
    };
    let lines = numbers
        .split(';')
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let numbers: String = lines.map(number).collect();
    parse_preset(
        "test",
        &format!("name = \"test\"\nkind = \"{kind}\"\n{numbers}"),
    )
    .unwrap()
}

/// Turns in 10 ms; 100 sectors a track; moves take `seek`.
fn disk(sectors: u64, seek: &str) -> Parameters {
    let geometry = "rpm = 6000; surfaces = 1; zone_count = 1; sectors_per_track_outer = 100;
        sectors_per_track_inner = 100; head_switch_ms = 0; track_skew_ms = 0; cylinder_skew_ms = 0";
    preset(
        "mechanical",
        &format!("sectors = {sectors}; {geometry}; {seek}"),
    )
}

const NO_SEEK: &str = "seek_one_ms = 0; seek_average_read_ms = 0; seek_full_ms = 0";

pub(super) fn read(sector: u64, sectors: u64) -> Work {
    Work {
        operation: Operation::Read,
        offset_bytes: sector * 512,
        length_bytes: sectors * 512,
    }
}

/// Waits until all requests are answered.
pub(super) fn drain(world: &mut World) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(at) = world.next_event() {
        world.advance(at, &mut answers);
    }
    answers
}

/// The answer to a request sent at `now` on an idle device.
pub(super) fn answer(world: &mut World, now: u64, device: DeviceId, work: Work) -> u64 {
    world.submit(Instant(now), device, Tag(0), work);
    let answers = drain(world);
    assert_eq!(answers.len(), 1);
    answers[0].at.0
}

#[test]
fn largest_and_smallest_of_rotational_waits() {
    let parameters = disk(100, NO_SEEK);
    for count in [2_u64, 3, 8] {
        let (mut largest, mut smallest, runs) = (0, 0, 12_000);
        for seed in 0..runs {
            let mut world = World::new();
            for tag in 0..count {
                let draw = Draw::nominal(seed);
                let disk = world.add_disk(&parameters, &draw, &[]).unwrap();
                world.submit(Instant(0), disk, Tag(tag), read(0, 1));
            }
            let answers = drain(&mut world);
            smallest += answers[0].at.0 - 100_000; // The sector itself takes 0.1 ms.
            largest += answers.last().unwrap().at.0 - 100_000;
        }
        let parts = float(count + 1);
        close(float(largest) / float(runs), 1e7 * float(count) / parts);
        // The standard error of the smallest is a larger part of it.
        let error = float(smallest) / float(runs) / (1e7 / parts) - 1.0;
        assert!(error.abs() < 3.0 / float(runs).sqrt(), "{error}");
    }
}

#[test]
fn the_mean_seek_is_a_third_of_the_stroke() {
    let line = "seek_knee_cylinders = 1; seek_root_ms = 0; seek_root_step_ms = 0;
        seek_line_ms = 0; seek_line_step_ms = 0.001";
    let mut world = World::new();
    let parameters = disk(1_000_000, line); // 10,000 cylinders: a stroke of 10 ms.
    let disk = world.add_disk(&parameters, &Draw::exact(), &[]).unwrap();
    let (mut random, mut now, count) = (Random(1), 0, 60_000);
    for _ in 0..count {
        now = answer(&mut world, now, disk, read(random.below(1_000_000), 1));
    }
    close(float(world.account(disk).seek_ns) / float(count), 1e7 / 3.0);
}

#[test]
fn a_sequential_reader_without_read_ahead_loses_a_turn() {
    let parameters = disk(10_000, NO_SEEK);
    for gap in [1_000, 2_000_000, 9_000_000] {
        let mut world = World::new();
        let disk = world.add_disk(&parameters, &Draw::exact(), &[]).unwrap();
        let start = answer(&mut world, 0, disk, read(0, 10));
        let mut now = start;
        for index in 1..=500 {
            now = answer(&mut world, now + gap, disk, read(index * 10, 10));
        }
        // A turn and the transfer of 10 of 100 sectors.
        close(float(now - start) / 500.0, 1e7 + 1e6);
    }
}

fn drive_toml(zones: &str) -> String {
    let overheads = [
        "read_hit_after_read",
        "read_hit_after_write",
        "read_miss_after_read",
        "read_miss_after_write",
        "write_hit_after_read",
        "write_hit_after_write",
        "write_miss_after_read",
        "write_miss_after_write",
    ]
    .map(|key| format!("{key} = 0.0\n"));
    format!(
        "name = \"test\"\nsectors = 44000\n[mechanics]\nrpm = 6000\nsurfaces = 2\ncylinders = 200\n\
         head_switch_ms = 0.5\nwrite_settle_ms = 0.0\nsurface_order = \"alternating\"\n{zones}\
         [buffer]\nsegments = 1\nsegment_sectors = 100\nread_ahead = \"none\"\n\
         [bus]\nread_sector_ms = 0.0\nwrite_sector_ms = 0.0\n[overhead_ms]\n{}",
        overheads.concat()
    )
}

const ZONES: [(u32, u64, f64, f64); 2] = [(0, 120, 9.0, 15.0), (100, 100, 10.0, 14.0)];

#[test]
fn each_zone_has_its_rate() {
    let zone = |(first, per_track, track, cylinder): (u32, u64, f64, f64)| {
        format!(
            "[[mechanics.zone]]\nfirst_cylinder = {first}\nlast_cylinder = {}\n\
             sectors_per_track = {per_track}\nused_sectors_per_track = {per_track}\n\
             first_angle_sectors = 3.5\ntrack_skew_sectors = {track}\n\
             cylinder_skew_sectors = {cylinder}\n",
            first + 99
        )
    };
    let drive = drive_toml(&ZONES.map(zone).concat());
    let parameters = parse_drive(&DriveTexts {
        folder: "test",
        drive: &drive,
        seek: "cylinders,ms\n1,0.9\n200,3\n",
        extents: "first_sector,sectors,zone,place\n0,24000,0,0\n24000,20000,1,0\n",
    })
    .unwrap();
    let mut world = World::new();
    let disk = world.add_disk(&parameters, &Draw::exact(), &[]).unwrap();
    let mut now = 0;
    for ((_, per_track, track, cylinder), first) in ZONES.into_iter().zip([0, 24_000]) {
        let start = answer(&mut world, now, disk, read(first, 1));
        // 80 cylinders of 2 tracks, from the second sector of the zone on.
        now = answer(
            &mut world,
            start,
            disk,
            read(first + 1, 160 * per_track - 1),
        );
        let sectors = 160.0 * float(per_track) + 80.0 * track + 79.0 * cylinder - 1.0;
        close(float(now - start), sectors * 1e7 / float(per_track));
    }
}

#[test]
fn little_holds_to_the_nanosecond() {
    for discipline in ["fifo", "sstf", "scan", "cscan", "cvscan", "sptf"] {
        let seek = "seek_one_ms = 1; seek_average_read_ms = 5; seek_full_ms = 10; depth = 8;
            age_bound_ms = 300; overhead_ms = 0.2; interface_mb_s = 20";
        let mut parameters = disk(1_000_000, seek);
        parameters.set("discipline", discipline).unwrap();
        let mut world = World::new();
        let disk = world.add_disk(&parameters, &Draw::exact(), &[]).unwrap();
        let (mut random, mut now, mut in_flight_ns) = (Random(2), 0, 0);
        let (mut answers, mut last) = (Vec::new(), 0);
        for tag in 0..20_000 {
            now += random.exponential_ns(11e6);
            while let Some(at) = world.next_event().filter(|at| at.0 <= now) {
                in_flight_ns += u64::from(world.in_flight(disk)) * (at.0 - last);
                last = at.0;
                world.advance(at, &mut answers);
            }
            in_flight_ns += u64::from(world.in_flight(disk)) * (now - last);
            last = now;
            let work = read(random.below(999_000), 16);
            world.submit(Instant(now), disk, Tag(tag), work);
            // At any moment, requests in flight count up to now.
            assert_eq!(
                world.account(disk).response_ns,
                in_flight_ns,
                "{discipline}"
            );
        }
        while let Some(at) = world.next_event() {
            in_flight_ns += u64::from(world.in_flight(disk)) * (at.0 - last);
            last = at.0;
            world.advance(at, &mut answers);
        }
        let account = world.account(disk);
        assert_eq!(answers.len(), 20_000, "{discipline}");
        assert_eq!(account.response_ns, in_flight_ns, "{discipline}");
        let mut tags: Vec<u64> = answers.iter().map(|answer| answer.tag.0).collect();
        tags.sort_unstable();
        assert!(tags.into_iter().eq(0..20_000), "{discipline}");
        let parts = account.queue_ns
            + account.seek_ns
            + account.rotation_ns
            + account.transfer_ns
            + account.link_ns
            + account.overhead_ns;
        println!(
            "{discipline}: {:.3} ms",
            float(account.response_ns) / 20_000e6
        );
        // Parts overlap a little: electronics work while others are served.
        let share = float(parts) / float(account.response_ns);
        assert!((0.95..1.2).contains(&share), "{discipline}: {share}");
    }
}

#[test]
fn disciplines_rank_as_expected() {
    let mean = |discipline: &str| {
        let seek = "seek_one_ms = 1; seek_average_read_ms = 8; seek_full_ms = 15; depth = 32;
            age_bound_ms = 10000";
        let mut parameters = disk(1_000_000, seek);
        parameters.set("discipline", discipline).unwrap();
        let mut world = World::new();
        let disk = world.add_disk(&parameters, &Draw::exact(), &[]).unwrap();
        let mut random = Random(3);
        for tag in 0..32 {
            world.submit(Instant(0), disk, Tag(tag), read(random.below(999_000), 8));
        }
        let (mut answers, mut now) = (Vec::new(), 0);
        for _ in 0..20_000 {
            let at = world.next_event().unwrap();
            answers.clear();
            world.advance(at, &mut answers);
            now = at.0;
            for answer in &answers {
                let work = read(random.below(999_000), 8);
                world.submit(at, disk, answer.tag, work);
            }
        }
        float(now) / float(world.account(disk).requests)
    };
    let [fifo, by_seek, sptf] = ["fifo", "sstf", "sptf"].map(mean);
    println!("fifo {fifo:.0}, sstf {by_seek:.0}, sptf {sptf:.0} ns a request");
    assert!(sptf < by_seek && by_seek < fifo, "{fifo} {by_seek} {sptf}");
    for sweeping in ["scan", "cscan", "cvscan"].map(mean) {
        assert!(sptf < sweeping && sweeping < fifo, "{sweeping}");
    }
}

#[test]
fn a_full_shared_link_carries_its_rate() {
    let fast = preset(
        "fixed",
        "sectors = 1000000; read_rate_mb_s = 1000; write_rate_mb_s = 1000",
    );
    for (operation, is_held) in [
        (Operation::Read, false),
        (Operation::Write { fua: false }, false),
        (Operation::Read, true),
    ] {
        let mut world = World::new();
        let link = world.add_link(Link {
            bytes_per_s: 10_000_000,
            command_ns: 0,
            is_held,
        });
        let disks: Vec<DeviceId> = (0..4)
            .map(|_| world.add_disk(&fast, &Draw::exact(), &[link]).unwrap())
            .collect();
        let work = Work {
            operation,
            offset_bytes: 0,
            length_bytes: 65_536,
        };
        for disk in &disks {
            world.submit(Instant(0), *disk, Tag(0), work);
        }
        let (mut answers, mut bytes, mut now) = (Vec::new(), 0, 0);
        while now < 60_000_000_000 {
            let at = world.next_event().unwrap();
            answers.clear();
            world.advance(at, &mut answers);
            now = at.0;
            for answer in &answers {
                bytes += 65_536;
                world.submit(at, answer.device, Tag(0), work);
            }
        }
        close(float(bytes) * 1e9 / float(now), 1e7);
    }
}

#[test]
fn poisson_arrivals_at_a_constant_service_wait_as_pollaczek_and_khinchine_say() {
    let parameters = preset(
        "fixed",
        "sectors = 1000000; read_rate_mb_s = 1000000; read_request_ms = 1",
    );
    let (load, runs) = (0.7, 40);
    let means: Vec<f64> = (0..runs)
        .map(|seed| {
            let mut world = World::new();
            let disk = world.add_disk(&parameters, &Draw::exact(), &[]).unwrap();
            let (mut random, mut now, mut answers) = (Random(seed), 0, Vec::new());
            for tag in 0..20_000 {
                now += random.exponential_ns(1e6 / load);
                world.advance(Instant(now), &mut answers);
                world.submit(Instant(now), disk, Tag(tag), read(0, 1));
            }
            drain(&mut world);
            let account = world.account(disk);
            float(account.response_ns) / float(account.requests) - 1e6
        })
        .collect();
    let count = float(runs);
    let mean = means.iter().sum::<f64>() / count;
    let squares: f64 = means.iter().map(|run| (run - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let expected = 1e6 * load / (2.0 * (1.0 - load));
    println!("found {mean:.0} ns, expected {expected:.0} ns, standard error {error:.0} ns");
    assert!((mean - expected).abs() < 3.0 * error);
    assert!(error < 0.01 * expected);
}
