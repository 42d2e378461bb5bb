//! A sector is unreadable until it is overwritten.

use super::{Fault, Stateless};
use crate::world::World;
use spindles_block::BlockIndex;
use spindles_format::SLOT_BYTES;

pub(super) static FAULT: Fault = Fault {
    name: "latent_sector_error",
    about: "some sectors of a disk can't be read until they are overwritten",
    percent: 50,
    own_stream: false,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            let mut spoiled = false;
            for sector in random_sectors(world, disk) {
                let allowed = world.stack.may_lose_sector(disk, sector)
                    || world.options.beyond && world.stack.place_of(disk, sector).is_some();
                if allowed {
                    spoil_sector(world, disk, sector);
                    spoiled = true;
                }
            }
            spoiled
        }))
    },
};

/// Draws a few sectors of a disk, close together or scattered.
fn random_sectors(world: &mut World, disk: usize) -> Vec<u64> {
    let in_use = world.stack.in_use(disk);
    let per_block = world.stack.sectors(disk, BlockIndex(0)).end;
    let sectors = match world.stack.disks[disk].bytes() / world.sector_bytes(disk) {
        // On small disks, include the partial block at the end.
        sectors if in_use.blocks() == sectors / per_block => sectors,
        _ => in_use.blocks() * per_block,
    };
    let sector_of = |number| in_use.block(number / per_block) * per_block + number % per_block;
    if world.faults.percent(8) {
        let slot = world.faults.choose(&SLOT_BYTES);
        let bytes = u64::try_from(world.stack.disks[disk].sector_bytes()).expect("fits");
        return vec![slot / bytes];
    }
    let first = world.faults.below(sectors);
    let count = world.faults.between(1, 6);
    let near = world.faults.percent(50);
    let mut sector = |i| {
        if near {
            sector_of((first + i) % sectors)
        } else {
            sector_of(world.faults.below(sectors))
        }
    };
    (0..count).map(&mut sector).collect()
}

/// Makes the sector unreadable until it is written.
fn spoil_sector(world: &mut World, disk: usize, sector: u64) {
    world.note(&format!("sector {sector} of disk {disk} can't be read"));
    world.stack.disks[disk].make_unreadable(sector);
    world.stack.spoiled.insert((disk, sector));
}
