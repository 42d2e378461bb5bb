//! During crash recovery, blocks of a member's journal are corrupt or unreadable.

use super::Fault;
use crate::disk::View;
use crate::world::{Moment, Strike, World};
use spindles_block::BlockIndex;
use spindles_format::{AreaKind, ArrayRecord, JOURNAL_HEADER_BYTES, JournalHeader};
use std::ops::Range;

/// How many of a member's last batches may be damaged.
const BATCHES: u64 = 6;

pub(super) static FAULT: Fault = Fault {
    name: "journal_rot",
    about: "blocks of a member's journal are corrupt or unreadable during recovery from a crash",
    percent: 40,
    own_stream: true,
    start: |_| Box::<JournalRot>::default(),
};

#[derive(Debug, Default)]
struct JournalRot {
    /// Set if the crash that ends the session damages a journal.
    is_planned: bool,
}

impl Strike for JournalRot {
    fn strike(&mut self, _: &mut World) -> bool {
        !std::mem::replace(&mut self.is_planned, true)
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        let is_crash = matches!(moment, Moment::Ended { clean: false });
        if is_crash && std::mem::take(&mut self.is_planned) {
            damage_journal(world);
        }
    }
}

/// Between sessions: damages the journal of one member, if the array could do without it.
fn damage_journal(world: &mut World) {
    let top = world.stack.top();
    let this = &world.stack.arrays[top];
    let is_needed = world.devices.journal.is_none()
        && this.geometry.parity_chunks() > 0
        && this.checksums.is_some();
    if !is_needed {
        return;
    }
    let Some((disk, record, device)) = world.random_damaged() else {
        return;
    };
    let Some(area) = device.area(AreaKind::JOURNAL) else {
        return;
    };
    let block_bytes = u64::try_from(world.stack.block_bytes).expect("small");
    let first = area.offset_bytes / block_bytes;
    let ring = first..first + u64::from(record.shared.journal_bytes) / block_bytes;
    let batches = batches(world, disk, &record, ring.clone());
    if batches.is_empty() {
        return;
    }
    for _ in 0..world.rotting.between(1, 2) {
        let of_last = u64::try_from(batches.len()).expect("few").min(BATCHES);
        let back = usize::try_from(world.rotting.below(of_last)).expect("few");
        let start = batches[batches.len() - 1 - back];
        let header_blocks = u64::try_from(JOURNAL_HEADER_BYTES / world.stack.block_bytes);
        let length = header_blocks.expect("few") + 4;
        let block = start + world.rotting.below(length);
        if ring.contains(&block) {
            world.damage(disk, BlockIndex(block));
        }
    }
    let (array, member) = world.stack.position(disk);
    world.stack.arrays[array].damaged = Some(member);
    world.log.count("journal damaged", 1);
}

/// Returns the first blocks of the batches that a replay reads from the ring of a disk, oldest
/// first.
fn batches(world: &World, disk: usize, record: &ArrayRecord, ring: Range<u64>) -> Vec<u64> {
    let header_blocks = JOURNAL_HEADER_BYTES / world.stack.block_bytes;
    let header = |block: u64| {
        let blocks = (block..).map(BlockIndex).take(header_blocks);
        let blocks = blocks.map(|block| world.stack.disk_block(disk, block, View::Current));
        let bytes = blocks.collect::<Vec<_>>().concat();
        let header = JournalHeader::decode(&bytes)?;
        let counts = header.batch.nonce == record.journal.nonce
            && header.batch.sequence >= record.journal.tail;
        counts.then_some((header.batch.sequence, block))
    };
    let last = ring
        .end
        .saturating_sub(u64::try_from(header_blocks).expect("few"));
    let mut found: Vec<_> = (ring.start..=last).filter_map(header).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, block)| block).collect()
}
