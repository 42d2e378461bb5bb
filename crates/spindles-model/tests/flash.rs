//! Laws of flash drives, and the figures of the presets.

use super::laws::{Random, answer, close, drain, float, preset, read};
use spindles_block::{Instant, Operation};
use spindles_model::{Account, DeviceId, Draw, Parameters, Tag, Work, World};

/// Units of the host in small drives: all are in the map.
const UNITS: u64 = 32_000;

/// A drive of 4 channels with 2 dies each. A page is a unit of 4 KiB, a block 64 pages.
fn drive(units: u64, numbers: &str, state: &str, cleaning: &str) -> Parameters {
    let mut all = format!(
        "sectors = {}; channels = 4; dies_per_channel = 2; map_kib = 4; pages_per_block = 64;
        buffer_kib = 256; page_read_ms = 0.05; page_program_ms = 0.5; block_erase_ms = 3.2;
        channel_mb_s = 400; read_rate_mb_s = 4000; write_rate_mb_s = 4000; {numbers}",
        units * 8
    );
    for (key, default) in [("page_kib", "4"), ("spare_percent", "25")] {
        if !numbers.contains(key) {
            all.extend(["; ", key, " = ", default]);
        }
    }
    let mut parameters = preset("flash", &all);
    parameters.set("state", state).unwrap();
    parameters.set("cleaning", cleaning).unwrap();
    parameters
}

struct Test {
    world: World,
    disk: DeviceId,
    now: u64,
    random: Random,
}

impl Test {
    fn new(parameters: &Parameters) -> Self {
        let mut world = World::new();
        let disk = world.add_disk(parameters, &Draw::nominal(1), &[]).unwrap();
        Self {
            world,
            disk,
            now: 0,
            random: Random(7),
        }
    }

    fn account(&self) -> Account {
        self.world.account(self.disk)
    }

    /// Sends a request after the answer to the one before; returns how long it took.
    fn takes(&mut self, work: Work) -> u64 {
        let before = self.now;
        self.now = answer(&mut self.world, self.now, self.disk, work);
        self.now - before
    }

    /// Runs `count` requests, `depth` at once.
    fn run(&mut self, depth: u64, count: u64, mut next: impl FnMut(&mut Random) -> Work) -> u64 {
        let begin = self.now;
        let mut answers = Vec::new();
        for tag in 0..depth {
            let work = next(&mut self.random);
            self.world
                .submit(Instant(self.now), self.disk, Tag(tag), work);
        }
        for _ in depth..count {
            while answers.is_empty() {
                let at = self.world.next_event().unwrap();
                self.world.advance(at, &mut answers);
                self.now = at.0;
            }
            answers.pop();
            let work = next(&mut self.random);
            self.world
                .submit(Instant(self.now), self.disk, Tag(0), work);
        }
        self.now = self.now.max(drain(&mut self.world).last().unwrap().at.0);
        self.now - begin
    }

    /// Amplification of random writes of `units` each, below `bound`.
    fn amplification(&mut self, count: u64, units: u64, bound: u64) -> f64 {
        let before = self.account();
        self.run(8, count, |random| {
            write(random.below(bound / units) * units, units)
        });
        let after = self.account();
        float(after.programmed_bytes - before.programmed_bytes) / float(after.bytes - before.bytes)
    }
}

fn work(operation: Operation, unit: u64, units: u64) -> Work {
    Work {
        operation,
        offset_bytes: unit * 4096,
        length_bytes: units * 4096,
    }
}

fn write(unit: u64, units: u64) -> Work {
    work(Operation::Write { fua: false }, unit, units)
}

const FLUSH: Work = Work {
    operation: Operation::Flush,
    offset_bytes: 0,
    length_bytes: 0,
};

/// First-in cleaning under uniform random writes: α / (α + W(−α e^−α)).
fn law(alpha: f64) -> f64 {
    let argument = -alpha * (-alpha).exp();
    let mut w = -0.1_f64;
    for _ in 0..100 {
        w -= (w * w.exp() - argument) / (w.exp() * (w + 1.0));
    }
    alpha / (alpha + w)
}

