//! Blocks of a disk are corrupted, no read of them fails, and clients continue.

use super::{Fault, Stateless};
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "rot_met",
    about: "some blocks of an array with checksums hold wrong bytes, and clients go on",
    percent: 50,
    own_stream: false,
    start: |_| Box::new(Stateless(World::rot_anywhere)),
};
