//! Blocks of a disk are corrupted, and no read of them fails.
//!
//! Without checksums a corrupt block is read as valid. So corruption strikes while no client
//! request runs, and a scrub follows before the next request. The blocks that the scrub must find,
//! repair, and leave alone are known exactly.

use super::{Fault, Stateless};
use crate::checkers::Seen;
use crate::session::drain;
use crate::stack::rot::{Rot, Scrubbed};
use crate::world::World;
use spindles_engine::{Command, Event, Member, Repair, Scrub};

pub(super) static FAULT: Fault = Fault {
    name: "rot",
    about: "some blocks hold wrong bytes, and the array is scrubbed before the next request",
    percent: 25,
    own_stream: false,
    start: |_| Box::new(Stateless(rot_and_scrub)),
};

/// Corrupts blocks of the disks of an array, then scrubs it. Returns true if any was corrupted.
fn rot_and_scrub(world: &mut World) -> bool {
    drain(world);
    let disk = world.random_disk();
    let (array, _) = world.stack.keeper_of(disk);
    if world.log.has_failed() || world.excuses_errors() || !world.may_be_scrubbed(array) {
        return false;
    }
    let status = world.arrays.engine(array).status();
    if status.jobs.iter().any(|job| job.name == "resync") {
        return false; // Part of it could not be resynced: corruption counts as valid there.
    }
    if world.stack.arrays[array].damaged.is_some() {
        return false; // The budget has no room.
    }
    let unnoticed = (0..world.stack.disks.len()).any(|disk| {
        let (of, member) = world.stack.keeper_of(disk);
        let state = status.members.get(usize::from(member.0)).map(|m| m.state);
        of == array && world.devices.is_gone(disk) && state == Some(Member::Active)
    });
    let errors = (0..world.stack.disks.len()).any(|disk| {
        let mut unreadable = world.stack.disks[disk].not_durably_readable();
        world.stack.keeper_of(disk).0 == array && unreadable.next().is_some()
    });
    if unnoticed || errors && world.options.faults.errors_max > 0 {
        return false; // The scrub might put a member out: its spare would copy the corruption.
    }
    world.flush_disks();
    let mut rot: Vec<Rot> = Vec::new();
    for _ in 0..world.faults.between(1, 12) {
        let disk = world.random_disk();
        let block = world.stack.in_use(disk).any(&mut world.faults);
        if world.stack.keeper_of(disk).0 != array || world.devices.is_gone(disk) {
            continue;
        }
        if let Some(mut one) = world.stack.may_rot(disk, block, &rot) {
            let at = world
                .faults
                .below(world.stack.block_bytes.try_into().expect("fits"));
            one.wrong[usize::try_from(at).expect("fits")] ^= 1 << world.faults.below(8);
            world.note(&format!("block {block} of disk {disk} rots"));
            world.stack.put_disk_block(disk, one.block, &one.wrong);
            rot.push(one);
        }
    }
    if rot.is_empty() {
        return false;
    }
    world.reported.clear();
    quiet_scrub(world, array);
    let reported = std::mem::take(&mut world.reported);
    let scrubbed = Scrubbed {
        array,
        rot,
        reported,
    };
    world.show(&Seen::Scrubbed {
        scrubbed: &scrubbed,
    });
    for one in scrubbed.rot.iter().filter(|one| !one.located) {
        // Only the simulator knows the right bytes: restore them as from a backup.
        world.stack.put_disk_block(one.disk, one.block, &one.right);
    }
    true
}

/// Scrubs an array from start to end, sometimes with an interruption.
fn quiet_scrub(world: &mut World, array: usize) {
    let scrub = Scrub {
        anew: true,
        repair: Repair::Located,
    };
    world.scrubs_quietly = true;
    world.command(array, Command::Scrub(scrub));
    if world.faults.percent(30) {
        for _ in 0..world.faults.below(80) {
            world.step();
        }
        world.command(array, Command::StopJob("scrub"));
        drain(world);
        if world.arrays.engine(array).status().scrub.mark.0 > 0 {
            world.command(array, Command::Scrub(Scrub::default()));
        } else if !world
            .reported
            .iter()
            .any(|event| matches!(event, Event::ScrubDone(_)))
        {
            world.command(array, Command::Scrub(scrub));
        }
    }
    drain(world);
    world.scrubs_quietly = false;
}
