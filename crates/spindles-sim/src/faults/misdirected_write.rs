//! A disk answers a write that landed at another address: two places are wrong.

use super::Fault;
use crate::devices::Doom;
use crate::lost_writes::LostWrites;

pub(super) static FAULT: Fault = Fault {
    name: "misdirected_write",
    about: "a disk answers a write of data of an array with checksums, and it lands at another \
        address",
    percent: 25,
    own_stream: true,
    start: |_| Box::new(LostWrites(Doom::Misdirected)),
};
