//! A blank disk takes the place of a lost one.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "rebuild",
    about: "a blank disk takes the place of a lost one and is filled",
    percent: 60,
    own_stream: false,
    start: |_| {
        Box::new(Stateless(|world| {
            let disks = world.stack.disks.len();
            let first = world.random_disk();
            (0..disks).any(|disk| world.replace_lost_disk((first + disk) % disks))
        }))
    },
};
