//! Errors of each device are counted, and the device's superblock keeps the counts.

use crate::public::checksums::{filled, rot, scrub, setup, spec};
use crate::public::world::{World, assert_met};
use spindles_block::{Instant, MemberIndex};
use spindles_engine::Event;
use spindles_format::{ErrorCounts, SLOT_BYTES, SUPERBLOCK_BYTES, decode};

/// The errors in the newest superblock of a member.
fn stored(world: &World, member: usize) -> ErrorCounts {
    let slots = SLOT_BYTES.map(|at| usize::try_from(at).unwrap());
    let bytes = slots.map(|at| &world.members[member][at..at + SUPERBLOCK_BYTES]);
    let records = bytes.into_iter().filter_map(|byte| decode(byte).ok());
    let newest = records.max_by_key(|(array, _)| array.generation);
    newest.expect("a superblock").1.errors
}

fn counted(world: &World, member: usize) -> ErrorCounts {
    world.engine.status().members[member].errors
}

fn corrupt(blocks: u64, repaired: u64) -> ErrorCounts {
    ErrorCounts {
        corrupt_blocks: blocks,
        repaired_blocks: repaired,
        ..ErrorCounts::NONE
    }
}

#[test]
fn a_repaired_block_counts_for_its_device_and_survives_a_crash() {
    let setup = setup(&spec("raid1", 3), 4, 1);
    let (mut world, right) = filled(&setup);
    rot(&mut world, 0, 3);
    scrub(&mut world);
    assert_eq!(counted(&world, 0), corrupt(1, 1));
    // The array was not closed: the first error writes superblocks at once.
    assert_eq!(stored(&world, 0).corrupt_blocks, 1);
    for sound in [1, 2] {
        assert_eq!(counted(&world, sound), ErrorCounts::NONE);
        assert_eq!(stored(&world, sound), ErrorCounts::NONE);
    }
    assert!(world.read_all() == right);
}

#[test]
fn errors_ask_for_superblocks_once_a_minute_and_when_the_array_is_closed() {
    let setup = setup(&spec("raid5", 4), 4, 2);
    let (mut world, _) = filled(&setup);
    let written = |world: &World| world.engine.record().unwrap().generation;
    rot(&mut world, 2, 1);
    scrub(&mut world);
    assert_eq!(stored(&world, 2).corrupt_blocks, 1);
    // Errors within the minute are counted, but not written.
    let before = written(&world);
    for block in 17..20 {
        rot(&mut world, 2, block);
    }
    world.read_all();
    let counts = counted(&world, 2);
    assert!(counts.corrupt_blocks > 1, "{counts:?}");
    assert_eq!(written(&world), before);
    // After the minute the next error writes superblocks.
    world.now = Instant(world.now.0 + 61_000_000_000);
    for block in 25..28 {
        rot(&mut world, 2, block);
    }
    world.read_all();
    assert!(written(&world) > before);
    assert!(stored(&world, 2).corrupt_blocks >= counts.corrupt_blocks);
    for block in 33..36 {
        rot(&mut world, 2, block);
    }
    world.read_all();
    assert!(world.close());
    assert_eq!(stored(&world, 2), counted(&world, 2));
}

#[test]
fn failed_reads_count_where_they_failed() {
    let setup = setup(&spec("raid1", 2), 4, 3);
    let (mut world, _) = filled(&setup);
    world.medium.insert((1, world.data_start[1] + 5));
    scrub(&mut world);
    let counts = counted(&world, 1);
    assert_eq!((counts.read_errors, counts.repaired_blocks), (1, 1));
    assert_eq!(counts.corrupt_blocks, 0);
    assert_eq!(counted(&world, 0), ErrorCounts::NONE);
}

#[test]
fn without_redundancy_corrupt_blocks_count_too() {
    let setup = setup(&spec("raid0", 3), 4, 5);
    let (mut world, _) = filled(&setup);
    rot(&mut world, 1, 13);
    let blocks = u32::try_from(world.engine.geometry().blocks()).unwrap();
    world.read(0, blocks).unwrap_err();
    assert_eq!(counted(&world, 1), corrupt(1, 0));
}

/// A returning member keeps its counts; a device that takes its place has none.
#[test]
fn counts_stay_with_the_device() {
    for returns in [true, false] {
        let setup = setup(&spec("raid5", 4), 4, 6);
        let (mut world, _) = filled(&setup);
        rot(&mut world, 1, 2);
        scrub(&mut world);
        world.fail(1);
        assert_eq!(counted(&world, 1), corrupt(1, 1));
        world.gone = world.gone.without(MemberIndex(1));
        if returns {
            world.bring_back(1).unwrap();
        } else {
            world.rebuild(1, 9).unwrap();
        }
        world.run();
        assert_met!(world, Event::RebuildDone { .. });
        let left = if returns {
            corrupt(1, 1)
        } else {
            ErrorCounts::NONE
        };
        assert_eq!(counted(&world, 1), left);
        assert!(world.close());
        assert_eq!(stored(&world, 1), left);
    }
}
