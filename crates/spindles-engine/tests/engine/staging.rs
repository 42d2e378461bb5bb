//! Staged writes: one append answers a write, and the stage places and releases it later.

use crate::public::replay::wide;
use crate::public::world::{BLOCK, Kept, Setup, World, assert_met, at_block, only};
use spindles_block::{BlockIndex, MemberIndex, Operation};
use spindles_engine::{Command, Event, WriteBackMode};

/// An array with a stage.
fn staged(level: &str, members: usize, seed: u64) -> Setup {
    let mut setup = wide(level, members, true);
    setup.spec.member_blocks = vec![600; members];
    setup.staged_blocks = 256;
    setup.write_back = WriteBackMode::On;
    setup.seed = seed;
    setup
}

/// Opens it, and brings it to take writes into its stage.
fn open(setup: &Setup) -> World {
    let mut world = setup.open().unwrap();
    world.run();
    world.write(3, &[1; BLOCK]).unwrap();
    world.run();
    world
}

/// Writes one block, and returns what happened until that was answered.
fn until_answered(world: &mut World, block: u64, fua: bool, byte: u8) -> Vec<String> {
    world.trace = Some(Vec::new());
    let token = world.submit(Operation::Write { fua }, block, vec![byte; BLOCK], 1);
    world.await_answer(token).unwrap();
    let trace = world.trace.take().unwrap();
    let member_io = |line: &&String| line.contains('+');
    trace.iter().filter(member_io).cloned().collect()
}

#[test]
fn a_part_of_a_row_is_answered_after_one_append_on_each_holder() {
    for (level, members, columns) in [("raid5", 4, 2), ("raid6", 5, 3)] {
        let mut world = open(&staged(level, members, 3));
        for (fua, word) in [(false, "write "), (true, "write-fua ")] {
            let trace = until_answered(&mut world, 40, fua, 7);
            // A header of eight blocks, and one block.
            let appended = |line: &String| line.starts_with(word) && line.ends_with("+9");
            assert_eq!(trace.len(), columns, "{level}: {trace:?}");
            assert!(trace.iter().all(appended), "{level}: {trace:?}");
        }
        assert_eq!(world.read(40, 1).unwrap(), [7; BLOCK]);
        world.close_with_checksums(level);
    }
}

/// Requests of all kinds at random, at depth 4, against a model. Every block that was answered is
/// read as it was written, before and after it is placed, and after a close.
#[test]
fn staged_contents_are_read_until_they_are_placed() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for seed in 1..30 {
            let setup = staged(level, members, seed);
            let mut world = open(&setup);
            let blocks = world.engine.geometry().blocks().min(300);
            let mut model = world.read_all();
            for round in 0..60_u8 {
                let first = world.rng.below(blocks - 40);
                let count = [1, 1, 1, 2, 5, 30][usize::try_from(world.rng.below(6)).unwrap()];
                let bytes = vec![round.wrapping_add(2); usize::try_from(count).unwrap() * BLOCK];
                let at = usize::try_from(first).unwrap() * BLOCK;
                let length = u32::try_from(count).unwrap();
                let fua = world.rng.below(4) == 0;
                let kind = world.rng.below(8);
                let operation = match kind {
                    0 => Operation::WriteZeroes { fua },
                    _ => Operation::Write { fua },
                };
                let zeros = vec![0; bytes.len()];
                let new = if kind == 0 { &zeros } else { &bytes };
                model[at..at + bytes.len()].copy_from_slice(new);
                let token = world.submit(operation, first, bytes, length);
                world.await_answer(token).unwrap();
                match world.rng.below(6) {
                    0 => world.flush_and_no_more(),
                    1 => {
                        world.steps(20);
                    }
                    2 => world.run(),
                    _ => {}
                }
                let first = world.rng.below(blocks - 40);
                let token = world.submit(Operation::Read, first, vec![0xdd; 40 * BLOCK], 40);
                world.await_answer(token).unwrap();
                let at = usize::try_from(first).unwrap() * BLOCK;
                let read = world.buffer(token);
                assert!(read == model[at..at + 40 * BLOCK], "{level} {seed} {round}");
            }
            assert!(world.read_all() == model, "{level} {seed}");
            world.close_with_checksums(level);
            let mut world = world.restart(&setup);
            assert!(world.read_all() == model, "{level} {seed} reopened");
        }
    }
}

