//! No space is left for sparse disks.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "no_space",
    about: "no space is left for what a disk, or any, holds nothing of yet",
    percent: 8,
    own_stream: true,
    strike: World::run_out_of_space,
};
