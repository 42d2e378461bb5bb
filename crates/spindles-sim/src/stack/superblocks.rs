//! The superblocks of members, read without the engine.

use super::{Below, Stack, group_of};
use crate::disk::{Disk, View};
use spindles_block::BlockIndex;
use spindles_format::{ArrayRecord, DeviceRecord, SLOT_BYTES, SUPERBLOCK_BYTES};
use spindles_layout::Role;

impl Stack {
    /// Returns the newest superblock, by generation, that an array holds as a member of the array
    /// above.
    pub(crate) fn newest_superblock(&self, array: usize, view: View) -> Option<ArrayRecord> {
        let block_bytes = u64::try_from(self.block_bytes).expect("fits");
        let slots = SLOT_BYTES.iter().filter_map(|slot| {
            let blocks = (slot / block_bytes..).map(BlockIndex);
            let blocks = blocks.take(SUPERBLOCK_BYTES / self.block_bytes);
            let blocks = blocks.map(|block| self.array_block(array, block, view));
            spindles_format::decode(&blocks.collect::<Option<Vec<_>>>()?.concat()).ok()
        });
        let records = slots.map(|(record, _)| record);
        records.max_by_key(|record| record.generation)
    }

    /// Returns true if newer contents of blocks may lie in the stage of an array of disks.
    pub(crate) fn is_staged(&self, array: usize) -> bool {
        let array = &self.arrays[array];
        let is_staged = |below: &Below| match *below {
            Below::Disk(disk) => {
                let newest = newest_superblock(&self.disks[disk], View::Current);
                newest.is_some_and(|record| record.staged)
            }
            Below::Array(_) => false,
        };
        array.stage_bytes > 0 && array.members.iter().any(is_staged)
    }

    /// Returns true if the sector belongs to a superblock slot.
    pub fn is_superblock(&self, disk: usize, sector: u64) -> bool {
        let sector_bytes = u64::try_from(self.disks[disk].sector_bytes()).expect("fits");
        let at = sector * sector_bytes;
        let length = u64::try_from(SUPERBLOCK_BYTES).expect("fits");
        SLOT_BYTES
            .iter()
            .any(|slot| (*slot..slot + length).contains(&at))
    }

    /// Returns true if the sector belongs to a superblock slot of the array above the disk's array.
    pub fn is_superblock_above(&self, disk: usize, sector: u64) -> bool {
        let (array, member) = self.position(disk);
        let this = &self.arrays[array];
        let block = sector / self.sectors_per_block(disk);
        let offset = block.checked_sub(this.data_start[usize::from(member.0)].0);
        let Some(offset) = offset.filter(|_| this.above.is_some()) else {
            return false;
        };
        let Some((index, _, row)) = this.geometry.find(member, BlockIndex(offset)) else {
            return false;
        };
        let group = group_of(&this.geometry, index);
        let slot = group.slots().iter().find(|slot| slot.member == member);
        let chunk = match slot.expect("it was found there").role {
            Role::Data(chunk) => u64::from(chunk),
            Role::Copy(_) => 0,
            Role::Parity(_) => return false,
        };
        let block = group.first_block.0 + chunk * u64::from(group.blocks) + u64::from(row);
        let at = block * u64::try_from(self.block_bytes).expect("fits");
        let length = u64::try_from(SUPERBLOCK_BYTES).expect("fits");
        SLOT_BYTES
            .iter()
            .any(|slot| (*slot..slot + length).contains(&at))
    }

    /// Returns true if both slots of the disk hold a superblock, both list the same members, and
    /// both say that all are active. Losing the newer one then loses no information.
    fn has_two_superblocks(&self, disk: usize) -> bool {
        let disk = &self.disks[disk];
        let all_active = SLOT_BYTES.map(|slot| {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            disk.peek(slot, &mut bytes);
            let (record, _) = spindles_format::decode(&bytes).ok()?;
            let all = record.missing().union(record.rebuilding()).is_empty();
            let uuids = record.members().iter().map(|member| member.device_uuid);
            all.then(|| uuids.collect::<Vec<_>>())
        });
        all_active[0].is_some() && all_active[0] == all_active[1]
    }

    /// Checks the budget for superblocks: one slot of one member may be lost, if the member has two
    /// superblocks and no other member has lost one.
    pub(super) fn may_lose_superblock(&self, disk: usize) -> bool {
        if !self.has_two_superblocks(disk) {
            return false;
        }
        let (array, _) = self.position(disk);
        let array = &self.arrays[array];
        let mut disks = array.members.iter().filter_map(|below| match below {
            Below::Disk(disk) => Some(*disk),
            Below::Array(_) => None,
        });
        let spoiled = |disk: usize| {
            let once = self.spoiled.range((disk, 0)..=(disk, u64::MAX));
            let once = once.map(|&(_, sector)| sector);
            let mut all = self.disks[disk].not_durably_readable().chain(once);
            all.any(|sector| self.is_superblock(disk, sector))
        };
        array.lost.is_empty() && array.members.len() > 1 && !disks.any(spoiled)
    }
}

/// Returns the array's part of the newest superblock.
pub(crate) fn newest_superblock(disk: &Disk, view: View) -> Option<ArrayRecord> {
    newest_records(disk, view).map(|(record, _)| record)
}

/// Returns the superblock with the highest generation.
pub(crate) fn newest_records(disk: &Disk, view: View) -> Option<(ArrayRecord, DeviceRecord)> {
    let sector_bytes = u64::try_from(disk.sector_bytes()).expect("fits");
    let slots = SLOT_BYTES.iter().filter_map(|slot| {
        let first = slot / sector_bytes;
        let sectors = SUPERBLOCK_BYTES / disk.sector_bytes();
        let sectors = first..first + u64::try_from(sectors).expect("fits");
        spindles_format::decode(&disk.bytes_of(sectors, view)).ok()
    });
    slots.max_by_key(|(record, _)| record.generation)
}
