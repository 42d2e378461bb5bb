//! Devices that take the positions of missing ones: their contents afterwards, whatever happens
//! meanwhile, and the order in which superblocks record it.

use crate::public::{
    checksums::{filled, rot, scrub, setup, spec},
    contents::{arrays, exercise, model_of, survivable},
    world::{BLOCK, Setup, World, assert_met, at_block, equal},
};
use spindles_block::{BlockIndex, MemberIndex, MemberSet, Operation};
use spindles_engine::{ArrayState, CommandError, Event, Member};
use spindles_layout::{Geometry, Spec};

/// Loses, replaces and rebuilds all that the level survives while clients write, then loses all
/// others. Reads then come from the new devices.
#[test]
fn a_rebuilt_device_holds_what_was_lost() {
    let redundant = |spec: &Spec| Geometry::new(spec).unwrap().redundancy() > 0;
    for (seed, spec) in (1..).zip(arrays().into_iter().filter(redundant)) {
        let geometry = Geometry::new(&spec).unwrap();
        for missing in survivable(&geometry) {
            let setup = Setup {
                seed,
                persistent: true,
                ..Setup::new(spec.clone())
            };
            let mut world = setup.open().unwrap();
            let mut model = model_of(&geometry);
            exercise(&mut world, &mut model, 1);
            for member in missing.iter() {
                world.fail(member.0);
            }
            exercise(&mut world, &mut model, 1);
            for member in missing.iter() {
                assert_eq!(
                    world.state(member.0),
                    Member::Missing {
                        reason: Some(spindles_engine::OutReason::Command)
                    }
                );
                world.rebuild(member.0, 100 + member.0).unwrap();
                let steps = world.rng.below(40);
                world.steps(steps);
                // One after another, or side by side.
                while world.state(member.0)
                    == (Member::Missing {
                        reason: Some(spindles_engine::OutReason::Command),
                    })
                {
                    world.step();
                }
            }
            exercise(&mut world, &mut model, 1);
            for member in missing.iter() {
                assert_eq!(world.state(member.0), Member::Active, "{spec:?}");
                assert!(world.events.contains(&Event::RebuildDone { member }));
            }
            assert_eq!(world.engine.state(), ArrayState::Healthy);
            let all = MemberSet::all(geometry.members());
            for member in all.difference(missing).iter() {
                let out = world.gone.with(member);
                if geometry.survives(out) {
                    world.fail(member.0);
                }
            }
            exercise(&mut world, &mut model, 1);
        }
    }
}

fn mirror(blocks: u64) -> Setup {
    Setup {
        persistent: true,
        ..Setup::new(equal("raid1", 2, 4, blocks))
    }
}

#[test]
fn what_can_not_be_rebuilt_is_refused() {
    let mut world = mirror(64).open().unwrap();
    assert_eq!(world.rebuild(1, 100), Err(CommandError::NotMissing));
    world.fail(1);
    assert_eq!(world.rebuild(1, 2), Err(CommandError::Unsuitable), "known");
    assert_eq!(world.rebuild(1, 0), Err(CommandError::Unsuitable), "nil");
    world.rebuild(1, 100).unwrap();
    assert_eq!(world.rebuild(1, 101), Err(CommandError::NotMissing));
    world.run();
    assert_eq!(world.state(1), Member::Active);
    let scratch = Setup {
        persistent: false,
        ..mirror(64)
    };
    let mut world = scratch.open().unwrap();
    world.fail(1);
    assert_eq!(world.engine.state(), ArrayState::Degraded);
}

/// Returns the operations that matter for durability, in order.
fn orders(world: &World) -> Vec<String> {
    let data = world.data_start[1];
    let trace = world.trace.as_ref().unwrap().iter();
    let told = trace.filter_map(|line| {
        let place = line.split_once("1:").map(|(word, place)| {
            let block = place.split_once('+').unwrap().0.parse::<u64>().unwrap();
            (word.trim_end(), block)
        });
        match place {
            Some(("write-fua", _)) => Some("superblock".to_owned()),
            Some(("write", block)) if block >= data => Some("copy".to_owned()),
            Some(("flush", _)) => Some("flush".to_owned()),
            _ => line.starts_with("event Rebuild").then(|| line.clone()),
        }
    });
    let mut told: Vec<String> = told.collect();
    told.dedup();
    told
}

