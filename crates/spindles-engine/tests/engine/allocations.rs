//! After opening, the engine allocates nothing: every level, healthy, degraded, and while members
//! fail, with superblocks and without.

#[path = "../../examples/instructions/null.rs"]
mod null;

use allocation_counter::measure;
use null::{Null, Pending, Promises, Setup};
use spindles_block::{MemberError, MemberIndex, MemberSet, Operation};
use spindles_engine::Command;
use spindles_layout::LEVELS;

const DEPTH: u32 = 8;
const CHUNK_BLOCKS: u32 = 16;

#[test]
fn the_allocator_counts() {
    let allocations = measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(allocations.count_total, 1);
}

#[test]
fn nothing_is_allocated_after_open() {
    for level in LEVELS {
        for members in [level.members_min, level.members_min + 3] {
            for missing in [MemberSet::EMPTY, MemberSet::from_bits(1)] {
                for promises in [Promises::Scratch, Promises::None, Promises::Default] {
                    let setup = Setup {
                        level,
                        members,
                        chunk_blocks: CHUNK_BLOCKS,
                        missing,
                        promises,
                        zeroes: members > level.members_min,
                        depth: DEPTH,
                        member_blocks: 1 << 14,
                    };
                    if setup.geometry().survives(missing) {
                        check(&setup);
                    }
                }
            }
        }
    }
}

fn check(setup: &Setup) {
    let what = format!(
        "{} of {}, {:?} missing, promises {:?}",
        setup.level.name, setup.members, setup.missing, setup.promises
    );
    let geometry = setup.geometry();
    let stripe = u32::from(geometry.data_chunks()) * CHUNK_BLOCKS;
    let blocks = geometry.blocks();
    let last = MemberIndex(geometry.members() - 1);
    let mut null = setup.open();
    let mut random = Random(1);

    let mut failed = Ok(());
    let allocations = measure(|| {
        for _ in 0..400 {
            request(&mut null, &mut random, blocks, stripe);
        }
        null.run();
        assert_eq!(null.errors, 0, "{what}");
        // Unreadable blocks, then a member that goes while requests are under way.
        for _ in 0..100 {
            request(&mut null, &mut random, blocks, stripe);
            finish_one(&mut null, &mut random, Err(MemberError::Medium));
        }
        request(&mut null, &mut random, blocks, stripe);
        failed = null.engine.command(null.now, Command::Fail(last));
        null.drain();
        for _ in 0..100 {
            request(&mut null, &mut random, blocks, stripe);
        }
        null.run();
        null.engine
            .command(null.now, Command::Close)
            .expect("it was open");
        null.drain();
        null.run();
    });

    assert!(null.replies >= 600, "{what}");
    let allocations = allocations.count_total;
    assert_eq!(allocations, 0, "{what}; failing a member: {failed:?}");
}

/// Submits a random request, and completes operations until it is taken.
fn request(null: &mut Null, random: &mut Random, blocks: u64, stripe: u32) {
    let operation = match random.below(12) {
        0 => Operation::Flush,
        1 => Operation::Discard,
        2 => Operation::WriteZeroes { fua: false },
        3 => Operation::Write { fua: true },
        4..8 => Operation::Read,
        _ => Operation::Write { fua: false },
    };
    let length = match random.below(4) {
        _ if operation == Operation::Flush => 0,
        0 => 1,
        1 => stripe,
        2 => CHUNK_BLOCKS,
        _ => 1 + u32::try_from(random.below(u64::from(3 * stripe))).expect("small"),
    };
    // Few places, so that requests meet and wait for one another.
    let places = (blocks - u64::from(length)).min(20 * u64::from(stripe));
    let block = match length {
        0 => 0,
        _ if length == stripe => random.below(20) * u64::from(stripe),
        _ => random.below(places),
    };
    while null.submit(operation, block, length).is_err() {
        finish_one(null, random, Ok(()));
    }
}

/// Completes a random operation.
fn finish_one(null: &mut Null, random: &mut Random, result: Result<(), MemberError>) {
    if null.pending.is_empty() {
        return;
    }
    let count = u64::try_from(null.pending.len()).expect("64 bits");
    let at = usize::try_from(random.below(count)).expect("below a length");
    let pending: Pending = null.pending.swap_remove(at);
    null.complete(pending, result);
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}
