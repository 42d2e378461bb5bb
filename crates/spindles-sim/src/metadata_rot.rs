//! Damage to a member's metadata.

use crate::disk::View;
use crate::world::World;
use spindles_block::BlockIndex;
use spindles_format::{ArrayRecord, DeviceRecord, SLOT_BYTES, SUPERBLOCK_BYTES, decode};

impl World {
    /// Draws a disk whose metadata its array could do without, with its superblock.
    pub(crate) fn random_damaged(&mut self) -> Option<(usize, ArrayRecord, DeviceRecord)> {
        let disk = self.rotting.index(self.stack.disks.len());
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
        let mut bytes = self.stack.disk_block(disk, block, View::Current);
        let at = self.rotting.index(bytes.len());
        bytes[at] ^= 1;
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
}