/// The contents that a block may hold after a crash: those of its last durable write, or of a
/// later one.
struct Model {
    /// The contents of each block since its last durable write, the oldest first.
    blocks: Vec<Vec<u8>>,
    /// The unanswered write. A crash may leave its new blocks, its old blocks, or a mixture.
    unanswered: Option<(usize, usize, u8)>,
}

impl Model {
    fn write(&mut self, first: usize, blocks: usize, byte: u8, durable: bool) {
        for block in &mut self.blocks[first..first + blocks] {
            if durable {
                block.clear();
            }
            block.push(byte);
        }
    }

    fn flushed(&mut self) {
        for block in &mut self.blocks {
            let last = *block.last().unwrap();
            *block = vec![last];
        }
    }

    /// Checks the bytes of a read, and takes them as the contents from here on.
    fn check(&mut self, bytes: &[u8], is_process: bool, what: &str) {
        for (at, (block, found)) in self.blocks.iter_mut().zip(bytes.chunks(BLOCK)).enumerate() {
            let byte = found[0];
            assert!(
                found.iter().all(|other| *other == byte),
                "{what}: block {at} is torn"
            );
            let legal = if is_process {
                &block[block.len() - 1..]
            } else {
                &block[..]
            };
            let unanswered = self.unanswered.filter(|(first, count, other)| {
                (*first..first + count).contains(&at) && *other == byte
            });
            assert!(
                unanswered.is_some() || legal.contains(&byte),
                "{what}: block {at} is {byte}, not {legal:?}"
            );
            *block = vec![byte];
        }
        self.unanswered = None;
    }
}

/// Writes at random, each answered before the next; then the process ends or power is lost, twice,
/// perhaps during the opening, perhaps with a member less.
fn crash(level: &str, members: usize, seed: u64) {
    let mut setup = staged(level, members, seed);
    let mut world = open(&setup);
    let blocks = 300.min(usize::try_from(world.engine.geometry().blocks()).unwrap());
    let whole = world.read_all();
    let firsts = whole.chunks(BLOCK).take(blocks).map(|block| vec![block[0]]);
    let mut model = Model {
        blocks: firsts.collect(),
        unanswered: None,
    };
    // Whole rows of clients are not written here: unlogged, they may answer errors.
    for life in 0..3_u8 {
        let what = format!("{level} {seed} {life}");
        let rounds = world.rng.below(40);
        for round in 0..rounds {
            let count = [1, 1, 1, 2, 5, 7][usize::try_from(world.rng.below(6)).unwrap()];
            let first = usize::try_from(world.rng.below(60)).unwrap();
            let byte = u8::try_from(round + 1).unwrap() + life * 50;
            let fua = world.rng.below(4) == 0;
            let length = u32::try_from(count).unwrap();
            let bytes = vec![byte; count * BLOCK];
            let token = world.submit(Operation::Write { fua }, first as u64, bytes, length);
            if round + 1 == rounds && world.rng.below(2) == 0 {
                model.unanswered = Some((first, count, byte));
                world.steps(round);
                break;
            }
            world.await_answer(token).unwrap();
            model.write(first, count, byte, fua);
            match world.rng.below(8) {
                0 => {
                    world.flush_and_no_more();
                    model.flushed();
                }
                1 => {
                    let steps = world.rng.below(60);
                    world.steps(steps);
                }
                2 => world.run(),
                _ => {}
            }
        }
        let is_process = world.rng.below(2) == 0 && rounds > 0;
        let loses = |rng: &mut crate::public::world::Rng| {
            [Kept::Nothing, Kept::All][usize::try_from(rng.below(2)).unwrap()]
        };
        let mut died = world.rng.below(3);
        let is_sure = is_process && died == 0;
        loop {
            if !is_process {
                world.lose_power(loses);
            }
            if setup.missing.is_empty() && world.rng.below(3) == 0 {
                setup = setup.without(only(u8::try_from(seed % members as u64).unwrap()));
            }
            world = world.reopen(&setup);
            if died == 0 {
                break;
            }
            died -= 1;
            let steps = world.rng.below(150);
            world.steps(steps);
        }
        let count = u32::try_from(blocks).unwrap();
        let found = world.read(0, count).unwrap();
        model.check(&found, is_sure, &what);
        world.run();
        let found = world.read(0, count).unwrap();
        model.check(&found, true, &what);
    }
    world.close();
}

#[test]
fn staged_writes_outlive_a_crash() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for seed in 1..40 {
            crash(level, members, seed);
        }
    }
}

