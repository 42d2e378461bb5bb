//! When the array is opened again, blocks of a member's bitmaps, checksums or bad-block lists are
//! corrupt or unreadable.

use super::Fault;
use crate::world::{Moment, Strike, World};

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot",
    about: "blocks of a member's bitmaps, lists or checksums rot, or can't be read",
    percent: 20,
    own_stream: true,
    start: |_| Box::<MetadataRot>::default(),
};

#[derive(Debug, Default)]
struct MetadataRot {
    /// Set if a member's metadata is damaged before the next opening.
    is_planned: bool,
}

impl Strike for MetadataRot {
    fn strike(&mut self, _: &mut World) -> bool {
        !std::mem::replace(&mut self.is_planned, true)
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        let has_ended = matches!(moment, Moment::Ended { .. });
        if has_ended && std::mem::take(&mut self.is_planned) {
            world.damage_metadata();
        }
    }
}
