//! The administrator puts a working member out.

use super::{Fault, Stateless};
use crate::world::World;
use spindles_engine::Command;

pub(super) static FAULT: Fault = Fault {
    name: "put_out",
    about: "the administrator puts a working member out",
    percent: 15,
    own_stream: false,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            !world.devices.is_gone(disk) && world.stack.may_lose_disk(disk) && put_out(world, disk)
        }))
    },
};

/// Puts the member on this disk out, as the administrator would. Returns true if done.
fn put_out(world: &mut World, disk: usize) -> bool {
    let (array, member) = world.stack.position(disk);
    let this = &world.stack.arrays[array];
    let survives = this.geometry.survives(this.lost.with(member));
    if !world.arrays.is_open(array) || !survives || world.stack.is_short_of_space {
        return false;
    }
    world.note(&format!("disk {disk} is put out"));
    world.lose(disk);
    world.command(array, Command::Fail(member));
    true
}
