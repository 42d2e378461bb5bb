//! Corruption that strikes while clients are running, which only checksums can detect.

use crate::disk::View;
use crate::stack::Spot;
use crate::world::World;
use spindles_block::BlockIndex;
use std::collections::BTreeSet;

impl World {
    /// Returns true if a write to a block of a disk is in flight.
    fn is_in_flight(&self, disk: usize, block: BlockIndex) -> bool {
        let sectors = self.stack.sectors(disk, block);
        let sector_bytes = self.stack.disks[disk].sector_bytes();
        self.devices.in_flight(disk).any(|io| {
            (io.data.as_ref()).is_some_and(|data| {
                let count = u64::try_from(data.bytes.len() / sector_bytes).expect("fits");
                data.first < sectors.end && sectors.start < data.first + count
            })
        })
    }

    /// Returns true if a write to a block of a disk is in flight or not durable.
    fn is_being_written(&self, disk: usize, block: BlockIndex) -> bool {
        let holds = |view| self.stack.disk_block(disk, block, view);
        holds(View::Current) != holds(View::Durable) || self.is_in_flight(disk, block)
    }

    /// Returns true if a block in the row of a disk's block is being written or not durable.
    fn is_row_in_flight(&self, disk: usize, block: BlockIndex) -> bool {
        let row = self.stack.row_of(disk, block);
        row.is_some_and(|row| {
            let mut places = row.places(&self.stack);
            places.any(|place| place.is_none_or(|(disk, block)| self.is_being_written(disk, block)))
        })
    }

    /// Returns true if a crash may leave a block partly written.
    pub(crate) fn tears(&self) -> bool {
        self.options.sector_bytes < self.options.block_size.bytes()
    }

    /// Restores corrupt blocks that a crash makes undetectable. A write over corruption may be
    /// torn. In a row about to be written as a whole, the data that could detect corruption is
    /// partly old.
    pub(crate) fn cure_what_may_tear(&mut self, power: bool) {
        if !self.tears() {
            return;
        }
        let doubts: BTreeSet<u64> = self.client.history.in_doubt(power).into_iter().collect();
        let places: Vec<_> = self.stack.decayed.keys().copied().collect();
        for (disk, block) in places {
            let is_written = self.is_being_written(disk, BlockIndex(block));
            let is_mixed = self.stack.is_in_doubt(disk, BlockIndex(block), &doubts)
                && self.is_row_in_flight(disk, BlockIndex(block));
            if is_written || is_mixed {
                let torn = (disk, BlockIndex(block));
                self.stack.cure(|disk, block| (disk, block) == torn);
            }
        }
    }

    /// Returns true if the budget allows corrupting a block. The rules are those for an unreadable
    /// sector; in addition, checksums must detect it. No write to the block may be in flight, or
    /// have been at a crash that may have torn it.
    pub(crate) fn may_decay(&self, disk: usize, block: BlockIndex) -> bool {
        let sectors = self.stack.sectors(disk, block);
        let spot = self.stack.spot_at(disk, block);
        let is_data = self.stack.place_of(disk, sectors.start).is_some();
        let Some(spot) = spot.filter(|_| is_data) else {
            return false; // Metadata.
        };
        let Spot { array, member, .. } = spot;
        let this = &self.stack.arrays[array];
        let in_flight = self.is_in_flight(disk, block);
        let may_be_torn =
            self.tears() && self.stack.is_in_doubt(disk, block, self.truth.in_doubt());
        // A crash left the block partly written, and the array has not resynced it yet.
        let is_in_gap = self.truth.gap_of(&self.stack, disk, block).is_some();
        let is = |view| self.stack.disk_block(disk, block, view);
        let written = |view| self.stack.is_held(spot, view);
        this.checksums.is_some()
            && self.arrays.is_open(array)
            && !this.lost.contains(member)
            && !self.devices.is_gone(disk)
            && !in_flight
            && !may_be_torn
            && !is_in_gap
            && !self.stack.is_rotten(disk, block)
            && written(View::Current)
            && written(View::Durable)
            && is(View::Current) == is(View::Durable)
            && self.stack.may_lose_sector(disk, sectors.start)
    }
}
