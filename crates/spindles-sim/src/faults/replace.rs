//! A working disk is replaced.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "replace",
    about: "a disk that is alive is copied onto a blank one that takes its place",
    percent: 40,
    own_stream: true,
    start: |_| {
        Box::new(Stateless(|world| {
            let disk = world.random_disk();
            world.replace_disk(disk)
        }))
    },
};