/// A member fails while writes are staged. Everything is placed, and the member comes back to an
/// array whose stage is empty; then writes are staged again.
#[test]
fn a_failed_member_finds_an_empty_stage_when_it_comes_back() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for seed in 1..12 {
            let mut world = open(&staged(level, members, seed));
            let mut model = world.read_all();
            let mut write = |world: &mut World, block: u64, byte: u8| {
                let at = usize::try_from(block).unwrap() * BLOCK;
                model[at..at + BLOCK].fill(byte);
                world.write_and_no_more(block, &[byte; BLOCK]);
                model.clone()
            };
            for block in 0..10 {
                write(&mut world, 5 * block, 2);
            }
            assert!(world.newest(0).unwrap().staged, "{level} {seed}");
            let member = u8::try_from(seed % members as u64).unwrap();
            world.fail(member);
            let other = usize::from(member + 1) % members;
            assert!(world.newest(other).unwrap().staged, "it goes on without it");
            for block in 0..10 {
                write(&mut world, 7 * block, 3);
            }
            world.bring_back(member).unwrap();
            step_until(&mut world, |event| {
                matches!(event, Event::RebuildStarted { .. })
            });
            assert!(!world.newest(other).unwrap().staged, "{level} {seed}");
            let model = write(&mut world, 20, 4);
            world.run();
            assert_eq!(world.state(member), spindles_engine::Member::Active);
            assert!(world.read_all() == model, "{level} {seed}");
            let trace = until_answered(&mut world, 20, false, 4);
            let trace = match trace.len() {
                0..4 => trace,
                _ => until_answered(&mut world, 20, false, 4),
            };
            assert!(trace.iter().all(|line| line.ends_with("+9")), "{trace:?}");
            world.close_with_checksums(level);
        }
    }
}

/// Makes steps until the engine reports such an event.
fn step_until(world: &mut World, is_it: impl Fn(&Event) -> bool) {
    while !world.events.iter().any(&is_it) {
        world.step();
    }
}

/// A device that is filled, or takes the place of another, finds an empty stage.
#[test]
fn a_new_device_finds_an_empty_stage() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for replaces in [false, true] {
            let mut world = open(&staged(level, members, 3));
            if !replaces {
                world.fail(1);
            }
            let mut model = world.read_all();
            for block in 0..10 {
                world.write_and_no_more(5 * block, &[2; BLOCK]);
                model[at_block(5 * block)..][..BLOCK].fill(2);
            }
            assert!(world.newest(0).unwrap().staged);
            if replaces {
                world.replace(1, 9).unwrap();
                step_until(&mut world, |event| {
                    matches!(event, Event::ReplaceDone { .. })
                });
            } else {
                world.rebuild(1, 9).unwrap();
                step_until(&mut world, |event| {
                    matches!(event, Event::RebuildStarted { .. })
                });
            }
            assert!(!world.newest(0).unwrap().staged, "{level} {replaces}");
            world.run();
            assert!(world.read_all() == model, "{level} {replaces}");
            assert!(!world.newest(0).unwrap().staged, "{level} {replaces}");
            until_answered(&mut world, 20, false, 4);
            world.run();
            until_answered(&mut world, 20, false, 5);
            assert!(world.newest(0).unwrap().staged, "it is used again");
            assert!(world.close(), "{level} {replaces}");
        }
    }
}

/// A row has lost more than it survives, so a staged block can't be placed. A device that would
/// return waits, but clients do not wait with it, and the block is read from the stage.
#[test]
fn clients_do_not_wait_for_rows_that_cannot_be_placed() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for replaces in [false, true] {
            let mut world = open(&staged(level, members, 3));
            world.write(0, &vec![9; 100 * BLOCK]).unwrap();
            let lost = world.engine.geometry().locate(BlockIndex(40)).member;
            let row = world.engine.geometry().locate(BlockIndex(40)).offset;
            world.fail(lost.0);
            let others = (0..members).filter(|member| *member != usize::from(lost.0));
            for other in others.skip(1) {
                let block = world.data_at(other) / BLOCK + usize::try_from(row.0).unwrap();
                world.spoil(other, block);
            }
            world.write_and_no_more(40, &[7; BLOCK]);
            if replaces {
                world.rebuild(lost.0, 9).unwrap();
            } else {
                world.bring_back(lost.0).unwrap();
            }
            let is_stuck = |world: &World| world.engine.status().stage.unwrap().is_stuck;
            while !is_stuck(&world) {
                world.step();
            }
            world.write_and_no_more(3, &[5; BLOCK]);
            let token = world.submit(Operation::Read, 40, vec![0; BLOCK], 1);
            world.await_answer(token).unwrap();
            assert_eq!(world.buffer(token), [7; BLOCK], "{level} {replaces}");
            assert_ne!(world.state(lost.0), spindles_engine::Member::Active);
            assert!(is_stuck(&world), "{level} {replaces}");
        }
    }
}

