//! Staged writes: one append answers a write, and the stage places and releases it later.

use crate::public::replay::wide;
use crate::public::world::{BLOCK, Kept, Setup, World, only};
use spindles_block::Operation;

/// An array with a stage.
fn staged(level: &str, members: usize, seed: u64) -> Setup {
    let mut setup = wide(level, members, true);
    setup.spec.member_blocks = vec![600; members];
    setup.staged_blocks = 256;
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
            assert!(
                !world
                    .newest(usize::from(member + 1) % members)
                    .unwrap()
                    .staged
            );
            for block in 0..10 {
                write(&mut world, 7 * block, 3);
            }
            world.bring_back(member).unwrap();
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
