//! The end of a session: requests are drained, arrays are closed, and the budget is kept after a
//! crash.

use crate::checkers::Seen;
use crate::world::World;
use spindles_engine::Command;

/// Repairs faults that can't be distinguished from the effects of a crash.
pub(crate) fn after_crash(world: &mut World) {
    cure_what_is_in_doubt(world);
    for decay in world.stack.decayed.values_mut() {
        decay.outlived_crash = true;
    }
}

/// Repairs unreadable sectors that exceed the budget. An unreadable sector does if parity can't be
/// trusted; an unreadable superblock does if the other slot may not have been written.
fn cure_what_is_in_doubt(world: &mut World) {
    let in_doubt = world.doubts_parity();
    let unreadable: Vec<(usize, u64)> = (world.stack.disks.iter().enumerate())
        .flat_map(|(disk, contents)| contents.unreadable().map(move |sector| (disk, sector)))
        .collect();
    for &(disk, sector) in &unreadable {
        let stack = &world.stack;
        if stack.is_superblock(disk, sector) || stack.is_superblock_above(disk, sector) {
            world.stack.disks[disk].make_readable(sector);
        }
    }
    // If only the journal is lost, checksums still detect corruption. The next opening detects log
    // records that existed only there.
    if in_doubt && (!world.options.sums() || world.options.doubts_parity()) {
        world.stack.cure(|_, _| true);
    }
    if !in_doubt || unreadable.is_empty() {
        return;
    }
    if world.stack.arrays.len() == 1 && world.faults.percent(30) {
        world.truth.exceed_budget();
        return;
    }
    for (disk, sector) in unreadable {
        world.stack.disks[disk].make_readable(sector);
    }
    world.note("what could not be read can be");
}

/// Drains all requests, then closes the arrays, outer ones first.
pub(crate) fn close(world: &mut World) {
    drain(world);
    for array in (0..world.stack.arrays.len()).rev() {
        world.arrays.set_closed(array, None);
        if !world.arrays.is_open(array) {
            continue;
        }
        world.command(array, Command::Close);
        while world.arrays.closed(array).is_none() && world.step() {}
        let failed = world.stack.is_given_up(array) || may_not_settle(world, array);
        match world.arrays.closed(array) {
            None if !world.log.has_failed() => {
                return world.stalled(&format!("array {array} does not close"));
            }
            Some(false) if !world.excuses_errors() && !failed => {
                return world.stalled(&format!("array {array} could not be closed clean"));
            }
            _ => {}
        }
    }
    let clean = !world.arrays.any_closed_unclean();
    if clean && world.arrays.closed(world.stack.top()) == Some(true) {
        world.truth.closed_clean();
        world.show(&Seen::ClosedClean);
    }
    world.stop();
}

/// Returns true if a crash may have destroyed all copies of a block in an array of arrays. These
/// copies stay unreadable until they are written. Redundancy then is not known to agree, and the
/// array stays unclean.
fn may_not_settle(world: &World, array: usize) -> bool {
    !world.truth.in_doubt().is_empty() && world.stack.may_lose_member_blocks(array)
}

/// Runs until nothing is in flight: every request is answered and every resync is done.
pub(crate) fn drain(world: &mut World) {
    while world.step() {}
    if !world.log.has_failed()
        && let Some(flight) = world.client.oldest()
    {
        let request = flight.request;
        world.stalled(&format!("request {} is never answered", request.token));
    }
}
