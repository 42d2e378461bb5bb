//! When the array is opened again, blocks of a member's bitmaps, checksums or bad-block lists are
//! corrupt or unreadable.

use super::Fault;
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot",
    about: "blocks of a member's bitmaps, lists or checksums rot, or can't be read",
    percent: 20,
    own_stream: true,
    strike: World::doom_metadata,
};
