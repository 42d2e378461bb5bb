//! Blocks of a disk are corrupted, and no read of them fails.

use super::Fault;

pub(super) static FAULT: Fault = Fault {
    name: "rot",
    about: "some blocks hold wrong bytes, and the array is scrubbed before the next request",
    percent: 25,
    own_stream: false,
    strike: |world| world.rot_and_scrub(),
};
