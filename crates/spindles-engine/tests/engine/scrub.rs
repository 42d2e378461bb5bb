//! Scrubs and repairs: corrupt and unreadable blocks are found at exactly their places, and
//! repaired if redundancy shows what belongs there.

use crate::public::world::{
    BLOCK, Rng, Setup, World, assert_met, assert_not_met, at_block, equal, only,
};
use spindles_block::{BlockIndex, MemberIndex, MemberSet, Operation};
use spindles_engine::{
    Command, CommandError, Event, Fate, Finding, Flaw, Member, OutReason, Repair, Scrub,
    ScrubStatus,
};
use spindles_layout::{LEVELS, Level, Spec};

const MEMBER_BLOCKS: u64 = 24;

fn setup(level: &'static Level, members: usize, seed: u64) -> Setup {
    Setup {
        seed,
        range_blocks: 8,
        ..Setup::new(Spec {
            level,
            layout: None,
            chunk_blocks: 12,
            member_blocks: vec![MEMBER_BLOCKS; members],
        })
    }
}

/// A `raid5` that puts a member out for its twentieth error, with chunks of one block.
fn impatient(blocks: u64) -> Setup {
    Setup {
        errors_max: 20,
        seed: 4,
        range_blocks: 8,
        ..Setup::new(equal("raid5", 4, 1, blocks))
    }
}

/// An array full of random data.
fn filled(setup: &Setup) -> World {
    let mut world = setup.open().unwrap();
    let blocks = world.engine.geometry().blocks();
    let mut rng = Rng(setup.seed + 77);
    let length = at_block(blocks);
    let mut byte = |_| u8::try_from(rng.below(256)).unwrap();
    let bytes: Vec<u8> = (0..length).map(&mut byte).collect();
    world.write(0, &bytes).unwrap();
    world
}

fn scrub(world: &mut World, repair: Repair) -> ScrubStatus {
    world.events.clear();
    let scrub = Scrub { anew: true, repair };
    world.command(Command::Scrub(scrub)).unwrap();
    world.run();
    let done = world.events.iter().find_map(|event| match event {
        Event::ScrubDone(found) => Some(*found),
        _ => None,
    });
    assert_eq!(world.engine.status().scrub, done.unwrap());
    done.unwrap()
}

/// Stops a scrub under way when half of it is done.
fn stop_half_way(world: &mut World) {
    let is_half_done = |world: &World| {
        let job = world.engine.status().jobs[0];
        job.done_bytes * 2 >= job.total_bytes
    };
    while !is_half_done(world) {
        world.step();
    }
    world.command(Command::StopJob("scrub")).unwrap();
    world.run();
}

fn findings(world: &World) -> Vec<Finding> {
    let mut found: Vec<Finding> = (world.events.iter())
        .filter_map(|event| match event {
            Event::Found(finding) => Some(*finding),
            _ => None,
        })
        .collect();
    found.sort_by_key(|finding| (finding.member, finding.block));
    found
}

fn disagreements(world: &World, agree: bool) -> usize {
    let is = |event: &&Event| match event {
        Event::Disagreement { made_to_agree, .. } => *made_to_agree == agree,
        _ => false,
    };
    world.events.iter().filter(is).count()
}

/// Changes a byte of a block of a member's data area.
fn rot(world: &mut World, member: usize, block: u64) {
    let at = world.data_at(member) + at_block(block);
    world.members[member][at + 77] ^= 0x20;
}

/// The finding of a reader at a block, not of a scrub.
fn met(world: &World, member: usize, block: u64, flaw: Flaw, fate: Fate) -> Finding {
    Finding {
        by_scrub: false,
        ..finding(world, member, block, flaw, fate)
    }
}

fn finding(world: &World, member: usize, block: u64, flaw: Flaw, fate: Fate) -> Finding {
    Finding {
        member: MemberIndex(u8::try_from(member).unwrap()),
        block: BlockIndex(world.data_start[member] + block),
        blocks: 1,
        array_block: array_block(world, member, block),
        flaw,
        fate,
        by_scrub: true,
    }
}