/// A superblock precedes the first copy. A flush precedes each mark, and the record as active.
#[test]
fn nothing_is_copied_or_counted_on_before_all_know_durably() {
    let mut world = mirror(16).open().unwrap();
    world.fail(1);
    world.trace = Some(Vec::new());
    world.in_order = true;
    world.rebuild(1, 100).unwrap();
    world.run();
    let found = orders(&world);
    assert_eq!(found[0], "event RebuildStarted { member: MemberIndex(1) }");
    assert_eq!(found[1], "superblock");
    assert_eq!(found[2], "copy");
    // Then both slots record it.
    let done = "event RebuildDone { member: MemberIndex(1) }";
    assert_eq!(found[found.len() - 2..], [done, "superblock"]);
    assert!(found.iter().filter(|word| *word == "superblock").count() > 2);
    for (at, word) in found.iter().enumerate().skip(2) {
        if word == "superblock" {
            // Copies may continue during the superblock write, but copies below its mark are
            // durable.
            assert!(
                found[..at].iter().any(|before| before == "flush"),
                "{found:?}"
            );
        }
    }
    assert_eq!(
        found[found.len() - 4..found.len() - 2],
        ["flush", "superblock"]
    );
}

/// The last good copy takes no more writes. The device being filled from it must not get ahead of
/// it, or it would be taken as correct.
#[test]
fn a_device_that_is_filled_never_outvotes_the_one_it_is_filled_from() {
    for steps in 0..60 {
        let mut world = mirror(16).open().unwrap();
        world.write(0, &[7; BLOCK]).unwrap();
        world.fail(1);
        world.rebuild(1, 100).unwrap();
        for _ in 0..steps {
            if world.has_pending() {
                world.step();
            }
        }
        let blocks = u64::try_from(world.members[0].len() / BLOCK).unwrap();
        world.refusing = (0..blocks).map(|block| (0, block)).collect();
        world.run();
        world.write(0, &[8; BLOCK]).ok();
        world.close();
        let newest = |member: usize| {
            let records = world.superblocks(member).into_iter();
            records.map(|record| record.generation).max()
        };
        let (copy, filled) = (newest(0).unwrap(), newest(1).unwrap_or(0));
        assert!(
            filled <= copy + 1,
            "after {steps} steps: {filled}, and {copy}"
        );
    }
}

/// A device that fails at any step of a rebuild goes out. The array continues, and can take another
/// device.
#[test]
fn a_device_that_fails_while_it_is_filled_is_out() {
    for steps in 0.. {
        let mut world = mirror(16).open().unwrap();
        assert_eq!(world.write(3, &[7; BLOCK]), Ok(()));
        world.fail(1);
        world.rebuild(1, 100).unwrap();
        if !world.steps(steps) {
            return;
        }
        world.gone = world.gone.with(MemberIndex(1));
        assert_eq!(world.write(5, &[8; BLOCK]), Ok(()), "after {steps} steps");
        assert_eq!(world.engine.state(), ArrayState::Degraded);
        assert_eq!(world.read(3, 1).unwrap(), [7; BLOCK]);
        world.rebuild(1, 101).unwrap();
        world.run();
        assert_eq!(world.engine.state(), ArrayState::Healthy);
        world.fail(0);
        assert_eq!(world.read(3, 1).unwrap(), [7; BLOCK]);
        assert_eq!(world.read(5, 1).unwrap(), [8; BLOCK]);
        assert!(world.close());
    }
}

/// A few unreadable places do not keep a device from becoming active. They are in the list of bad
/// blocks, and leave it when they are written, or a scrub can read them again.
#[test]
fn a_device_goes_without_what_can_t_be_read() {
    let setup = Setup {
        regions: true,
        ..mirror(64)
    };
    let mut world = setup.open().unwrap();
    let start = world.data_start[0];
    world.write(33, &[1; BLOCK]).unwrap();
    world.write(35, &[2; BLOCK]).unwrap();
    world.fail(1);
    world.medium.insert((0, start + 33));
    world.medium.insert((0, start + 35));
    world.rebuild(1, 100).unwrap();
    world.run();
    let member = MemberIndex(1);
    let block = BlockIndex(world.data_start[1] + 33);
    let first = Event::NotFilled {
        member,
        block,
        blocks: 1,
    };
    assert!(world.events.contains(&first));
    assert_eq!(world.state(1), Member::Active);
    let bad_blocks = |world: &World| world.engine.status().members[1].faults.bad_blocks;
    assert_eq!(bad_blocks(&world), 2);
    assert!(world.read(33, 1).is_err() && world.read(35, 1).is_err());
    let mut world = world.close_and_reopen(&setup);
    assert_eq!(bad_blocks(&world), 2);
    assert!(world.read(33, 1).is_err());
    // Member 0 is read again, since the list has no blocks of that member.
    world.medium.remove(&(0, start + 33));
    assert_eq!(world.read(33, 1).unwrap(), [1; BLOCK]);
    scrub(&mut world);
    assert_eq!(bad_blocks(&world), 1);
    world.write(35, &[3; BLOCK]).unwrap();
    assert_eq!(bad_blocks(&world), 0);
    world.fail(0);
    assert_eq!(world.read(33, 1).unwrap(), [1; BLOCK]);
    assert_eq!(world.read(35, 1).unwrap(), [3; BLOCK]);
    assert!(world.close());
}

