//! Checksums: corrupt blocks are never returned nor built upon, and repaired if redundancy allows.

use crate::public::contents::{arrays, exercise, model_of, survivable};
use crate::public::world::{BLOCK, Setup, World, assert_not_met, at_block, equal, only};
use spindles_block::{BlockIndex, MemberError, MemberIndex, MemberSet, Operation, RequestError};
use spindles_engine::{Command, Event, Fate, Flaw, Scrub};
use spindles_format::{AreaKind, SLOT_BYTES};
use spindles_layout::{Geometry, Spec};

/// An array with checksums. If `pages` are too few, there is room for those of one stripe range.
pub(crate) fn setup(spec: &Spec, pages: u32, seed: u64) -> Setup {
    Setup {
        seed,
        persistent: true,
        regions: true,
        checksum_pages: Some(pages),
        ..Setup::new(spec.clone())
    }
}

pub(crate) fn spec(level: &str, members: usize) -> Spec {
    equal(level, members, 8, 72)
}

/// The same, with a log.
fn logging(level: &str, members: usize, pages: u32, seed: u64) -> Setup {
    Setup {
        policy: "journal",
        ..setup(&spec(level, members), pages, seed)
    }
}

/// An array full of random data.
pub(crate) fn filled(setup: &Setup) -> (World, Vec<u8>) {
    let mut world = setup.open().unwrap();
    let length = usize::try_from(world.engine.geometry().blocks()).unwrap() * BLOCK;
    let bytes: Vec<u8> = (0..length)
        .map(|_| u8::try_from(world.rng.below(256)).unwrap())
        .collect();
    world.write(0, &bytes).unwrap();
    (world, bytes)
}

/// Changes a byte of a block of a member's data area.
pub(crate) fn rot(world: &mut World, member: usize, block: u64) {
    let at = world.data_at(member) + at_block(block);
    world.members[member][at + 99] ^= 0x10;
}

pub(crate) fn scrub(world: &mut World) {
    let scrub = Scrub {
        anew: true,
        ..Scrub::default()
    };
    world.command(Command::Scrub(scrub)).unwrap();
    world.run();
}

#[test]
fn contents_are_as_without() {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        for (which, missing) in (0..).zip(survivable(&geometry)) {
            let pages = [0, 1000][which % 2];
            let mut world = setup(&spec, pages, seed).open().unwrap();
            let mut model = model_of(&geometry);
            exercise(&mut world, &mut model, 1);
            world.gone = missing;
            exercise(&mut world, &mut model, 2);
            assert!(world.close(), "{}", spec.level.name);
            let wrong = world.wrong_checksums();
            assert!(wrong.is_empty(), "{} {wrong:?}", spec.level.name);
        }
    }
}