#[test]
fn first_in_cleaning_amplifies_as_the_law_says_and_greedy_less() {
    for (percent, known) in [(10, 5.68), (25, 2.69), (50, 1.72)] {
        let expected = law(1.0 + f64::from(percent) / 100.0);
        assert!((expected - known).abs() < 0.005, "{expected}");
        let spare = format!("spare_percent = {percent}");
        let first_in = drive(UNITS, &spare, "worn", "first-in");
        close(
            Test::new(&first_in).amplification(200_000, 1, UNITS),
            expected,
        );
        let greedy = drive(UNITS, &spare, "worn", "greedy");
        let greedy = Test::new(&greedy).amplification(200_000, 1, UNITS);
        println!("greedy: {greedy:.3}");
        assert!(greedy < 0.985 * expected, "{greedy}");
        // The map of a larger drive is a sample.
        let sampled = drive(4 * UNITS, &spare, "worn", "first-in");
        let sampled = Test::new(&sampled).amplification(200_000, 4, 4 * UNITS);
        close(sampled, expected);
    }
}

#[test]
fn a_fresh_drive_copies_nothing_until_it_is_full() {
    for units in [UNITS, 4 * UNITS] {
        for cleaning in ["first-in", "greedy"] {
            let mut test = Test::new(&drive(units, "", "fresh", cleaning));
            let amplification = test.amplification(units * 9 / 8 / 4, 4, units);
            assert!((amplification - 1.0).abs() < 1e-9, "{amplification}");
            let later = test.amplification(2 * units / 4, 4, units);
            assert!(later > 1.1, "{later}");
        }
    }
}

#[test]
fn writes_in_order_copy_nothing() {
    let mut test = Test::new(&drive(UNITS, "", "fresh", "first-in"));
    for _ in 0..3 {
        for unit in (0..UNITS).step_by(16) {
            test.takes(write(unit, 16));
        }
    }
    let account = test.account();
    assert_eq!(account.programmed_bytes, account.bytes);
}

#[test]
fn trim_lowers_amplification() {
    for cleaning in ["first-in", "greedy"] {
        let mut kept = Test::new(&drive(UNITS, "", "worn", cleaning));
        let kept = kept.amplification(200_000, 1, UNITS / 2);
        let mut test = Test::new(&drive(UNITS, "", "worn", cleaning));
        test.takes(work(Operation::Discard, UNITS / 2, UNITS / 2));
        test.amplification(100_000, 1, UNITS / 2);
        let trimmed = test.amplification(100_000, 1, UNITS / 2);
        println!("{cleaning}: {kept:.3}, trimmed {trimmed:.3}");
        assert!(trimmed < 0.9 * kept, "{kept} {trimmed}");
        if cleaning == "first-in" {
            close(trimmed, law(2.5));
        }
    }
}

#[test]
fn a_read_on_an_idle_die_takes_its_parts() {
    let times = "read_request_ms = 0.001; read_latency_ms = 0.002; page_kib = 16";
    let mut test = Test::new(&drive(UNITS, times, "worn", "greedy"));
    // Electronics, page, channel at 2.5 ns a byte, interface at 0.25 ns a byte.
    let one = 3_000 + 50_000 + 4096 * 5 / 2 + 1024;
    for unit in [0, 5, 999, UNITS - 1] {
        assert_eq!(test.takes(read(unit * 8, 8)), one);
    }
    // Four pages: each on a die and a channel of its own.
    let four = 3_000 + 50_000 + 16_384 * 5 / 2 + 4 * 4096;
    assert_eq!(test.takes(read(0, 4 * 32)), four);
    // The fifth shares its channel, and nothing else, with the first.
    assert_eq!(
        test.takes(read(0, 5 * 32)),
        four + 16_384 * 5 / 2 - 3 * 4096
    );
    // Eight dies further is the same die.
    let at = Instant(test.now);
    test.world.submit(at, test.disk, Tag(0), read(0, 8));
    test.world.submit(at, test.disk, Tag(1), read(8 * 32, 8));
    let answers = drain(&mut test.world);
    assert_eq!(answers[1].at.0 - answers[0].at.0, 50_000);
}