/// A client's flush reaches the holders of staged writes only, and no page of checksums.
#[test]
fn a_flush_reaches_the_holders_of_staged_writes() {
    let mut world = open(&staged("raid5", 4, 3));
    let before = until_answered(&mut world, 40, false, 7);
    world.trace = Some(Vec::new());
    world.flush_and_no_more();
    let trace = world.trace.take().unwrap();
    let flushes: Vec<&String> = trace.iter().filter(|line| line.contains(':')).collect();
    assert_eq!(flushes.len(), before.len(), "{trace:?}");
    assert!(
        flushes.iter().all(|line| line.starts_with("flush ")),
        "{trace:?}"
    );
    world.trace = Some(Vec::new());
    world.flush_and_no_more();
    let trace = world.trace.take().unwrap();
    assert!(
        !trace.iter().any(|line| line.starts_with("flush ")),
        "{trace:?}"
    );
    world.lose_power(|_| Kept::Nothing);
    let mut world = world.reopen(&staged("raid5", 4, 3));
    assert_eq!(world.read(40, 1).unwrap(), [7; BLOCK]);
}

/// An array open read-only shows what is staged, and leaves it staged.
#[test]
fn an_array_open_for_reading_shows_what_is_staged() {
    let setup = staged("raid5", 4, 3);
    let mut world = open(&setup);
    until_answered(&mut world, 40, true, 7);
    world.lose_power(|_| Kept::Nothing);
    let mut world = world.reopen(&setup.to_look());
    world.run();
    assert_eq!(world.read(40, 1).unwrap(), [7; BLOCK]);
    world.close();
    let mut world = world.reopen(&setup);
    assert!(world.newest(0).unwrap().staged);
    assert_eq!(world.read(40, 1).unwrap(), [7; BLOCK]);
    world.close_with_checksums("read-only");
}

/// A lost member does not stop staging: batches have one parity column less. They outlive a crash,
/// and the loss of as many further members as the level tolerates.
#[test]
fn an_array_that_lacks_a_member_stages_with_one_column_less() {
    for (level, members, columns) in [("raid5", 4, 1), ("raid6", 5, 2)] {
        let setup = staged(level, members, 3);
        let mut world = open(&setup);
        world.fail(1);
        let trace = until_answered(&mut world, 40, true, 7);
        assert_eq!(trace.len(), columns, "{level}: {trace:?}");
        assert!(trace.iter().all(|line| line.ends_with("+9")), "{trace:?}");
        assert!(world.newest(0).unwrap().staged);
        world.lose_power(|_| Kept::Nothing);
        let missing = only(1).with(MemberIndex(4));
        let missing = if members == 5 { missing } else { only(1) };
        let mut world = world.reopen(&setup.without(missing));
        assert_eq!(world.read(40, 1).unwrap(), [7; BLOCK], "{level}");
        world.close();
    }
}

/// A holder fails while it writes a column. The batch is written again when the loss is durable,
/// and the memory of the stage suffices for both at the next opening.
#[test]
fn a_batch_that_a_holder_lacks_is_written_again() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        let mut setup = staged(level, members, 3);
        setup.staged_blocks = 8;
        let mut world = open(&setup);
        world.run();
        let bytes = vec![9; 2 * BLOCK];
        let write = Operation::Write { fua: true };
        let tokens = [40, 42].map(|block| world.submit(write, block, bytes.clone(), 2));
        world.gone = only(0);
        for token in tokens {
            world.await_answer(token).unwrap();
        }
        assert_met!(world, Event::MemberOut { .. });
        world.lose_power(|_| Kept::Nothing);
        let mut world = world.reopen(&setup.without(only(0)));
        assert_eq!(world.read(40, 4).unwrap(), [9; 4 * BLOCK], "{level}");
        world.close();
    }
}

