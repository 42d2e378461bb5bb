//! Replays: of damaged logs, and while members go out or are being filled.

use crate::public::world::{
    BLOCK, Kept, Setup, World, assert_met, assert_not_met, at_block, equal, only,
};
use spindles_block::{BlockIndex, MemberIndex, MemberSet, Operation, RequestError};
use spindles_engine::{ArrayState, Event, Member};
use spindles_format::{
    AreaKind, CHECKSUM_PAGE_BYTES, JOURNAL_HEADER_BYTES, JournalHeader, SLOT_BYTES,
};
use spindles_layout::Level;

fn logged(members: usize, member_blocks: u64, seed: u64) -> Setup {
    Setup {
        seed,
        persistent: true,
        regions: true,
        policy: "journal",
        ..Setup::new(equal("raid5", members, 4, member_blocks))
    }
}

/// Returns the byte range of a member's journal.
fn log_of(world: &World, member: usize) -> std::ops::Range<usize> {
    let area = world.devices[member].area(AreaKind::JOURNAL).unwrap();
    let start = usize::try_from(area.offset_bytes).unwrap();
    start..start + usize::try_from(area.length_bytes).unwrap()
}

/// Returns sequence number and place of the last header in a member's journal.
pub(crate) fn last_header(world: &World, member: usize) -> Option<(u64, usize)> {
    let bytes = &world.members[member];
    let log = log_of(world, member);
    let places = (log.start..bytes.len().min(log.end)).step_by(BLOCK);
    let headers = places.filter_map(|at| {
        let header = JournalHeader::decode(bytes.get(at..at + JOURNAL_HEADER_BYTES)?)?;
        Some((header.batch.sequence, at))
    });
    headers.max()
}

/// Destroys the last header in a member's journal. Returns false without a header.
fn damage_log(world: &mut World, member: usize) -> bool {
    let header = last_header(world, member);
    if let Some((_, at)) = header {
        world.members[member][at..at + JOURNAL_HEADER_BYTES].fill(0);
    }
    header.is_some()
}

/// Puts the block at a byte of a member back as it was before.
fn restore(world: &mut World, member: usize, at: usize, before: &[Vec<u8>]) {
    world.members[member][at..at + BLOCK].copy_from_slice(&before[member][at..at + BLOCK]);
}

/// Opens a new array and writes blocks full of a byte.
fn with_blocks(setup: &Setup, blocks: &[(u64, u8)]) -> World {
    let mut world = setup.open().unwrap();
    for &(at, byte) in blocks {
        world.write(at, &[byte; BLOCK]).unwrap();
    }
    world
}

fn zero_and_no_more(world: &mut World, block: u64, blocks: u32) {
    let zeros = Operation::WriteZeroes { fua: false };
    let token = world.submit(zeros, block, Vec::new(), blocks);
    world.await_answer(token).unwrap();
}

/// Returns the blocks in the journals that are full of this byte, as (member, block).
fn logged_blocks(world: &World, byte: u8) -> Vec<(usize, usize)> {
    let of_member = |member| {
        let log = log_of(world, member);
        let first = log.start / BLOCK;
        let blocks = world.members[member][log].chunks_exact(BLOCK).enumerate();
        let found = blocks.filter(|(_, block)| *block == [byte; BLOCK]);
        let found: Vec<_> = found.map(|(at, _)| (member, first + at)).collect();
        found
    };
    (0..world.members.len()).flat_map(of_member).collect()
}

/// Corrupts all blocks in the journals that are full of this byte. Returns how many.
fn rot_logged(world: &mut World, byte: u8) -> usize {
    let places = logged_blocks(world, byte);
    for &(member, block) in &places {
        world.members[member][block * BLOCK..][..BLOCK].fill(0xee);
    }
    places.len()
}

/// Completes up to `steps` operations. Returns true if there were as many.
fn step(world: &mut World, steps: usize) -> bool {
    (0..steps).all(|_| {
        let more = world.has_pending();
        if more {
            world.step();
        }
        more
    })
}

/// A block in the log is corrupt that no later write replaced, while another write to its row was
/// carried out.
#[test]
fn rot_in_the_log_does_not_bring_back_what_was_there_before() {
    let setup = logged(3, 6000, 0);
    for without in [None, Some(0), Some(1), Some(2)] {
        let mut world = with_blocks(&setup, &[(1, 1), (1, 2), (5, 3)]);
        let rotten = rot_logged(&mut world, 2);
        assert_eq!(rotten, 2, "data, and parity that is the same");
        let mut world = world.restart(&setup);
        if let Some(member) = without {
            world.fail(member);
        }
        assert_eq!(world.read(1, 1).unwrap(), [2; BLOCK], "without {without:?}");
        assert_eq!(world.read(5, 1).unwrap(), [3; BLOCK], "without {without:?}");
    }
}

/// Blocks that the log lacks are recovered from blocks in place, never from corrupt ones.
#[test]
fn what_the_log_lacks_is_not_made_of_rot() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        let mut setup = logged(members, 6000, 0);
        setup.spec.level = Level::by_name(level).unwrap();
        setup.checksum_pages = Some(64);
        let mut world = setup.open().unwrap();
        world.write(9, &[9; BLOCK]).unwrap();
        let mut world = world.close_and_reopen(&setup);
        for (at, byte) in [(1, 1), (1, 2), (5, 3)] {
            world.write(at, &[byte; BLOCK]).unwrap();
        }
        assert_eq!(rot_logged(&mut world, 2), 1, "{level}: the new data");
        let (member, at) = place_of(&world, 9);
        world.members[member][at..at + BLOCK].fill(0xdd);
        let mut world = world.restart(&setup);
        if level == "raid6" {
            assert_eq!(world.read(1, 1).unwrap(), [2; BLOCK]);
            assert_eq!(world.read(9, 1).unwrap(), [9; BLOCK]);
        } else {
            // The block itself may be lost, but never comes from corrupt blocks.
            assert!(
                world.read(1, 1).is_ok_and(|read| read == [2; BLOCK]) || world.read(1, 1).is_err()
            );
            assert!(world.read(9, 1).is_err() || world.read(9, 1).unwrap() == [9; BLOCK]);
        }
    }
}

