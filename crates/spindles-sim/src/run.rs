//! A run, from blank disks to the last check. It consists of sessions of requests and faults, each
//! ended by a close or a crash. Then everything is read, members are lost, and everything is read
//! again.

use crate::checkers::Seen;
use crate::client::Wish;
use crate::create;
use crate::faults;
use crate::log::Failure;
use crate::opening::open;
use crate::options::{Ending, Options, Session};
use crate::random::Random;
use crate::session::{after_crash, close, drain};
use crate::stack::Below;
use crate::world::{Moment, World};
use spindles_block::{Instant, Operation};
use spindles_engine::{ArrayState, Command};
use std::collections::BTreeMap;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The array, as text.
    pub tree: String,
    /// The first finding; `None` if all promises were kept.
    pub failure: Option<Failure>,
    /// A hash of all events.
    pub hash: u64,
    /// Number of log entries.
    pub entries: u64,
    /// Client requests that were answered.
    pub requests: u64,
    /// Virtual time that passed.
    pub virtual_time: Instant,
    /// The longest that a client waited for a read, counted from the stall of a disk, in
    /// nanoseconds.
    pub longest_read_ns: u64,
    /// How often each fault struck and each ending occurred.
    pub struck: BTreeMap<&'static str, u64>,
    /// The events line by line, if requested.
    pub story: Vec<String>,
}

/// Carries out a run. With `story`, also records it as text.
pub fn run(options: &Options, story: bool) -> Outcome {
    let stack = create::blank(options);
    let mut world = World::new(options.clone(), stack, faults::start(options.seed), story);
    world.note(&format!("seed {}: {}", options.seed, options.tree));
    create::write_superblocks(&mut world);
    through_sessions(&mut world);
    Outcome {
        seed: options.seed,
        tree: options.tree.to_string(),
        failure: world.log.failure().cloned(),
        hash: world.log.hash(),
        entries: world.log.entries(),
        requests: world.client.answered,
        virtual_time: world.now(),
        longest_read_ns: world.client.longest_read_ns,
        struck: world.log.struck().clone(),
        story: world.log.into_story(),
    }
}

fn through_sessions(world: &mut World) {
    let mut restarting = Random::new(world.options.seed, "restarts of failed arrays");
    for session in world.options.sessions.clone() {
        if !open(world) {
            return;
        }
        load(world, &session);
        if world.log.has_failed() || !world.arrays.is_open(world.stack.top()) {
            return;
        }
        if world
            .arrays
            .engine(world.stack.top())
            .status()
            .stopped_writing
        {
            // Bytes read now must also be read after the next opening.
            read_all(world);
        }
        if world.log.has_failed() {
            return;
        }
        end(world, session.ending);
        if world.log.has_failed() {
            return;
        }
        between_sessions(world, &mut restarting);
        world.session += 1;
    }
    last_check(world);
}

/// Submits requests and injects faults until the session's requests are used up.
fn load(world: &mut World, session: &Session) {
    let mut left = session.requests;
    let mut faults = session.faults.iter().peekable();
    let mut quiet = session.quiet_after;
    world.ask(&mut left);
    loop {
        let asked = session.requests - left;
        while let Some((fault, _)) = faults.next_if(|(_, at)| *at <= asked) {
            let struck = world.strike(fault);
            world.log.count(fault, u64::from(struck));
            // The fault may have waited until nothing was in flight.
            world.ask(&mut left);
        }
        if quiet.take_if(|after| *after <= asked).is_some() {
            be_quiet(world);
            world.ask(&mut left);
        }
        if left == 0 && faults.peek().is_none() || !world.step() {
            break;
        }
        world.ask(&mut left);
    }
    if left > 0 && !world.log.has_failed() && world.arrays.is_open(world.stack.top()) {
        world.stalled("clients wait, and nothing happens");
    }
}

/// Lets some seconds pass without client requests.
fn be_quiet(world: &mut World) {
    let seconds = world.faults.between(1, 14);
    let until = world.now().plus_ns(seconds * 1_000_000_000);
    while world.now() < until && world.step() {}
}

fn end(world: &mut World, ending: Ending) {
    let degraded_parity = |world: &World| {
        let mut arrays = world.stack.arrays.iter();
        arrays.any(|array| !array.lost.is_empty() && array.geometry.parity_chunks() > 0)
            && world.doubts_parity()
    };
    // An unclean degraded array with parity is refused, which ends the run. Make this rare.
    let ending = match ending {
        Ending::ProcessCrash | Ending::PowerLoss
            if degraded_parity(world) && world.faults.percent(85) =>
        {
            Ending::Close
        }
        ending => ending,
    };
    world.log.count(ending.name(), 1);
    match ending {
        Ending::Close => close(world),
        Ending::ProcessCrash | Ending::PowerLoss => {
            // Crash some time later, in the middle of an operation, or of closing.
            if world.faults.percent(25) {
                world.command(world.stack.top(), Command::Close);
            }
            // The cause of the crash may take the journal disk down first.
            if world.devices.journal.is_some() && world.faults.percent(20) {
                world.drop_journal();
            }
            for _ in 0..world.faults.below(60) {
                if !world.step() {
                    break;
                }
            }
            world.note(ending.name());
            if !world.log.has_failed() {
                world.crash(ending == Ending::PowerLoss);
                after_crash(world);
            }
        }
    }
}

