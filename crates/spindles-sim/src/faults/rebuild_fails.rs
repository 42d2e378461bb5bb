//! A disk that is being filled stops answering: it protected nothing yet.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "rebuild_fails",
    about: "a disk that is being filled is gone",
    percent: 15,
    strike: |world| {
        let disks = 0..world.stack.disks.len();
        let filled = disks.into_iter().find(|&disk| world.is_being_filled(disk));
        if let Some(disk) = filled {
            world.drop_disk(disk);
        }
        filled.is_some()
    },
};
