//! A sector is unreadable until it is overwritten.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "latent_sector_error",
    about: "some sectors of a disk can't be read until they are overwritten",
    percent: 50,
    own_stream: false,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            let mut spoiled = false;
            for sector in world.random_sectors(disk) {
                let allowed = world.stack.may_lose_sector(disk, sector)
                    || world.options.beyond && world.stack.place_of(disk, sector).is_some();
                if allowed {
                    world.spoil_sector(disk, sector);
                    spoiled = true;
                }
            }
            spoiled
        }))
    },
};