/// The last write is not whole in the log, so redundancy is recomputed in the end. If the members
/// with the data go out until then, there is nothing to compute it from.
#[test]
fn a_replay_comes_to_an_end_when_data_goes_out() {
    let mut tried = 0;
    for ((spoiled, out), steps) in pairs(pairs(0..2, 0..2), 0..120) {
        let setup = logged(2, 16, 0);
        let mut world = setup.open().unwrap();
        for at in 0..16 {
            world.write(at, &[1; BLOCK]).unwrap();
        }
        for at in [4, 8, 12, 0] {
            zero_and_no_more(&mut world, at, 2);
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
        world.gone = only(out);
        world.run();
        assert!(
            world.engine.is_settled() || world.has_pending(),
            "member {out} goes out after {steps} steps, without the part of member {spoiled}"
        );
        tried += 1;
    }
    assert!(tried > 60, "{tried}");
}

/// A member that goes out during a replay, or right after it, is later updated with the replayed
/// writes.
#[test]
fn who_goes_out_in_a_replay_lacks_what_it_writes() {
    let mut tried = 0;
    for ((seed, crash), out) in pairs(pairs(0..2, 0..60), 0..3) {
        for steps in 0..80 {
            let setup = logged(3, 16, seed);
            let mut world = setup.open().unwrap();
            world.write(1, &[1; BLOCK]).unwrap();
            let mut world = world.close_and_reopen(&setup);
            world.submit(Operation::Write { fua: false }, 1, vec![2; BLOCK], 1);
            let crashes = step(&mut world, crash);
            let mut world = world.reopen(&setup);
            if !crashes || !step(&mut world, steps) {
                break;
            }
            world.gone = only(out);
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

/// The setup of an array with a journal, on members of 6000 blocks.
pub(crate) fn wide(level: &str, members: usize, checksums: bool) -> Setup {
    let mut setup = logged(members, 6000, 0);
    setup.spec.level = Level::by_name(level).unwrap();
    setup.checksum_pages = checksums.then_some(64);
    setup
}

/// Returns the member that holds a block of the array, and the place in the member's bytes.
pub(crate) fn place_of(world: &World, block: u64) -> (usize, usize) {
    let place = world.engine.geometry().locate(BlockIndex(block));
    let member = usize::from(place.member.0);
    let at = usize::try_from(world.data_start[member] + place.offset.0).unwrap();
    (member, at * BLOCK)
}

/// The same with checksums, on members of 600 blocks.
fn narrow(level: &str, members: usize) -> Setup {
    let mut setup = wide(level, members, true);
    setup.spec.member_blocks = vec![600; members];
    setup
}

/// Returns every combination of two values.
fn pairs<A: Copy, B>(
    all: impl IntoIterator<Item = A>,
    others: impl IntoIterator<Item = B> + Clone,
) -> impl Iterator<Item = (A, B)> {
    all.into_iter()
        .flat_map(move |one| others.clone().into_iter().map(move |other| (one, other)))
}

fn first_bytes(world: &mut World, blocks: &[u64]) -> Vec<Result<u8, RequestError>> {
    let byte = |&block| world.read(block, 1).map(|read| read[0]);
    blocks.iter().map(byte).collect()
}

/// The log of the last write of a row is damaged, and the write is in place. Replaying an earlier
/// write does not take redundancy back.
#[test]
fn what_was_begun_is_carried_out_though_its_log_is_not_whole() {
    let mut tried = 0;
    for (level, members, degraded) in [("raid5", 4, false), ("raid6", 5, false), ("raid6", 6, true)]
    {
        for (checksums, rots) in [(true, true), (true, false), (false, true), (false, false)] {
            for (gone, out) in pairs(0..members, 0..members) {
                if !degraded && gone > 0 || gone == out {
                    continue;
                }
                let setup = wide(level, members, checksums);
                let mut world = setup.open().unwrap();
                for at in [1, 5, 9] {
                    world
                        .write(at, &[u8::try_from(at).unwrap() + 100; BLOCK])
                        .unwrap();
                }
                let mut world = world.close_and_reopen(&setup);
                if degraded {
                    world.fail(u8::try_from(gone).unwrap());
                }
                world.write(1, &[1; BLOCK]).unwrap();
                world.write(5, &[3; BLOCK]).unwrap();
                let [(member, block)] = logged_blocks(&world, 3)[..] else {
                    continue; // The member with that block is out.
                };
                if rots {
                    world.members[member][block * BLOCK..][..BLOCK].fill(0xee);
                } else {
                    world.spoil(member, block);
                }
                let again = setup.without(world.gone);
                let mut world = world.restart(&again);
                let expected = [Ok(1), Ok(3), Ok(109)];
                assert_eq!(first_bytes(&mut world, &[1, 5, 9]), expected);
                world.fail(u8::try_from(out).unwrap());
                let what = format!("{level}, checksums {checksums}, without {gone}, then {out}");
                assert_eq!(first_bytes(&mut world, &[1, 5, 9]), expected, "{what}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Open read-only, a write that was answered once durable in the log is read from the log,
/// whichever member is missing: its place holds older contents.
#[test]
fn who_may_not_write_reads_what_was_logged() {
    let mut older = 0;
    for (level, members) in [("raid4", 4), ("raid5", 4), ("raid6", 5)] {
        for (checksums, missing) in pairs([true, false], [0, 2, members]) {
            let setup = Setup {
                regions: checksums,
                ..wide(level, members, checksums)
            };
            let mut world = setup.open().unwrap();
            let bytes: Vec<u8> = (100..=120).flat_map(|byte| [byte; BLOCK]).collect();
            world.write(0, &bytes).unwrap();
            let mut world = world.close_and_reopen(&setup);
            let mut model: Vec<u8> = (100..=120).collect();
            for (at, byte) in [(1, 1), (5, 2), (2, 3), (1, 4), (9, 5)] {
                world.write_and_no_more(at, &[byte; BLOCK]);
                model[usize::try_from(at).unwrap()] = byte;
            }
            zero_and_no_more(&mut world, 6, 4);
            model[6..10].fill(0);
            // The last write is answered, but not in its place.
            world.write_and_no_more(1, &[6; BLOCK]);
            model[1] = 6;
            let (member, at) = place_of(&world, 1);
            older += u32::from(world.members[member][at] != 6);
            let mut again = setup.to_look();
            if missing < members {
                again.missing = only(u8::try_from(missing).unwrap());
            }
            let mut world = world.reopen(&again);
            world.run();
            let what = format!("{level}, checksums {checksums}, without {missing}");
            for (at, byte) in (0..).zip(&model) {
                assert_eq!(first_bytes(&mut world, &[at]), [Ok(*byte)], "{what}: {at}");
            }
            let all = world.read(0, 20).unwrap();
            let all: Vec<u8> = all.iter().step_by(BLOCK).copied().collect();
            assert_eq!(all, model[..20], "{what}");
        }
    }
    assert!(older > 5, "{older} were not in their places");
}

/// Open read-only, a record in the last batch that is not whole counts as in any opening.
#[test]
fn who_may_not_write_reads_a_record_that_is_made_whole() {
    for checksums in [true, false] {
        let setup = wide("raid5", 4, checksums);
        let mut world = with_three_blocks(&setup);
        world.write(1, &[21; BLOCK]).unwrap();
        world.write_and_no_more(5, &[25; BLOCK]);
        assert_eq!(rot_logged(&mut world, 25), 1);
        let mut world = world.reopen(&setup.to_look());
        let read = first_bytes(&mut world, &[1, 5, 9]);
        assert_eq!(read, [Ok(21), Ok(25), Ok(19)]);
        let mut world = world.restart(&setup);
        let read = first_bytes(&mut world, &[1, 5, 9]);
        assert_eq!(read, [Ok(21), Ok(25), Ok(19)]);
    }
}

/// Contents in place prove nothing if they were there before. A later batch proves the earlier one
/// durable.
#[test]
fn what_others_were_logged_after_was_logged_whole() {
    let setup = wide("raid5", 4, true);
    let mut world = with_blocks(&setup, &[(1, 0x11), (1, 0x22), (1, 0x11), (100, 0x33)]);
    let (member, _) = place_of(&world, 1);
    let of_data = logged_blocks(&world, 0x11);
    let last = of_data.iter().rfind(|(of, _)| *of == member).unwrap();
    world.members[member][last.1 * BLOCK..][..BLOCK].fill(0xee);
    let mut world = world.restart(&setup);
    assert_eq!(first_bytes(&mut world, &[1, 100]), [Ok(0x11), Ok(0x33)]);
}

pub(crate) fn flush(world: &mut World) {
    let token = world.submit(Operation::Flush, 0, Vec::new(), 0);
    world.run();
    world.result(token).unwrap();
}

/// Restores the first page of a member's checksums, as after a crash that found it in the cache
/// only.
pub(crate) fn forget_checksums(world: &mut World, member: usize, before: &[Vec<u8>]) {
    let page = usize::try_from(world.checksum_start(member)).unwrap() * BLOCK;
    let page = page..page + CHECKSUM_PAGE_BYTES;
    world.members[member][page.clone()].copy_from_slice(&before[member][page]);
}

/// An array with data in three blocks of a row, closed and opened again.
fn with_three_blocks(setup: &Setup) -> World {
    with_blocks(setup, &[(1, 11), (5, 15), (9, 19)]).close_and_reopen(setup)
}

/// Caches were lost, so a write is in place only on the member whose log is damaged. The new
/// checksum of another block of the write is lost too.
#[test]
fn the_checksum_of_a_block_tells_that_it_was_begun_to_be_written() {
    let setup = wide("raid6", 5, true);
    for damaged in 0..5 {
        let mut world = with_three_blocks(&setup);
        let before = world.members.clone();
        world.write(1, &[[1; BLOCK]; 5].concat()).unwrap();
        flush(&mut world);
        let row = world.engine.geometry().locate(BlockIndex(1)).offset.0;
        for member in (0..5).filter(|&member| member != damaged) {
            let at = world.data_at(member) + at_block(row);
            restore(&mut world, member, at, &before);
        }
        let (forgets, _) = place_of(&world, 5);
        forget_checksums(&mut world, forgets, &before);
        damage_log(&mut world, damaged);
        let mut world = world.restart(&setup);
        let read = first_bytes(&mut world, &[1, 5, 9]);
        assert_eq!(read, [Ok(1), Ok(1), Ok(19)], "the log of member {damaged}");
    }
}

/// The blocks that a write replaces are torn on all members, and one member has no log of it.
#[test]
fn what_is_torn_is_mended_by_a_log_that_is_not_whole() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for damaged in 0..members {
            let setup = wide(level, members, true);
            let mut world = with_three_blocks(&setup);
            let before = world.members.clone();
            world.write(1, &[1; BLOCK]).unwrap();
            let row = world.engine.geometry().locate(BlockIndex(1)).offset.0;
            for member in 0..members {
                let at = world.data_at(member) + at_block(row);
                let half = at..at + BLOCK / 2;
                world.members[member][half.clone()].copy_from_slice(&before[member][half]);
                forget_checksums(&mut world, member, &before);
            }
            damage_log(&mut world, damaged);
            let mut world = world.restart(&setup);
            let read = first_bytes(&mut world, &[1, 5, 9]);
            let expected = [Ok(1), Ok(15), Ok(19)];
            assert_eq!(read, expected, "{level}, the log of member {damaged}");
        }
    }
}

/// An answered write is in the log only, except for one part that is gone, and another block of its
/// row is corrupt. With two parities both are recovered.
#[test]
fn a_log_that_is_not_whole_counts_beside_rot() {
    let setup = wide("raid6", 5, true);
    for (damaged, rotten) in pairs(0..5, [5, 9]) {
        let mut world = with_three_blocks(&setup);
        let before = world.members.clone();
        world.write(1, &[1; BLOCK]).unwrap();
        let row = world.engine.geometry().locate(BlockIndex(1)).offset.0;
        for member in 0..5 {
            let at = world.data_at(member) + at_block(row);
            restore(&mut world, member, at, &before);
            forget_checksums(&mut world, member, &before);
        }
        damage_log(&mut world, damaged);
        let (member, at) = place_of(&world, rotten);
        world.members[member][at..at + BLOCK].fill(0xdd);
        let mut world = world.restart(&setup);
        let read = first_bytes(&mut world, &[1, 5, 9]);
        let what = format!("the log of member {damaged}, rot of block {rotten}");
        assert_eq!(read, [Ok(1), Ok(15), Ok(19)], "{what}");
    }
}

/// Two blocks of a row are in the log only. The header of a record with such a block is gone, and
/// the members with parity are missing. The older contents are not returned: the block answers
/// errors until it is written.
#[test]
fn what_a_durable_record_lacks_beyond_redundancy_is_lost() {
    for (level, members, out) in [("raid5", 4, 1), ("raid6", 5, 2)] {
        let setup = wide(level, members, true);
        let mut world = with_three_blocks(&setup);
        let before = world.members.clone();
        world.write_and_no_more(1, &[[1; BLOCK]; 5].concat());
        let (damaged, _) = place_of(&world, 1);
        while damage_log(&mut world, damaged) {}
        let row = world.engine.geometry().locate(BlockIndex(1)).offset.0;
        world.write_and_no_more(13, &[3; BLOCK]);
        for member in 0..members {
            let at = world.data_at(member) + at_block(row);
            restore(&mut world, member, at, &before);
            forget_checksums(&mut world, member, &before);
        }
        let data = [1, 5, 9].map(|block| place_of(&world, block).0);
        let parity = (0..members).filter(|member| !data.contains(member));
        let mut again = setup.clone();
        for member in parity.take(out) {
            again.missing = (again.missing).with(MemberIndex(u8::try_from(member).unwrap()));
        }
        let mut world = world.restart(&again);
        let read = first_bytes(&mut world, &[5, 9, 13]);
        assert_eq!(read, [Ok(1), Ok(19), Ok(3)], "{level}");
        assert!(world.read(1, 1).is_err(), "{level}");
        world.write(1, &[4; BLOCK]).unwrap();
        assert_eq!(first_bytes(&mut world, &[1]), [Ok(4)], "{level}");
    }
}

/// A disk lost a write that it had acknowledged, and a crash came while the row was rewritten as a
/// whole. The older contents do not count, if the log of the lost write is whole. Even with a
/// damaged log the replay ends.
#[test]
fn a_lost_write_is_not_taken_for_what_a_stripe_held_before() {
    let setup = wide("raid5", 4, true);
    let mut caught = 0;
    for (steps, log) in pairs(0.., ["whole", "rotten", "unreadable"]) {
        let mut world = with_three_blocks(&setup);
        let (member, at) = place_of(&world, 1);
        let stale = world.members[member][at..at + BLOCK].to_vec();
        world.write(1, &[1; BLOCK]).unwrap();
        flush(&mut world);
        let before = world.members.clone();
        let stripe = vec![2; 12 * BLOCK];
        world.submit(Operation::Write { fua: false }, 0, stripe, 12);
        step(&mut world, steps);
        if world.members[member][at..at + BLOCK] != before[member][at..at + BLOCK] {
            break;
        }
        caught += usize::from(world.members != before);
        world.members[member][at..at + BLOCK].copy_from_slice(&stale);
        let of_data = logged_blocks(&world, 1);
        let (_, block) = *of_data.iter().find(|(of, _)| *of == member).unwrap();
        match log {
            "rotten" => world.members[member][block * BLOCK..][..BLOCK].fill(0xee),
            "unreadable" => {
                world.spoil(member, block);
            }
            _ => {}
        }
        let mut world = world.restart(&setup);
        let read = first_bytes(&mut world, &[1])[0];
        let legal = match read {
            Ok(byte) => [1, 2].contains(&byte) || byte == 11 && log != "whole",
            Err(_) => log != "whole",
        };
        assert!(legal, "after {steps}, a log that is {log}: {read:?}");
    }
    assert!(caught > 9, "{caught}");
}

/// Writes a whole stripe over another on five members, with `bytes` in the chunks. Afterwards the
/// members in the bits of `old` have the old blocks in place. The `damaged` members have lost their
/// log.
fn half_written(setup: &Setup, bytes: [[u8; 3]; 2], damaged: &[u8], old: u32) -> World {
    let [first, then] = bytes.map(|bytes| bytes.map(|byte| [byte; 4 * BLOCK]).concat());
    let mut world = setup.open().unwrap();
    world.write(0, &first).unwrap();
    let mut world = world.close_and_reopen(setup);
    let before = world.members.clone();
    world.write_and_no_more(0, &then);
    world.flush_and_no_more();
    let chunk = place_of(&world, 0).1;
    let chunk = chunk..chunk + 4 * BLOCK;
    for member in (0..5).filter(|member| old >> member & 1 == 1) {
        forget_checksums(&mut world, member, &before);
        world.members[member][chunk.clone()].copy_from_slice(&before[member][chunk.clone()]);
    }
    for member in damaged.iter().copied().map(usize::from) {
        damage_log(&mut world, member);
    }
    world
}

/// A read error concerns its own row, not all rows that a replay looks at together. The other rows
/// are decided by their own readable blocks.
#[test]
fn what_cannot_be_read_of_a_row_says_nothing_of_the_others() {
    // Rows were being written as a whole; each member has a different unreadable row.
    let setup = narrow("raid6", 5);
    for old in 0..5 {
        let mut world = half_written(&setup, [[1; 3], [2; 3]], &[], 1 << old);
        let others = (0..5).filter(|&member| member != old);
        for (row, member) in (0..).zip(others) {
            let first = u64::try_from(place_of(&world, 0).1 / BLOCK).unwrap();
            world.medium.insert((member, first + row));
        }
        let mut world = world.restart(&setup);
        let read = first_bytes(&mut world, &(0..12).collect::<Vec<_>>());
        let legal = read.iter().all(|read| matches!(read, Ok(1 | 2)));
        assert!(legal, "{old} is old: {read:?}");
    }
    // Blocks without redundancy, or with a copy, were being written too, some without their
    // checksum.
    for (level, members, tolerated) in [("raid0", 2, 0), ("raid1", 2, 1), ("raid1", 3, 2)] {
        let setup = narrow(level, members);
        let mut world = setup.open().unwrap();
        world.write(0, &[1; 4 * BLOCK]).unwrap();
        let mut world = world.close_and_reopen(&setup);
        let before = world.members.clone();
        world.write_and_no_more(0, &[2; 4 * BLOCK]);
        let first = u64::try_from(place_of(&world, 0).1 / BLOCK).unwrap();
        for member in 0..tolerated.max(1) {
            forget_checksums(&mut world, member, &before);
            let unread = u64::try_from(member).unwrap();
            let member = u8::try_from(member).unwrap();
            world.medium.insert((member, first + unread));
        }
        let mut world = world.restart(&setup);
        let read = first_bytes(&mut world, &[0, 1, 2, 3]);
        let can_be_read = usize::from(tolerated == 0);
        assert_eq!(
            read[can_be_read..],
            [Ok(2); 4][can_be_read..],
            "{level} of {members}"
        );
        if can_be_read > 0 {
            assert_eq!(read[0], Err(RequestError::BeyondTolerance));
        }
    }
}

fn pairs_of_five() -> Vec<[u8; 2]> {
    (0..5).flat_map(|a| (0..a).map(move |b| [a, b])).collect()
}

/// Two members have no log, and new blocks in place may cancel out in a parity. Readable blocks
/// stay the same without any two members.
#[test]
fn a_stripe_that_two_damaged_logs_tell_of_fits_together() {
    let setup = narrow("raid6", 5);
    let twos = pairs_of_five();
    let mut read_all = 0;
    for (n, old) in pairs(0..30, 0..32_u32) {
        let (damaged, without) = (twos[n % 10], twos[(n + n / 10) % 10]);
        let mut world = half_written(&setup, [[1; 3], [2; 3]], &damaged, old).reopen(&setup);
        world.run();
        let what = format!("the logs of {damaged:?}, old {old:05b}, without {without:?}");
        let read = first_bytes(&mut world, &[0, 4, 8]);
        for member in without {
            world.fail(member);
        }
        let again = first_bytes(&mut world, &[0, 4, 8]);
        for (read, again) in read.into_iter().zip(again) {
            assert!(
                read.is_err() || matches!(read, Ok(1 | 2)),
                "{what}: {read:?}"
            );
            assert!(
                again.is_err() || read == again,
                "{what}: {read:?}, {again:?}"
            );
            read_all += u32::from(again.is_ok());
        }
    }
    assert!(read_all > 2000, "{read_all}");
}

/// One member has no log, and another does not come back: reconstructed blocks are old or new.
#[test]
fn a_stripe_that_a_damaged_log_tells_of_is_old_or_new_without_a_member() {
    let setup = narrow("raid6", 5);
    let mut read_all = 0;
    for ([a, b], old) in (pairs_of_five().into_iter())
        .flat_map(|pair| (0..32_u32).map(move |old| (pair, old)))
        .flat_map(|([a, b], old)| [([a, b], old), ([b, a], old)])
    {
        let bytes = [[1, 2, 3], [0x42, 0x53, 0x9c]];
        let world = half_written(&setup, bytes, &[a], old);
        let again = setup.without(only(b));
        let mut world = world.restart(&again);
        let what = format!("the log of {a}, old {old:05b}, without {b}");
        let read = first_bytes(&mut world, &[0, 4, 8]);
        for (chunk, read) in read.into_iter().enumerate() {
            let is = |stripe: [u8; 3]| read == Ok(stripe[chunk]);
            let legal = read.is_err() || bytes.into_iter().any(is);
            assert!(legal, "{what}: chunk {chunk} is {read:?}");
            read_all += u32::from(read.is_ok());
        }
    }
    assert!(read_all > 700, "{read_all}");
}

/// A page of checksums is corrupt, and a crash came before a whole stripe was written. Blocks that
/// fit no checksum do not prove that the write had begun.
#[test]
fn a_stripe_without_checksums_that_was_not_begun_is_as_it_was() {
    let setup = narrow("raid5", 4);
    let mut begun = 0;
    for rotten in 0..4 {
        for steps in 0.. {
            let mut world = setup.open().unwrap();
            world.write(0, &[1; 12 * BLOCK]).unwrap();
            assert!(world.close());
            let page = usize::try_from(world.checksum_start(rotten)).unwrap() * BLOCK;
            world.members[rotten][page..page + CHECKSUM_PAGE_BYTES].fill(0xee);
            let mut world = world.restart(&setup);
            let before = world.members.clone();
            world.submit(Operation::Write { fua: false }, 0, vec![2; 12 * BLOCK], 12);
            step(&mut world, steps);
            let chunk = place_of(&world, 0).1;
            let chunk = chunk..chunk + 4 * BLOCK;
            let same = |member: usize| {
                world.members[member][chunk.clone()] == before[member][chunk.clone()]
            };
            if !(0..4).all(same) {
                break;
            }
            begun += usize::from(world.members != before);
            let mut world = world.restart(&setup);
            let read = first_bytes(&mut world, &[0, 4, 8]);
            let legal = [[Ok(1); 3], [Ok(2); 3]].iter().any(|all| read == all);
            assert!(
                legal,
                "the page of member {rotten}, after {steps}: {read:?}"
            );
        }
    }
    assert!(begun > 3, "{begun}");
}

/// A whole stripe was being written, and one member has no log. Whatever else the crash left, torn
/// blocks too, no read returns contents that were never there, even after a small write that is in
/// the log before. Lost blocks stay lost until they are written.
#[test]
fn a_stripe_that_was_torn_takes_writes_though_its_log_is_damaged() {
    let mut setup = narrow("raid5", 4);
    setup.zeroes = true; // So that whole rows are never logged.
    let stripe = |bytes: [u8; 3]| bytes.map(|byte| [byte; 4 * BLOCK]).concat();
    let new = [0x42, 0x53, 0x9c];
    let (mut lost, mut kept) = (0, 0);
    let kinds = [
        // Blocks may tear; no checksum of new blocks is there; a small write came before.
        (false, true, false),
        (true, true, false),
        (false, false, false),
        (false, false, true),
        (true, false, true),
    ];
    for ((damaged, states), (tears, forgets, small)) in pairs(pairs(0..4, 0..81_u32), kinds) {
        let mut world = setup.open().unwrap();
        world.write(0, &stripe([1, 2, 3])).unwrap();
        let mut world = world.close_and_reopen(&setup);
        let old = [1, if small { 0x77 } else { 2 }, 3];
        if small {
            world.write(4, &[0x77; 4 * BLOCK]).unwrap();
            flush(&mut world);
        }
        let before = world.members.clone();
        world.write_and_no_more(0, &stripe(new));
        world.flush_and_no_more();
        let chunk = place_of(&world, 0).1; // Parity has the same place.
        for member in 0..4 {
            let state = states / 3_u32.pow(u32::try_from(member).unwrap()) % 3;
            if forgets || state > 0 {
                forget_checksums(&mut world, member, &before);
            }
            for block in 0..4 {
                let at = chunk + block * BLOCK;
                let old = match state {
                    0 => at..at,
                    1 => at..at + BLOCK,
                    _ => at + BLOCK / 2..at + BLOCK,
                };
                world.members[member][old.clone()].copy_from_slice(&before[member][old]);
            }
        }
        if !damage_log(&mut world, damaged) {
            continue;
        }
        let again = Setup {
            tears,
            ..setup.clone()
        };
        let mut world = world.restart(&again);
        let kind = format!("tears {tears}, forgets {forgets}, small {small}");
        let what = format!("the log of member {damaged}, {states}, {kind}");
        for (chunk, at) in [1, 5, 9].into_iter().enumerate() {
            let Ok(read) = world.read(at, 1) else {
                lost += 1;
                continue;
            };
            let torn = [[new[chunk]; BLOCK / 2], [old[chunk]; BLOCK / 2]].concat();
            let whole = read == [old[chunk]; BLOCK] || read == [new[chunk]; BLOCK];
            let legal = whole || tears && read == torn;
            assert!(legal, "{what}: {at} is {} and {}", read[0], read[BLOCK - 1]);
            kept += 1;
        }
        for at in [1, 5, 9] {
            assert_eq!(world.write(at, &[3; BLOCK]), Ok(()), "{what}: {at}");
        }
        world.fail(u8::try_from(damaged).unwrap());
        assert_eq!(first_bytes(&mut world, &[1, 5, 9]), [Ok(3); 3], "{what}");
    }
    assert_eq!(lost, 0, "{kept} kept");
}

/// A write is only partly in place, since a cache was lost, and the rest can't be recovered. The
/// earlier write, whose block is there, does not count in its stead.
#[test]
fn what_a_later_write_was_to_write_is_not_what_an_earlier_one_wrote() {
    let setup = wide("raid5", 4, true);
    let mut world = setup.open().unwrap();
    world.write(9, &[9; BLOCK]).unwrap();
    let mut world = world.close_and_reopen(&setup);
    for (at, byte) in [(1, 17), (1, 34), (5, 68)] {
        world.write(at, &[byte; BLOCK]).unwrap();
    }
    let (member, at) = place_of(&world, 1);
    world.members[member][at..at + BLOCK].fill(17);
    assert_eq!(rot_logged(&mut world, 34), 1);
    let (member, at) = place_of(&world, 9);
    world.members[member][at..at + BLOCK].fill(0xdd);
    let mut world = world.restart(&setup);
    let read = first_bytes(&mut world, &[1, 5, 9]);
    let corrupt = Err(RequestError::Corrupt);
    assert_eq!(read, [corrupt, Ok(68), corrupt]);
}

/// An array full of its block numbers. The member with block 1 is being filled: beyond the first
/// rows if `behind`, otherwise from the start.
fn filling(setup: &Setup, behind: bool) -> (World, usize) {
    let mut world = setup.open().unwrap();
    let blocks = world.engine.geometry().blocks();
    for first in (0..blocks).step_by(120) {
        let here = first..blocks.min(first + 120);
        let bytes = here.flat_map(|block| [u8::try_from(block % 251).unwrap(); BLOCK]);
        world.write(first, &bytes.collect::<Vec<_>>()).unwrap();
    }
    let (victim, _) = place_of(&world, 1);
    let member = u8::try_from(victim).unwrap();
    world.fail(member);
    world.rebuild(member, 77).unwrap();
    loop {
        match world.engine.status().members[victim].state {
            Member::Rebuilding { mark } if mark.0 > 50 || !behind => return (world, victim),
            Member::Active => panic!("it is filled already"),
            Member::Rebuilding { .. } | Member::Missing { .. } => world.step(),
        }
    }
}

/// Restores the members to `before`, except for the journals selected by `of`.
fn keep_logs(world: &mut World, before: Vec<Vec<u8>>, of: impl Fn(usize) -> bool) {
    let after = std::mem::replace(&mut world.members, before);
    for (member, after) in after.iter().enumerate() {
        if of(member) {
            let log = log_of(world, member);
            world.members[member][log.clone()].copy_from_slice(&after[log]);
        }
    }
}

fn replay(world: &mut World) {
    let replayed = |event: &Event| matches!(event, Event::Replayed { .. });
    while !world.events.iter().any(replayed) {
        world.step();
    }
}

/// The log of a write did not reach the device being filled. Before it a whole stripe was written,
/// of which caches lost a part. Blocks are recovered for the device only from blocks that belong
/// together.
#[test]
fn what_is_made_of_a_stripe_that_is_old_and_new_is_neither() {
    for (behind, checksums, tears) in [
        (true, true, false),
        (true, true, true),
        (true, false, false),
        (false, true, false),
        (false, true, true),
        (false, false, false),
    ] {
        for old in 0..8_u32 {
            let mut setup = wide("raid5", 4, checksums);
            setup.tears = tears;
            let (mut world, victim) = filling(&setup, behind);
            let before = world.members.clone();
            let whole: Vec<u8> = (0..12_u8).flat_map(|b| [0x80 + b; BLOCK]).collect();
            let token = world.submit(Operation::Write { fua: false }, 0, whole, 12);
            world.await_answer(token).unwrap();
            let mut middle = world.members.clone();
            world.write_and_no_more(1, &[0xb2; BLOCK]);
            for (bit, block) in [1, 5, 9].into_iter().enumerate() {
                let (member, at) = place_of(&world, block);
                if old >> bit & 1 == 1 {
                    middle[member][at..at + BLOCK].copy_from_slice(&before[member][at..at + BLOCK]);
                }
            }
            keep_logs(&mut world, middle, |member| member != victim);
            let mut world = world.reopen(&setup);
            replay(&mut world);
            let legal = [&[1, 0x81, 0xb2][..], &[5, 0x85], &[9, 0x89]];
            let read = first_bytes(&mut world, &[1, 5, 9]);
            for (read, legal) in read.iter().zip(legal) {
                assert!(
                    read.is_ok_and(|read| legal.contains(&read)) || read.is_err() && !behind,
                    "behind {behind}, checksums {checksums}, tears {tears}, old {old:03b}: {read:?}"
                );
            }
        }
    }
}

/// The remaining part of the log records zeros, and zeros are in place: those from before the last
/// whole write, which a cache lost. That write is replayed, and the write of zeros is not.
#[test]
fn what_a_cache_lost_does_not_tell_that_a_write_was_begun() {
    let setup = wide("raid5", 4, true);
    let mut world = setup.open().unwrap();
    world.write(5, &[5; BLOCK]).unwrap();
    world.write(9, &[9; BLOCK]).unwrap();
    let mut world = world.close_and_reopen(&setup);
    let (missing, _) = place_of(&world, 9);
    world.fail(u8::try_from(missing).unwrap());
    world.write(1, &[0x22; BLOCK]).unwrap();
    let (member, at) = place_of(&world, 1);
    let mut before = world.members.clone();
    before[member][at..at + BLOCK].fill(0);
    zero_and_no_more(&mut world, 1, 1);
    keep_logs(&mut world, before, |of| of == member);
    let again = setup.without(world.gone);
    let mut world = world.restart(&again);
    let read = first_bytes(&mut world, &[1, 5, 9]);
    assert!(read == [Ok(0x22), Ok(5), Ok(9)], "{read:?}");
}

/// While a device is being filled, another member is absent for one opening. No write is replayed
/// without that member: no later opening could determine that the replay took place.
#[test]
fn nothing_is_replayed_into_an_array_that_failed() {
    for (behind, checksums) in [(false, false), (false, true), (true, false), (true, true)] {
        let setup = wide("raid5", 4, checksums);
        let (mut world, _) = filling(&setup, behind);
        let (away, _) = place_of(&world, 5);
        let before = world.members.clone();
        world.write_and_no_more(5, &[0xb2; BLOCK]);
        keep_logs(&mut world, before, |member| member != away);
        let mut world = world.reopen(&setup);
        world.gone = only(u8::try_from(away).unwrap());
        world.run();
        assert_eq!(world.engine.state(), ArrayState::Failed);
        let mut world = world.reopen(&setup);
        replay(&mut world);
        let read = first_bytes(&mut world, &[1, 5, 9]);
        assert!(read == [Ok(1), Ok(5), Ok(9)], "{read:?}");
    }
}

/// A logged write can't go to its place for lack of space. The older contents are not returned, and
/// the logged ones are not lost.
#[test]
fn what_has_no_space_in_its_place_is_not_answered_from_it() {
    for members in [&[0_u8][..], &[1, 2], &[0, 1, 2]] {
        let setup = wide("raid5", 3, true);
        let mut world = setup.open().unwrap();
        world.write(0, &vec![1; 64 * BLOCK]).unwrap();
        let before = world.members.clone();
        world.write_and_no_more(5, &[0xb2; BLOCK]);
        keep_logs(&mut world, before, |_| true);
        let mut world = world.reopen(&setup);
        // The places of a row are the same on all members.
        let row = u64::try_from(place_of(&world, 5).1 / BLOCK).unwrap();
        world.without_space = members.iter().map(|&member| (member, row)).collect();
        world.run();
        let read = world.read(5, 1);
        assert!(
            read.is_err() || read.is_ok_and(|it| it == [0xb2; BLOCK]),
            "{members:?}"
        );
        assert_not_met!(world, Event::Lost { .. });
        assert!(world.engine.status().stopped_writing, "{members:?}");
        let stops = world
            .events
            .iter()
            .filter(|event| **event == Event::WritingStopped);
        assert_eq!(stops.count(), 1, "{members:?}");
        let mut world = world.reopen(&setup);
        world.without_space.clear();
        world.run();
        assert_eq!(world.read(5, 1).unwrap(), [0xb2; BLOCK], "{members:?}");
    }
}

/// Blocks that a record lacks beyond redundancy are not lost while another record has no space: the
/// next opening may be able to read more.
#[test]
fn nothing_is_lost_for_lack_of_space() {
    let setup = wide("raid5", 4, true);
    let mut world = with_three_blocks(&setup);
    let before = world.members.clone();
    world.write_and_no_more(1, &[[1; BLOCK]; 5].concat());
    let (damaged, _) = place_of(&world, 1);
    while damage_log(&mut world, damaged) {}
    world.write_and_no_more(13, &[3; BLOCK]);
    let (_, place) = place_of(&world, 1);
    for member in 0..4 {
        let row = place..place + BLOCK;
        world.members[member][row.clone()].copy_from_slice(&before[member][row]);
        forget_checksums(&mut world, member, &before);
    }
    let data = [1, 5, 9].map(|block| place_of(&world, block).0);
    let parity = (0..4).find(|member| !data.contains(member)).unwrap();
    let again = setup.without(only(u8::try_from(parity).unwrap()));
    let row = u64::try_from(place_of(&world, 13).1 / BLOCK).unwrap();
    let mut world = world.reopen(&again);
    world.without_space = (0..4).map(|member| (member, row)).collect();
    settle_down(&mut world);
    assert!(world.read(1, 1).is_err());
    assert_not_met!(world, Event::Lost { .. });
}

/// An array full of ones, closed and opened again, so that the log holds none of those. Then
/// `blocks` were written one after another, and are in the log only.
fn only_logged(setup: &Setup, blocks: &[(u64, u8)]) -> World {
    let mut world = setup.open().unwrap();
    world.write(0, &vec![1; 64 * BLOCK]).unwrap();
    let mut world = world.close_and_reopen(setup);
    // This leaves the region dirty.
    world.write_and_no_more(40, &[1; BLOCK]);
    while step(&mut world, 1) {}
    let before = world.members.clone();
    for (block, byte) in blocks {
        while step(&mut world, 1) {}
        world.write_and_no_more(*block, &[*byte; BLOCK]);
    }
    keep_logs(&mut world, before, |_| true);
    world
}

/// The last record is not whole, and may still count when the record before it has no space.
#[test]
fn a_record_that_may_count_is_not_passed_over_where_there_is_no_space() {
    let setup = wide("raid5", 3, true);
    let mut world = only_logged(&setup, &[(5, 0xb2), (21, 0xb3)]);
    let (last, _) = place_of(&world, 21);
    assert!(damage_log(&mut world, last));
    let mut world = world.reopen(&setup);
    let row = u64::try_from(place_of(&world, 5).1 / BLOCK).unwrap();
    world.without_space = (0..3).map(|member| (member, row)).collect();
    settle_down(&mut world);
    let read = first_bytes(&mut world, &[5, 21, 60]);
    assert!(read[..2].iter().all(Result::is_err), "{read:?}");
    assert_eq!(read[2], Ok(1), "the log has nothing of it");
    let mut world = world.restart(&setup);
    let read = first_bytes(&mut world, &[5, 21, 60]);
    assert_eq!(read, [Ok(0xb2), Ok(0xb3), Ok(1)]);
}

/// No write is replayed, because not even superblocks can be written. A resync finds only
/// consistent rows.
#[test]
fn what_only_the_log_has_is_not_passed_over_when_all_else_is_settled() {
    let setup = wide("raid5", 3, true);
    let mut world = only_logged(&setup, &[(5, 0xb2)]).reopen(&setup);
    let slots = SLOT_BYTES.map(|at| at / 512);
    world.without_space = slots.map(|block| (0, block)).into();
    settle_down(&mut world);
    assert_not_met!(world, Event::ResyncDone { .. });
    assert!(world.read(5, 1).is_err());
    let mut world = world.restart(&setup);
    assert_eq!(world.read(5, 1).unwrap(), [0xb2; BLOCK]);
}

/// The array fails because members have no space for one write, while another is logged but not in
/// place. A read of the other returns what the next opening returns.
#[test]
fn what_was_logged_when_an_array_failed_is_not_passed_over() {
    let mut refused = 0;
    for (seed, checksums) in pairs(0..24, [false, true]) {
        let mut setup = wide("raid5", 3, checksums);
        setup.seed = seed;
        let mut world = setup.open().unwrap();
        world.write(0, &vec![1; 64 * BLOCK]).unwrap();
        let row = u64::try_from(place_of(&world, 5).1 / BLOCK).unwrap();
        let (other, _) = place_of(&world, 1); // It holds no block that the first write changes.
        let beside = (16..32).find(|block| place_of(&world, *block).0 == other);
        let beside = beside.unwrap();
        world.without_space = (0..3)
            .filter(|member| usize::from(*member) != other)
            .map(|member| (member, row))
            .collect();
        let write = Operation::Write { fua: false };
        world.submit(write, 5, vec![2; BLOCK], 1);
        let token = world.submit(write, beside, vec![3; BLOCK], 1);
        settle_down(&mut world);
        let done = world.result(token);
        let read = first_bytes(&mut world, &[beside]);
        refused += u32::from(read[0].is_err());
        let newest = (0..3).flat_map(|member| world.superblocks(member));
        let newest = newest.max_by_key(|record| record.generation).unwrap();
        setup.missing = newest.missing();
        let mut world = world.reopen_as(&setup, newest, None);
        world.run();
        let again = first_bytes(&mut world, &[beside]);
        assert!(
            read[0].is_err() || read == again,
            "seed {seed}: {read:?}, then {again:?}"
        );
        assert!(done.is_err() || again == [Ok(3)], "seed {seed}: {again:?}");
    }
    assert!(refused > 0);
}

/// Runs until nothing is under way and some quiet time has passed.
fn settle_down(world: &mut World) {
    for _ in 0..60 {
        world.run();
        if world.engine.poll_timeout().is_none() {
            break;
        }
        world.wake();
    }
}

/// Members go in the middle of a replay, with hardly any pages of checksums.
#[test]
fn members_that_go_while_a_replay_computes_are_let_go() {
    for seed in 0..600_u64 {
        let mut setup = wide("raid6", 5, true);
        setup.checksum_pages = Some(0);
        setup.tears = seed % 3 == 0;
        setup.spec.member_blocks = vec![3000; 5];
        setup.seed = seed;
        setup.requests = 8;
        let mut world = setup.open().unwrap();
        let mut rng = crate::public::world::Rng(seed * 2 + 1);
        rng.below(3);
        let blocks = world.engine.geometry().blocks();
        for byte in 1..7 {
            let at = rng.below(blocks - 40);
            let bytes = vec![byte; 36 * BLOCK];
            world.submit(Operation::Write { fua: false }, at, bytes, 36);
        }
        let steps = rng.below(400);
        step(&mut world, usize::try_from(steps).unwrap());
        let mut world = world.reopen(&setup);
        let steps = rng.below(120);
        step(&mut world, usize::try_from(steps).unwrap());
        let out = u8::try_from(rng.below(5)).unwrap();
        world.gone = only(out);
        let steps = rng.below(12);
        step(&mut world, usize::try_from(steps).unwrap());
        world.gone = world.gone.with(MemberIndex((out + 1) % 5));
        settle_down(&mut world);
        assert_ne!(world.engine.state(), ArrayState::Failed);
    }
}

/// All members fail during the same writes. Their errors arrive together, with nothing left to
/// flush or record. Every request gets a reply.
#[test]
fn an_array_that_fails_answers_every_request() {
    for (level, members) in [("raid5", 2), ("raid5", 3), ("raid6", 4)] {
        for (checksums, steps) in pairs([true, false], 0..30) {
            let setup = wide(level, members, checksums);
            let mut world = setup.open().unwrap();
            world.write(0, &[1; 24 * BLOCK]).unwrap();
            let whole = world.submit(Operation::Write { fua: false }, 0, vec![2; 8 * BLOCK], 8);
            let part = world.submit(Operation::Write { fua: true }, 17, vec![3; BLOCK], 1);
            step(&mut world, steps);
            world.gone = MemberSet::all(u8::try_from(members).unwrap());
            let flush = world.submit(Operation::Flush, 0, Vec::new(), 0);
            world.steps(2000);
            let mut replies: Vec<_> = world.replies.iter().map(|reply| reply.token).collect();
            replies.sort_unstable();
            let what = format!("{level} of {members}, checksums {checksums}, after {steps} steps");
            assert_eq!(replies, [whole, part, flush], "{what}");
        }
    }
}

/// A member that goes in the last update of a close takes its bad blocks along, and another goes
/// while that is recorded.
#[test]
fn a_close_comes_to_its_end_whoever_goes() {
    for ((first, second), (third, all)) in pairs(
        pairs(0..40, 0..12),
        pairs(0..4, [false, true]).collect::<Vec<_>>(),
    ) {
        let mut setup = logged(3, 48, 0);
        setup.seed = first * 1000 + second * 10 + third;
        let mut world = setup.open().unwrap();
        world.write(0, &[1; 8 * BLOCK]).unwrap();
        let (member, at) = place_of(&world, 1);
        let member = u8::try_from(member).unwrap();
        let place = (member, u64::try_from(at / BLOCK).unwrap());
        world.medium.insert(place);
        world.refusing.insert(place);
        world.read(1, 1).ok();
        world.command(spindles_engine::Command::Close).unwrap();
        step(&mut world, usize::try_from(first).unwrap());
        world.gone = only(member);
        step(&mut world, usize::try_from(second).unwrap());
        world.gone = world.gone.with(MemberIndex((member + 1) % 3));
        step(&mut world, usize::try_from(third).unwrap());
        if all {
            world.gone = MemberSet::all(3);
        }
        settle_down(&mut world);
        assert_met!(world, Event::Closed { .. });
    }
}

/// Opens the array after a loss of power, as the newest superblock describes it.
fn after_power_loss(mut world: World, setup: &Setup, keeps: Option<Kept>) -> World {
    world.lose_power(|rng| {
        let drawn = [Kept::Nothing, Kept::All][usize::try_from(rng.below(2)).unwrap()];
        keeps.unwrap_or(drawn)
    });
    let records = (0..world.members.len()).flat_map(|member| world.superblocks(member));
    let newest = records.max_by_key(|record| record.generation);
    let mut world = world.reopen_as(setup, newest.expect("one is whole at least"), None);
    world.run();
    world
}

/// Blocks of a region of an array with four members, and the blocks that the tests read.
const REGION: u64 = 24;
const LOOKED_AT: u64 = 2 * REGION;

/// An array full of data, whose journals still durably hold writes to parts of the first rows. Also
/// returns the contents.
fn with_live_records(setup: &Setup) -> (World, Vec<u8>) {
    let mut contents: Vec<u8> = (100..).take(usize::try_from(LOOKED_AT).unwrap()).collect();
    let bytes: Vec<u8> = contents.iter().flat_map(|&byte| [byte; BLOCK]).collect();
    let mut world = setup.open().unwrap();
    world.write(0, &bytes).unwrap();
    let mut world = world.close_and_reopen(setup);
    for (at, byte) in [(1, 1), (5, 2), (14, 3), (1, 4)] {
        world.write_and_no_more(at, &[byte; BLOCK]);
        contents[usize::try_from(at).unwrap()] = byte;
    }
    world.flush_and_no_more();
    let log = world.engine.record().expect("it has superblocks").journal;
    let (member, _) = place_of(&world, 1);
    let (_, at) = last_header(&world, member).expect("it was logged");
    let header = &world.members[member][at..at + JOURNAL_HEADER_BYTES];
    let batch = JournalHeader::decode(header).unwrap().batch;
    assert!(
        batch.nonce == log.nonce && batch.sequence >= log.tail,
        "the log is live"
    );
    (world, contents)
}

/// Zeroes blocks that the log holds writes of, with `operation`. Power is lost after every step,
/// and the array is read, without a member too. A zeroed block holds its old contents or zeros:
/// zeros if the operation was answered as durable, or flushed. Blocks outside the operation are
/// unchanged. A second loss of power has no effect.
fn no_replay_brings_back(operation: Operation) {
    let fua = operation == Operation::WriteZeroes { fua: true };
    let (mut before, mut after, mut between, mut errors) = (0, 0, 0, 0);
    // A whole region, all blocks of some rows, and parts of rows.
    for (first, blocks) in [(0, 24), (0, 12), (0, 36), (1, 9), (5, 1)] {
        for (seed, keeps, zeroes) in [
            (1, Some(Kept::Nothing), false),
            (2, Some(Kept::All), false),
            (3, None, true),
        ] {
            for stop in 0.. {
                let mut setup = narrow("raid5", 4);
                (setup.seed, setup.zeroes) = (seed, zeroes);
                let (mut world, contents) = with_live_records(&setup);
                let token = world.submit(operation, first, Vec::new(), blocks);
                let mut flush = None;
                let is_answered = |world: &World, token: u64| {
                    world
                        .replies
                        .iter()
                        .any(|reply| reply.token == token && reply.result.is_ok())
                };
                let mut steps = 0;
                while steps < stop && !world.idle() {
                    world.step();
                    steps += 1;
                    if flush.is_none() && is_answered(&world, token) {
                        flush = Some(world.submit(Operation::Flush, 0, Vec::new(), 0));
                    }
                }
                if steps < stop {
                    break; // No step is left.
                }
                let answered = is_answered(&world, token);
                let flushed = flush.is_some_and(|flush| is_answered(&world, flush));
                let durable = flushed || fua && answered;
                let without = [None, Some(0), Some(1), Some(2), Some(3)][stop % 5];
                let mut again = setup.clone();
                if let Some(member) = without {
                    again.missing = only(member);
                }
                let what = format!(
                    "{operation:?} of {first}+{blocks}, seed {seed}, power lost after {stop} \
                     steps, answered {answered}, durable {durable}, without {without:?}"
                );
                let all: Vec<_> = (0..LOOKED_AT).collect();
                let mut world = after_power_loss(world, &again, keeps);
                let read = first_bytes(&mut world, &all);
                let range = usize::try_from(first).unwrap()
                    ..usize::try_from(first).unwrap() + usize::try_from(blocks).unwrap();
                for (block, read) in read.iter().enumerate() {
                    let changes = range.contains(&block);
                    let old = !(durable && changes) && *read == Ok(contents[block]);
                    let zeros = changes && *read == Ok(0);
                    // Whole stripes of which the log holds nothing are not logged.
                    let stripe = block / 12;
                    let whole = range.start <= stripe * 12 && (stripe + 1) * 12 <= range.end;
                    let unlogged = whole && stripe > 1;
                    let (member, _) = place_of(&world, block as u64);
                    let gone = again
                        .missing
                        .contains(MemberIndex(u8::try_from(member).unwrap()));
                    let lost = unlogged && !durable && gone && read.is_err();
                    errors += u32::from(lost);
                    assert!(old || zeros || lost, "{what}: block {block} is {read:?}");
                }
                let zeros = range.clone().filter(|block| read[*block] == Ok(0)).count();
                match zeros {
                    0 => before += 1,
                    zeros if zeros == range.len() => after += 1,
                    _ => between += 1,
                }
                let mut world = after_power_loss(world, &again, None);
                assert_eq!(first_bytes(&mut world, &all), read, "{what}: and again");
            }
        }
    }
    let came = format!("{before} before, {after} after, {between} between, {errors} errors");
    assert!(before > 50 && after > 50, "{operation:?}: {came}");
}

#[test]
fn what_was_discarded_over_live_records_does_not_come_back() {
    no_replay_brings_back(Operation::Discard);
}

#[test]
fn what_was_made_zeros_over_live_records_does_not_come_back() {
    no_replay_brings_back(Operation::WriteZeroes { fua: false });
}

#[test]
fn what_was_made_zeros_durably_over_live_records_does_not_come_back() {
    no_replay_brings_back(Operation::WriteZeroes { fua: true });
}

/// A block is lost. Power is lost after every step of a write over it. If the log has that write,
/// the block is there again and no longer lost, even if the write was not answered.
#[test]
fn what_a_replay_writes_is_not_lost_any_more() {
    let (mut lost, mut replayed) = (0, 0);
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        let setup = narrow(level, members);
        for stop in 0.. {
            let mut world = with_three_blocks(&setup);
            // More blocks of a row rot than redundancy can reconstruct: a write to another block
            // gives them up.
            let row = place_of(&world, 1).1;
            let others = [5, 9].map(|block| place_of(&world, block).0);
            for member in (0..members).filter(|member| !others.contains(member)) {
                world.members[member][row..row + BLOCK].fill(0xdd);
            }
            world.write(5, &[5; BLOCK]).unwrap();
            world.read(1, 1).expect_err("it is lost");
            let mut world = after_power_loss(world, &setup, Some(Kept::Nothing));
            world.read(1, 1).expect_err("it is lost still");

            let token = world.submit(Operation::Write { fua: false }, 1, vec![7; BLOCK], 1);
            let more = step(&mut world, stop);
            let answered = world.replies.iter().any(|reply| reply.token == token);
            if !more || answered {
                break;
            }
            let mut world = after_power_loss(world, &setup, Some(Kept::Nothing));
            let writes = |event: &Event| matches!(event, Event::Replayed { writes: 1.. });
            let what = format!("{level}, power lost after {stop} steps");
            let there = first_bytes(&mut world, &[1, 5, 9]);
            assert_eq!(there[1..], [Ok(5), Ok(19)], "{what}");
            if world.events.iter().any(writes) {
                replayed += 1;
                assert_eq!(there[0], Ok(7), "{what}");
                assert_eq!(world.engine.status().lost_blocks, 0, "{what}");
            } else {
                lost += u32::from(there[0].is_err());
                assert!(
                    there[0].is_err() || there[0] == Ok(7),
                    "{what}: {:?}",
                    there[0]
                );
            }
            let mut world = after_power_loss(world, &setup, None);
            assert_eq!(
                first_bytes(&mut world, &[1, 5, 9]),
                there,
                "{what}: and again"
            );
        }
    }
    assert!(lost > 5 && replayed > 5, "{lost} lost, {replayed} replayed");
}

/// Blocks corrupted beyond redundancy are lost when their row is written in part. A replay does not
/// restore older contents, which would not fit the parity computed since. This holds even if the
/// crash comes late and the region is no longer dirty.
#[test]
fn what_is_lost_in_a_row_that_the_log_has_stays_lost() {
    let setup = narrow("raid5", 3);
    for quiet in [false, true] {
        for out in [None, Some(0), Some(1), Some(2)] {
            let mut world = with_blocks(&setup, &[(1, 11), (5, 15)]).close_and_reopen(&setup);
            world.write(1, &[1; BLOCK]).unwrap();
            let (first, at) = place_of(&world, 1);
            let parity = 3 - first - place_of(&world, 5).0;
            for member in [first, parity] {
                world.members[member][at..at + BLOCK].fill(0xdd);
            }
            world.write_and_no_more(5, &[2; BLOCK]);
            let lost = Event::Lost {
                block: BlockIndex(1),
                blocks: 1,
            };
            assert!(world.events.contains(&lost));
            if quiet {
                world.read(1, 1).expect_err("it is lost");
            }
            let mut world = world.restart(&setup);
            let what = format!("quiet {quiet}, then without {out:?}");
            assert!(world.read(1, 1).is_err(), "{what}");
            assert_eq!(world.read(5, 1).unwrap(), [2; BLOCK], "{what}");
            if let Some(out) = out {
                world.fail(out);
            }
            assert!(world.read(1, 1).is_err(), "{what}");
            assert_eq!(world.read(5, 1).unwrap(), [2; BLOCK], "{what}");
        }
    }
}
