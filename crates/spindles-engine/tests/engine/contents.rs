//! Data is read back as written, at every level, in any order of completion, whichever members
//! fail.

use crate::public::world::{BLOCK, Setup, World, assert_met, at_block, equal, only};
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_engine::{Event, Member};
use spindles_layout::{Geometry, LEVELS, Spec};

/// Every level with a few member counts, layouts and chunks.
pub(crate) fn arrays() -> Vec<Spec> {
    let mut specs = Vec::new();
    for level in LEVELS {
        for members in [level.members_min, level.members_min + 1, 5] {
            if members < level.members_min {
                continue;
            }
            for row in level.layouts {
                for chunk_blocks in [1, 3, 8] {
                    let layout = if row.name.is_empty() {
                        None
                    } else {
                        Some(level.layout(row.name).expect("a layout of the table"))
                    };
                    let spec = Spec {
                        level,
                        layout,
                        chunk_blocks,
                        member_blocks: vec![72; usize::from(members)],
                    };
                    if Geometry::new(&spec).is_ok() {
                        specs.push(spec);
                    }
                }
            }
        }
    }
    specs
}

/// Every set of missing members of at most three that the level survives.
pub(crate) fn survivable(geometry: &Geometry) -> Vec<MemberSet> {
    (0u64..1 << geometry.members())
        .map(MemberSet::from_bits)
        .filter(|&set| set.count() <= 3 && geometry.survives(set))
        .collect()
}

/// Random writes, zeroes and reads in flight together where they don't overlap, checked against a
/// plain copy of the array.
pub(crate) fn exercise(world: &mut World, model: &mut [u8], rounds: u32) {
    let blocks = u64::try_from(model.len() / BLOCK).unwrap();
    for _ in 0..rounds {
        let mut at = world.rng.below(4);
        let mut reads = Vec::new();
        let mut writes = Vec::new();
        while at < blocks {
            let length = 1 + world.rng.below(24).min(blocks - at - 1);
            let count = u32::try_from(length).unwrap();
            let range = at_block(at)..usize::try_from(at + length).unwrap() * BLOCK;
            match world.rng.below(8) {
                0..4 => {
                    let tag = u8::try_from(world.rng.below(251)).unwrap();
                    for (offset, byte) in model[range.clone()].iter_mut().enumerate() {
                        *byte = tag ^ u8::try_from((offset * 7 + offset / BLOCK) % 256).unwrap();
                    }
                    let bytes = model[range].to_vec();
                    let fua = world.rng.below(4) == 0;
                    writes.push(world.submit(Operation::Write { fua }, at, bytes, count));
                }
                4 => {
                    model[range].fill(0);
                    let operation = match world.rng.below(2) {
                        0 => Operation::Discard,
                        _ => Operation::WriteZeroes { fua: false },
                    };
                    writes.push(world.submit(operation, at, Vec::new(), count));
                }
                5 => writes.push(world.submit(Operation::Flush, 0, Vec::new(), 0)),
                _ => {
                    let buffer = vec![0xdd; range.len()];
                    reads.push((world.submit(Operation::Read, at, buffer, count), range));
                }
            }
            at += length + world.rng.below(3);
        }
        world.run();
        for token in writes {
            world.result(token).expect("within the tolerance");
        }
        for (token, range) in reads {
            world.result(token).expect("within the tolerance");
            assert!(
                world.buffer(token) == model[range],
                "a read returns the written data"
            );
        }
    }
    let all = world
        .read(0, u32::try_from(blocks).unwrap())
        .expect("within the tolerance");
    assert!(all == model, "the whole array reads back");
}

pub(crate) fn model_of(geometry: &Geometry) -> Vec<u8> {
    vec![0; usize::try_from(geometry.blocks()).unwrap() * BLOCK]
}

#[test]
fn healthy_then_degraded() {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        for missing in survivable(&geometry) {
            let setup = Setup {
                seed,
                ..Setup::new(spec.clone())
            };
            let mut world = setup.open().unwrap();
            let mut model = model_of(&geometry);
            exercise(&mut world, &mut model, 2);
            for member in missing.iter() {
                world.fail(member.0);
            }
            exercise(&mut world, &mut model, 2);
        }
    }
}

#[test]
fn members_fail_in_the_middle() {
    members_fail(false);
}

/// With bitmaps, on members with arbitrary contents.
#[test]
fn members_fail_in_the_middle_of_unwritten_regions() {
    members_fail(true);
}

fn members_fail(regions: bool) {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        if regions && geometry.redundancy() == 0 {
            continue;
        }
        for missing in survivable(&geometry) {
            let setup = Setup {
                seed,
                persistent: true,
                regions,
                ..Setup::new(spec.clone())
            };
            let mut world = setup.open().unwrap();
            let mut model = model_of(&geometry);
            exercise(&mut world, &mut model, 1);
            // From now on these members answer only `Gone`.
            world.gone = missing;
            exercise(&mut world, &mut model, 2);
            for member in missing.iter().take(usize::from(geometry.redundancy() > 0)) {
                let state = world.state(member.0);
                assert_ne!(state, Member::Active, "{:?}", spec.level.name);
            }
        }
    }
}

