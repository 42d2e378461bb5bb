//! Jobs while clients are busy: jobs yield, but keep their guaranteed rate.

use crate::public::world::{BLOCK, Setup, World, equal};
use spindles_block::Operation;
use spindles_engine::{Command, Event, Status};

const MEMBER_BLOCKS: u64 = 4096;
const MS: u64 = 1_000_000;

fn unclean_mirror() -> World {
    let spec = equal("raid1", 2, 64, MEMBER_BLOCKS);
    let setup = Setup {
        clean: false,
        ..Setup::new(spec)
    };
    setup.open().unwrap()
}

fn done_bytes(status: &Status) -> Option<u64> {
    // Only one job exists.
    status.jobs.first().map(|job| job.done_bytes)
}

/// Lets clients read for `duration_ms`: at least one request is always in flight, and one operation
/// completes each millisecond. Returns the progress of the resync meanwhile, in bytes.
fn beside_clients(world: &mut World, duration_ms: u64) -> u64 {
    let before = done_bytes(&world.engine.status()).unwrap();
    for _ in 0..duration_ms {
        while world.replies.len() < 2 {
            world.submit(Operation::Read, 0, vec![0; BLOCK], 1);
            world.submit(Operation::Flush, 0, Vec::new(), 0);
            if !world.has_pending() {
                break;
            }
            world.step();
        }
        world.replies.clear();
        world.now = world.now.plus_ns(MS);
    }
    done_bytes(&world.engine.status()).unwrap() - before
}

#[test]
fn a_job_that_is_guaranteed_nothing_waits_for_the_clients() {
    let mut world = unclean_mirror();
    world
        .engine
        .command(world.now, Command::JobRate(0))
        .unwrap();
    beside_clients(&mut world, 50); // Work begun before the first client came.
    assert_eq!(beside_clients(&mut world, 500), 0);
    assert!(!world.events.contains(&Event::ResyncDone { mismatches: 0 }));
    world.run();
    assert!(world.events.contains(&Event::ResyncDone { mismatches: 0 }));
    assert_eq!(world.engine.status().jobs, []);
}

#[test]
fn a_job_beside_clients_keeps_its_rate_and_no_more() {
    let mut world = unclean_mirror();
    let rate = 500_000;
    let command = Command::JobRate(rate);
    world.engine.command(world.now, command).unwrap();
    assert_eq!(world.engine.status().job("resync").unwrap().rate, rate);
    beside_clients(&mut world, 200); // Work begun before the first client came.
    let per_second = beside_clients(&mut world, 1000);
    // Progress is counted in whole groups of 32 KiB.
    assert!((450_000..=550_000).contains(&per_second), "{per_second}");
}

/// The same for a device being filled, and for one onto which a member is copied.
#[test]
fn rebuilds_and_replacements_keep_the_rate_and_yield() {
    for (replace, rate) in [(false, 500_000), (true, 500_000), (false, 0), (true, 0)] {
        let spec = equal("raid1", 2, 64, MEMBER_BLOCKS);
        let setup = Setup {
            persistent: true,
            ..Setup::new(spec)
        };
        let mut world = setup.open().unwrap();
        world.command(Command::JobRate(rate)).unwrap();
        if replace {
            world.replace(1, 100).unwrap();
        } else {
            world.fail(1);
            world.rebuild(1, 100).unwrap();
        }
        while world.engine.status().jobs.is_empty() {
            world.step();
        }
        beside_clients(&mut world, 200); // Work begun before the first client came.
        let per_second = beside_clients(&mut world, 1000);
        let range = rate * 9 / 10..=rate * 11 / 10;
        assert!(
            range.contains(&per_second),
            "{replace} {rate}: {per_second}"
        );
    }
}

#[test]
fn a_job_alone_waits_for_nobody() {
    let mut world = unclean_mirror();
    let status = world.engine.status();
    let job = status.job("resync").unwrap();
    let block = u64::try_from(BLOCK).unwrap();
    assert!(job.going && job.total_bytes == MEMBER_BLOCKS * block);
    world.run();
    assert_eq!(world.now.0, 0, "no time passed");
    assert!(world.events.contains(&Event::ResyncDone { mismatches: 0 }));
}