/// With parity nothing else is affected: a row with such a block can be written in part, and
/// another member may be lost.
#[test]
fn a_row_that_can_t_be_filled_is_all_that_is_lost() {
    let setup = setup(&spec("raid5", 4), 4, 6);
    let (mut world, bytes) = filled(&setup);
    let geometry = world.engine.geometry().clone();
    world.fail(3);
    rot(&mut world, 0, 20);
    world.rebuild(3, 100).unwrap();
    world.run();
    assert_eq!(world.state(3), Member::Active);
    let row = |block: &u64| geometry.locate(BlockIndex(*block)).offset.0 == 20;
    let lost = |block: &u64| {
        let member = geometry.locate(BlockIndex(*block)).member.0;
        row(block) && (member == 0 || member == 3)
    };
    for block in 0..geometry.blocks() {
        let read = world.read(block, 1);
        let at = at_block(block);
        assert_eq!(read.is_err(), lost(&block), "{block}");
        assert!(
            lost(&block) || read.unwrap() == bytes[at..at + BLOCK],
            "{block}"
        );
    }
    let other = (0..geometry.blocks()).find(|block| row(block) && !lost(block));
    let other = other.expect("three blocks of data");
    world.write(other, &[5; BLOCK]).unwrap();
    world.fail(1);
    for block in (0..geometry.blocks()).filter(|block| !row(block)) {
        let at = at_block(block);
        assert!(
            world.read(block, 1).unwrap() == bytes[at..at + BLOCK],
            "{block}"
        );
    }
    assert_eq!(world.read(other, 1).unwrap(), [5; BLOCK]);
}

/// A member that returns holds good blocks of rows that were not written while it was out. They
/// stand in for a rotten block of another member, if that one's checksums prove them. Rows that
/// were written never read as before.
#[test]
fn old_blocks_of_a_returning_member_stand_in_for_rotten_ones() {
    // Members that are out, of which the first returns.
    let cases: [(&str, usize, &[u8]); 9] = [
        ("raid1", 2, &[0]),
        ("raid1", 2, &[1]),
        ("raid1", 3, &[2, 0]),
        ("raid10", 4, &[1]),
        ("raid4", 3, &[2]),
        ("raid5", 3, &[1]),
        ("raid5", 4, &[3]),
        ("raid6", 4, &[0, 2]),
        ("raid6", 5, &[4, 1]),
    ];
    let (untouched, neighbour, written) = (20, 21, 22);
    for (level, members, out) in cases {
        let spec = spec(level, members);
        let geometry = Geometry::new(&spec).unwrap();
        let row_of = |block: u64| geometry.locate(BlockIndex(block)).offset.0;
        let of_row = |row| (0..geometry.blocks()).filter(move |block| row_of(*block) == row);
        let present = (0..members).filter(|&it| out.iter().all(|&out| usize::from(out) != it));
        for rotten in present {
            for block in of_row(written) {
                let (mut world, mut bytes) = filled(&setup(&spec, 4, 6));
                for &member in out {
                    world.fail(member);
                }
                for block in [of_row(neighbour).next().unwrap(), block] {
                    let at = at_block(block);
                    bytes[at..at + BLOCK].fill(9);
                    world.write(block, &[9; BLOCK]).unwrap();
                }
                rot(&mut world, rotten, untouched);
                rot(&mut world, rotten, written);
                world.bring_back(out[0]).unwrap();
                world.run();
                let case = format!("{level} of {members}, {out:?} out, {rotten} rotten, {block}");
                assert_eq!(world.state(out[0]), Member::Active, "{case}");
                for block in 0..geometry.blocks() {
                    let at = at_block(block);
                    match world.read(block, 1) {
                        Ok(read) => assert!(read == bytes[at..at + BLOCK], "{case}: {block}"),
                        Err(_) => assert_eq!(row_of(block), written, "{case}: {block}"),
                    }
                }
            }
        }
    }
}

