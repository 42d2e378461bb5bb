//! While the array is open, blocks of a member's bitmaps, checksums or bad-block lists are corrupt
//! or unreadable. A scrub finds and repairs them before another member is lost.

use super::{Fault, Stateless};
use crate::world::World;

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot_met",
    about: "blocks of a member's superblocks, bitmaps, lists or checksums rot, a scrub follows, \
        then another member goes",
    percent: 20,
    own_stream: true,
    start: |_| Box::new(Stateless(World::rot_metadata_and_scrub)),
};
