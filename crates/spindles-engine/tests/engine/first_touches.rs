//! What the first write to a region waits for, and later ones do not.

use crate::public::replay::{place_of, wide};
use crate::public::world::{
    BLOCK, Kept, Setup, World, assert_not_met, at_block, clear_checksums, equal,
};
use spindles_block::{MemberIndex, Operation};
use spindles_engine::{Command, Event, Repair, Scrub};
use spindles_format::{AreaKind, ArrayRecord, BitmapPage, CHECKSUM_PAGE_BYTES, decode_bitmap};

/// Blocks of a region of `setup`, on each member and in the array.
const REGION_BLOCKS: u64 = 8;
const REGIONS: u64 = 64;

/// A mirror with regions.
fn setup() -> Setup {
    Setup {
        persistent: true,
        regions: true,
        dirty_bytes: 1 << 30,
        ..Setup::new(equal("raid1", 2, 4, REGIONS * REGION_BLOCKS))
    }
}

/// The array after every region was written, with none dirty.
fn written(setup: &Setup) -> World {
    let mut world = setup.open().unwrap();
    for region in 0..REGIONS {
        world.write(region * REGION_BLOCKS, &[1; BLOCK]).unwrap();
    }
    let mut world = world.close_and_reopen(setup);
    // The first write of an opening waits for superblocks.
    world
        .write((REGIONS - 1) * REGION_BLOCKS, &[2; BLOCK])
        .unwrap();
    assert_eq!(dirty(&world), 0);
    world.in_order = true;
    world
}

/// Returns true if a member durably records that the first region is written.
fn says_written(world: &World, member: usize) -> bool {
    let page = BitmapPage {
        array: world.superblocks(member)[0].uuid,
        kind: AreaKind::WRITTEN_BITMAP,
        page: 0,
    };
    let area = world.devices[member].area(page.kind).unwrap();
    let start = usize::try_from(area.offset_bytes).unwrap();
    let bytes = world.members[member][start..].first_chunk().unwrap();
    decode_bitmap(&page, bytes).unwrap()[0] & 1 == 1
}

/// A member goes out at any moment of a first write. A crash may bring it back, unless it is
/// durably recorded as out. So before that the region is not written, if the member has no zeros
/// there.
#[test]
fn who_is_not_made_zeros_is_known_to_be_out_before_a_region_is_written() {
    let mut met = 0;
    for stop in 0..40 {
        let mut world = setup().open().unwrap();
        world
            .write((REGIONS - 1) * REGION_BLOCKS, &[1; BLOCK])
            .unwrap();
        let start = world.data_at(0);
        let region = start..start + at_block(REGION_BLOCKS);
        world.members[0][region.clone()].fill(0xee);
        let token = world.submit(Operation::Write { fua: false }, 3, vec![2; BLOCK], 1);
        world.steps(stop);
        world.gone = world.gone.with(MemberIndex(0));
        while !world.idle() {
            world.step();
            let knows = |record: &ArrayRecord| record.missing().contains(MemberIndex(0));
            let out = world.superblocks(1).iter().any(knows);
            let garbage = world.members[0][region.clone()].contains(&0xee);
            met += u32::from(garbage && out);
            assert!(
                !says_written(&world, 1) || out || !garbage,
                "after {stop} steps"
            );
        }
        world.result(token).unwrap();
        assert_eq!(world.read(0, 3).unwrap(), [0; 3 * BLOCK]);
    }
    assert!(met > 0, "no region was written without that member");
}

fn dirty(world: &World) -> u64 {
    world.engine.status().regions.unwrap().dirty
}

/// Writes all blocks of the regions from `from` to `end`, one after another. Returns the number of
/// regions in which a write did not go to its place at once.
fn waits_in_order(world: &mut World, from: u64, end: u64) -> usize {
    let waits = |region: &u64| {
        let mut waited = false;
        for block in region * REGION_BLOCKS..(region + 1) * REGION_BLOCKS {
            world.trace = Some(Vec::new());
            let operation = Operation::Write { fua: false };
            let token = world.submit(operation, block, vec![3; BLOCK], 1);
            let at_once = world.trace.take().unwrap();
            waited |= !at_once.iter().any(|line| line.starts_with("write "));
            world.await_answer(token).unwrap();
        }
        waited
    };
    (from..end).filter(waits).count()
}

