//! Sends requests through the engine and a driver that does nothing. Either one after another, to
//! count instructions: `instructions CASE COUNT`. Without arguments it lists the cases, each with
//! how many requests give a good mean. Or with a count of the member I/O that they cause:
//! `instructions member-io`. See `cargo xtask instructions`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a command line"
)]

mod member_io;
mod null;

use null::{Promises, Setup};
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_layout::Level;
use std::process::ExitCode;

const READ: Operation = Operation::Read;
const WRITE: Operation = Operation::Write { fua: false };
const CHUNK_BLOCKS: u32 = 16; // 64 KiB
const STRIPE: u32 = 4 * CHUNK_BLOCKS;
/// With promises, requests go to this part of the array, which was written before.
const WRITTEN_BLOCKS: u64 = 1 << 12;

/// A kind of request on a kind of array.
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
    case("raid5-write-stripe", ("raid5", 5, 0), WRITE, STRIPE),
    case("raid6-write-4k", ("raid6", 6, 0), WRITE, 1),
    case("raid6-write-stripe", ("raid6", 6, 0), WRITE, STRIPE),
];

/// Suffix of the names of cases on arrays with default promises. Cases without the suffix use
/// scratch arrays.
const WITH_PROMISES: &str = "-promised";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => {
            for (promised, requests) in [("", 4096), (WITH_PROMISES, 256)] {
                for case in CASES {
                    println!("{}{promised} {requests}", case.name);
                }
            }
            return ExitCode::SUCCESS;
        }
        ["member-io"] => {
            print!("{}", member_io::table());
            return ExitCode::SUCCESS;
        }
        [name, count] => {
            let (name, promises) = match name.strip_suffix(WITH_PROMISES) {
                Some(name) => (name, Promises::Default),
                None => (name, Promises::Scratch),
            };
            let case = CASES.iter().find(|case| case.name == name);
            if let (Some(case), Ok(count)) = (case, count.parse()) {
                run(case, promises, count);
                return ExitCode::SUCCESS;
            }
        }
        _ => {}
    }
    eprintln!("usage: instructions [CASE COUNT | member-io]");
    ExitCode::from(2)
}

fn run(case: &Case, promises: Promises, count: u64) {
    let setup = Setup {
        level: Level::by_name(case.level).expect("a level"),
        members: case.members,
        chunk_blocks: CHUNK_BLOCKS,
        missing: (0..case.missing).map(MemberIndex).collect::<MemberSet>(),
        promises,
        zeroes: false,
        depth: 32,
        member_blocks: 1 << 20,
    };
    let mut null = setup.open();
    let mut blocks = setup.geometry().blocks();
    if promises == Promises::Default {
        blocks = WRITTEN_BLOCKS;
        for stripe in 0..blocks / u64::from(STRIPE) {
            null.submit(WRITE, stripe * u64::from(STRIPE), STRIPE)
                .expect("one at a time");
            null.run();
        }
    }
    let before = null.replies;
    let places = blocks / u64::from(case.blocks);
    assert!(
        places.is_power_of_two(),
        "so that a place costs next to nothing"
    );
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
    assert_eq!((null.replies - before, null.errors), (count, 0));
}