#[test]
fn rot_is_answered_from_redundancy_and_written_anew() {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        let redundancy = usize::from(geometry.redundancy());
        let (mut world, model) = filled(&setup(&spec, 4, seed));
        let members = usize::from(geometry.members());
        let mut good = world.members.clone();
        // At these levels the chunks of a group lie at the same block of all members.
        if !matches!(spec.level.name, "raid1" | "raid5" | "raid6") {
            continue;
        }
        let mut rotten = 0;
        for block in 0..72 {
            let first = usize::try_from(world.rng.below(7)).unwrap();
            for member in (first..first + redundancy).filter(|&member| member < members) {
                let position = MemberIndex(u8::try_from(member).unwrap());
                if geometry.find(position, BlockIndex(block)).is_some() {
                    rot(&mut world, member, block);
                    rotten += 1;
                }
            }
        }
        let read = world.read_all();
        assert!(read == model, "{}", spec.level.name);
        // A scrub finds what no read met: parity, or other copies.
        scrub(&mut world);
        let found = world.events.iter().filter_map(|event| match event {
            Event::Found(finding) => Some(*finding),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        let places: u32 = found.iter().map(|finding| finding.blocks).sum();
        assert_eq!(places, rotten, "{}", spec.level.name);
        for finding in found {
            assert_eq!((finding.flaw, finding.fate), (Flaw::Rotten, Fate::Repaired));
        }
        let status = world.engine.status();
        let counted: u64 = status.members.iter().map(|m| m.faults.rotten_blocks).sum();
        assert_eq!(counted, u64::from(rotten));
        let starts = world.data_start.clone();
        for ((good, now), start) in good.iter_mut().zip(&world.members).zip(starts) {
            let start = at_block(start);
            assert!(good[start..] == now[start..], "{}", spec.level.name);
        }
    }
}

#[test]
fn without_redundancy_rot_is_an_error_at_its_block() {
    for level in ["raid0", "concat"] {
        let (mut world, model) = filled(&setup(&spec(level, 3), 4, 5));
        rot(&mut world, 1, 13);
        let mut errors = 0;
        for (block, right) in (0..).zip(model.chunks_exact(BLOCK)) {
            match world.read(block, 1) {
                Ok(bytes) => assert!(bytes == right),
                Err(error) => {
                    assert_eq!(error, RequestError::Corrupt);
                    errors += 1;
                }
            }
        }
        assert_eq!(errors, 1);
        let fault = Event::MemberFault {
            member: MemberIndex(1),
            error: MemberError::Corrupt,
        };
        assert!(world.events.contains(&fault));
        let status = world.engine.status();
        assert_eq!(status.members[1].faults.rotten_blocks, 1);
    }
}

#[test]
fn more_rot_than_redundancy_is_an_error() {
    for (level, members, rotten) in [("raid1", 2, 2), ("raid5", 4, 2), ("raid6", 5, 3)] {
        let (mut world, model) = filled(&setup(&spec(level, members), 4, 6));
        for member in 0..rotten {
            rot(&mut world, member, 20);
        }
        let mut errors = 0;
        for (block, right) in (0..).zip(model.chunks_exact(BLOCK)) {
            match world.read(block, 1) {
                Ok(bytes) => assert!(bytes == right, "{level}"),
                Err(error) => {
                    assert_eq!(error, RequestError::Corrupt, "{level}");
                    errors += 1;
                }
            }
        }
        assert!((1..=rotten).contains(&errors), "{level}: {errors}");
    }
}

/// Writes a block of a row in which too many blocks are corrupt to reconstruct the rest. The
/// corrupt blocks are lost. Everything else, the written block included, is readable and has its
/// redundancy.
#[test]
fn a_write_beside_more_rot_than_redundancy_comes_to_pass() {
    let mut told = 0;
    for (level, members, rotten) in [("raid5", 4, 2), ("raid5", 4, 3), ("raid6", 6, 3)] {
        let geometry = Geometry::new(&spec(level, members)).unwrap();
        // Returns the data block at block 20 of a member; `None` if that is parity.
        let block_on = |member: usize| {
            let member = MemberIndex(u8::try_from(member).unwrap());
            let (group, slot, row) = geometry.find(member, BlockIndex(20)).unwrap();
            let at = group.0 * geometry.stripe_blocks() + u64::from(slot) * 8 + u64::from(row);
            (slot < geometry.data_chunks()).then_some(at)
        };
        let blocks = || (0..members).filter_map(block_on);
        for (first, block) in (0..members).flat_map(|first| blocks().map(move |b| (first, b))) {
            let (mut world, mut model) = filled(&setup(&spec(level, members), 4, 6));
            let rots: Vec<usize> = (first..first + rotten).map(|m| m % members).collect();
            for &member in &rots {
                rot(&mut world, member, 20);
            }
            let mut write = |world: &mut World, block: u64| {
                let at = at_block(block);
                model[at..at + BLOCK].fill(0x77);
                world.write(block, &[0x77; BLOCK]).unwrap();
                model.clone()
            };
            let mut now = write(&mut world, block);
            let lost = rots.iter().filter_map(|&member| block_on(member));
            let lost: Vec<u64> = lost.filter(|&other| other != block).collect();
            for (block, right) in (0..).zip(now.chunks_exact(BLOCK)) {
                match world.read(block, 1) {
                    Ok(bytes) => assert!(bytes == right && !lost.contains(&block), "{level}"),
                    Err(_) => assert!(lost.contains(&block), "{level} {block}"),
                }
            }
            let lost_events = |event: &&Event| matches!(event, Event::Lost { .. });
            told += world.events.iter().filter(lost_events).count();
            for block in lost {
                now = write(&mut world, block);
            }
            world.fail(u8::try_from(first).unwrap());
            assert!(world.read_all() == now, "{level}");
            world.close_with_checksums(level);
        }
    }
    assert!(told > 0, "all was written without the rest of a row");
}

/// Members that return other bytes however often they are written do not delay a write forever.
#[test]
fn a_write_beside_what_always_rots_ends() {
    let (mut world, _) = filled(&setup(&spec("raid5", 4), 4, 6));
    let geometry = world.engine.geometry().clone();
    let at_20 = |member| geometry.find(MemberIndex(member), BlockIndex(20)).unwrap();
    let is_data = |member: &u8| at_20(*member).1 < geometry.data_chunks();
    let (data, parity): (Vec<u8>, Vec<u8>) = (0..4).partition(is_data);
    let (group, slot, row) = at_20(data[1]);
    let block = group.0 * geometry.stripe_blocks() + u64::from(slot) * 8 + u64::from(row);
    let write = Operation::Write { fua: false };
    let token = world.submit(write, block, vec![0x77; BLOCK], 1);
    for step in 0..10_000 {
        if !world.replies.is_empty() {
            break;
        }
        for member in [data[0], parity[0]] {
            let at = world.data_at(usize::from(member)) + at_block(20);
            world.members[usize::from(member)][at + 99] = u8::try_from(step % 251).unwrap();
        }
        world.step();
    }
    // Fails if there is no answer yet.
    assert_eq!(world.result(token), Err(RequestError::Corrupt));
}

/// A write that computes parity from existing blocks does not build upon rot, nor does a rebuild.
#[test]
fn rot_is_not_built_upon() {
    for (level, members) in [("raid5", 4), ("raid6", 6)] {
        let (mut world, mut model) = filled(&setup(&spec(level, members), 4, 7));
        for block in 0..72 {
            let member = usize::try_from(block).unwrap() % members;
            rot(&mut world, member, block);
        }
        for block in (0..world.engine.geometry().blocks()).step_by(3) {
            let at = at_block(block);
            model[at..at + BLOCK].fill(0x77);
            world.write(block, &[0x77; BLOCK]).unwrap();
        }
        assert!(world.read_all() == model, "{level}");
        world.run();
        if level == "raid6" {
            world.fail(0);
            for block in 0..72 {
                rot(&mut world, 1, block);
            }
            world.rebuild(0, 99).unwrap();
            world.run();
            assert!(world.read_all() == model, "{level}");
            // Repair the blocks that no read met.
            scrub(&mut world);
            world.close_with_checksums(level);
        }
    }
}

/// A page of checksums that is unreadable or corrupt costs nothing if there is redundancy.
#[test]
fn lost_checksums_are_made_anew() {
    for unreadable in [false, true] {
        let setup = setup(&spec("raid5", 3), 0, 8);
        let (mut world, model) = filled(&setup);
        assert!(world.close());
        let first = world.checksum_start(1);
        let at = at_block(first);
        if unreadable {
            world.medium = (first..first + 8).map(|block| (1, block)).collect();
        } else {
            world.members[1][at + 3] ^= 1;
        }
        let mut world = world.reopen(&setup);
        assert!(world.read_all() == model);
        scrub(&mut world);
        world.close_with_checksums("");
    }
}

/// Counts the reads besides data: none if the pages in use fit in memory, otherwise at most one
/// page for each that is not in memory.
#[test]
fn pages_are_read_no_more_often_than_they_must() {
    let spec = Spec {
        member_blocks: vec![16_000; 3],
        ..spec("raid5", 3)
    };
    for (pages, most) in [(160, 0), (36, 80)] {
        let (mut world, model) = filled(&setup(&spec, pages, 9));
        let blocks = world.engine.geometry().blocks();
        for block in (0..blocks).step_by(37) {
            world.read(block, 1).unwrap();
        }
        world.trace = Some(Vec::new());
        for _ in 0..500 {
            let block = world.rng.below(blocks);
            let at = at_block(block);
            assert!(world.read(block, 1).unwrap() == model[at..at + BLOCK]);
        }
        let trace = world.trace.take().unwrap();
        let is_read = |line: &&String| line.starts_with("read ");
        let is_page = |line: &&String| line.ends_with("+8");
        let reads = trace.iter().filter(is_read).count();
        let loads = trace.iter().filter(is_read).filter(is_page).count();
        assert_eq!(reads - loads, 500, "data is read once");
        assert!(loads * 100 <= most * 500, "{loads} pages for 500 blocks");
        // Of 147 pages 36 fit: three reads in four do not find theirs in memory.
        assert!(most == 0 || loads * 100 > 70 * 500, "{loads} pages");
    }
}

/// With row sums, the rows of one stripe range have their entries in up to three pages.
#[test]
fn long_runs_have_their_checksums_in_three_pages() {
    for (level, members) in [("raid1", 2), ("raid5", 3)] {
        for pages in [0, 64] {
            let spec = Spec {
                chunk_blocks: 1024,
                member_blocks: vec![2048; members],
                ..spec(level, members)
            };
            let mut setup = setup(&spec, pages, 5);
            setup.range_blocks = 512;
            let (mut world, model) = filled(&setup);
            assert!(world.read_all() == model);
            rot(&mut world, 0, 1000);
            scrub(&mut world);
            world.close_with_checksums(level);
        }
    }
}

/// Arrays without parity: level and number of members.
const WITHOUT_PARITY: [(&str, usize); 5] = [
    ("raid0", 3),
    ("concat", 2),
    ("raid1", 2),
    ("raid1", 3),
    ("raid10", 4),
];

/// The last block written before a crash.
const LAST: u64 = 40;

/// An array whose process ends after it answered writes: state that was in memory only is gone when
/// it is opened again.
fn crashed(setup: &Setup) -> (World, Vec<u8>) {
    let (mut world, mut model) = filled(setup);
    for block in (0..=LAST).step_by(5) {
        let at = at_block(block);
        model[at..at + BLOCK].fill(0x55);
        world.write_and_no_more(block, &[0x55; BLOCK]);
    }
    (world, model)
}

#[test]
fn after_a_crash_blocks_have_the_checksums_of_what_they_hold() {
    for (level, members) in WITHOUT_PARITY {
        for tears in [false, true] {
            let setup = Setup {
                tears,
                ..logging(level, members, 16, 11)
            };
            let (world, model) = crashed(&setup);
            assert!(!world.wrong_checksums().is_empty(), "{level}: in memory");
            let mut world = world.reopen(&setup);
            assert!(world.read_all() == model, "{level}");
            world.close_with_checksums(level);
        }
    }
}

/// Checksums and blocks go to the members once. A second flush sends nothing to them.
#[test]
fn a_flush_with_nothing_to_flush_asks_nobody() {
    for (level, members) in [("raid0", 3), ("raid1", 2), ("raid5", 3)] {
        let setup = logging(level, members, 16, 15);
        let (mut world, _) = filled(&setup);
        let flushes = |world: &mut World| {
            world.trace = Some(Vec::new());
            world.flush_and_no_more();
            let trace = world.trace.take().unwrap();
            trace.iter().filter(|io| io.contains("flush")).count()
        };
        flushes(&mut world);
        for stripe in 1..3 {
            world.write_and_no_more(0, &[7; BLOCK]);
            if level == "raid5" {
                // A part of a row is in the log, and so durable.
                assert_eq!(flushes(&mut world), 0, "{level}");
                world.write_and_no_more(16 * stripe, &[7; 16 * BLOCK]);
            }
            assert!(flushes(&mut world) >= members, "{level}");
            assert_eq!(flushes(&mut world), 0, "{level}");
        }
    }
}

/// A write of parts of two stripes is logged as one batch, in whatever order its reads come back.
#[test]
fn what_belongs_together_is_logged_as_one_batch() {
    for seed in 0..20 {
        let setup = logging("raid5", 4, 16, seed);
        let (mut world, _) = filled(&setup);
        world.write(20, &[7; BLOCK]).unwrap(); // This starts the log.
        // A header of eight blocks, and two blocks of each stripe.
        let batches = |world: &mut World| {
            let trace = world.trace.take().unwrap();
            let is_batch = |io: &&String| io.starts_with("write-fua ") && io.ends_with("+12");
            trace.iter().filter(is_batch).count()
        };
        world.trace = Some(Vec::new());
        world.write_and_no_more(22, &[8; 4 * BLOCK]);
        assert_eq!(batches(&mut world), 2, "seed {seed}");
        assert_eq!(world.read(22, 4).unwrap(), [8; 4 * BLOCK]);
    }
}

/// Durable writes that come together share flushes of the members. Those that come during a flush
/// wait for the next, all together.
#[test]
fn durable_writes_that_come_together_share_flushes() {
    const WRITES: usize = 16;
    for (level, members) in WITHOUT_PARITY {
        let setup = logging(level, members, 16, 15);
        let (mut world, _) = filled(&setup);
        world.in_order = true;
        world.flush_and_no_more();
        world.trace = Some(Vec::new());
        let fua = Operation::Write { fua: true };
        let write = |world: &mut World, block| world.submit(fua, block, vec![7; BLOCK], 1);
        let tokens: Vec<u64> = (0..16).map(|block| write(&mut world, block)).collect();
        while world.replies.len() < WRITES {
            world.step();
        }
        for token in tokens {
            world.result(token).unwrap();
        }
        let trace = world.trace.take().unwrap();
        let flushes = trace.iter().filter(|io| io.contains("flush")).count();
        let rounds = flushes / members;
        assert!((1..=WRITES / 2).contains(&rounds), "{level}: {rounds}");
    }
}

/// Durable checksums show which copy is right. A corrupt block without redundancy is read without
/// an error, because a torn write is possible.
#[test]
fn rot_where_a_crash_came_is_made_good_from_a_copy() {
    for (level, members) in WITHOUT_PARITY {
        for tears in [false, true] {
            let setup = Setup {
                tears,
                ..logging(level, members, 16, 12)
            };
            let (mut world, model) = crashed(&setup);
            world.flush_and_no_more();
            assert_eq!(
                world.wrong_checksums(),
                [],
                "{level}: a flush makes them durable"
            );
            let place = world.engine.geometry().locate(BlockIndex(LAST));
            rot(&mut world, usize::from(place.member.0), place.offset.0);
            let mut world = world.reopen(&setup);
            let redundant = world.engine.geometry().redundancy() > 0;
            for (block, right) in (0..).zip(model.chunks_exact(BLOCK)) {
                let bytes = world.read(block, 1).unwrap();
                let right = if redundant || block != LAST {
                    bytes == right
                } else {
                    bytes != right
                };
                assert!(right, "{level}: block {block}");
            }
        }
    }
}

/// A whole stripe that was about to be written is intact, or is repaired. A corrupt block, neither
/// old nor new, does not prevent that.
#[test]
fn a_stripe_that_was_not_written_yet_is_made_good_after_a_crash() {
    for (level, members) in [("raid4", 3), ("raid5", 2), ("raid5", 4), ("raid6", 5)] {
        for (tears, closes) in [(false, false), (false, true), (true, false), (true, true)] {
            let setup = Setup {
                tears,
                ..logging(level, members, 64, 17)
            };
            let mut logged = 0;
            for steps in 0.. {
                let (mut world, model) = filled(&setup);
                if closes {
                    assert!(world.close());
                    world = world.reopen(&setup);
                    world.run();
                }
                let before = world.members.clone();
                let stripe = 8 * u64::from(world.engine.geometry().data_chunks());
                let bytes = vec![0x77; at_block(stripe)];
                let write = Operation::Write { fua: false };
                world.submit(write, 2 * stripe, bytes, u32::try_from(stripe).unwrap());
                for _ in 0..steps {
                    world.step();
                }
                let place = world.engine.geometry().locate(BlockIndex(2 * stripe));
                let data = |members: &[Vec<u8>], member: usize| {
                    let at = world.data_at(member);
                    members[member][at..].to_vec()
                };
                let untouched = |member| data(&before, member) == data(&world.members, member);
                if !(0..members).all(untouched) {
                    break;
                }
                logged += u32::from(before != world.members);
                rot(&mut world, usize::from(place.member.0), place.offset.0 + 3);
                let mut world = world.reopen(&setup);
                assert!(world.read_all() == model, "{level}: {steps}");
                assert!(world.close(), "{level}: {steps}");
                assert_eq!(world.wrong_checksums(), [], "{level}: {steps}");
            }
            assert!(logged > 0, "{level}: it crashed with a log");
        }
    }
}

/// A corrupt block in a whole stripe that a crash left half written may be taken for a new one: a
/// known gap (docs/design/consistency.md). The gap begins with the first block in its place, and
/// concerns only the corrupt block.
#[test]
fn rot_in_a_stripe_is_believed_only_where_a_crash_left_it_half_written() {
    for (level, members) in [("raid4", 3), ("raid5", 4), ("raid6", 5)] {
        let setup = logging(level, members, 64, 18);
        let (mut good, mut gap) = (0, 0);
        for steps in 0.. {
            let (mut world, model) = filled(&setup);
            let before = world.members.clone();
            let data = u64::from(world.engine.geometry().data_chunks());
            let stripe = 8 * data;
            let bytes = vec![0x77; at_block(stripe)];
            let write = Operation::Write { fua: false };
            world.submit(write, 2 * stripe, bytes, u32::try_from(stripe).unwrap());
            for _ in 0..steps {
                world.step();
            }
            if !world.replies.is_empty() {
                break;
            }
            let first = usize::try_from(world.data_start.iter().min().unwrap() * 512).unwrap();
            let begun = (world.members.iter().zip(&before)).any(|(now, was)| {
                let start = first.min(now.len());
                now[start..] != was[start..]
            });
            let rotten = 2 * stripe + 8 * (steps % data) + 3;
            let place = world.engine.geometry().locate(BlockIndex(rotten));
            rot(&mut world, usize::from(place.member.0), place.offset.0);
            let mut world = world.reopen(&setup);
            let mut read = |block| world.read(block, 1);
            for (block, old) in (0..).zip(model.chunks_exact(BLOCK)) {
                let written = (2 * stripe..3 * stripe).contains(&block);
                let bytes = read(block).unwrap();
                let is_new = written && bytes == [0x77; BLOCK];
                let legal = bytes == old || is_new;
                assert!(
                    legal || begun && block == rotten,
                    "{level}, {steps}: {block}"
                );
                good += u32::from(legal && block == rotten);
                gap += u32::from(!legal);
            }
            scrub(&mut world);
            assert!(world.close(), "{level}: {steps}");
            assert_eq!(world.wrong_checksums(), [], "{level}: {steps}");
        }
        assert!(
            good > 5 && gap > 0,
            "{level}: {good} good, {gap} in the gap"
        );
    }
}

/// A read-only opening after a crash returns blocks on which all copies agree. An opening that only
/// checks for an array returns blocks as they are.
#[test]
fn what_a_crash_left_is_read_where_copies_agree() {
    let setup = logging("raid1", 2, 16, 13);
    for (look_only, agree) in [(false, true), (false, false), (true, true), (true, false)] {
        let (mut world, model) = crashed(&setup);
        if !agree {
            let place = world.engine.geometry().locate(BlockIndex(LAST));
            rot(&mut world, 1, place.offset.0);
        }
        let mut world = world.reopen(&Setup {
            read_only: true,
            look_only,
            ..setup.clone()
        });
        let at = at_block(LAST);
        let right = || Ok(model[at..at + BLOCK].to_vec());
        if look_only {
            assert_eq!(world.read(LAST, 1), right());
            // From now on blocks must be proved.
            world.engine.end_look();
        }
        for _ in 0..2 {
            let read = world.read(LAST, 1);
            // What the look settled stays so.
            let legal = if agree || look_only {
                right()
            } else {
                Err(RequestError::InDoubt)
            };
            assert_eq!(read, legal, "agree: {agree}");
        }
        let rest = u32::try_from(LAST).unwrap();
        assert!(world.read(0, rest).unwrap() == model[..at]);
    }
}

/// The last copy, or data without parity, has nothing to disagree with: that proves nothing.
#[test]
fn what_a_crash_left_is_not_read_where_nothing_is_left_that_could_disagree() {
    for (level, members, missing) in [
        ("raid0", 2, None),
        ("raid1", 2, Some(0)),
        ("raid1", 3, Some(0)),
        ("raid10", 4, Some(0)),
    ] {
        let setup = logging(level, members, 16, 13);
        let (mut world, model) = crashed(&setup);
        let without = missing.map_or(MemberSet::EMPTY, only);
        world.gone = without;
        let mut world = world.reopen(&Setup {
            read_only: true,
            missing: without,
            ..setup.clone()
        });
        let mut errors = 0;
        for (block, right) in (0..=LAST).zip(model.chunks_exact(BLOCK)) {
            match world.read(block, 1) {
                Ok(bytes) => assert_eq!(bytes, right, "{level}: {block}"),
                Err(error) => {
                    assert_eq!((error, block % 5), (RequestError::InDoubt, 0), "{level}");
                    errors += 1;
                }
            }
        }
        assert!(errors > 0, "{level}");
        assert!(
            RequestError::InDoubt
                .to_string()
                .contains("a resync puts them in order")
        );
    }
}

/// Whole rows reached the members, but their checksums did not: rows are readable if parity fits.
#[test]
fn what_a_crash_left_is_read_where_parity_fits() {
    for (level, members) in [("raid4", 3), ("raid5", 4), ("raid6", 5)] {
        for rotten in [None, Some(0), Some(1)] {
            let setup = logging(level, members, 64, 18);
            let (mut world, mut model) = filled(&setup);
            let stripe = 8 * u64::from(world.engine.geometry().data_chunks());
            let bytes = vec![0x77; at_block(stripe)];
            let at = usize::try_from(2 * stripe).unwrap() * BLOCK;
            model[at..at + bytes.len()].copy_from_slice(&bytes);
            world.write_and_no_more(2 * stripe, &bytes);
            assert!(!world.wrong_checksums().is_empty(), "{level}: in memory");
            // A corrupt block in the first row that was written, or in another.
            let place = world.engine.geometry().locate(BlockIndex(2 * stripe));
            if let Some(row) = rotten {
                rot(
                    &mut world,
                    usize::from(place.member.0),
                    place.offset.0 + row,
                );
            }
            let mut world = world.reopen(&setup.to_look());
            for (block, right) in (0..).zip(model.chunks_exact(BLOCK)) {
                let in_row = rotten.is_some_and(|row| {
                    (2 * stripe..3 * stripe).contains(&block) && block % 8 == row
                });
                let legal = if in_row {
                    Err(RequestError::InDoubt)
                } else {
                    Ok(right.to_vec())
                };
                assert_eq!(world.read(block, 1), legal, "{level}, {rotten:?}: {block}");
            }
        }
    }
}

#[test]
fn a_scrub_finds_rot_that_it_can_not_repair() {
    let (mut world, _) = filled(&setup(&spec("raid0", 3), 4, 14));
    rot(&mut world, 1, 13);
    rot(&mut world, 2, 40);
    scrub(&mut world);
    let found = world.events.iter().filter_map(|event| match event {
        Event::Found(finding) => Some((finding.member.0, finding.blocks, finding.fate)),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    assert_eq!(found, [(1, 1, Fate::Left), (2, 1, Fate::Left)]);
    assert_eq!(world.engine.status().scrub.left_blocks, 2);
}

/// With a corrupt block among them, the rows of two merged writes go one after another.
#[test]
fn writes_merged_beside_rot_keep_their_contents() {
    for (name, members) in [("raid5", 4), ("raid6", 5)] {
        for rotten in 0..members {
            let chunk = 8;
            let (mut world, mut bytes) = filled(&Setup {
                requests: 16,
                ..setup(&spec(name, members), 1000, 1)
            });
            rot(&mut world, rotten, 2);
            let chunk_bytes = at_block(u64::from(chunk));
            let mut tokens = Vec::new();
            // The second waits for the first, and the third is merged with it.
            for (index, round) in [(1, 1), (1, 2), (2, 2)] {
                let part = &mut bytes[index * chunk_bytes..][..chunk_bytes];
                for (row, block) in part.chunks_exact_mut(BLOCK).enumerate() {
                    block.fill(u8::try_from(100 * round + 10 * index + row).unwrap());
                }
                let block = u64::try_from(index).unwrap() * u64::from(chunk);
                let operation = Operation::Write { fua: false };
                tokens.push(world.submit(operation, block, part.to_vec(), chunk));
            }
            world.run();
            for token in tokens {
                world.result(token).unwrap();
            }
            assert!(world.read_all() == bytes, "{name} {rotten}");
        }
    }
}

/// The checksums of a region that is written all the time still reach the members, without a flush.
#[test]
fn checksums_are_written_some_seconds_after_they_changed() {
    const SECOND_NS: u64 = 1_000_000_000;
    for (level, members, blocks) in [("raid1", 2, 8), ("raid5", 3, 16)] {
        let mut world = setup(&spec(level, members), 1000, 7).open().unwrap();
        let write = |world: &mut World, stripe: u64, byte: u8| {
            let bytes = vec![byte; blocks * BLOCK];
            let first = stripe * u64::try_from(blocks).unwrap();
            world.write_and_no_more(first, &bytes);
            while world
                .engine
                .poll_timeout()
                .is_some_and(|at| at <= world.now)
            {
                world.wake();
            }
            while world.has_pending() {
                world.step();
            }
        };
        write(&mut world, 1, 1);
        let early = world.wrong_checksums();
        assert!(!early.is_empty(), "{level}: in memory");
        for second in 2..12 {
            world.now = world.now.plus_ns(SECOND_NS);
            write(&mut world, 0, second);
        }
        let late = world.wrong_checksums();
        let old = early.iter().find(|place| late.contains(place));
        assert_eq!(old, None, "{level}: written ten seconds ago");
    }
}

/// Metadata is in memory while an array is open, so only a scrub finds its flaws on the members.
#[test]
fn a_scrub_repairs_the_metadata_of_every_member_on_the_medium() {
    for (level, members) in [("raid1", 2), ("raid5", 3), ("raid6", 4)] {
        let spec = spec(level, members);
        let setup = setup(&spec, 1000, 7);
        let (mut world, bytes) = filled(&setup);
        world.flush_and_no_more();
        let block_of = |world: &World, member: usize, kind: AreaKind| {
            let area = *world.devices[member].area(kind).unwrap();
            usize::try_from(area.offset_bytes).unwrap()
        };
        let kinds = [
            AreaKind::DIRTY_BITMAP,
            AreaKind::WRITTEN_BITMAP,
            AreaKind::BAD_BLOCKS,
            AreaKind::CHECKSUMS,
        ];
        for member in 0..members {
            for slot in SLOT_BYTES {
                let at = usize::try_from(slot).unwrap();
                world.members[member][at..at + 512].fill(0x5a);
            }
            for kind in kinds {
                let at = block_of(&world, member, kind);
                if kind != AreaKind::BAD_BLOCKS || world.members[member][at] != 0 {
                    world.members[member][at..at + 512].fill(0);
                }
            }
        }
        world.events.clear();
        scrub(&mut world);
        let found = world.events.iter().filter_map(|event| match event {
            Event::MetadataFound(found) => Some((found.member.0, found.area, found.fate)),
            Event::Found(found) => panic!("{level}: data is good: {found:?}"),
            _ => None,
        });
        let found: Vec<_> = found.collect();
        for member in 0..u8::try_from(members).unwrap() {
            for kind in [&kinds[..2], &kinds[3..], &[AreaKind::SUPERBLOCK]].concat() {
                let expected = (member, kind, Fate::Repaired);
                assert!(found.contains(&expected), "{level}: {expected:?} {found:?}");
            }
        }
        // Everything is repaired, and a second scrub reports nothing.
        world.events.clear();
        scrub(&mut world);
        assert_not_met!(world, Event::MetadataFound(_) | Event::Found(_));
        // After a loss data is read with the checksums of the remaining members.
        assert!(world.close());
        assert!(world.wrong_checksums().is_empty(), "{level}");
        for lost in 0..u8::try_from(members).unwrap() {
            assert_eq!(world.superblocks(usize::from(lost)).len(), 2, "{level}");
        }
        let setup = setup.without(only(0));
        let mut world = world.reopen(&setup);
        assert!(world.read_all() == bytes, "{level}");
    }
}

/// A rebuild meets a row with more corrupt blocks than redundancy repairs: each block counts once.
#[test]
fn a_rebuild_counts_each_corrupt_block_once() {
    let spec = spec("raid5", 3);
    let (mut world, _) = filled(&setup(&spec, 1000, 3));
    world.fail(2);
    rot(&mut world, 0, 5);
    rot(&mut world, 1, 5);
    world.gone = MemberSet::EMPTY;
    world.rebuild(2, 9).unwrap();
    world.run();
    let status = world.engine.status();
    let counted: Vec<u64> = (status.members.iter())
        .map(|member| member.faults.rotten_blocks)
        .collect();
    assert_eq!(counted, [1, 1, 0]);
}

/// A replaced device takes its counts along, so the event reports the counts.
#[test]
fn a_replacement_says_what_was_corrupt_on_the_device_before() {
    let spec = spec("raid5", 3);
    let (mut world, bytes) = filled(&setup(&spec, 1000, 3));
    rot(&mut world, 1, 5);
    world.replace(1, 9).unwrap();
    world.run();
    let corrupt = world.events.iter().find_map(|event| match event {
        Event::ReplaceDone { faults, .. } => Some(faults.rotten_blocks),
        _ => None,
    });
    assert_eq!(corrupt, Some(1));
    assert!(world.read_all() == bytes);
}

/// Blocks whose checksums are corrupt when an array is opened are verified by the other members,
/// and count as metadata.
#[test]
fn lost_checksums_count_as_metadata_and_not_as_data() {
    for lost in [0, 0x5a] {
        let spec = spec("raid5", 3);
        let setup = setup(&spec, 1000, 5);
        let (mut world, bytes) = filled(&setup);
        assert!(world.close());
        let area = *world.devices[1].area(AreaKind::CHECKSUMS).unwrap();
        let start = usize::try_from(area.offset_bytes).unwrap();
        world.members[1][start..start + 4096].fill(lost);
        let mut world = world.reopen(&setup);
        scrub(&mut world);
        let found = world.engine.status().scrub;
        assert_eq!((found.repaired_blocks, found.left_blocks), (0, 0));
        assert!(found.metadata_repaired_blocks > 0 && found.metadata_left_blocks == 0);
        let flaws = world.events.iter().filter_map(|event| match event {
            Event::Found(found) => Some(found.flaw),
            _ => None,
        });
        assert!(flaws.into_iter().all(|flaw| flaw == Flaw::ChecksumLost));
        assert!(world.close() && world.wrong_checksums().is_empty());
        let setup = setup.without(only(0));
        let mut world = world.reopen(&setup);
        assert!(world.read_all() == bytes);
    }
}