#[test]
fn channels_or_dies_limit_the_rate() {
    let pages = |test: &mut Test, operation| {
        let mut unit = 0;
        let bytes = 40_000 * 16_384;
        let ns = test.run(32, 10_000, |_| {
            unit = (unit + 16) % (UNITS - 16);
            work(operation, unit, 16)
        });
        float(bytes) * 1e3 / float(ns)
    };
    let fast = "page_kib = 16; page_read_ms = 0.01; page_program_ms = 0.01; block_erase_ms = 0";
    let slow = "page_kib = 16; channel_mb_s = 4000";
    let write = Operation::Write { fua: false };
    for (numbers, operation, expected) in [
        (fast, Operation::Read, 4.0 * 400.0),
        (fast, write, 4.0 * 400.0),
        // Eight dies, 50 µs a page.
        (slow, Operation::Read, 8.0 * 16.384 / 0.05),
        // 500 µs, and a 64th of 3.2 ms.
        (slow, write, 8.0 * 16.384 / 0.55),
    ] {
        let parameters = replaced(numbers);
        close(pages(&mut Test::new(&parameters), operation), expected);
    }
}

/// A fresh drive with some numbers replaced.
fn replaced(numbers: &str) -> Parameters {
    let mut parameters = drive(UNITS, "", "fresh", "greedy");
    for line in numbers.split(';') {
        let (key, value) = line.split_once('=').unwrap();
        parameters.fix(key.trim(), value.trim().parse().unwrap(), "test");
    }
    parameters
}

/// The dies take the time of all programs, reads and erases of cleaning, whenever it is paid.
#[test]
fn cleaning_takes_its_time() {
    let mut test = Test::new(&drive(UNITS, "", "worn", "first-in"));
    let before = test.account();
    let ns = test.run(32, 100_000, |random| write(random.below(UNITS), 1));
    let programmed = test.account().programmed_bytes - before.programmed_bytes;
    let copies = float(programmed / 4096 - 100_000);
    let expected = (1e5 * 550e3 + copies * 600e3) / 8.0;
    close(float(ns), expected);
}

#[test]
fn a_burst_is_written_at_the_rate_of_the_fast_region() {
    let region = "cache_gib = 0.0625; cache_program_ms = 0.1; buffer_kib = 64";
    let mut test = Test::new(&replaced(region));
    let burst = |test: &mut Test, pages: u64| test.run(32, pages, |_| write(0, 1));
    close(float(burst(&mut test, 16_384)), 16_384.0 * 1e5 / 8.0);
    close(float(burst(&mut test, 8_000)), 8_000.0 * 5.5e5 / 8.0);
    // A quarter of it is moved away, at a read and a program a page.
    test.now += 4_096 * 600_000 / 8;
    let ns = burst(&mut test, 8_192);
    close(float(ns), 4_096.0 * (1e5 + 5.5e5) / 8.0);
}

#[test]
fn writes_are_answered_from_the_buffer_and_flushes_by_the_dies() {
    let mut parameters = drive(UNITS, "page_kib = 16", "fresh", "greedy");
    let mut test = Test::new(&parameters);
    assert_eq!(test.takes(write(0, 1)), 1024);
    // The page is programmed though it isn't full.
    let flush = 16_384 * 5 / 2 + 500_000 + 50_000;
    assert_eq!(test.takes(FLUSH), flush);
    assert_eq!(test.takes(FLUSH), 0);
    let durable = work(Operation::Write { fua: true }, 0, 1);
    assert_eq!(test.takes(durable), 1024 + flush);
    parameters.set("capacitor", "on").unwrap();
    let mut test = Test::new(&parameters);
    test.takes(write(0, 1));
    assert_eq!(test.takes(FLUSH), 0);
    assert_eq!(test.takes(durable), 1024);
}