#[test]
fn latent_sector_errors_are_answered_from_redundancy() {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        if geometry.redundancy() == 0 {
            continue;
        }
        let mut world = Setup {
            seed,
            ..Setup::new(spec.clone())
        }
        .open()
        .unwrap();
        let mut model = model_of(&geometry);
        exercise(&mut world, &mut model, 2);
        let start = world.data_start[1];
        world.medium = (start..start + 72).map(|block| (1, block)).collect();
        exercise(&mut world, &mut model, 2);
        assert!(
            world
                .engine
                .status()
                .members
                .iter()
                .all(|member| { member.state == Member::Active })
        );
    }
}

#[test]
fn an_unclean_array_is_made_consistent() {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        let setup = Setup {
            seed,
            clean: false,
            persistent: true,
            ..Setup::new(spec.clone())
        };
        let noise = |member: usize, at: usize| {
            u8::try_from((member * 89 + at * 31 + at / BLOCK * 17) % 256).unwrap()
        };
        // Data that a client reads before the resync reaches it stays, whichever members go missing
        // then.
        for missing in survivable(&geometry).into_iter().take(6) {
            let mut world = setup.open_filled(noise).unwrap();
            let blocks = geometry.blocks();
            let mut seen = Vec::new();
            for _ in 0..5 {
                let block = world.rng.below(blocks);
                let length = u32::try_from(1 + world.rng.below(6).min(blocks - block - 1)).unwrap();
                let buffer = vec![0; at_block(length.into())];
                let token = world.submit(Operation::Read, block, buffer, length);
                seen.push((token, block, length));
            }
            let mut model = Vec::new();
            world.run();
            for (token, block, length) in seen {
                world.result(token).unwrap();
                model.push((block, length, world.buffer(token)));
            }
            for member in missing.iter() {
                world.fail(member.0);
            }
            for (block, length, bytes) in model {
                assert!(
                    world.read(block, length).unwrap() == bytes,
                    "stable once read"
                );
            }
            assert!(world.close(), "resynchronised, so clean");
        }
    }
}

/// A member may go out at any moment of a resync: the resync still settles all rows.
#[test]
fn a_resync_ends_also_when_a_member_goes_out_meanwhile() {
    let spec = equal("raid1", 2, 4, 16);
    for steps in 0.. {
        let setup = Setup {
            seed: 3,
            clean: false,
            persistent: true,
            ..Setup::new(spec.clone())
        };
        let mut world = setup
            .open_filled(|member, at| u8::try_from((member + at) % 251).unwrap())
            .unwrap();
        if !world.steps(steps) {
            return;
        }
        world.fail(1);
        assert_met!(world, Event::ResyncDone { .. });
        assert!(world.close());
    }
}

/// All members go at once, as with a shared cable: requests get errors, and the superblocks stay.
#[test]
fn an_array_whose_members_all_go_is_closed() {
    for steps in 0..12 {
        let spec = equal("raid5", 3, 4, 16);
        let setup = Setup {
            seed: 5,
            persistent: true,
            ..Setup::new(spec)
        };
        let mut world = setup.open().unwrap();
        let token = world.submit(Operation::Write { fua: false }, 0, vec![1; 4 * BLOCK], 4);
        world.steps(steps);
        world.gone = MemberSet::all(3);
        world.run();
        if world.result(token).is_err() {
            assert!(world.write(5, &[2; BLOCK]).is_err(), "after {steps} steps");
        }
        assert!(!world.close(), "after {steps} steps");
    }
}

/// The same at any moment of an opening after a crash, with and without a replay.
#[test]
fn an_array_whose_members_all_go_at_its_opening_is_closed() {
    for (members, missing) in [(2, 0), (2, 1), (3, 0), (3, 1)] {
        for checksum_pages in [None, Some(8)] {
            let setup = |seed| Setup {
                seed,
                persistent: true,
                regions: true,
                policy: "journal",
                checksum_pages,
                ..Setup::new(equal("raid5", members, 4, 16))
            };
            for seed in 0..8 {
                let goes = |&steps: &u32| all_go_while_opening(&setup(seed), missing, steps);
                assert!((0..1000).take_while(goes).count() > 4);
            }
        }
    }
}

/// Returns true if the array was still being opened after `steps` steps.
fn all_go_while_opening(setup: &Setup, missing: u8, steps: u32) -> bool {
    let mut world = setup.open().unwrap();
    world.write_and_no_more(1, &[1; BLOCK]);
    let mut world = world.reopen(&Setup {
        missing: MemberSet::all(missing),
        ..setup.clone()
    });
    for _ in 0..steps {
        if !world.has_pending() {
            return false;
        }
        world.step();
    }
    world.gone = MemberSet::all(u8::try_from(world.members.len()).unwrap());
    let members = world.members.len();
    assert!(
        !world.close(),
        "{missing} of {members} missing, {steps} steps"
    );
    true
}