/// If more than a few places are unreadable, the device that the new one is filled from is failing.
/// The new one is not relied on beyond the first of them.
#[test]
fn many_unreadable_places_hold_the_mark() {
    let setup = Setup {
        regions: true,
        ..mirror(256)
    };
    let mut world = setup.open().unwrap();
    world.write(0, &vec![1; 256 * BLOCK]).unwrap();
    world.fail(1);
    for place in 33..133 {
        world.medium.insert((0, world.data_start[0] + place));
    }
    world.rebuild(1, 100).unwrap();
    world.run();
    assert_met!(world, Event::RebuildIncomplete { .. });
    let Member::Rebuilding { mark } = world.state(1) else {
        panic!("it is not filled");
    };
    assert!((33..=97).contains(&mark.0), "{mark:?}");
    let job = *world.engine.status().job("rebuild").unwrap();
    assert!(!job.going && job.failed > 0);
    assert_eq!(world.engine.state(), ArrayState::Degraded);
    // Below the mark the last copy is no longer the only one.
    world.medium.insert((0, world.data_start[0] + 2));
    assert!(world.read(2, 1).is_ok());
    assert!(world.read(33, 1).is_err() && world.read(132, 1).is_err());
    assert!(world.close());
}

/// An array without a list of bad blocks can't record any.
#[test]
fn without_a_list_an_unreadable_place_holds_the_mark() {
    let mut world = mirror(64).open().unwrap();
    world.fail(1);
    world.medium.insert((0, world.data_start[0] + 33));
    world.rebuild(1, 100).unwrap();
    world.run();
    let failed = Event::RebuildIncomplete { failed: 1 };
    assert!(world.events.contains(&failed));
    let mark = BlockIndex(32);
    assert_eq!(world.state(1), Member::Rebuilding { mark });
    assert!(world.read(33, 1).is_err());
    assert!(world.close());
}

/// A close in the middle of a rebuild records its progress.
#[test]
fn a_close_keeps_the_mark() {
    let mut world = mirror(4096).open().unwrap();
    world.fail(1);
    world.in_order = true;
    world.rebuild(1, 100).unwrap();
    for _ in 0..600 {
        world.step();
    }
    assert!(world.close());
    let Member::Rebuilding { mark } = world.state(1) else {
        panic!("it was in the middle");
    };
    assert!((100..4096).contains(&mark.0), "{mark:?}");
    let token = world.engine.submit(
        world.now,
        spindles_block::Request {
            token: 0,
            operation: Operation::Flush,
            block: BlockIndex(0),
            blocks: 0,
            buffer: spindles_block::BufferSlice::NONE,
        },
    );
    assert!(token.is_err(), "it is closed");
}

/// A returning member gets only the blocks written while it was out.
#[test]
fn a_member_that_returns_gets_what_it_missed_alone() {
    let spec = equal("raid5", 3, 4, 128);
    let setup = Setup {
        persistent: true,
        regions: true,
        ..Setup::new(spec.clone())
    };
    let mut world = setup.open().unwrap();
    let blocks = Geometry::new(&spec).unwrap().blocks();
    let mut model = vec![7; at_block(blocks)];
    world.write(0, &model).unwrap(); // And after a while nothing is dirty.
    world.fail(1);
    // One block, in the third region: a region is two groups of eight blocks.
    let at = 2 * 16 + 3;
    let range = at * BLOCK..(at + 1) * BLOCK;
    model[range.clone()].fill(9);
    world
        .write(u64::try_from(at).unwrap(), &model[range])
        .unwrap();
    world.trace = Some(Vec::new());
    world.bring_back(1).unwrap();
    world.run();
    assert_eq!(world.state(1), Member::Active);
    let start = world.data_start[1];
    let region = start + 16..start + 24; // Two rows of four blocks.
    for line in world.trace.take().unwrap() {
        let data = line
            .strip_prefix("write 1:")
            .and_then(|place| place.split_once('+'))
            .map(|(block, _)| block.parse::<u64>().unwrap())
            .filter(|&block| block >= start);
        assert!(data.is_none_or(|block| region.contains(&block)), "{line}");
    }
    world.fail(2);
    let all = world.read_all();
    assert!(all == model);
}

