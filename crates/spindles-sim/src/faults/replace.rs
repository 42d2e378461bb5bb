//! A working disk is replaced.

use super::{Fault, Stateless};
use crate::devices::replacement::ReplacementDisk;
use crate::mishaps::fill;
use crate::stack::places::Places;
use crate::world::World;
use spindles_engine::{Command, Member};

pub(super) static FAULT: Fault = Fault {
    name: "replace",
    about: "a working disk is copied onto a blank one that takes its place",
    percent: 40,
    own_stream: true,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            replace_disk(world, disk)
        }))
    },
};

/// Begins to replace a working disk. Returns true if the command was sent to its array.
fn replace_disk(world: &mut World, disk: usize) -> bool {
    let (array, member) = world.stack.position(disk);
    let alive = world.devices.replacement.is_none()
        && world.arrays.is_open(array)
        && !world.stack.arrays[array].lost.contains(member)
        && world.state_of(array, member) == Member::Active;
    if !alive {
        return false;
    }
    world.note(&format!("disk {disk} is to be replaced"));
    let (device, contents) = world.blank_device(array, member);
    let mut replacement = world.stack.disks[disk].as_new(device.device_bytes);
    fill(&mut replacement, &device, &contents);
    let places = Places::of(&device);
    let replacement = ReplacementDisk::new(array, member, replacement, places);
    world.devices.replacement = Some(replacement);
    let uuid = world.faults.uuid();
    let command = Command::Replace {
        member,
        device,
        uuid,
    };
    world.command(array, command);
    true
}
