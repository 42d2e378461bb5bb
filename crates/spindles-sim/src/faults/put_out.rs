//! The administrator puts a working member out.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "put_out",
    about: "the administrator puts a working member out",
    percent: 15,
    own_stream: false,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            !world.devices.is_gone(disk) && world.stack.may_lose_disk(disk) && world.put_out(disk)
        }))
    },
};
