//! The list of bad blocks: what happens when no member can read it, and what precedes its first
//! entry.

use crate::public::checksums::{filled, rot, setup, spec};
use crate::public::world::{BLOCK, Kept, World, at_block};
use spindles_block::{BlockIndex, Operation};
use spindles_format::{AreaKind, BAD_BLOCKS_PAGE_BYTES, decode_bad_blocks};

/// Returns the byte range of the list on each member.
fn lists(world: &World) -> Vec<std::ops::Range<usize>> {
    let areas = world.devices.iter().map(|device| {
        let area = device.area(AreaKind::BAD_BLOCKS).expect("it has all areas");
        let start = usize::try_from(area.offset_bytes).unwrap();
        start..start + usize::try_from(area.length_bytes).unwrap()
    });
    areas.collect()
}

/// Makes the list unreadable on all members.
fn lose_list(world: &mut World) {
    for (member, area) in lists(world).into_iter().enumerate() {
        world.members[member][area].fill(0xee);
    }
}

/// Corrupts two blocks of one row of a `raid5` of 4. Returns a data block of the same row, as a
/// block of the array.
fn rot_two(world: &mut World) -> u64 {
    rot(world, 0, 20);
    rot(world, 1, 20);
    let geometry = world.engine.geometry();
    let place = |block: &u64| geometry.locate(BlockIndex(*block));
    let beside = |block: &u64| (place(block).member.0, place(block).offset.0) == (2, 20);
    (0..geometry.blocks()).find(beside).expect("no parity")
}

#[test]
fn a_list_without_entries_that_nobody_has_is_made_anew() {
    let (mut world, bytes) = filled(&setup(&spec("raid5", 4), 4, 6));
    assert!(world.close());
    lose_list(&mut world);
    let mut world = world.reopen(&setup(&spec("raid5", 4), 4, 6));
    world.run();
    assert_eq!(world.engine.status().lost_blocks, 0);
    assert!(world.read_all() == bytes);
    world.fail(3);
    assert!(world.read_all() == bytes);
}

/// No member can read a list that had entries: the status reports every block as lost. A block
/// stays lost until it is written, even if a new device takes the place of a member.
#[test]
fn of_a_list_with_entries_that_nobody_has_every_block_is_lost() {
    let setup = setup(&spec("raid5", 4), 4, 6);
    let (mut world, _) = filled(&setup);
    let block = rot_two(&mut world);
    world.write(block, &[7; BLOCK]).unwrap();
    assert!(world.engine.status().lost_blocks > 0);
    assert!(world.close());
    lose_list(&mut world);
    let mut world = world.restart(&setup);
    let blocks = world.engine.geometry().blocks();
    assert_eq!(world.engine.status().lost_blocks, blocks);
    world.read(3, 1).expect_err("it may be lost");
    world.write(3, &[9; BLOCK]).unwrap();
    assert_eq!(world.read(3, 1).unwrap(), [9; BLOCK]);
    world.fail(1);
    world.rebuild(1, 77).unwrap();
    world.run();
    let mut world = world.close_and_reopen(&setup);
    assert_eq!(world.engine.status().lost_blocks, blocks - 1);
    for block in (0..blocks).filter(|&block| block != 3) {
        world.read(block, 1).expect_err("it may be lost");
    }
    assert_eq!(world.read(3, 1).unwrap(), [9; BLOCK]);
    let all = vec![5; at_block(blocks)];
    world.write(0, &all).unwrap();
    assert_eq!(world.engine.status().lost_blocks, 0);
    let mut world = world.close_and_reopen(&setup);
    assert!(world.read_all() == all);
}

/// Whatever a loss of power leaves of the writes under way, no member has an entry while the
/// superblocks say that there is none.
#[test]
fn the_superblocks_say_so_before_the_list_has_an_entry() {
    let (mut entries, mut none) = (0, 0);
    for stop in 0.. {
        let (mut world, _) = filled(&setup(&spec("raid5", 4), 4, stop + 1));
        let block = rot_two(&mut world);
        let write = Operation::Write { fua: false };
        world.submit(write, block, vec![7; BLOCK], 1);
        let mut steps = 0;
        while steps < stop && !world.idle() {
            world.step();
            steps += 1;
        }
        let is_through = world.idle();
        world.lose_power(|rng| match rng.below(2) {
            0 => Kept::Nothing,
            _ => Kept::All,
        });
        let records = (0..4).flat_map(|member| world.superblocks(member));
        let newest = records.max_by_key(|record| record.generation).unwrap();
        let areas = lists(&world).into_iter().enumerate();
        let any = areas.flat_map(|(member, area)| {
            let pages = world.members[member][area]
                .as_chunks::<BAD_BLOCKS_PAGE_BYTES>()
                .0;
            let pages = (0..).zip(pages);
            pages.filter_map(|(number, page)| {
                decode_bad_blocks(newest.uuid, number, page).map(|page| page.1.count())
            })
        });
        if any.max() > Some(0) {
            assert!(newest.bad_blocks_listed, "at {stop}");
            entries += 1;
        } else {
            none += 1;
        }
        if is_through {
            break;
        }
    }
    assert!(entries > 0 && none > 0, "{entries} {none}");
}
