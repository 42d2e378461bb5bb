//! A disk answers a write, but the blocks keep their old contents.

use super::Fault;
use crate::devices::Doom;
use crate::lost_writes::LostWrites;

pub(super) static FAULT: Fault = Fault {
    name: "lost_write",
    about: "a disk answers a write of data of an array with checksums, and it never lands",
    percent: 25,
    own_stream: true,
    start: |_| Box::new(LostWrites(Doom::Lost)),
};