/// Returns the block of the array at a block of a member's data area.
fn array_block(world: &World, member: usize, block: u64) -> Option<BlockIndex> {
    let geometry = world.engine.geometry();
    let member = MemberIndex(u8::try_from(member).unwrap());
    let (group, slot, row) = geometry.find(member, BlockIndex(block))?;
    let copies = geometry.parity_chunks() == 0;
    (0..geometry.blocks()).map(BlockIndex).find(|&at| {
        let location = geometry.locate(at);
        let is_slot = copies || location.data_index == slot;
        (location.group, location.block_in_chunk) == (group, row) && is_slot
    })
}

fn redundant_levels() -> impl Iterator<Item = (&'static Level, usize)> {
    let sizes = |level: &'static Level| {
        let least = usize::from(level.members_min.max(2));
        (least..least + 4).map(move |members| (level, members))
    };
    LEVELS.iter().copied().flat_map(sizes)
}

/// Returns the number of redundant chunks of the group at a block of a member.
fn spare(world: &World, member: usize, block: u64) -> Option<u32> {
    let geometry = world.engine.geometry();
    let member = MemberIndex(u8::try_from(member).unwrap());
    geometry.find(member, BlockIndex(block))?;
    Some(u32::from(geometry.redundancy()))
}

#[test]
fn rot_is_located_repaired_and_told_at_exactly_its_places() {
    let mut located = 0;
    for (level, members) in redundant_levels() {
        for seed in 1..6 {
            let mut world = filled(&setup(level, members, seed));
            if world.engine.geometry().redundancy() == 0 {
                continue;
            }
            let good = world.members.clone();
            // One member each at some rows, so that no group loses two at one row.
            let mut expected = Vec::new();
            for block in (0..MEMBER_BLOCKS).filter(|block| (block * 7 + seed) % 5 < 2) {
                let member = usize::try_from((block + seed) % u64::try_from(members).unwrap());
                let member = member.unwrap();
                match spare(&world, member, block) {
                    Some(2..) => expected.push((member, block)),
                    _ => continue,
                }
                rot(&mut world, member, block);
            }
            expected.sort_unstable();
            let found = scrub(&mut world, Repair::Nothing);
            assert_eq!(found.left_blocks, expected.len() as u64, "{level}");
            let status = scrub(&mut world, Repair::Located);
            let expected: Vec<_> = (expected.iter())
                .map(|&(m, b)| finding(&world, m, b, Flaw::Rotten, Fate::Repaired))
                .collect();
            assert_eq!(findings(&world), expected, "{level} of {members}");
            assert_eq!(world.members, good, "{level} of {members}");
            assert_eq!(status.repaired_blocks, expected.len() as u64);
            assert_eq!((status.left_blocks, status.disagreements), (0, 0));
            assert_eq!(scrub(&mut world, Repair::Located), ScrubStatus::default());
            located += expected.len();
        }
    }
    assert!(located > 500, "{located}");
}

#[test]
fn what_can_not_be_located_is_told_and_left_unless_data_is_to_be_trusted() {
    for (name, members, missing) in [
        ("raid1", 2, MemberSet::EMPTY),
        ("raid5", 4, MemberSet::EMPTY),
        ("raid1", 3, only(1)),
        ("raid6", 5, only(4)),
    ] {
        let setup = setup(Level::by_name(name).unwrap(), members, 3);
        let mut world = filled(&setup);
        for member in missing.iter() {
            world.fail(member.0);
        }
        let good = world.members.clone();
        rot(&mut world, 2 % members, 5);
        rot(&mut world, 0, 13);
        let rotten = world.members.clone();
        let found = scrub(&mut world, Repair::Located);
        assert_eq!((found.disagreements, found.repaired_blocks), (2, 0));
        assert_eq!(
            (disagreements(&world, false), findings(&world)),
            (2, vec![])
        );
        assert!(world.members == rotten, "{name}: nothing is changed");
        let found = scrub(&mut world, Repair::TrustData);
        assert_eq!((found.disagreements, found.made_to_agree), (0, 2));
        assert!(world.members != good && world.members != rotten, "{name}");
        assert_eq!(scrub(&mut world, Repair::Located), ScrubStatus::default());
    }
}