#[test]
fn a_writer_in_order_waits_for_few_marks() {
    let mut world = written(&setup());
    assert_eq!(waits_in_order(&mut world, 0, 40), 2);
    // Regions marked for writes that did not come are soon clean.
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

/// A sweep in between keeps regions that are expected to be written.
#[test]
fn a_sweep_leaves_what_a_writer_comes_to() {
    let mut world = written(&setup());
    waits_in_order(&mut world, 0, 20);
    let marked = dirty(&world);
    for _ in 0..2 {
        world.wake(); // Sets the time of the sweep, then reaches it.
        while world.has_pending() {
            world.step();
        }
    }
    assert_eq!(dirty(&world), marked);
    assert_eq!(waits_in_order(&mut world, 20, 24), 0);
}

/// In a new array whose members write zeros without moving bytes, only one more write waits than in
/// one that holds data.
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
        // Regions made ready for writes that did not come hold zeros, are soon clean, and were not
        // written before members were flushed.
        world.run();
        assert_eq!(dirty(&world), 0);
        for block in 40 * REGION_BLOCKS..REGIONS * REGION_BLOCKS {
            assert_eq!(world.read(block, 1).unwrap(), [0; BLOCK]);
        }
        assert!(world.close());
    }
}

/// Scattered writes make only the regions ready that they need.
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

/// One member that has to write zeros is enough to prevent it.
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

/// A new array that logs its writes, on members with arbitrary contents that move bytes to zero
/// them.
fn new(level: &str, members: usize) -> (Setup, World) {
    let mut setup = wide(level, members, true);
    setup.spec.member_blocks = vec![600; members];
    let mut world = setup.open().unwrap();
    for member in 0..members {
        let data = world.data_at(member);
        world.members[member][data..].fill(0xe0 + u8::try_from(member).unwrap());
    }
    (setup, world)
}

/// Blocks of a stripe of five members with one parity, and of four.
const WIDE_STRIPE: u64 = 16;
const STRIPE: u64 = 12;

/// Checks that the array holds zeros outside the `written` blocks.
fn assert_zeros_but(world: &mut World, written: &[(u64, u8)], what: &str) {
    let blocks = world.engine.geometry().blocks();
    let all = world.read(0, u32::try_from(blocks).unwrap()).expect(what);
    for (block, bytes) in (0..).zip(all.chunks_exact(BLOCK)) {
        let byte = written.iter().find(|(of, _)| *of == block);
        let byte = byte.map_or(0, |(_, byte)| *byte);
        assert!(
            bytes == [byte; BLOCK],
            "{what}: block {block} is {}",
            bytes[0]
        );
    }
}

#[test]
fn a_first_write_waits_for_no_zeros() {
    for zeroes in [false, true] {
        let (mut setup, _) = new("raid5", 4);
        setup.zeroes = zeroes;
        let mut world = setup.open().unwrap();
        world.trace = Some(Vec::new());
        world.write(5, &[1; BLOCK]).unwrap();
        let lines = world.trace.take().unwrap();
        let zeros = lines.iter().filter(|line| line.starts_with("zero"));
        assert_eq!(zeros.count() > 0, zeroes, "{lines:#?}");
        let flushes = lines.iter().filter(|line| line.starts_with("flush"));
        assert!(flushes.count() > 0, "{lines:#?}");
    }
}

/// Never-written rows of a region are zeros, whatever their members hold and whichever are missing.
/// This holds for jobs too, and after each of them.
#[test]
fn what_was_never_written_in_a_region_is_zeros() {
    for (level, members) in [("raid5", 4), ("raid6", 5), ("raid4", 5)] {
        let (setup, mut world) = new(level, members);
        let written = [(5, 1), (6, 2), (STRIPE + 1, 3)];
        for (block, byte) in written {
            world.write(block, &[byte; BLOCK]).unwrap();
        }
        assert_zeros_but(&mut world, &written, level);
        for missing in 0..members {
            let missing = u8::try_from(missing).unwrap();
            let what = format!("{level} without {missing}");
            world.fail(missing);
            assert_zeros_but(&mut world, &written, &what);
            world.rebuild(missing, 100 + missing).unwrap();
            world.run();
            assert_zeros_but(&mut world, &written, &what);
        }
        world.fail(1);
        world.write(2 * STRIPE + 3, &[4; BLOCK]).unwrap();
        world.bring_back(1).unwrap();
        world.run();
        world.fail(2);
        let written = [&written[..], &[(2 * STRIPE + 3, 4)]].concat();
        assert_zeros_but(&mut world, &written, level);
        world.bring_back(2).unwrap();
        world.run();
        world.replace(0, 99).unwrap();
        world.run();
        let scrub = Scrub {
            anew: true,
            repair: Repair::Located,
        };
        world.command(Command::Scrub(scrub)).unwrap();
        world.run();
        assert_not_met!(world, Event::Found(_) | Event::Disagreement { .. });
        assert!(world.close());
        world.members.truncate(members);
        // The device that took the place of member 0 had arbitrary contents.
        let wrong = world.wrong_checksums().into_iter();
        assert_eq!(wrong.filter(|(member, _)| *member > 0).count(), 0);
        let mut world = world.restart(&setup);
        assert_zeros_but(&mut world, &written, level);
    }
}

