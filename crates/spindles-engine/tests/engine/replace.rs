//! Devices that take the positions of live members: their contents afterwards, whatever happens
//! meanwhile, and which superblock is written first.

use crate::public::{
    contents::{arrays, exercise, model_of},
    world::{BLOCK, Setup, World, equal},
};
use spindles_block::{MemberError, MemberIndex};
use spindles_engine::{ArrayState, Command, CommandError, Event, Member, ReplaceEnd};
use spindles_layout::Geometry;

const END_STEPS: u32 = 100_000;

fn until_over(world: &mut World) {
    for _ in 0..END_STEPS {
        if world.engine.replacing().is_none() && !world.engine.is_rebuilding() {
            return;
        }
        world.step();
    }
    panic!("it does not come to its end");
}

/// Returns true if the replacement of a member is done.
fn is_replaced(world: &World, member: MemberIndex) -> bool {
    let of_member =
        |event: &Event| matches!(event, Event::ReplaceDone { member: done, .. } if *done == member);
    world.events.iter().any(of_member)
}

/// Replaces every member of every array, one after another, while clients write. Then the old
/// devices are gone, and all that the level survives.
#[test]
fn a_replacement_holds_what_the_member_held() {
    for (regions, checksum_pages) in [(false, None), (true, None), (true, Some(2))] {
        for (seed, spec) in (1..).zip(arrays()) {
            let geometry = Geometry::new(&spec).unwrap();
            let setup = Setup {
                seed,
                persistent: true,
                regions: regions && geometry.redundancy() > 0,
                checksum_pages,
                ..Setup::new(spec.clone())
            };
            let mut world = setup.open().unwrap();
            let mut model = model_of(&geometry);
            if setup.regions {
                model.fill(0);
            }
            for member in 0..geometry.members() {
                exercise(&mut world, &mut model, 1);
                world.replace(member, 100 + member).unwrap();
                let again = world.replace(member, 99);
                assert_eq!(again, Err(CommandError::Replacing(MemberIndex(member))));
                let steps = world.rng.below(60);
                world.steps(steps);
                exercise(&mut world, &mut model, 1);
                until_over(&mut world);
                let member = MemberIndex(member);
                assert!(is_replaced(&world, member), "{spec:?} {:?}", world.events);
                world.members.last_mut().unwrap().fill(0x77);
            }
            assert_eq!(world.engine.state(), ArrayState::Healthy);
            exercise(&mut world, &mut model, 1);
            for member in 0..geometry.members() {
                if geometry.survives(world.gone.with(MemberIndex(member))) {
                    world.fail(member);
                }
            }
            exercise(&mut world, &mut model, 1);
        }
    }
}

fn array(level: &str, members: usize, blocks: u64) -> Setup {
    Setup {
        persistent: true,
        ..Setup::new(equal(level, members, 4, blocks))
    }
}

#[test]
fn what_can_not_be_replaced_is_refused() {
    let mut world = array("raid1", 2, 64).open().unwrap();
    assert_eq!(world.replace(1, 2), Err(CommandError::Unsuitable), "known");
    assert_eq!(world.replace(1, 0), Err(CommandError::Unsuitable), "nil");
    world.fail(1);
    assert_eq!(world.replace(1, 100), Err(CommandError::NotActive));
    world.replace(0, 100).unwrap();
    world.run();
    assert_eq!(world.engine.state(), ArrayState::Degraded);
    assert!(world.close());
}

/// At no step is there less redundancy than before: the other member may go at any time.
#[test]
fn redundancy_is_never_less() {
    for steps in 0.. {
        let mut world = array("raid1", 2, 16).open().unwrap();
        assert_eq!(world.write(3, &[7; BLOCK]), Ok(()));
        world.replace(1, 100).unwrap();
        for _ in 0..steps {
            if world.engine.replacing().is_none() {
                return;
            }
            world.step();
        }
        world.fail(0);
        assert_eq!(world.read(3, 1).unwrap(), [7; BLOCK], "after {steps} steps");
        assert_eq!(world.write(5, &[8; BLOCK]), Ok(()), "after {steps} steps");
        until_over(&mut world);
        world.members.last_mut().unwrap().fill(0x77);
        assert_eq!(world.read(3, 1).unwrap(), [7; BLOCK]);
        assert_eq!(world.read(5, 1).unwrap(), [8; BLOCK]);
        assert!(world.close());
    }
}

/// Whenever the replacement device fails, the old member stays. After the exchange it is a member
/// like any other.
#[test]
fn a_replacement_that_fails_leaves_all_as_it_was() {
    let (mut ended, mut out) = (0, 0);
    for steps in 0.. {
        let mut world = array("raid1", 2, 16).open().unwrap();
        assert_eq!(world.write(3, &[7; BLOCK]), Ok(()));
        world.replace(1, 100).unwrap();
        for _ in 0..steps {
            if world.engine.replacing().is_none() {
                assert!(ended > 10 && out > 0, "{ended} {out}");
                return;
            }
            world.step();
        }
        // Before or after the two changed places.
        let place = match world.swaps {
            0 => world.engine.replacement(),
            _ => MemberIndex(1),
        };
        world.gone = world.gone.with(place);
        assert_eq!(world.write(5, &[8; BLOCK]), Ok(()), "after {steps} steps");
        until_over(&mut world);
        let why = ReplaceEnd::ReplacementLost(MemberError::Gone);
        let member = MemberIndex(1);
        if world.events.contains(&Event::ReplaceEnded { member, why }) {
            ended += 1;
            assert_eq!(world.engine.state(), ArrayState::Healthy);
            world.replace(1, 101).unwrap();
            until_over(&mut world);
            assert_eq!(world.engine.state(), ArrayState::Healthy);
            world.fail(0);
            assert_eq!(world.read(3, 1).unwrap(), [7; BLOCK]);
            assert_eq!(world.read(5, 1).unwrap(), [8; BLOCK]);
        } else {
            out += 1;
            assert_eq!(world.engine.state(), ArrayState::Degraded);
            assert_eq!(world.read(5, 1).unwrap(), [8; BLOCK]);
        }
        assert!(world.close());
    }
}

