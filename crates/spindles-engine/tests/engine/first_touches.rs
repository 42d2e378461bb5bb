//! What the first write to a region waits for, and the next ones do not.

use crate::world::{BLOCK, Setup, World};
use spindles_block::Operation;
use spindles_layout::{Level, Spec};

/// Blocks of a region of `setup`, on each member and in the array.
const REGION_BLOCKS: u64 = 8;
const REGIONS: u64 = 64;

/// A mirror with regions.
fn setup() -> Setup {
    Setup {
        persistent: true,
        regions: true,
        dirty_bytes: 1 << 30,
        ..Setup::new(Spec {
            level: Level::by_name("raid1").unwrap(),
            layout: None,
            chunk_blocks: 4,
            member_blocks: vec![REGIONS * REGION_BLOCKS; 2],
        })
    }
}

/// The array after every region was written, with none in doubt.
fn written(setup: &Setup) -> World {
    let mut world = setup.open().unwrap();
    for region in 0..REGIONS {
        world.write(region * REGION_BLOCKS, &[1; BLOCK]).unwrap();
    }
    assert!(world.close());
    let mut world = world.reopen(setup);
    world.run();
    // The first write of an opening waits for superblocks.
    world
        .write((REGIONS - 1) * REGION_BLOCKS, &[2; BLOCK])
        .unwrap();
    assert_eq!(dirty(&world), 0);
    world.in_order = true;
    world
}

fn dirty(world: &World) -> u64 {
    world.engine.status().regions.unwrap().dirty
}

/// Writes all blocks from `from` to the end, one after another. In how many regions a write did not
/// go to its place at once.
fn waits_in_order(world: &mut World, from: u64, end: u64) -> usize {
    let waits = |region: &u64| {
        let mut waited = false;
        for block in region * REGION_BLOCKS..(region + 1) * REGION_BLOCKS {
            world.trace = Some(Vec::new());
            let operation = Operation::Write { fua: false };
            let token = world.submit(operation, block, vec![3; BLOCK], 1);
            let at_once = world.trace.take().unwrap();
            waited |= !at_once.iter().any(|line| line.starts_with("write "));
            while world.replies.is_empty() {
                world.step();
            }
            world.result(token).unwrap();
        }
        waited
    };
    (from..end).filter(waits).count()
}

#[test]
fn a_writer_in_order_waits_for_few_marks() {
    let mut world = written(&setup());
    assert_eq!(waits_in_order(&mut world, 0, 40), 2);
    // What was marked for writes that did not come is clean soon.
    assert!(dirty(&world) > 40);
    world.run();
    assert_eq!(dirty(&world), 0);
    assert!(world.close());
}

#[test]
fn nothing_is_marked_ahead_beyond_what_may_be_dirty() {
    let mut setup = setup();
    setup.dirty_bytes = 0;
    let mut world = written(&setup);
    assert_eq!(waits_in_order(&mut world, 0, 10), 10);
    assert_eq!(dirty(&world), 10);
    setup.dirty_bytes = 24 * REGION_BLOCKS * 512;
    let mut world = written(&setup);
    for _ in 0..2 {
        waits_in_order(&mut world, 0, 10);
    }
    assert!((11..=24).contains(&dirty(&world)), "{}", dirty(&world));
}

/// A sweep that comes between keeps what is expected to be written.
#[test]
fn a_sweep_leaves_what_a_writer_comes_to() {
    let mut world = written(&setup());
    waits_in_order(&mut world, 0, 20);
    let marked = dirty(&world);
    for _ in 0..2 {
        world.wake(); // The moment is set, and comes.
        while world.has_pending() {
            world.step();
        }
    }
    assert_eq!(dirty(&world), marked);
    assert_eq!(waits_in_order(&mut world, 20, 24), 0);
}

/// As many writes wait in an array to which nothing was written yet, where members write zeros
/// without moving bytes: one more than where there is something.
#[test]
fn a_writer_in_order_waits_for_few_zeros() {
    let mut setup = setup();
    for (zeroes, waits) in [(true, 3), (false, 40)] {
        setup.zeroes = zeroes;
        let mut world = setup.open().unwrap();
        world.in_order = true;
        assert_eq!(waits_in_order(&mut world, 0, 40), waits);
        let regions = world.engine.status().regions.unwrap();
        assert!(regions.written < REGIONS || zeroes);
        // What was made ready for writes that did not come holds zeros, is clean soon, and was never
        // written before members were flushed.
        world.run();
        assert_eq!(dirty(&world), 0);
        for block in 40 * REGION_BLOCKS..REGIONS * REGION_BLOCKS {
            assert_eq!(world.read(block, 1).unwrap(), [0; BLOCK]);
        }
        assert!(world.close());
    }
}

/// Writes here and there make nothing ready but what they need.
#[test]
fn nothing_is_made_zeros_ahead_of_writes_anywhere() {
    let mut setup = setup();
    setup.zeroes = true;
    let mut world = setup.open().unwrap();
    for region in (0..REGIONS).step_by(3) {
        world.write_and_no_more(region * REGION_BLOCKS, &[1; BLOCK]);
    }
    world.run();
    let regions = world.engine.status().regions.unwrap();
    assert_eq!(regions.written, REGIONS.div_ceil(3));
}

/// One member that has to write the zeros is enough.
#[test]
fn a_device_that_may_have_to_write_zeros_gets_none_ahead() {
    let mut setup = setup();
    setup.zeroes = true;
    let mut world = setup.open().unwrap();
    assert!(world.engine.zeroes_without_moving_bytes());
    world.fail(1);
    assert!(world.engine.zeroes_without_moving_bytes());
    world.rebuild(1, 9).unwrap();
    world.run();
    assert!(!world.engine.zeroes_without_moving_bytes());
    world.in_order = true;
    assert_eq!(waits_in_order(&mut world, 0, 10), 10);
}