/// Members that return together take their places in one update.
#[test]
fn several_members_return_at_once() {
    let spec = equal("raid6", 5, 4, 128);
    let setup = Setup {
        persistent: true,
        regions: true,
        ..Setup::new(spec.clone())
    };
    let mut world = setup.open().unwrap();
    let blocks = Geometry::new(&spec).unwrap().blocks();
    let mut model = vec![7; at_block(blocks)];
    world.write(0, &model).unwrap();
    world.fail(1);
    world.fail(3);
    model[40 * BLOCK..41 * BLOCK].fill(9);
    world.write(40, &model[40 * BLOCK..41 * BLOCK]).unwrap();
    let generation = world.engine.status().generation;
    // A flush is under way: both devices wait for it.
    world.submit(Operation::Flush, 0, Vec::new(), 0);
    world.bring_back(1).unwrap();
    world.bring_back(3).unwrap();
    assert_eq!(world.bring_back(3), Err(CommandError::Joining));
    while world.engine.status().generation == generation {
        world.step();
    }
    for member in [1, 3] {
        assert!(matches!(world.state(member), Member::Rebuilding { .. }));
    }
    world.run();
    assert_eq!(world.engine.state(), ArrayState::Healthy);
    world.fail(0);
    world.fail(2);
    let all = world.read_all();
    assert!(all == model);
}

/// A position waits for a spare if it is missing, no device is about to take it, and the array can
/// still be saved.
#[test]
fn positions_that_wait_for_a_device_are_told() {
    let spec = equal("raid6", 5, 4, 64);
    let members =
        |list: &[u8]| -> MemberSet { list.iter().map(|&member| MemberIndex(member)).collect() };
    let setup = Setup {
        persistent: true,
        ..Setup::new(spec.clone())
    };
    let mut world = setup.open().unwrap();
    assert_eq!(world.engine.vacancies(), MemberSet::EMPTY);
    world.fail(1);
    world.fail(3);
    assert_eq!(world.engine.vacancies(), members(&[1, 3]));
    // The device waits until nothing is under way; its position counts as taken at once.
    world.submit(Operation::Flush, 0, Vec::new(), 0);
    world.rebuild(3, 101).unwrap();
    assert_eq!(world.engine.vacancies(), members(&[1]));
    while !matches!(world.state(3), Member::Rebuilding { .. }) {
        world.step();
    }
    assert_eq!(world.engine.vacancies(), members(&[1]));
    // The device fails before it is filled: another may try.
    world.fail(3);
    assert_eq!(world.engine.vacancies(), members(&[1, 3]));
    world.rebuild(3, 102).unwrap();
    world.run();
    assert_eq!(world.state(3), Member::Active);
    assert_eq!(world.engine.vacancies(), members(&[1]));
    // After a third member fails, the array can't be saved.
    world.fail(0);
    assert_eq!(world.engine.vacancies(), members(&[0, 1]));
    world.gone = world.gone.with(MemberIndex(2));
    world.write(0, &vec![7; 12 * BLOCK]).unwrap_err();
    assert_eq!(world.engine.vacancies(), MemberSet::EMPTY);
    // Without superblocks no later opening could determine which device is good.
    let mut world = Setup::new(spec).open().unwrap();
    world.fail(1);
    assert_eq!(world.engine.vacancies(), MemberSet::EMPTY);
}

/// A last copy that fails while superblocks record which member is out leaves an array that answers
/// errors and can be closed. This holds even if a device was about to take the position.
#[test]
fn a_place_that_cannot_be_recorded_is_not_taken() {
    let setup = Setup {
        persistent: true,
        ..Setup::new(equal("raid1", 2, 4, 64))
    };
    let mut world = setup.open().unwrap();
    world.write(0, &[7; BLOCK]).unwrap();
    let member = MemberIndex(1);
    world
        .command(spindles_engine::Command::Fail(member))
        .unwrap();
    world.rebuild(1, 101).unwrap();
    world.gone = world.gone.with(MemberIndex(0));
    world.run();
    assert!(matches!(world.state(1), Member::Missing { .. }));
    world.write(0, &[8; BLOCK]).unwrap_err();
    world.close();
}