#[test]
fn latent_errors_are_repaired_by_a_scrub_and_lost_places_are_told() {
    for (level, members) in redundant_levels() {
        let mut world = filled(&setup(level, members, 9));
        let redundancy = world.engine.geometry().redundancy();
        if redundancy == 0 {
            let refused = world.command(Command::Scrub(Scrub::default()));
            assert_eq!(refused, Err(CommandError::NoRedundancy));
            continue;
        }
        let good = world.members.clone();
        let bad: Vec<(usize, u64)> = [(0, 3), (0, 4), (1, 9), (1, 17)].to_vec();
        for &(member, block) in &bad {
            let at = world.data_start[member] + block;
            world.medium.insert((u8::try_from(member).unwrap(), at));
        }
        world.trace = Some(Vec::new());
        scrub(&mut world, Repair::Located);
        let trace = world.trace.take().unwrap();
        let writes = trace.iter().filter(|line| line.starts_with("write"));
        let durable = writes.filter(|line| line.starts_with("write-fua")).count();
        assert_eq!(durable, bad.len(), "{trace:?}");
        let expected: Vec<_> = (bad.iter())
            .map(|&(m, b)| finding(&world, m, b, Flaw::Unreadable, Fate::Repaired))
            .collect();
        assert_eq!(findings(&world), expected, "{level} of {members}");
        assert!(world.medium.is_empty() && world.members == good);
        let faults = world.engine.status().members[0].faults;
        assert_eq!((faults.repaired_blocks, faults.bad_blocks), (2, 0));
    }
    // One more than the level survives, at one row.
    let mut world = filled(&setup(Level::by_name("raid5").unwrap(), 3, 1));
    for member in 0..2 {
        let at = world.data_start[usize::from(member)] + 7;
        world.medium.insert((member, at));
    }
    let found = scrub(&mut world, Repair::Located);
    assert_eq!((found.left_blocks, world.medium.len()), (2, 2));
    assert!(
        findings(&world)
            .iter()
            .all(|found| found.fate == Fate::Left)
    );
}

#[test]
fn rot_beside_something_unreadable_is_told_apart() {
    let mut world = filled(&setup(Level::by_name("raid7").unwrap(), 6, 2));
    let good = world.members.clone();
    world.medium.insert((1, world.data_start[1] + 8));
    rot(&mut world, 4, 8);
    scrub(&mut world, Repair::Located);
    let expected = [
        finding(&world, 1, 8, Flaw::Unreadable, Fate::Repaired),
        finding(&world, 4, 8, Flaw::Rotten, Fate::Repaired),
    ];
    assert_eq!(findings(&world), expected);
    assert!(world.members == good);
}

#[test]
fn a_place_that_a_client_could_not_read_is_written_anew() {
    for (level, members) in redundant_levels() {
        let setup = setup(level, members, 4);
        let mut world = filled(&setup);
        if world.engine.geometry().redundancy() == 0 {
            continue;
        }
        let good = world.members.clone();
        let start = world.data_start[0];
        world.medium.extend([(0, start + 2), (0, start + 3)]);
        let all = world.read_all();
        world.run();
        if !world.medium.is_empty() {
            // The read took another copy, or parity lies there: no client reads that.
            assert!(findings(&world).is_empty());
            continue;
        }
        let expected = [2, 3].map(|b| met(&world, 0, b, Flaw::Unreadable, Fate::Repaired));
        assert_eq!(findings(&world), expected, "{level} of {members}");
        assert_eq!(world.members, good);
        assert!(!world.engine.status().dirty || setup.persistent);
        assert_eq!(world.read_all(), all);
    }
}

