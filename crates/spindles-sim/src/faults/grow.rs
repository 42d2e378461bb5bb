//! The administrator lets the array grow.

use super::{Fault, Stateless};
use crate::world::World;
use crate::{opening, session};
use spindles_block::MemberSet;

pub(super) static FAULT: Fault = Fault {
    name: "grow",
    about: "disks are added, or the chunk or the level changes, while clients continue",
    percent: 20,
    own_stream: false,
    start: |_| Box::new(Stateless(grow)),
};

/// Closes and reopens the array to grow it. Returns true if it grows.
fn grow(world: &mut World) -> bool {
    let array = world.stack.top();
    if world.stack.arrays.len() > 1
        || !world.arrays.is_open(array)
        || world.arrays.engine(array).is_growing()
        || !world.stack.arrays[array]
            .lost
            .difference(added(world))
            .is_empty()
    {
        return false;
    }
    session::close(world);
    if world.log.has_failed() {
        return false;
    }
    if !world.options.disks.is_empty() && world.sizing.percent(50) {
        return get_larger(world, array);
    }
    world.wants_growth = true;
    let grows = opening::open(world)
        && world.arrays.is_open(array)
        && world.arrays.engine(array).is_growing();
    while grows && !world.log.has_failed() && world.faults.percent(50) {
        crash_midway(world, array);
    }
    grows
}

/// Opens the array to extend it on its members. A power loss or process crash may come before
/// it is extended, or right after. Returns true if it could be extended.
fn get_larger(world: &mut World, array: usize) -> bool {
    world.wants_room = true;
    let opened = opening::open(world);
    let is_under_way =
        |world: &World| world.arrays.is_open(array) && !world.arrays.engine(array).is_serving();
    if std::mem::take(&mut world.wants_room) || !opened {
        return false;
    }
    let blocks = world.arrays.engine(array).geometry().blocks();
    if world.sizing.percent(75) {
        for _ in 0..world.sizing.below(60) {
            if !is_under_way(world) || !world.step() {
                break;
            }
        }
        let power = world.sizing.percent(60);
        world.note("the end, while it gets larger");
        world.crash(power);
        session::after_crash(world);
        opening::open(world);
    }
    while !world.log.has_failed() && is_under_way(world) && world.step() {}
    let now = world
        .arrays
        .is_open(array)
        .then(|| world.arrays.engine(array).geometry().blocks());
    let what = match now {
        Some(now) if now == blocks => "got larger",
        Some(_) => "ended before it got larger",
        None => return true,
    };
    world.log.count(what, 1);
    session::close(world);
    !world.log.has_failed() && opening::open(world)
}

/// Crashes partway through a growth, by power loss or process crash; then the growth continues.
fn crash_midway(world: &mut World, array: usize) {
    for _ in 0..world.faults.below(500) {
        if !world.step() {
            return;
        }
    }
    let in_doubt = world.doubts_parity() && !world.stack.arrays[array].lost.is_empty();
    if in_doubt || !world.arrays.is_open(array) || !world.arrays.engine(array).is_growing() {
        return;
    }
    let power = world.faults.percent(60);
    world.note("the end, midway through a growth");
    world.crash(power);
    session::after_crash(world);
    opening::open(world);
}

/// Returns the disks that were added but are not members yet.
fn added(world: &World) -> MemberSet {
    let array = &world.stack.arrays[0];
    let all = u8::try_from(array.members.len()).expect("few");
    MemberSet::all(all).difference(MemberSet::all(array.geometry.members()))
}
