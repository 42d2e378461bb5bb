//! Members without space for new blocks, which stay in the array: a failed write may be in place in
//! part.

use crate::public::checksums::{setup, spec};
use crate::public::world::{BLOCK, Setup, World};
use spindles_block::BlockIndex;
use spindles_layout::Group;

/// Writes twos over ones; the last of the blocks has no space on a member.
fn refused(setup: &Setup, from: u64, member: u8, out: Option<u8>) -> World {
    let mut world = setup.open().unwrap();
    world.write(from, &[1; 4 * BLOCK]).unwrap();
    if let Some(out) = out {
        world.fail(out);
    }
    let (geometry, mut group) = (world.engine.geometry(), Group::empty());
    geometry.group_into(geometry.locate(BlockIndex(from)).group, &mut group);
    let mut slots = group.slots().iter();
    let slot = slots.find(|slot| slot.member.0 == member).unwrap();
    let row = world.data_start[usize::from(member)] + slot.offset.0;
    world.without_space = (row + 3..row + 4).map(|row| (member, row)).collect();
    assert!(world.write(from, &[2; 4 * BLOCK]).is_err());
    world
}

/// Checks that the blocks are all old or new and stay so, even if the array is opened again with
/// space after a crash.
fn check_stays(mut world: World, setup: &Setup, from: u64, what: &str) {
    let first = |world: &mut World| (from..from + 4).map(|block| world.read(block, 1)).collect();
    let read: Vec<_> = first(&mut world);
    for _ in 0..4 {
        let again: Vec<_> = first(&mut world);
        assert_eq!(again, read, "{what}");
    }
    let again = setup.without(world.engine.record().unwrap().missing());
    let mut world = world.restart(&again);
    let later: Vec<_> = first(&mut world);
    for (read, later) in read.into_iter().zip(later) {
        let later = later.expect(what);
        assert!(later == [1; BLOCK] || later == [2; BLOCK], "{what}");
        assert!(read.is_err() || read == Ok(later), "{what}");
    }
}

/// No other member has the blocks. Those with space are readable, and fit their checksums.
#[test]
fn what_lies_beside_a_block_without_space_stays_readable() {
    for level in ["raid0", "concat", "raid1"] {
        let setup = setup(&spec(level, 2), 64, 1);
        let out = (level == "raid1").then_some(1);
        let mut world = refused(&setup, 0, 0, out);
        for block in 0..4 {
            let read = world.read(block, 1).expect(level);
            assert!(read == [1; BLOCK] || read == [2; BLOCK], "{level}");
        }
        assert!(!world.close(), "{level}: it is in doubt");
        check_stays(refused(&setup, 0, 0, out), &setup, 0, level);
    }
}

/// One copy took the write, and the other had no space. Other blocks need both members.
#[test]
fn copies_of_which_one_has_no_space_do_not_take_turns() {
    for checksums in [false, true] {
        let mut setup = setup(&spec("raid10", 3), 64, 1);
        setup.checksum_pages = checksums.then_some(64);
        setup.read_policy = "round-robin";
        // The copies of its second chunk are on the last member and the first.
        for member in [0, 2] {
            let what = format!("checksums {checksums}, member {member}");
            let world = refused(&setup, 8, member, Some(1));
            check_stays(world, &setup, 8, &what);
        }
    }
}
