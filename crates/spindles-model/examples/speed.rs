//! Prints how many I/O a second of processor time the model computes: `cargo run --release
//! --example speed -p spindles-model`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_types,
    reason = "an example prints what it measures"
)]

use spindles_block::{Instant, Operation};
use spindles_model::{Draw, Parameters, Tag, Work, World, preset};
use std::time::Instant as Clock;

const DISKS: u32 = 12;

fn main() {
    let ours = |discipline: &str, depth: f64| {
        let mut parameters = preset("seagate-st3750640as").expect("a preset");
        parameters.set("discipline", discipline).expect("a switch");
        parameters.numbers.get_mut("depth").expect("a number").value = depth;
        parameters
    };
    for (name, parameters, depth, count) in [
        ("fifo, depth 8", ours("fifo", 8.0), 8, 6_000_000),
        ("sptf, depth 32", ours("sptf", 32.0), 32, 1_500_000),
    ] {
        for (operation, what) in [
            (Operation::Read, "reads"),
            (Operation::Write { fua: false }, "writes"),
        ] {
            let (rate, events, per_disk) = run(&parameters, depth, count, operation);
            println!(
                "{DISKS} disks, {name}, {what}: {:.2} M I/O a second, {events:.2} events an I/O, \
                 {per_disk:.0} I/O a virtual second and disk",
                rate / 1e6
            );
        }
    }
    println!(
        "a heap of 96 events alone: {:.2} M events a second",
        heap() / 1e6
    );
}

fn run(parameters: &Parameters, depth: u64, count: u64, operation: Operation) -> (f64, f64, f64) {
    let mut world = World::new();
    let mut random = 1_u64;
    let blocks = parameters.numbers["sectors"].value / 8.0;
    let mut work = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let high = u32::try_from(random >> 32).expect("32 bits");
        let block = whole(blocks * f64::from(high) / 4_294_967_296.0);
        Work {
            operation,
            offset_bytes: block * 4096,
            length_bytes: 4096,
        }
    };
    for _ in 0..DISKS {
        let disk = world.add_disk(parameters, &Draw::nominal(1), &[]);
        let disk = disk.expect("a preset builds");
        for tag in 0..depth {
            world.submit(Instant(0), disk, Tag(tag), work());
        }
    }
    let start = Clock::now();
    let mut answers = Vec::new();
    let (mut done, mut now) = (0, 0);
    while done < count {
        let at = world.next_event().expect("requests are in flight");
        now = at.0;
        answers.clear();
        world.advance(at, &mut answers);
        for answer in &answers {
            done += 1;
            world.submit(at, answer.device, answer.tag, work());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let events = float(world.events()) / float(done);
    let per_disk = float(done) * 1e9 / float(now) / f64::from(DISKS);
    (float(done) / seconds, events, per_disk)
}

/// Pops and pushes of the standard library's heap, for comparison between machines.
fn heap() -> f64 {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    let mut heap: BinaryHeap<Reverse<(u64, u64)>> = (0..96).map(|n| Reverse((n, n))).collect();
    let count = 5_000_000_u64;
    let start = Clock::now();
    let mut random = 1_u64;
    for number in 0..count {
        let Reverse((at, _)) = heap.pop().expect("it stays full");
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        heap.push(Reverse((at + (random >> 44), number)));
    }
    float(count) / start.elapsed().as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn float(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "blocks of a disk"
)]
fn whole(value: f64) -> u64 {
    value as u64
}