#[test]
fn what_refuses_to_be_written_anew_is_not_read_until_it_is_written() {
    let mut world = filled(&setup(Level::by_name("raid5").unwrap(), 3, 4));
    let at = world.data_start[0] + 2;
    world.medium.insert((0, at));
    world.refusing.insert((0, at));
    // Chunk 0 of stripe 0 lies on member 0.
    let before = world.read(0, 8).unwrap();
    world.run();
    let expected = [met(&world, 0, 2, Flaw::Unreadable, Fate::Refused)];
    assert_eq!(findings(&world), expected);
    assert_eq!(world.engine.status().members[0].faults.bad_blocks, 1);
    // Readable or not, the block is answered from the others, and no repair is tried again.
    world.medium.clear();
    world.members[0][at_block(at)] ^= 1;
    assert_eq!(world.read(0, 8).unwrap(), before);
    assert_eq!(findings(&world).len(), 1);
    // A scrub tries again; so does a write.
    scrub(&mut world, Repair::Located);
    assert_eq!(world.engine.status().members[0].faults.bad_blocks, 1);
    world.refusing.clear();
    scrub(&mut world, Repair::Located);
    assert_eq!(world.engine.status().members[0].faults.bad_blocks, 0);
    assert_eq!(world.read(0, 8).unwrap(), before);
}

#[test]
fn too_many_errors_in_too_short_a_time_put_a_member_out() {
    for (apart_s, out) in [(10, true), (60, false)] {
        let setup = impatient(64);
        let mut world = filled(&setup);
        for row in 0..30 {
            world.medium.insert((0, world.data_start[0] + row));
        }
        for block in 0..120 {
            world.now = world.now.plus_ns(apart_s * 1_000_000_000 / 4);
            world.read(block, 1).unwrap();
        }
        let reason = OutReason::TooManyErrors;
        let member = MemberIndex(0);
        let went = world.events.contains(&Event::MemberOut { member, reason });
        assert_eq!(went, out, "an error every {apart_s} s");
    }
}

#[test]
fn the_last_redundancy_is_not_given_up_for_errors() {
    let setup = impatient(64);
    let mut world = filled(&setup);
    world.fail(3);
    for row in 0..30 {
        world.medium.insert((0, world.data_start[0] + row));
    }
    for block in 0..90 {
        world.read(block, 1).ok();
    }
    assert_eq!(world.state(0), Member::Active);
}

/// Parity that a crash left in doubt recovers no member: the array could not be opened without it.
#[test]
fn no_member_is_given_up_for_errors_while_parity_is_in_doubt() {
    let setup = Setup {
        persistent: true,
        ..impatient(480)
    };
    let mut world = filled(&setup).reopen(&setup);
    for row in 0..30 {
        world.medium.insert((0, world.data_start[0] + row));
    }
    world.run();
    assert_met!(world, Event::ResyncIncomplete { .. });
    for block in 0..90 {
        world.read(block, 1).ok();
    }
    assert_eq!(world.state(0), Member::Active);
}

#[test]
fn a_scrub_that_was_stopped_goes_on_where_it_was() {
    let mut setup = setup(Level::by_name("raid6").unwrap(), 5, 6);
    setup.persistent = true;
    setup.spec.member_blocks = vec![480; 5];
    let mut world = filled(&setup);
    let reads = |world: &mut World| {
        let trace = world.trace.replace(Vec::new()).unwrap();
        trace.iter().filter(|line| line.starts_with("read")).count()
    };
    world.trace = Some(Vec::new());
    scrub(&mut world, Repair::Located);
    let whole = reads(&mut world);
    world.command(Command::Scrub(Scrub::default())).unwrap();
    let twice = world.command(Command::Scrub(Scrub::default()));
    assert_eq!(twice, Err(CommandError::JobGoing));
    stop_half_way(&mut world);
    assert!(
        matches!(world.events.last(), Some(Event::ScrubStopped(_))),
        "{:?}",
        world.events.last()
    );
    let mark = world.engine.status().scrub.mark;
    assert!(mark.0 > 0 && world.engine.status().jobs.is_empty());
    assert_eq!(
        world.command(Command::StopJob("scrub")),
        Err(CommandError::NoSuchJob)
    );
    assert_eq!(
        world.command(Command::StopJob("resync")),
        Err(CommandError::MustGoOn)
    );
    reads(&mut world);
    world.command(Command::Scrub(Scrub::default())).unwrap();
    world.run();
    let rest = reads(&mut world);
    assert!(rest > 0 && rest * 3 < whole * 2, "{rest} of {whole}");
    assert_eq!(world.engine.status().scrub.mark.0, 0);
    // The same after a close: the superblocks keep the mark.
    world.command(Command::Scrub(Scrub::default())).unwrap();
    (0..200).for_each(|_| world.step());
    assert!(world.close());
    let mark = world.engine.status().scrub.mark;
    let slots = world.superblocks(0);
    let newest = slots.iter().max_by_key(|record| record.generation).unwrap();
    assert!(mark.0 > 0 && newest.scrub_mark == mark, "{newest:?}");
}

