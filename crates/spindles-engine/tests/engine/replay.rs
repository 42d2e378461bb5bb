//! Members that go out in the middle of a replay.

use crate::world::{BLOCK, Setup, World};
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_engine::ArrayState;
use spindles_format::{AreaKind, JOURNAL_HEADER_BYTES, JournalHeader};
use spindles_layout::{Level, Spec};

fn logged(members: usize, member_blocks: u64, seed: u64) -> Setup {
    Setup {
        seed,
        persistent: true,
        regions: true,
        policy: "journal",
        ..Setup::new(Spec {
            level: Level::by_name("raid5").unwrap(),
            layout: None,
            chunk_blocks: 4,
            member_blocks: vec![member_blocks; members],
        })
    }
}

/// The last header in the journal of a member, and where it lies.
fn last_header(world: &World, member: usize) -> Option<(u64, usize)> {
    let area = world.devices[member].area(AreaKind::JOURNAL).unwrap();
    let start = usize::try_from(area.offset_bytes).unwrap();
    let length = usize::try_from(area.length_bytes).unwrap();
    let bytes = &world.members[member];
    let places = (start..bytes.len().min(start + length)).step_by(BLOCK);
    let headers = places.filter_map(|at| {
        let header = JournalHeader::decode(bytes.get(at..at + JOURNAL_HEADER_BYTES)?)?;
        Some((header.batch.sequence, at))
    });
    headers.max()
}

/// So many steps. Whether there were as many.
fn step(world: &mut World, steps: usize) -> bool {
    (0..steps).all(|_| {
        let more = world.has_pending();
        if more {
            world.step();
        }
        more
    })
}

/// A block of the log rots that no later write has, and one of the same rows was carried out.
#[test]
fn rot_in_the_log_does_not_bring_back_what_was_there_before() {
    let setup = logged(3, 6000, 0);
    for without in [None, Some(0), Some(1), Some(2)] {
        let mut world = setup.open().unwrap();
        for (at, byte) in [(1, 1), (1, 2), (5, 3)] {
            world.write(at, &[byte; BLOCK]).unwrap();
        }
        let mut rotten = 0;
        for member in 0..3 {
            let area = world.devices[member].area(AreaKind::JOURNAL).unwrap();
            let start = usize::try_from(area.offset_bytes).unwrap();
            let end = start + usize::try_from(area.length_bytes).unwrap();
            for block in world.members[member][start..end].chunks_exact_mut(BLOCK) {
                if block == [2; BLOCK] {
                    block.fill(0xee);
                    rotten += 1;
                }
            }
        }
        assert_eq!(rotten, 2, "data, and parity that is the same");
        let mut world = world.reopen(&setup);
        world.run();
        if let Some(member) = without {
            world.fail(member);
        }
        assert_eq!(world.read(1, 1).unwrap(), [2; BLOCK], "without {without:?}");
        assert_eq!(world.read(5, 1).unwrap(), [3; BLOCK], "without {without:?}");
    }
}

/// What the log lacks is made of what is in place, and never of what rotted there.
#[test]
fn what_the_log_lacks_is_not_made_of_rot() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        let mut setup = logged(members, 6000, 0);
        setup.spec.level = Level::by_name(level).unwrap();
        setup.checksum_pages = Some(64);
        let mut world = setup.open().unwrap();
        world.write(9, &[9; BLOCK]).unwrap();
        assert!(world.close());
        let mut world = world.reopen(&setup);
        world.run();
        for (at, byte) in [(1, 1), (1, 2), (5, 3)] {
            world.write(at, &[byte; BLOCK]).unwrap();
        }
        let mut rotten = [0, 0];
        for member in 0..members {
            let data = world.data_start[member];
            let area = world.devices[member].area(AreaKind::JOURNAL).unwrap();
            let start = usize::try_from(area.offset_bytes).unwrap();
            let log = start..start + usize::try_from(area.length_bytes).unwrap();
            for block in world.members[member][log].chunks_exact_mut(BLOCK) {
                if block == [2; BLOCK] {
                    block.fill(0xee);
                    rotten[0] += 1;
                }
            }
            let data = usize::try_from(data).unwrap() * BLOCK;
            for block in world.members[member][data..].chunks_exact_mut(BLOCK) {
                if block == [9; BLOCK] {
                    block.fill(0xdd);
                    rotten[1] += 1;
                    break;
                }
            }
        }
        assert_eq!(rotten[0], 1, "{level}: the new data in the log");
        assert!(rotten[1] > 0, "{level}: other data of the row");
        let mut world = world.reopen(&setup);
        world.run();
        if level == "raid6" {
            assert_eq!(world.read(1, 1).unwrap(), [2; BLOCK]);
            assert_eq!(world.read(9, 1).unwrap(), [9; BLOCK]);
        } else {
            // Its own block may be there, or not: no rot comes of it.
            assert!(
                world.read(1, 1).is_ok_and(|read| read == [2; BLOCK]) || world.read(1, 1).is_err()
            );
            assert!(world.read(9, 1).is_err() || world.read(9, 1).unwrap() == [9; BLOCK]);
        }
    }
}

