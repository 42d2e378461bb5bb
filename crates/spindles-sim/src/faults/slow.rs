//! A disk answers late for a while, so that others run ahead of it.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "slow",
    about: "a disk takes twenty times as long for the rest of the session",
    percent: 30,
    own_stream: false,
    strike: |world| {
        let disk = world.random_disk();
        world.slow_down(disk);
        true
    },
};
