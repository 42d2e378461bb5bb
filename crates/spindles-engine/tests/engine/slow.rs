//! Members that are much slower than their peers: reported, read around, and noticed when they are
//! quick again.

use crate::public::world::{BLOCK, Setup, World, equal};
use spindles_block::{MemberIndex, Operation};
use spindles_engine::Event;

const MS: u64 = 1_000_000;

fn open(level: &str, members: usize) -> World {
    let mut world = Setup {
        requests: 64,
        read_policy: "round-robin",
        ..Setup::new(equal(level, members, 1, 64))
    }
    .open()
    .unwrap();
    let blocks = usize::try_from(world.engine.geometry().blocks()).unwrap();
    let bytes: Vec<u8> = (0..blocks)
        .flat_map(|block| [u8::try_from(block).unwrap(); BLOCK])
        .collect();
    world.write(0, &bytes).unwrap();
    world.in_order = true;
    world
}

/// Reads every block once, one after another. A read of member 0 takes `slow_ms`, a read of another
/// member 2 ms. Returns the number of reads of member 0.
fn read_all(world: &mut World, slow_ms: u64) -> usize {
    world.trace = Some(Vec::new());
    for block in 0..world.engine.geometry().blocks() {
        let token = world.submit(Operation::Read, block, vec![0; BLOCK], 1);
        while world.has_pending() {
            let ms = match world.next_member() {
                Some(MemberIndex(0)) => slow_ms,
                Some(_) => 2,
                None => 0,
            };
            world.now = world.now.plus_ns(ms * MS);
            world.step();
        }
        world.result(token).unwrap();
        let byte = u8::try_from(block).unwrap();
        assert!(world.buffer(token) == [byte; BLOCK], "block {block}");
    }
    let trace = world.trace.take().unwrap();
    trace.iter().filter(|l| l.starts_with("read 0:")).count()
}

fn told(world: &World) -> Vec<bool> {
    let slow = |event: &Event| match *event {
        Event::MemberSlow { member, slow } => {
            assert_eq!(member, MemberIndex(0));
            Some(slow)
        }
        _ => None,
    };
    world.events.iter().filter_map(slow).collect()
}

#[test]
fn a_slow_member_is_told_read_around_and_found_quick_again() {
    for (level, members) in [("raid5", 4), ("raid6", 5), ("raid1", 3)] {
        let mut world = open(level, members);
        // Not much slower, or not for long.
        for ms in [2, 8, 2] {
            (0..20).for_each(|_| _ = read_all(&mut world, ms));
        }
        assert_eq!(told(&world), [], "{level}");
        let mut usual = 0;
        for _ in 0..40 {
            usual = read_all(&mut world, 60).max(usual);
            if !told(&world).is_empty() {
                break;
            }
        }
        assert_eq!(told(&world), [true], "{level}");
        let status = world.engine.status().members[0];
        assert!(status.slow && status.read_ns > 30 * MS, "{status:?}");
        let now = read_all(&mut world, 60);
        assert!(now * 4 < usual, "{level}: {now} reads, {usual} before");
        (0..200).for_each(|_| _ = read_all(&mut world, 2));
        assert_eq!(told(&world), [true, false], "{level}");
        assert!(!world.engine.status().members[0].slow);
    }
}

#[test]
fn only_so_many_reads_at_once_go_around() {
    let mut world = open("raid5", 4);
    (0..40).for_each(|_| _ = read_all(&mut world, 60));
    assert_eq!(told(&world), [true]);
    world.trace = Some(Vec::new());
    // Every block of 20 stripes: a quarter of them lie on member 0.
    for block in 0..60 {
        world.submit(Operation::Read, block, vec![0; BLOCK], 1);
    }
    world.run();
    let trace = world.trace.take().unwrap();
    let solved = trace.iter().filter(|l| l.starts_with("solve")).count();
    let asked = trace.iter().filter(|l| l.starts_with("read 0:")).count();
    assert_eq!((solved, asked), (8, 7), "{trace:?}");
}