/// The last write is not whole in the log, so redundancy is made anew in the end: of nothing, where
/// all that it follows from goes out until then.
#[test]
fn a_replay_comes_to_an_end_when_data_goes_out() {
    let mut tried = 0;
    for (spoiled, out, steps) in (0..2)
        .flat_map(|spoiled| (0..2).flat_map(move |out| (0..120).map(move |n| (spoiled, out, n))))
    {
        let setup = logged(2, 16, 0);
        let mut world = setup.open().unwrap();
        for at in 0..16 {
            world.write(at, &[1; BLOCK]).unwrap();
        }
        for at in [4, 8, 12, 0] {
            let token = world.submit(Operation::WriteZeroes { fua: false }, at, Vec::new(), 2);
            while world.replies.is_empty() {
                world.step();
            }
            world.result(token).unwrap();
        }
        let last = (0..2)
            .filter_map(|member| last_header(&world, member))
            .max();
        let Some((sequence, at)) = last_header(&world, spoiled) else {
            continue;
        };
        if last.is_none_or(|(last, _)| last != sequence) {
            continue;
        }
        world.members[spoiled][at..at + JOURNAL_HEADER_BYTES].fill(0);
        let mut world = world.reopen(&setup);
        if !step(&mut world, steps) {
            continue;
        }
        world.gone = MemberSet::EMPTY.with(MemberIndex(out));
        world.run();
        assert!(
            world.engine.is_settled() || world.has_pending(),
            "member {out} goes out after {steps} steps, without the part of member {spoiled}"
        );
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}

/// Who goes out in a replay, or right after it, is brought up to date with what that wrote.
#[test]
fn who_goes_out_in_a_replay_lacks_what_it_writes() {
    let mut tried = 0;
    for (seed, crash, out) in (0..2)
        .flat_map(|seed| (0..60).flat_map(move |crash| (0..3).map(move |out| (seed, crash, out))))
    {
        for steps in 0..80 {
            let setup = logged(3, 16, seed);
            let mut world = setup.open().unwrap();
            world.write(1, &[1; BLOCK]).unwrap();
            assert!(world.close());
            let mut world = world.reopen(&setup);
            world.run();
            world.submit(Operation::Write { fua: false }, 1, vec![2; BLOCK], 1);
            let crashes = step(&mut world, crash);
            let mut world = world.reopen(&setup);
            if !crashes || !step(&mut world, steps) {
                break;
            }
            world.gone = MemberSet::EMPTY.with(MemberIndex(out));
            world.run();
            let Ok(read) = world.read(1, 1) else {
                continue;
            };
            let was_out = world.engine.state() != ArrayState::Healthy;
            if !was_out || world.bring_back(out).is_err() {
                continue;
            }
            world.run();
            if world.engine.state() != ArrayState::Healthy {
                continue;
            }
            tried += 1;
            let what = format!("seed {seed}: crash after {crash}, member {out} out after {steps}");
            for _ in 0..3 {
                assert_eq!(world.read(1, 1).unwrap(), read, "{what}");
            }
            world.fail((out + 1) % 3);
            assert_eq!(world.read(1, 1).unwrap(), read, "{what}");
        }
    }
    assert!(tried > 500, "{tried}");
}