#[test]
fn beside_clients_a_scrub_finds_nothing_that_is_not_there() {
    for (level, members) in redundant_levels() {
        let mut world = filled(&setup(level, members, 8));
        if world.engine.geometry().redundancy() == 0 {
            continue;
        }
        let blocks = world.engine.geometry().blocks();
        world.command(Command::Scrub(Scrub::default())).unwrap();
        for round in 0..60 {
            let block = round * 7 % (blocks - 3);
            let bytes = vec![u8::try_from(round).unwrap(); 3 * BLOCK];
            world.submit(Operation::Write { fua: false }, block, bytes, 3);
            if round % 20 == 0 {
                world.run();
                world.command(Command::Scrub(Scrub::default())).unwrap();
            }
        }
        world.run();
        assert!(
            findings(&world).is_empty() && disagreements(&world, false) == 0,
            "{level}"
        );
    }
}

/// When a scrub ends, the superblocks record what it left, until the next scrub has ended.
#[test]
fn superblocks_say_what_a_scrub_left() {
    let mut setup = setup(Level::by_name("raid5").unwrap(), 3, 8);
    setup.persistent = true;
    let mut world = filled(&setup);
    let left = |world: &World| world.newest(0).unwrap().scrub_left_blocks;
    // One member is corrupt in two rows. Without checksums the scrub can't identify the member.
    rot(&mut world, 1, 0);
    rot(&mut world, 1, 5);
    scrub(&mut world, Repair::Located);
    assert_eq!(disagreements(&world, false), 2);
    assert_eq!(left(&world), 2);
    // An interrupted scrub does not reset the number.
    world.command(Command::Scrub(Scrub::default())).unwrap();
    world.command(Command::StopJob("scrub")).unwrap();
    world.run();
    assert!(world.close());
    assert_eq!(left(&world), 2);
    let mut world = world.reopen(&setup);
    scrub(&mut world, Repair::TrustData);
    assert_eq!(left(&world), 0);
}

/// The times come from the caller's clock: the engine has no clock.
#[test]
fn superblocks_say_when_they_were_written_and_when_a_scrub_ended() {
    let mut setup = setup(Level::by_name("raid1").unwrap(), 2, 5);
    setup.persistent = true;
    let mut world = filled(&setup);
    let newest = |world: &World| world.newest(0).unwrap();
    let opened_s = newest(&world).last_written_s;
    assert!(opened_s >= 1_700_000_000, "{opened_s}");
    assert_eq!(newest(&world).last_scrub_s, 0);
    world.now.0 += 100_000_000_000;
    scrub(&mut world, Repair::Located);
    let scrubbed_s = newest(&world).last_scrub_s;
    assert!((opened_s + 100..opened_s + 200).contains(&scrubbed_s));
    // A stopped scrub does not count as ended.
    world.now.0 += 100_000_000_000;
    world.command(Command::Scrub(Scrub::default())).unwrap();
    world.command(Command::StopJob("scrub")).unwrap();
    assert!(world.close());
    let closed = newest(&world);
    assert_eq!(closed.last_scrub_s, scrubbed_s);
    assert!(closed.last_written_s >= opened_s + 200);
}