#[test]
fn beyond_the_tolerance_there_are_errors() {
    for spec in arrays() {
        let geometry = Geometry::new(&spec).unwrap();
        let mut world = Setup::new(spec.clone()).open().unwrap();
        let blocks = geometry.blocks();
        let mut model = model_of(&geometry);
        exercise(&mut world, &mut model, 1);
        world.gone = MemberSet::all(geometry.members()).without(MemberIndex(0));
        if geometry.survives(world.gone) {
            continue;
        }
        let mut errors = 0;
        for block in 0..blocks {
            let at = at_block(block);
            match world.read(block, 1) {
                Ok(bytes) => assert!(bytes == model[at..at + BLOCK], "exact or an error"),
                Err(_) => errors += 1,
            }
        }
        assert!(errors > 0, "{} with one member left", spec.level.name);
    }
}

#[test]
fn a_small_write_of_raid5_costs_four_member_operations() {
    let spec = equal("raid5", 5, 8, 64);
    let mut world = Setup::new(spec).open().unwrap();
    world.trace = Some(Vec::new());
    world.write(3, &[1; BLOCK]).unwrap();
    let mut trace = world.trace.take().unwrap();
    trace.retain(|line| line.contains(':'));
    trace.sort();
    assert_eq!(
        trace,
        ["read 0:6+1", "read 4:6+1", "write 0:6+1", "write 4:6+1"]
    );
}

#[test]
fn nothing_is_written_before_the_array_is_marked_unclean() {
    let spec = equal("raid1", 2, 8, 64);
    let setup = Setup {
        persistent: true,
        ..Setup::new(spec)
    };
    let mut world = setup.open().unwrap();
    world.trace = Some(Vec::new());
    world.write(0, &[1; BLOCK]).unwrap();
    assert!(world.close());
    let trace = world.trace.take().unwrap();
    let words: Vec<&str> = trace
        .iter()
        .filter(|line| line.contains(':') && !line.starts_with("event"))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    // Unclean, in both slots; data, flush, clean; each on both members.
    let expected = ["write-fua", "write-fua", "write", "flush", "write-fua"];
    assert_eq!(words, expected.map(|word| [word; 2]).concat());
}

#[test]
fn a_missing_member_is_recorded_before_anything_is_served() {
    let spec = equal("raid5", 3, 8, 64);
    let missing = only(2);
    let setup = Setup {
        persistent: true,
        missing,
        ..Setup::new(spec.clone())
    };
    let mut world = setup.open().unwrap();
    let token = world.submit(Operation::Read, 0, vec![0; BLOCK], 1);
    assert!(world.replies.is_empty());
    world.trace = Some(Vec::new());
    world.run();
    world.result(token).unwrap();
    let trace = world.trace.take().unwrap();
    let reads = trace
        .iter()
        .filter(|line| line.starts_with("read "))
        .count();
    assert_eq!(
        reads, 1,
        "the read was sent only after the superblocks: {trace:?}"
    );
    let both_slots = 3;
    assert_eq!(world.engine.status().generation, both_slots);

    let setup = Setup {
        clean: false,
        missing,
        ..Setup::new(spec)
    };
    assert!(setup.open().is_err(), "unclean, degraded and parity");
    assert!(
        Setup {
            force: true,
            ..setup
        }
        .open()
        .is_ok()
    );
}

#[test]
fn writes_merged_in_a_stripe_keep_their_contents() {
    for (seed, spec) in (1..).zip(arrays()) {
        let geometry = Geometry::new(&spec).unwrap();
        for missing in survivable(&geometry) {
            let setup = Setup {
                seed,
                requests: 16,
                ..Setup::new(spec.clone())
            };
            let mut world = setup.open().unwrap();
            let mut model = model_of(&geometry);
            let chunk = spec.chunk_blocks;
            let chunk_bytes = at_block(u64::from(chunk));
            for round in 0..2u8 {
                // All chunks at once: those of a stripe wait for one another, and are written
                // together.
                let mut tokens = Vec::new();
                for (index, bytes) in (0u64..).zip(model.chunks_exact_mut(chunk_bytes)) {
                    bytes.fill(u8::try_from(index % 100).unwrap() + round * 100 + 1);
                    let fua = index % 7 == 6;
                    let block = index * u64::from(chunk);
                    let operation = Operation::Write { fua };
                    tokens.push(world.submit(operation, block, bytes.to_vec(), chunk));
                }
                world.run();
                for token in tokens {
                    world.result(token).unwrap();
                }
            }
            for member in missing.iter() {
                world.fail(member.0);
            }
            let whole = model.len() / chunk_bytes * chunk_bytes / BLOCK;
            let read = world.read(0, u32::try_from(whole).unwrap()).unwrap();
            assert!(
                read == model[..whole * BLOCK],
                "{} without {missing:?}",
                spec.level.name
            );
        }
    }
}