/// Writing stops while a batch is on some of its holders. The next opening may find it or not, so
/// until then its blocks are read neither as new nor as old.
#[test]
fn blocks_of_a_batch_that_is_given_up_are_not_read() {
    let setup = staged("raid5", 4, 3);
    let mut world = open(&setup);
    world.write_and_no_more(40, &[1; BLOCK]);
    world.run();
    let member = 1;
    let blocks = 0..u64::try_from(world.members[1].len() / BLOCK).unwrap();
    world
        .without_space
        .extend(blocks.clone().map(|block| (member, block)));
    let token = world.submit(Operation::Write { fua: false }, 40, vec![2; BLOCK], 1);
    step_until(&mut world, |event| matches!(event, Event::MemberOut { .. }));
    for member in [0, 2, 3] {
        world
            .without_space
            .extend(blocks.clone().map(|block| (member, block)));
    }
    world.await_answer(token).unwrap_err();
    world.read(40, 1).unwrap_err();
    assert_eq!(world.read(300, 1).unwrap(), [0; BLOCK]);
    world.without_space.clear();
    let mut world = world.reopen(&setup.without(only(member)));
    let found = world.read(40, 1).unwrap();
    assert!(found == [1; BLOCK] || found == [2; BLOCK]);
}

/// A close places for ten seconds at most. What is left stays staged, and the next opening loads
/// it. On command, a close places everything.
#[test]
fn a_close_places_for_a_limited_time() {
    for places_all in [false, true] {
        let setup = staged("raid5", 4, 3);
        let mut world = open(&setup);
        let mut model = world.read_all();
        for block in (0..120).step_by(2) {
            world.write_and_no_more(block, &[5; BLOCK]);
            model[at_block(block)..][..BLOCK].fill(5);
        }
        if places_all {
            world.command(Command::PlaceStaged).unwrap();
        }
        world.command(Command::Close).unwrap();
        world.now.0 += 10_000_000_000;
        world.run();
        assert!(matches!(
            world.events.last(),
            Some(Event::Closed { clean: true })
        ));
        assert_eq!(world.newest(0).unwrap().staged, !places_all);
        world.lose_power(|_| Kept::Nothing);
        let mut world = world.reopen(&setup);
        assert!(world.read_all() == model, "{places_all}");
        world.close_with_checksums("limited");
    }
}

/// What is answered becomes durable by itself, a second later.
#[test]
fn the_stage_commits_after_a_second() {
    let setup = staged("raid5", 4, 3);
    let mut world = open(&setup);
    world.write_and_no_more(40, &[8; BLOCK]);
    // A client that waits keeps the stage from placing.
    world.submit(Operation::Read, 300, vec![0; BLOCK], 1);
    world.trace = Some(Vec::new());
    for (ns, flushes) in [(999_000_000, 0), (1_000_000, 2)] {
        world.now.0 += ns;
        world.engine.handle_timeout(world.now);
        world.drain();
        let trace = world.trace.as_ref().unwrap();
        let found = trace.iter().filter(|line| line.starts_with("flush "));
        assert_eq!(found.count(), flushes, "{trace:?}");
    }
}

/// Blocks that are staged are not known to be zeros, though their places are.
#[test]
fn staged_blocks_are_not_known_to_be_zeros() {
    let mut world = open(&staged("raid5", 4, 3));
    let blocks = world.engine.geometry().blocks();
    let (first, end) = (BlockIndex(blocks - 20), BlockIndex(blocks));
    assert!(world.engine.reads_zeros(first, end).0);
    world.write_and_no_more(blocks - 10, &[8; BLOCK]);
    assert!(!world.engine.reads_zeros(first, end).0);
}

/// In `auto` a burst of single writes is staged, and later ones go to their places until the stage
/// was empty. A stream that goes on is staged all the time.
#[test]
fn auto_stages_a_burst_and_streams() {
    let mut setup = staged("raid5", 4, 3);
    setup.write_back = WriteBackMode::Auto;
    let mut world = open(&setup);
    world.run();
    let is_staged = |world: &mut World, block: u64| {
        let trace = until_answered(world, block, false, 7);
        trace
            .iter()
            .any(|line| line.starts_with("write ") && line.ends_with("+9"))
    };
    let single = |at: u64| 600 + 11 * at;
    let burst = (0..90)
        .take_while(|&at| is_staged(&mut world, single(at)))
        .count();
    assert!((5..80).contains(&burst), "{burst}");
    assert!(!is_staged(&mut world, single(95)), "the burst is over");
    let stream = (0..30)
        .filter(|&at| is_staged(&mut world, 100 + at))
        .count();
    assert_eq!(stream, 29, "all but the first");
    world.run();
    assert!(is_staged(&mut world, single(97)), "the stage was empty");
    world.close_with_checksums("auto");
}