/// Changes disks between sessions.
fn between_sessions(world: &mut World, restarting: &mut Random) {
    let clean = world.arrays.all_closed_clean();
    if clean {
        for array in 0..world.stack.arrays.len() {
            if !world.stack.lacks_checksums(array) {
                world.stack.arrays[array].damaged = None;
            }
        }
    }
    world.tell(&mut Moment::Ended { clean });
    bring_all_back(world, restarting);
    for disk in 0..world.stack.disks.len() {
        if world.devices.is_gone(disk) && world.faults.percent(50) {
            world.bring_back(disk);
            world.log.count("stale disk is back", 1);
        }
    }
    if world.devices.journal_is_gone() && world.faults.percent(50) {
        world.bring_back_journal();
    }
    // A disk that is missing at the next opening.
    let disk = world.random_disk();
    let clean = world.arrays.all_closed_clean();
    let trusted = clean || !world.doubts_parity();
    if world.faults.percent(8) && trusted && world.stack.may_lose_disk(disk) {
        world.drop_disk(disk);
        world.log.count("missing at opening", 1);
    }
    let whole = world.stack.arrays.iter().all(|array| array.lost.is_empty());
    if world.devices.journal.is_some() && (clean || whole) && world.faults.percent(15) {
        let missing = world.drop_journal();
        if !clean {
            after_crash(world);
        }
        world
            .log
            .count("journal missing at opening", u64::from(missing));
    }
    world.tell(&mut Moment::Begun { clean, whole });
}

/// After an array lost more disks than it survives, may bring all of them back. Drawn from its own
/// stream.
fn bring_all_back(world: &mut World, restarting: &mut Random) {
    let array = &world.stack.arrays[world.stack.top()];
    let failed = !array.geometry.survives(array.lost);
    if world.stack.arrays.len() > 1 || !failed || !restarting.percent(80) {
        return;
    }
    let gone: Vec<usize> = (0..world.stack.disks.len())
        .filter(|&disk| world.devices.is_gone(disk))
        .collect();
    for disk in gone {
        world.bring_back(disk);
    }
    world.log.count("failed and restarted", 1);
}

/// Opens once more and checks everything against the history. It checks right after opening, after
/// the resync, without the members that may be lost, and after a last close.
fn last_check(world: &mut World) {
    while world.stack.is_short_of_space {
        if !open(world) {
            return;
        }
        read_all(world);
        if world.log.has_failed() {
            return;
        }
        end(world, Ending::ProcessCrash);
        if world.log.has_failed() {
            return;
        }
        world.tell(&mut Moment::Relief);
    }
    if !open(world) {
        return;
    }
    // Read some before the resync: later reads must return the same.
    read_some(world);
    let crashes = !world.doubts_parity() && world.options.sums_exactly();
    if crashes && world.faults.percent(50) {
        // Also if the caches and a member are lost right after.
        while world.client.oldest().is_some() && world.step() {}
        if world.log.has_failed() {
            return;
        }
        world.note("power loss after the first reads");
        world.crash(true);
        drop_what_may_be_lost(world, 1);
        if !open(world) {
            return;
        }
    }
    drain(world);
    read_all(world);
    if !world.log.has_failed() && !world.truth.is_beyond_budget() {
        world.show(&Seen::Settled);
    }
    if world.faults.percent(60) {
        heal(world);
    }
    drop_what_may_be_lost(world, world.stack.disks.len());
    read_all(world);
    if world.log.has_failed() {
        return;
    }
    close(world);
    if world.log.has_failed() || !open(world) {
        return;
    }
    read_all(world);
    if !world.log.has_failed() {
        close(world);
    }
}

/// Replaces all lost members with blank disks, then checks that the arrays become healthy.
fn heal(world: &mut World) {
    world.tell(&mut Moment::Heals);
    for _ in 0..world.stack.disks.len() {
        // One after another: while a disk waits to join, no other can.
        for disk in 0..world.stack.disks.len() {
            world.replace_lost_disk(disk);
        }
        drain(world);
    }
    for array in 0..world.stack.arrays.len() {
        let out = world.stack.is_given_up(array) || !world.arrays.is_open(array);
        if out || world.truth.is_beyond_budget() || world.log.has_failed() {
            continue;
        }
        let is_disk = |below: &Below| matches!(below, Below::Disk(_));
        let all_disks = world.stack.arrays[array].members.iter().all(is_disk);
        if all_disks && world.arrays.engine(array).state() != ArrayState::Healthy {
            world.stalled(&format!("array {array} does not become healthy again"));
        }
    }
    if !world.log.has_failed() && !world.truth.is_beyond_budget() {
        world.show(&Seen::Settled);
    }
    read_all(world);
}

/// Reads a few random blocks.
fn read_some(world: &mut World) {
    let blocks = world.stack.geometry().blocks();
    for _ in 0..3 {
        if world.client.has_room() {
            let block = world.faults.below(blocks);
            let length = world.faults.between(1, 8).min(blocks - block);
            read(world, block, length);
        }
    }
}

/// Drops a random disk up to `times` times, if the budget allows its loss.
fn drop_what_may_be_lost(world: &mut World, times: usize) {
    for _ in 0..times {
        let disk = world.random_disk();
        if !world.log.has_failed()
            && world.stack.may_lose_disk(disk)
            && !world.devices.is_gone(disk)
        {
            world.drop_disk(disk);
        }
    }
}

fn read(world: &mut World, block: u64, blocks: u64) {
    world.ask_for(Wish {
        operation: Operation::Read,
        block,
        blocks: u32::try_from(blocks).expect("small"),
        issue: None,
    });
}

/// Reads the whole array and checks every byte.
fn read_all(world: &mut World) {
    let blocks = world.stack.geometry().blocks();
    let mut next = 0;
    while next < blocks && !world.log.has_failed() {
        while world.client.has_room() && next < blocks {
            // If some blocks may be lost, request each separately.
            let all = world.truth.is_certain() && !world.truth.is_beyond_budget();
            let most = if all { 64 } else { 1 };
            let length = most.min(blocks - next);
            read(world, next, length);
            next += length;
        }
        if !world.step() {
            break;
        }
    }
    drain(world);
}