/// A member that goes out while it is replaced is rebuilt onto the replacement device.
#[test]
fn a_member_that_fails_is_rebuilt_onto_the_replacement() {
    for steps in 0.. {
        let mut world = array("raid5", 3, 16).open().unwrap();
        assert_eq!(world.write(3, &[7; 8 * BLOCK]), Ok(()));
        world.replace(1, 100).unwrap();
        for _ in 0..steps {
            if world.swaps > 0 {
                return;
            }
            world.step();
        }
        world.gone = world.gone.with(MemberIndex(1));
        assert_eq!(world.write(9, &[8; BLOCK]), Ok(()), "after {steps} steps");
        until_over(&mut world);
        let member = MemberIndex(1);
        let lost = world.events.contains(&Event::ReplaceEnded {
            member,
            why: ReplaceEnd::MemberLost,
        });
        let noticed = world
            .events
            .iter()
            .any(|event| matches!(event, Event::MemberOut { .. }));
        assert!(lost || !noticed || world.swaps > 0);
        assert_eq!(world.engine.state(), ArrayState::Healthy, "after {steps}");
        world.fail(2);
        assert_eq!(world.read(3, 6).unwrap(), [7; 6 * BLOCK]);
        assert_eq!(world.read(9, 1).unwrap(), [8; BLOCK]);
        assert!(world.close());
    }
}

/// Unreadable blocks of the member come from the others. A block that is readable nowhere ends the
/// replacement.
#[test]
fn the_others_are_read_where_the_member_can_not_be() {
    let mut world = array("raid5", 3, 64).open().unwrap();
    let bytes: Vec<u8> = (0..64 * BLOCK)
        .map(|at| u8::try_from(at / BLOCK).unwrap())
        .collect();
    assert_eq!(world.write(0, &bytes), Ok(()));
    let bad = world.data_start[1] + 9;
    world.medium.insert((1, bad));
    world.trace = Some(Vec::new());
    world.replace(1, 100).unwrap();
    world.run();
    let reads = |member: u8, world: &World| {
        let start = world.data_start[usize::from(member)];
        let trace = world.trace.as_ref().unwrap().iter();
        let reads = trace.filter_map(|line| line.strip_prefix(&format!("read {member}:")));
        let block = |place: &str| place.split_once('+').unwrap().0.parse::<u64>().unwrap();
        reads.map(block).filter(|&block| block >= start).count()
    };
    // Sixteen chunks, and the repair of one block, for which alone the others are read.
    assert!((17..=22).contains(&reads(1, &world)));
    assert!(reads(0, &world) < 12 && reads(2, &world) < 12);
    let member = MemberIndex(1);
    assert!(is_replaced(&world, member));
    world.fail(0);
    assert_eq!(world.read(0, 64).unwrap(), bytes);

    let mut world = array("raid5", 3, 64).open().unwrap();
    world.fail(0);
    world.medium.insert((1, world.data_start[1] + 9));
    world.replace(1, 100).unwrap();
    world.run();
    let why = ReplaceEnd::Unreadable { failed: 1 };
    assert!(world.events.contains(&Event::ReplaceEnded { member, why }));
    assert_eq!(world.state(1), Member::Active, "it stays");
}

/// A command or a close may stop it, and then nothing has changed.
#[test]
fn it_may_be_stopped() {
    let mut world = array("raid1", 2, 4096).open().unwrap();
    for close in [false, true] {
        world.replace(1, 100).unwrap();
        for _ in 0..50 {
            world.step();
        }
        assert!(
            world
                .engine
                .status()
                .job("replace")
                .is_some_and(|job| job.going)
        );
        if close {
            assert!(world.close());
        } else {
            world.command(Command::StopJob("replace")).unwrap();
            world.run();
        }
        let stopped = Event::ReplaceEnded {
            member: MemberIndex(1),
            why: ReplaceEnd::Stopped,
        };
        assert!(world.events.contains(&stopped));
        world.events.retain(|event| *event != stopped);
        assert!(world.engine.replacing().is_none());
    }
}

/// The replacement device's superblock is written first, after a flush of it and of all members;
/// then the others.
#[test]
fn the_replacement_is_told_first() {
    let mut world = array("raid1", 3, 16).open().unwrap();
    world.in_order = true;
    world.replace(1, 100).unwrap();
    world.trace = Some(Vec::new());
    world.run();
    let trace = world.trace.take().unwrap();
    let at = |what: &str| {
        let found = trace.iter().position(|line| line.starts_with(what));
        found.unwrap_or_else(|| panic!("{what}: {trace:#?}"))
    };
    let last_copy = trace
        .iter()
        .rposition(|line| line.starts_with("write 3:"))
        .unwrap();
    assert!(last_copy < at("flush 3:") && at("flush 0:") < at("swap 1"));
    assert!(at("flush 3:") < at("swap 1") && at("swap 1") < at("write-fua 1:"));
    assert!(at("write-fua 1:") < at("write-fua 0:"));
    assert!(at("write-fua 0:") < at("event ReplaceDone"));
    let generation = |member: usize| {
        let records = world.superblocks(member);
        records.iter().map(|record| record.generation).max()
    };
    assert_eq!(generation(0), generation(1));
    assert!(generation(3) < generation(1), "the old one is older");
}
