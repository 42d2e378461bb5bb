//! The next disk being rebuilt drops out before it is full. It protects nothing until then.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "rebuild_fails",
    about: "the next disk that is being filled is gone before it is full",
    percent: 25,
    own_stream: false,
    strike: |world| {
        world.weak_disks += 1;
        true
    },
};
