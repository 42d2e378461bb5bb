//! Blocks of a disk are corrupted, and no read of them fails.

use super::{Fault, Stateless};

pub(super) static FAULT: Fault = Fault {
    name: "rot",
    about: "some blocks hold wrong bytes, and the array is scrubbed before the next request",
    percent: 25,
    own_stream: false,
    start: |_| Box::new(Stateless(|world| world.rot_and_scrub())),
};
