//! Blocks of what a member knows of regions, of checksums and of what is lost hold wrong bytes, or can't be
//! read, while the array is open. A scrub finds and repairs them before another member goes.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot_met",
    about: "blocks of a member's superblocks, bitmaps, lists or checksums rot, a scrub follows, then another member goes",
    percent: 20,
    own_stream: true,
    strike: World::rot_metadata_and_scrub,
};
