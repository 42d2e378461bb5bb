//! A disk answers a write that landed at another address: two places are wrong.

use super::Fault;
use crate::lost_writes::Doom;

pub(super) static FAULT: Fault = Fault {
    name: "misdirected_write",
    about: "a disk answers a write of data of an array with checksums, and it lands at another \
        address",
    percent: 25,
    own_stream: true,
    strike: |world| world.doom_write(Doom::Misdirected),
};
