//! Blocks of a disk are corrupted, and no read of them fails.

use super::{Fault, Stateless};
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "rot",
    about: "some blocks hold wrong bytes, and the array is scrubbed before the next request",
    percent: 25,
    own_stream: false,
    start: |_| Box::new(Stateless(World::rot_and_scrub)),
};