/// A failed array completes no job: a running scrub is stopped, and none begins.
#[test]
fn an_array_that_fails_stops_its_scrub() {
    let mut setup = setup(Level::by_name("raid5").unwrap(), 4, 3);
    setup.persistent = true;
    setup.spec.member_blocks = vec![480; 4];
    let mut world = filled(&setup);
    world.command(Command::Scrub(Scrub::default())).unwrap();
    (0..60).for_each(|_| world.step());
    world.gone = only(1).with(MemberIndex(2));
    world.run();
    assert_met!(world, Event::ScrubStopped(_));
    let status = world.engine.status();
    assert!(
        status.stopped_writing && status.jobs.is_empty(),
        "{status:?}"
    );
    assert_eq!(
        world.command(Command::Scrub(Scrub::default())),
        Err(CommandError::BeyondTolerance)
    );
}

/// Several members have bad blocks in different rows of one stretch. Each row is recovered from its
/// readable blocks: when the stretch is read as a whole, and when it is written in part.
#[test]
fn bad_blocks_in_different_rows_of_a_stretch_take_nothing() {
    for (level, members) in [("raid5", 4), ("raid6", 5), ("raid1", 2), ("raid10", 4)] {
        for range_blocks in [1, 8] {
            let mut setup = setup(Level::by_name(level).unwrap(), members, 9);
            setup.range_blocks = range_blocks;
            let mut world = filled(&setup);
            let _blocks = u32::try_from(world.engine.geometry().blocks()).unwrap();
            let contents = world.read_all();
            let spoil = |world: &mut World| {
                for (member, row) in (0..).zip(0..u64::try_from(members).unwrap()) {
                    let start = world.data_start[usize::from(member)];
                    world.medium.insert((member, start + row * 2 + 1));
                }
            };
            spoil(&mut world);
            assert!(world.read_all() == contents, "{level}");
            spoil(&mut world);
            world.write(1, &contents[BLOCK..4 * BLOCK]).unwrap();
            assert!(world.read_all() == contents, "{level}");
        }
    }
}

/// All members have latent errors. The one that meets its twentieth first is not put out, since it
/// alone may hold blocks that the others can't read.
#[test]
fn nobody_is_put_out_for_errors_while_others_have_them_too() {
    let setup = impatient(160);
    let mut world = filled(&setup);
    let blocks = world.engine.geometry().blocks();
    for row in 0..160 {
        let member = u8::try_from(row % 4).unwrap();
        let start = world.data_start[usize::from(member)];
        world.medium.insert((member, start + row));
    }
    for block in 0..blocks {
        world.read(block, 1).unwrap();
    }
    world.run();
    assert_not_met!(world, Event::MemberOut { .. });
    assert!(world.medium.is_empty());
}

/// A scrub in two parts ends with the findings of both. A check in between begins at the start, and
/// changes nothing.
#[test]
fn a_scrub_that_goes_on_says_what_the_part_before_left() {
    let mut setup = setup(Level::by_name("raid5").unwrap(), 3, 8);
    setup.persistent = true;
    setup.spec.member_blocks = vec![480; 3];
    let newest = |world: &World| {
        let newest = world.newest(0).unwrap();
        (
            newest.scrub_mark,
            newest.scrub_left_blocks,
            newest.last_scrub_s,
        )
    };
    for check in [false, true] {
        let mut world = filled(&setup);
        rot(&mut world, 1, 0);
        world.command(Command::Scrub(Scrub::default())).unwrap();
        stop_half_way(&mut world);
        assert!(world.engine.status().scrub.mark.0 > 0);
        if check {
            let before = newest(&world);
            world.events.clear();
            world
                .command(Command::Scrub(Scrub {
                    anew: false,
                    repair: Repair::Nothing,
                }))
                .unwrap();
            world.run();
            let from = BlockIndex(0);
            assert!(world.events.contains(&Event::ScrubStarted { from }));
            let found = world.engine.status().scrub;
            assert_eq!((found.disagreements, found.left_before_blocks), (1, 0));
            assert_eq!(newest(&world), before);
        }
        world.command(Command::Scrub(Scrub::default())).unwrap();
        world.run();
        let found = world.engine.status().scrub;
        assert_eq!((found.disagreements, found.left_before_blocks), (0, 1));
        assert_eq!(newest(&world).1, 1);
    }
}
