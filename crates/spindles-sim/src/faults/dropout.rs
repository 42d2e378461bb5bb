//! A disk stops answering, for the rest of the session or for good.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "dropout",
    about: "a disk is gone: its requests fail, some of them carried out",
    percent: 50,
    own_stream: false,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            let allowed = world.stack.may_lose_disk(disk);
            if world.devices.is_gone(disk) || !(allowed || world.options.beyond) {
                return false;
            }
            world.drop_disk(disk);
            true
        }))
    },
};