/// The checksums of all members are zeroed. Written rows answer errors, and do not read like
/// never-written ones: even without a member, and after other rows in the same sectors of checksums
/// were written.
#[test]
fn what_lost_all_of_its_checksums_does_not_read_as_zeros() {
    for missing in [None, Some(0), Some(2)] {
        let (mut setup, mut world) = new("raid5", 4);
        world.write(5, &[7; BLOCK]).unwrap();
        assert!(world.close());
        for (member, bytes) in world.members.iter_mut().enumerate() {
            clear_checksums(bytes, &world.devices[member]);
        }
        let mut world = world.reopen(&setup);
        if let Some(missing) = missing {
            world.fail(missing);
        }
        world.run();
        for block in [5, 6, STRIPE] {
            world
                .read(block, 1)
                .expect_err("it is lost, or is not known to be zeros");
        }
        // Rows that are then written as a whole are readable again, and no others.
        let stripe = vec![9; at_block(STRIPE)];
        world.write(0, &stripe).unwrap();
        assert!(world.close());
        let missing = missing.map(spindles_block::MemberIndex);
        setup.missing = missing.into_iter().collect();
        let mut world = world.reopen(&setup);
        assert_eq!(world.read(0, 12).unwrap(), stripe);
        world.read(STRIPE, 1).expect_err("it stays lost");
    }
}

/// Released blocks still have their old bytes and their old checksums.
#[test]
fn what_was_given_back_is_zeros_when_it_is_written_again() {
    let (setup, mut world) = new("raid5", 4);
    let blocks = world.engine.geometry().blocks();
    let bytes = vec![7; at_block(blocks)];
    world.write(0, &bytes).unwrap();
    let members = world.members.clone();
    let all = u32::try_from(blocks).unwrap();
    let token = world.submit(Operation::Discard, 0, Vec::new(), all);
    world.run();
    world.result(token).unwrap();
    // A member need not zero blocks that it is not asked to.
    for (member, before) in members.iter().enumerate() {
        let data = world.data_at(member);
        world.members[member][data..].copy_from_slice(&before[data..]);
    }
    world.write(3, &[8; BLOCK]).unwrap();
    assert_zeros_but(&mut world, &[(3, 8)], "given back");
    let mut world = world.restart(&setup);
    assert_zeros_but(&mut world, &[(3, 8)], "after a crash");
}

/// A first write that was answered is there, even of a whole row, whatever unflushed blocks the
/// crash took; and nothing else is.
#[test]
fn a_first_write_that_was_answered_outlives_a_crash() {
    for (blocks, power) in [(1, false), (STRIPE, false), (1, true), (STRIPE, true)] {
        for without in [None, Some(0), Some(1), Some(3)] {
            let (mut setup, mut world) = new("raid5", 4);
            let bytes = vec![9; at_block(blocks)];
            world.write_and_no_more(STRIPE, &bytes);
            if power {
                // The write was logged as a whole, so the log makes it durable.
                world.lose_power(|_| Kept::Nothing);
            }
            if let Some(member) = without {
                setup.missing = setup.missing.with(MemberIndex(member));
            }
            let mut world = world.restart(&setup);
            let written: Vec<_> = (STRIPE..STRIPE + blocks).map(|block| (block, 9)).collect();
            let what = format!("{blocks} blocks, power {power}, without {without:?}");
            assert_zeros_but(&mut world, &written, &what);
        }
    }
}

/// A lost write of checksums leaves a block without one, next to others that have theirs: the row
/// was written.
#[test]
fn one_block_without_a_checksum_makes_no_blank_row() {
    let (setup, mut world) = new("raid5", 4);
    let before = world.members.clone();
    world.write(0, &[5; 2 * BLOCK]).unwrap();
    let (member, _) = place_of(&world, 0);
    assert!(world.close());
    let page = usize::try_from(world.checksum_start(member)).unwrap() * BLOCK;
    let page = page..page + CHECKSUM_PAGE_BYTES;
    world.members[member][page.clone()].copy_from_slice(&before[member][page]);
    let mut world = world.restart(&setup);
    assert_zeros_but(&mut world, &[(0, 5), (1, 5)], "a lost write");
    world.write(1, &[6; BLOCK]).unwrap();
    assert_zeros_but(&mut world, &[(0, 5), (1, 6)], "a lost write");
}

/// A sequential writer of whole rows gets zeros ahead after a few regions, even if members write
/// them.
#[test]
fn a_writer_of_whole_rows_logs_few_of_them() {
    let mut setup = wide("raid5", 5, true);
    setup.dirty_bytes = 1 << 30;
    let mut world = setup.open().unwrap();
    world.in_order = true;
    let mut logged = 0;
    let stripes = world.engine.geometry().blocks() / WIDE_STRIPE;
    for stripe in 0..stripes {
        world.trace = Some(Vec::new());
        world.write_and_no_more(stripe * WIDE_STRIPE, &[1; 16 * BLOCK]);
        let lines = world.trace.take().unwrap();
        let writes = lines.iter().filter(|line| line.starts_with("write "));
        logged += u64::from(writes.count() > 9);
    }
    assert!(logged * 4 < stripes, "{logged} of {stripes}");
}
