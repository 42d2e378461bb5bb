//! The administrator lets the array grow.

use super::{Fault, Stateless};
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "grow",
    about: "disks are added, or the chunk or the level changes, while clients continue",
    percent: 20,
    own_stream: false,
    start: |_| Box::new(Stateless(World::grow)),
};
