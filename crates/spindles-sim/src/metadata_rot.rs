//! Corruption of a member's metadata. Some is found at the next opening: in the journal, if it is
//! needed after a crash, and in bitmaps, checksums and bad-block lists. Some is found by a scrub of
//! an open array, which repairs it from memory and from other members.

use crate::disk::View;
use crate::world::World;
use core::ops::Range;
use spindles_block::BlockIndex;
use spindles_format::{
    AreaKind, ArrayRecord, CHECKSUM_PAGE_BYTES, DeviceRecord, JOURNAL_HEADER_BYTES, JournalHeader,
    SLOT_BYTES, SUPERBLOCK_BYTES, decode,
};

/// How many of a member's last batches may be damaged.
const BATCHES: u64 = 6;

impl World {
    /// Draws a disk whose metadata its array could do without, with its superblock.
    pub(crate) fn random_damaged(&mut self) -> Option<(usize, ArrayRecord, DeviceRecord)> {
        let disks = u64::try_from(self.stack.disks.len()).expect("few");
        let disk = usize::try_from(self.rotting.below(disks)).expect("few");
        let (array, member) = self.stack.position(disk);
        let this = &self.stack.arrays[array];
        let allowed = self.stack.arrays.len() == 1
            && this.damaged.is_none()
            && !this.unsettled
            && this.staged.is_empty()
            && member.0 < this.geometry.members()
            && !self.devices.is_gone(disk)
            && !self.doubts_parity()
            && self.stack.may_lose_disk(disk);
        let (record, device) = self.superblock(disk).filter(|_| allowed)?;
        Some((disk, record, device))
    }

    /// Between sessions: damages the journal of one member, if the array could do without it.
    pub(crate) fn damage_journal(&mut self) {
        let top = self.stack.top();
        let this = &self.stack.arrays[top];
        let is_needed = self.devices.journal.is_none()
            && this.geometry.parity_chunks() > 0
            && this.checksums.is_some();
        if !is_needed {
            return;
        }
        let Some((disk, record, device)) = self.random_damaged() else {
            return;
        };
        let Some(area) = device.area(AreaKind::JOURNAL) else {
            return;
        };
        let block_bytes = u64::try_from(self.stack.block_bytes).expect("small");
        let first = area.offset_bytes / block_bytes;
        let ring = first..first + u64::from(record.shared.journal_bytes) / block_bytes;
        let batches = self.batches(disk, &record, ring.clone());
        if batches.is_empty() {
            return;
        }
        for _ in 0..self.rotting.between(1, 2) {
            let of_last = u64::try_from(batches.len()).expect("few").min(BATCHES);
            let back = usize::try_from(self.rotting.below(of_last)).expect("few");
            let start = batches[batches.len() - 1 - back];
            let header_blocks = u64::try_from(JOURNAL_HEADER_BYTES / self.stack.block_bytes);
            let length = header_blocks.expect("few") + 4;
            let block = start + self.rotting.below(length);
            if ring.contains(&block) {
                self.damage(disk, BlockIndex(block));
            }
        }
        let (array, member) = self.stack.position(disk);
        self.stack.arrays[array].damaged = Some(member);
        self.log.count("journal damaged", 1);
    }

    /// Between sessions: damages bitmaps, checksums or bad-block lists of one member.
    pub(crate) fn damage_metadata(&mut self) {
        let Some((disk, record, device)) = self.random_damaged() else {
            return;
        };
        let (array, member) = self.stack.position(disk);
        let block_bytes = u64::try_from(self.stack.block_bytes).expect("small");
        let kinds = [
            AreaKind::DIRTY_BITMAP,
            AreaKind::WRITTEN_BITMAP,
            AreaKind::CHECKSUMS,
            AreaKind::BAD_BLOCKS,
        ];
        for _ in 0..self.rotting.between(1, 3) {
            let kind = self.rotting.choose(&kinds);
            if let Some(area) = device.area(*kind) {
                let bytes = match *kind {
                    AreaKind::CHECKSUMS => {
                        let pages = record.entries().pages(device.data_blocks());
                        pages * u64::try_from(CHECKSUM_PAGE_BYTES).expect("4096")
                    }
                    shared => record.shared.bytes(shared),
                };
                let blocks = bytes.min(area.length_bytes) / block_bytes;
                let block = area.offset_bytes / block_bytes + self.rotting.below(blocks);
                self.damage(disk, BlockIndex(block));
                self.stack.arrays[array].damaged = Some(member);
                self.log.count("metadata damaged", 1);
            }
        }
    }

    pub(crate) fn damage(&mut self, disk: usize, block: BlockIndex) {
        if self.rotting.percent(50) {
            self.note(&format!(
                "block {block} of disk {disk}, of its metadata, can't be read"
            ));
            for sector in self.stack.sectors(disk, block) {
                self.stack.disks[disk].make_unreadable(sector);
            }
            return;
        }
        self.note(&format!(
            "block {block} of disk {disk}, of its metadata, rots"
        ));
        let mut bytes = vec![0; self.stack.block_bytes];
        self.stack
            .disk_block(disk, block, View::Current, &mut bytes);
        let at = self
            .rotting
            .below(u64::try_from(bytes.len()).expect("small"));
        bytes[usize::try_from(at).expect("small")] ^= 1;
        self.stack.put_disk_block(disk, block, &bytes);
    }

    /// Returns the newest superblock of a disk.
    fn superblock(&self, disk: usize) -> Option<(ArrayRecord, DeviceRecord)> {
        let slot = |at: u64| {
            let mut bytes = [0; SUPERBLOCK_BYTES];
            let sector_bytes = u64::try_from(self.stack.disks[disk].sector_bytes()).expect("small");
            self.stack.disks[disk]
                .read(at / sector_bytes, &mut bytes)
                .ok()?;
            decode(&bytes).ok()
        };
        let slots = SLOT_BYTES.into_iter().filter_map(slot);
        slots.max_by_key(|(record, _)| record.generation)
    }

    /// Returns the first blocks of the batches that a replay reads from the ring of a disk, oldest
    /// first.
    fn batches(&self, disk: usize, record: &ArrayRecord, ring: Range<u64>) -> Vec<u64> {
        let header_blocks = JOURNAL_HEADER_BYTES / self.stack.block_bytes;
        let header = |block: u64| {
            let mut bytes = vec![0; header_blocks * self.stack.block_bytes];
            for (at, bytes) in (block..).zip(bytes.chunks_exact_mut(self.stack.block_bytes)) {
                self.stack
                    .disk_block(disk, BlockIndex(at), View::Current, bytes);
            }
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
}
