//! A disk does not answer for a while, or answers one read very late, like a disk in error
//! recovery.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "stall",
    about: "a disk answers nothing for some milliseconds, or one read so late",
    percent: 12,
    own_stream: true,
    strike: |world| {
        let (disk, ns, one_read) = world.random_stall();
        world.stall(disk, ns, one_read);
        true
    },
};
