//! Corruption of a member's metadata. Some is found at the next opening: in the journal, if it is
//! needed after a crash, and in bitmaps, checksums and bad-block lists. Some is found by a scrub of
//! an open array, which repairs it from memory and from other members.

use crate::checkers::Seen;
use crate::disk::{Disk, View};
use crate::session::drain;
use crate::world::World;
use core::ops::Range;
use spindles_block::BlockIndex;
use spindles_format::{
    AreaKind, ArrayRecord, CHECKSUM_PAGE_BYTES, ChecksumKind, DeviceRecord, JOURNAL_HEADER_BYTES,
    JournalHeader, SLOT_BYTES, SUPERBLOCK_BYTES, decode,
};

/// How many of a member's last batches may be damaged.
const BATCHES: u64 = 6;

impl World {
    /// Draws a disk whose metadata its array could do without, with its superblock.
    fn random_damaged(&mut self) -> Option<(usize, ArrayRecord, DeviceRecord)> {
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

    /// Corrupts blocks of one member's metadata, then scrubs the array. The scrub must repair the
    /// metadata, so that the array then survives the loss of another member.
    pub fn rot_metadata_and_scrub(&mut self) -> bool {
        drain(self);
        if self.log.has_failed() || self.excuses_errors() || !self.may_be_scrubbed(0) {
            return false;
        }
        if self.is_repair_uncertain() {
            return false;
        }
        let Some((disk, record, device)) = self.random_damaged() else {
            return false;
        };
        self.flush_disks();
        let (array, member) = self.stack.position(disk);
        let damaged_before = self.stack.arrays[array].damaged.replace(member);
        if self.stack.lacks_checksums(array) {
            // A member that is out lacks them, and no scrub restores them.
            self.stack.arrays[array].damaged = damaged_before;
            return false;
        }
        let blocks = self.damage_some_metadata(disk, &record, &device);
        if blocks.is_empty() {
            self.stack.arrays[array].damaged = damaged_before;
            return false;
        }
        // A checksum page that covers no written block may stay corrupt.
        let checksums = device.area(AreaKind::CHECKSUMS).map(|area| {
            let block_bytes = u64::try_from(self.stack.block_bytes).expect("small");
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
            .map(|block| (block, self.metadata_block(disk, block)))
            .collect();
        self.log.count("metadata damaged and scrubbed", 1);
        self.scrub_quietly(array);
        let mut left: Vec<String> = (wrong.into_iter())
            .filter(|(block, wrong)| self.metadata_block(disk, *block) == *wrong)
            .map(|(block, _)| format!("block {block} of disk {disk} is as it was"))
            .collect();
        if self.stack.lacks_checksums(array) {
            left.push("checksums are missing".to_owned());
        }
        self.stack.arrays[array].damaged = None;
        self.show(&Seen::MetadataScrubbed { left: &left });
        let disks = u64::try_from(self.stack.disks.len()).expect("few");
        let other = usize::try_from(self.rotting.below(disks)).expect("few");
        if self.rotting.percent(50) && other != disk && self.stack.may_lose_disk(other) {
            self.drop_disk(other);
        }
        true
    }

    /// Returns true if a scrub could be unable to repair the metadata.
    fn is_repair_uncertain(&self) -> bool {
        let busy = self
            .arrays
            .engine(0)
            .status()
            .jobs
            .iter()
            .any(|job| job.going);
        let is_unreadable = |disk: &Disk| disk.not_durably_readable().next().is_some();
        let any_unreadable = self.stack.disks.iter().any(is_unreadable);
        let any_gone = (0..self.stack.disks.len()).any(|disk| self.devices.is_gone(disk));
        let is_short = self.stack.is_short_of_space;
        busy || any_unreadable || any_gone || is_short || !self.stack.decayed.is_empty()
    }

    /// Damages a few blocks of a disk's metadata. Returns the blocks, each once.
    fn damage_some_metadata(
        &mut self,
        disk: usize,
        record: &ArrayRecord,
        device: &DeviceRecord,
    ) -> Vec<BlockIndex> {
        let mut blocks = Vec::new();
        for _ in 0..self.rotting.between(1, 4) {
            let block = self.random_metadata(record, device);
            if let Some(block) = block.filter(|block| !blocks.contains(block)) {
                self.damage(disk, block);
                blocks.push(block);
            }
        }
        blocks
    }

    /// Draws a block of metadata in use: of a superblock slot, a bitmap, the bad-block list or the
    /// checksums.
    fn random_metadata(
        &mut self,
        record: &ArrayRecord,
        device: &DeviceRecord,
    ) -> Option<BlockIndex> {
        let block_bytes = u64::try_from(self.stack.block_bytes).expect("small");
        let page_bytes = u64::try_from(CHECKSUM_PAGE_BYTES).expect("4096");
        let kinds = [
            AreaKind::SUPERBLOCK,
            AreaKind::DIRTY_BITMAP,
            AreaKind::WRITTEN_BITMAP,
            AreaKind::CHECKSUMS,
            AreaKind::BAD_BLOCKS,
        ];
        let (start, bytes) = match *self.rotting.choose(&kinds) {
            // A superblock that no opening has rewritten has one slot only.
            AreaKind::SUPERBLOCK if record.generation <= 2 => return None,
            AreaKind::SUPERBLOCK => {
                let start = *self.rotting.choose(&SLOT_BYTES);
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
        let block = (blocks > 0).then(|| self.rotting.below(blocks))?;
        Some(BlockIndex(start / block_bytes + block))
    }

    /// Returns the durable contents of a block of a disk; `None` if it is unreadable.
    fn metadata_block(&self, disk: usize, block: BlockIndex) -> Option<Vec<u8>> {
        let sectors = self.stack.sectors(disk, block);
        let mut unreadable = self.stack.disks[disk].not_durably_readable();
        let readable = !unreadable.any(|sector| sectors.contains(&sector));
        readable.then(|| {
            let mut bytes = vec![0; self.stack.block_bytes];
            self.stack
                .disk_block(disk, block, View::Durable, &mut bytes);
            bytes
        })
    }

    fn damage(&mut self, disk: usize, block: BlockIndex) {
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
