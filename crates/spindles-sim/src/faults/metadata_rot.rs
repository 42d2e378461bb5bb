//! Blocks of what a member knows of regions, of checksums and of what is lost hold wrong bytes, or can't be
//! read, when the array is opened again.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot",
    about: "blocks of a member's bitmaps, lists or checksums rot, or can't be read",
    percent: 20,
    own_stream: true,
    strike: World::doom_metadata,
};
