//! Requests through the engine and a driver that does nothing, one after another, for counting
//! instructions: `instructions CASE COUNT`. Without arguments it lists the cases. See
//! `cargo xtask instructions`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command line"
)]

mod null;

use null::Null;
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_layout::Level;
use std::process::ExitCode;

const READ: Operation = Operation::Read;
const WRITE: Operation = Operation::Write { fua: false };
const CHUNK_BLOCKS: u32 = 16; // 64 KiB

/// One kind of request on one kind of array.
struct Case {
    name: &'static str,
    level: &'static str,
    members: u8,
    missing: u8,
    operation: Operation,
    blocks: u32,
}

const fn case(
    name: &'static str,
    (level, members, missing): (&'static str, u8, u8),
    operation: Operation,
    blocks: u32,
) -> Case {
    Case {
        name,
        level,
        members,
        missing,
        operation,
        blocks,
    }
}

static CASES: &[Case] = &[
    case("raid0-read-4k", ("raid0", 4, 0), READ, 1),
    case("raid0-write-4k", ("raid0", 4, 0), WRITE, 1),
    case("raid1-read-4k", ("raid1", 2, 0), READ, 1),
    case("raid1-write-4k", ("raid1", 2, 0), WRITE, 1),
    case("raid10-write-4k", ("raid10", 4, 0), WRITE, 1),
    case("raid5-read-4k", ("raid5", 5, 0), READ, 1),
    case("raid5-read-4k-degraded", ("raid5", 5, 1), READ, 1),
    case("raid5-write-4k", ("raid5", 5, 0), WRITE, 1),
    case(
        "raid5-write-stripe",
        ("raid5", 5, 0),
        WRITE,
        4 * CHUNK_BLOCKS,
    ),
    case("raid6-write-4k", ("raid6", 6, 0), WRITE, 1),
    case(
        "raid6-write-stripe",
        ("raid6", 6, 0),
        WRITE,
        4 * CHUNK_BLOCKS,
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, count] = arguments.as_slice() else {
        for case in CASES {
            println!("{}", case.name);
        }
        return ExitCode::SUCCESS;
    };
    let case = CASES.iter().find(|case| case.name == name);
    let (Some(case), Ok(count)) = (case, count.parse()) else {
        eprintln!("usage: instructions [CASE COUNT]");
        return ExitCode::from(2);
    };
    run(case, count);
    ExitCode::SUCCESS
}

fn run(case: &Case, count: u64) {
    let level = Level::by_name(case.level).expect("a level");
    let geometry = null::geometry(level, case.members, CHUNK_BLOCKS);
    let places = geometry.blocks() / u64::from(case.blocks);
    assert!(
        places.is_power_of_two(),
        "so that a place costs next to nothing"
    );
    let missing = (0..case.missing).map(MemberIndex).collect::<MemberSet>();
    let mut null = Null::open(geometry, missing, None, 32);
    let mut random = 1_u64;
    for _ in 0..count {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let place = (random >> 20) & (places - 1);
        null.submit(case.operation, place * u64::from(case.blocks), case.blocks)
            .expect("one at a time");
        null.run();
    }
    assert_eq!((null.replies, null.errors), (count, 0));
}
