//! While the array is open, blocks of a member's bitmaps, checksums or bad-block lists are corrupt
//! or unreadable. A scrub finds and repairs them before another member is lost.

use super::{Fault, Stateless};
use crate::checkers::Seen;
use crate::disk::{Disk, View};
use crate::session::drain;
use crate::world::World;
use spindles_block::BlockIndex;
use spindles_format::{
    AreaKind, ArrayRecord, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, SLOT_BYTES,
    SUPERBLOCK_BYTES,
};

pub(super) static FAULT: Fault = Fault {
    name: "metadata_rot_met",
    about: "blocks of a member's superblocks, bitmaps, lists or checksums are corrupt, a scrub \
        follows, then another member drops out",
    percent: 20,
    own_stream: true,
    start: |_| Box::new(Stateless(rot_metadata_and_scrub)),
};

/// Corrupts blocks of one member's metadata, then scrubs the array. The scrub must repair the
/// metadata, so that the array then survives the loss of another member.
fn rot_metadata_and_scrub(world: &mut World) -> bool {
    drain(world);
    if world.log.has_failed() || world.excuses_errors() || !world.may_be_scrubbed(0) {
        return false;
    }
    if is_repair_uncertain(world) {
        return false;
    }
    let Some((disk, record, device)) = world.random_damaged() else {
        return false;
    };
    world.flush_disks();
    let (array, member) = world.stack.position(disk);
    let damaged_before = world.stack.arrays[array].damaged.replace(member);
    if world.stack.lacks_checksums(array) {
        // A member that is out lacks them, and no scrub restores them.
        world.stack.arrays[array].damaged = damaged_before;
        return false;
    }
    let blocks = damage_some_metadata(world, disk, &record, &device);
    if blocks.is_empty() {
        world.stack.arrays[array].damaged = damaged_before;
        return false;
    }
    // A checksum page that covers no written block may stay corrupt.
    let checksums = device.area(AreaKind::CHECKSUMS).map(|area| {
        let block_bytes = u64::try_from(world.stack.block_bytes).expect("small");
        let end = area.offset_bytes + area.length_bytes;
        area.offset_bytes / block_bytes..end / block_bytes
    });
    let is_checksums = |block: &BlockIndex| {
        checksums
            .as_ref()
            .is_some_and(|area| area.contains(&block.0))
    };
    let wrong: Vec<_> = (blocks.into_iter())
        .filter(|block| !is_checksums(block))
        .map(|block| (block, metadata_block(world, disk, block)))
        .collect();
    world.log.count("metadata damaged and scrubbed", 1);
    world.scrub_quietly(array);
    let mut left: Vec<String> = (wrong.into_iter())
        .filter(|(block, wrong)| metadata_block(world, disk, *block) == *wrong)
        .map(|(block, _)| format!("block {block} of disk {disk} is as it was"))
        .collect();
    if world.stack.lacks_checksums(array) {
        left.push("checksums are missing".to_owned());
    }
    world.stack.arrays[array].damaged = None;
    world.show(&Seen::MetadataScrubbed { left: &left });
    let other = world.rotting.index(world.stack.disks.len());
    if world.rotting.percent(50) && other != disk && world.stack.may_lose_disk(other) {
        world.drop_disk(other);
    }
    true
}

/// Returns true if a scrub could be unable to repair the metadata.
fn is_repair_uncertain(world: &World) -> bool {
    let busy = world
        .arrays
        .engine(0)
        .status()
        .jobs
        .iter()
        .any(|job| job.going);
    let is_unreadable = |disk: &Disk| disk.not_durably_readable().next().is_some();
    let any_unreadable = world.stack.disks.iter().any(is_unreadable);
    let any_gone = (0..world.stack.disks.len()).any(|disk| world.devices.is_gone(disk));
    let is_short = world.stack.is_short_of_space;
    busy || any_unreadable || any_gone || is_short || !world.stack.decayed.is_empty()
}

/// Damages a few blocks of a disk's metadata. Returns the blocks, each once.
fn damage_some_metadata(
    world: &mut World,
    disk: usize,
    record: &ArrayRecord,
    device: &DeviceRecord,
) -> Vec<BlockIndex> {
    let mut blocks = Vec::new();
    for _ in 0..world.rotting.between(1, 4) {
        let block = random_metadata(world, record, device);
        if let Some(block) = block.filter(|block| !blocks.contains(block)) {
            world.damage(disk, block);
            blocks.push(block);
        }
    }
    blocks
}

/// Draws a block of metadata in use: of a superblock slot, a bitmap, the bad-block list or the
/// checksums.
fn random_metadata(
    world: &mut World,
    record: &ArrayRecord,
    device: &DeviceRecord,
) -> Option<BlockIndex> {
    let block_bytes = u64::try_from(world.stack.block_bytes).expect("small");
    let page_bytes = u64::try_from(CHECKSUM_PAGE_BYTES).expect("4096");
    let kinds = [
        AreaKind::SUPERBLOCK,
        AreaKind::DIRTY_BITMAP,
        AreaKind::WRITTEN_BITMAP,
        AreaKind::CHECKSUMS,
        AreaKind::BAD_BLOCKS,
    ];
    let (start, bytes) = match *world.rotting.choose(&kinds) {
        // A superblock that no opening has rewritten has one slot only.
        AreaKind::SUPERBLOCK if record.generation <= 2 => return None,
        AreaKind::SUPERBLOCK => {
            let start = *world.rotting.choose(&SLOT_BYTES);
            (start, u64::try_from(SUPERBLOCK_BYTES).expect("4096"))
        }
        AreaKind::CHECKSUMS if record.checksum == ChecksumKind::None => return None,
        AreaKind::CHECKSUMS => {
            let pages = record.entries().pages(device.data_blocks());
            (
                device.area(AreaKind::CHECKSUMS)?.offset_bytes,
                pages * page_bytes,
            )
        }
        AreaKind::BAD_BLOCKS => {
            let bytes = u64::from(record.bad_blocks_pages()) * 512;
            (device.area(AreaKind::BAD_BLOCKS)?.offset_bytes, bytes)
        }
        // Simulated arrays are small: the first page holds all regions. A block of 512 bytes
        // holds no other page.
        kind if record.region_groups > 0 && block_bytes == 512 => {
            (device.area(kind)?.offset_bytes, block_bytes)
        }
        _ => return None,
    };
    let blocks = bytes / block_bytes;
    let block = (blocks > 0).then(|| world.rotting.below(blocks))?;
    Some(BlockIndex(start / block_bytes + block))
}

/// Returns the durable contents of a block of a disk; `None` if it is unreadable.
fn metadata_block(world: &World, disk: usize, block: BlockIndex) -> Option<Vec<u8>> {
    let sectors = world.stack.sectors(disk, block);
    let mut unreadable = world.stack.disks[disk].not_durably_readable();
    let readable = !unreadable.any(|sector| sectors.contains(&sector));
    readable.then(|| world.stack.disk_block(disk, block, View::Durable))
}
