//! A controller with round numbers, and an array that answers when the test says so.

use super::*;
use crate::preset::parse_preset;

/// 1 ms for each request, and 1 MB/s: 4.096 ms for a block.
const TEXT: &str = r#"
    name = "test"
    kind = "controller"
    cache_mib = { value = 1, how = "stated", source = "test" }
    high_percent = { value = 50, how = "stated", source = "test" }
    low_percent = { value = 25, how = "stated", source = "test" }
    destage_age_s = { value = 9, how = "stated", source = "test" }
    request_ms = { value = 1, how = "stated", source = "test" }
    rate_mb_s = { value = 1, how = "stated", source = "test" }
    read_ahead_kib = { value = 16, how = "stated", source = "test" }
    battery = { value = "BATTERY", how = "stated", source = "test" }
    gather = { value = "GATHER", how = "stated", source = "test" }
"#;

struct Bench {
    controller: Controller,
    now: u64,
}

fn bench(battery: &str, gather: &str) -> Bench {
    let text = TEXT.replace("BATTERY", battery).replace("GATHER", gather);
    let parameters = parse_preset("test.toml", &text).unwrap();
    let around = Surroundings {
        openings: 8,
        sorts: false,
        stripe_bytes: 96 << 10,
        capacity_bytes: 1 << 30,
        sets: 1,
    };
    Bench {
        controller: Controller::new(&parameters, &Draw::exact(), around).unwrap(),
        now: 0,
    }
}

impl Bench {
    fn ask(&mut self, tag: u64, operation: Operation, kib: u64, length_kib: u64) {
        let work = Work {
            operation,
            offset_bytes: kib << 10,
            length_bytes: length_kib << 10,
        };
        self.controller.submit(Instant(self.now), Tag(tag), work);
    }

    fn write(&mut self, tag: u64, kib: u64, length_kib: u64) {
        self.ask(tag, Operation::Write { fua: false }, kib, length_kib);
    }

    /// Goes on until nothing happens by itself before a moment. Returns the answers with their
    /// moments in us.
    fn until(&mut self, us: u64) -> Vec<(u64, u64)> {
        let mut answers = Vec::new();
        loop {
            while let Some(tag) = self.controller.next_answer() {
                answers.push((tag.0, self.now / 1000));
            }
            match self.controller.next_wake() {
                Some(at) if at.0 <= us * 1000 => {
                    self.now = self.now.max(at.0);
                    self.controller.wake(Instant(self.now));
                }
                _ => break,
            }
        }
        self.now = us * 1000;
        answers
    }

    /// Takes the requests for the array: reads or writes, first KiB and KiB.
    fn asked(&mut self) -> Vec<(Tag, bool, u64, u64)> {
        let requests = std::iter::from_fn(|| self.controller.next_request());
        requests
            .map(|(tag, work)| {
                let is_write = work.operation.is_write();
                (
                    tag,
                    is_write,
                    work.offset_bytes >> 10,
                    work.length_bytes >> 10,
                )
            })
            .collect()
    }
}

#[test]
fn a_write_is_answered_from_the_cache_and_destaged_as_a_whole_stripe() {
    let mut bench = bench("on", "on");
    // Two stripes of 96 KiB, written in pieces: 26.6 % of the cache is above the low mark.
    for piece in 0..17 {
        bench.write(piece, piece * 16, 16);
    }
    let answers = bench.until(400_000);
    // 8 openings share a processor and a path of 16.384 ms for each request.
    assert_eq!(answers[0], (0, 17_384));
    assert_eq!(answers[16], (16, 1_000 + 17 * 16_384));
    let asked = bench.asked();
    assert_eq!(
        asked
            .iter()
            .map(|one| (one.1, one.2, one.3))
            .collect::<Vec<_>>(),
        [(true, 0, 96)]
    );
    bench.controller.answered(Instant(bench.now), asked[0].0);
    assert!(bench.asked().is_empty(), "below the low mark it waits");
    // Old data goes out, too.
    bench.until(9_200_000);
    let asked = bench.asked();
    assert_eq!((asked[0].2, asked[0].3), (96, 96));
}

#[test]
fn writers_wait_above_the_high_mark() {
    let mut bench = bench("on", "off");
    bench.write(0, 0, 512);
    bench.write(1, 1024, 4);
    assert_eq!(bench.until(8_000_000), [(0, 525_288)]);
    let asked = bench.asked();
    assert_eq!(
        (asked[0].2, asked[0].3),
        (0, 64),
        "without gathering, 64 KiB at a time"
    );
    bench.controller.answered(Instant(bench.now), asked[0].0);
    assert_eq!(bench.until(8_100_000), [(1, 8_004_096)]);
}

#[test]
fn flushes_cost_nothing_with_a_battery_and_empty_the_cache_without() {
    let mut with = bench("on", "on");
    with.write(0, 0, 4);
    with.ask(1, Operation::Flush, 0, 0);
    assert_eq!(with.until(100_000), [(1, 2_000), (0, 5_096)]);
    assert!(with.asked().is_empty());
    let mut without = bench("off", "on");
    without.write(0, 0, 4);
    assert_eq!(without.until(100_000), [(0, 5_096)]);
    without.ask(1, Operation::Flush, 0, 0);
    assert_eq!(without.until(200_000), []);
    let write = without.asked();
    assert_eq!((write.len(), write[0].1), (1, true));
    without
        .controller
        .answered(Instant(without.now), write[0].0);
    let flush = without.asked();
    assert_eq!((flush.len(), flush[0].3), (1, 0), "then the array flushes");
    without
        .controller
        .answered(Instant(without.now), flush[0].0);
    assert_eq!(without.until(300_000), [(1, 200_000)]);
}

#[test]
fn reads_in_order_are_read_ahead() {
    let mut bench = bench("on", "on");
    bench.ask(0, Operation::Read, 64, 4);
    assert_eq!(bench.until(10_000), []);
    let asked = bench.asked();
    assert_eq!((asked.len(), asked[0].2, asked[0].3), (1, 64, 4));
    bench.controller.answered(Instant(bench.now), asked[0].0);
    assert_eq!(bench.until(20_000), [(0, 14_096)]);
    bench.ask(1, Operation::Read, 68, 4);
    bench.until(30_000);
    let asked = bench.asked();
    let places: Vec<(u64, u64)> = asked.iter().map(|one| (one.2, one.3)).collect();
    assert_eq!(places, [(68, 4), (72, 16)]);
    // The next one waits for what is on its way.
    bench.ask(2, Operation::Read, 72, 4);
    bench.until(40_000);
    assert_eq!(
        bench.asked().iter().map(|one| one.2).collect::<Vec<_>>(),
        [88]
    );
    for one in asked {
        bench.controller.answered(Instant(bench.now), one.0);
    }
    assert_eq!(bench.until(60_000), [(1, 44_096), (2, 48_192)]);
}