#[test]
fn a_read_waits_for_one_program_at_most() {
    let mut test = Test::new(&drive(UNITS, "", "fresh", "greedy"));
    let at = Instant(0);
    // Eight programs for each die.
    test.world.submit(at, test.disk, Tag(0), write(0, 64));
    test.world.submit(at, test.disk, Tag(1), read(0, 8));
    let answers = drain(&mut test.world);
    let took = answers.iter().find(|answer| answer.tag == Tag(1)).unwrap();
    let alone = 50_000 + 4096 * 5 / 2 + 1024;
    assert!((alone..=alone + 550_000).contains(&took.at.0), "{took:?}");
}

#[test]
fn one_seed_is_one_run() {
    let run = |draw: u64| {
        let parameters = spindles_model::preset("samsung-980-pro-1tb").unwrap();
        let mut world = World::new();
        let disk = world
            .add_disk(&parameters, &Draw::seeded(draw), &[])
            .unwrap();
        let (mut random, mut answers) = (Random(draw), Vec::new());
        for tag in 0..2_000 {
            let unit = random.below(1 << 24);
            let request = match random.below(4) {
                0 => read(unit * 8, 64),
                1 => work(Operation::Discard, unit, 8),
                2 => work(Operation::Write { fua: true }, unit, 3),
                _ => write(unit, 64),
            };
            world.advance(Instant(tag * 20_000), &mut answers);
            world.submit(Instant(tag * 20_000), disk, Tag(tag), request);
        }
        answers.extend(drain(&mut world));
        (answers, world.account(disk))
    };
    let (answers, account) = run(3);
    assert_eq!(run(3), (answers.clone(), account));
    assert_ne!(run(4).0, answers);
    // Parts add up to the responses.
    let parts = account.queue_ns + account.transfer_ns + account.link_ns + account.overhead_ns;
    let share = float(parts) / float(account.response_ns);
    assert!((0.99..1.02).contains(&share), "{share}");
}

/// Requests a second of 4 KiB, or MB/s of 1 MiB, from which the numbers of the presets come.
#[test]
fn presets_give_the_figures_of_their_sources() {
    let write = Operation::Write { fua: false };
    let random = |name: &str, operation, depth| {
        let mut test = Test::new(&spindles_model::preset(name).unwrap());
        let ns = test.run(depth, 100_000, |random| {
            work(operation, random.below(200_000_000), 1)
        });
        1e14 / float(ns)
    };
    let rate = |name: &str, operation| {
        let mut test = Test::new(&spindles_model::preset(name).unwrap());
        let mut unit = 0;
        let ns = test.run(16, 4_000, |_| {
            unit += 256;
            work(operation, unit, 256)
        });
        4_000.0 * 1_048_576.0 * 1e3 / float(ns)
    };
    let near = |found: f64, expected: f64| {
        println!("{found:.0}, expected {expected}");
        assert!((found / expected - 1.0).abs() < 0.1, "{found} {expected}");
    };
    let (sata, nvme) = ("samsung-870-evo", "samsung-980-pro-1tb");
    for (name, reads, depth, writes) in [
        (sata, [13_000.0, 98_000.0], 32, 36_000.0),
        (nvme, [22_000.0, 1_000_000.0], 128, 60_000.0),
    ] {
        near(random(name, Operation::Read, 1), reads[0]);
        near(random(name, Operation::Read, depth), reads[1]);
        near(random(name, write, 1), writes);
    }
    near(random(sata, write, 32), 88_000.0);
    near(rate(sata, Operation::Read), 560.0);
    near(rate(sata, write), 530.0);
    near(rate(nvme, Operation::Read), 7_000.0);
    near(rate(nvme, write), 5_000.0);
}

#[test]
fn huge_drives_take_little_memory() {
    let numbers = "pages_per_block = 1; sectors = 1e12; spare_percent = 1";
    let mut parameters = replaced(numbers);
    parameters.set("state", "worn").unwrap();
    let mut test = Test::new(&parameters);
    assert_eq!(test.world.capacity_bytes(test.disk), 512_000_000_000_000);
    test.takes(work(Operation::Discard, 0, 125_000_000_000));
    test.takes(write(124_999_999_999, 1));
}
