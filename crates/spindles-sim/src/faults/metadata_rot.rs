//! When the array is opened again, blocks of a member's bitmaps, checksums or bad-block lists are
//! corrupt or unreadable.

use super::Fault;
use crate::world::{Moment, Strike, World};
use spindles_block::BlockIndex;
use spindles_format::{AreaKind, CHECKSUM_PAGE_BYTES};

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot",
    about: "blocks of a member's bitmaps, lists or checksums are corrupt or unreadable",
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
            damage_metadata(world);
        }
    }
}

/// Between sessions: damages bitmaps, checksums or bad-block lists of one member.
fn damage_metadata(world: &mut World) {
    let Some((disk, record, device)) = world.random_damaged() else {
        return;
    };
    let (array, member) = world.stack.position(disk);
    let block_bytes = u64::try_from(world.stack.block_bytes).expect("small");
    let kinds = [
        AreaKind::DIRTY_BITMAP,
        AreaKind::WRITTEN_BITMAP,
        AreaKind::CHECKSUMS,
        AreaKind::BAD_BLOCKS,
    ];
    for _ in 0..world.rotting.between(1, 3) {
        let kind = world.rotting.choose(&kinds);
        if let Some(area) = device.area(*kind) {
            let bytes = match *kind {
                AreaKind::CHECKSUMS => {
                    let pages = record.entries().pages(device.data_blocks());
                    pages * u64::try_from(CHECKSUM_PAGE_BYTES).expect("4096")
                }
                shared => record.shared.bytes(shared),
            };
            let blocks = bytes.min(area.length_bytes) / block_bytes;
            let block = area.offset_bytes / block_bytes + world.rotting.below(blocks);
            world.damage(disk, BlockIndex(block));
            world.stack.arrays[array].damaged = Some(member);
            world.log.count("metadata damaged", 1);
        }
    }
}
