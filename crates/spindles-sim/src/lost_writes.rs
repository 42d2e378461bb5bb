//! Writes that a disk answers, but that land nowhere or at another address. Only checksums detect
//! them.

use crate::devices::Doom;
use crate::disk::{View, WriteData};
use crate::stack::Decay;
use crate::world::{Moment, Strike, World};
use spindles_block::BlockIndex;

/// Dooms the next data write to a random disk.
#[derive(Debug)]
pub(crate) struct LostWrites(pub(crate) Doom);

impl Strike for LostWrites {
    fn strike(&mut self, world: &mut World) -> bool {
        let disk = world.losing_writes.index(world.stack.disks.len());
        world.devices.doom_write(Some((disk, self.0)))
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        if let Moment::Lands { disk, data, lands } = moment
            && world.devices.is_doomed(*disk, self.0)
            && world.loses_write(*disk, self.0, data)
        {
            **lands = false;
        }
    }
}

impl World {
    /// Loses or misdirects a write if the budget allows it. Returns true if done.
    fn loses_write(&mut self, disk: usize, doom: Doom, data: &WriteData) -> bool {
        let (array, _) = self.stack.keeper_of(disk);
        if self.scrubs_quietly {
            return false; // Repairs of a scrub are checked to the byte.
        }
        if self.devices.journal.is_some() {
            return false; // An old copy that matches its old checksum would be undetectable.
        }
        if self.tears() || !self.arrays.is_open(array) || !self.arrays.engine(array).is_settled() {
            return false; // Indistinguishable from the effects of a crash.
        }
        let block_bytes = self.stack.block_bytes;
        let first = data.first / self.stack.sectors(disk, BlockIndex(0)).end;
        let written = data.bytes.chunks_exact(block_bytes);
        let count = u64::try_from(written.len()).expect("few");
        let mut lost: Vec<Decay> = Vec::new();
        for (block, new) in (first..).zip(written.clone()) {
            let old = self
                .stack
                .disk_block(disk, BlockIndex(block), View::Current);
            // A block of zeros may rightly become zeros again.
            let is_nonzero = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
            let differs = old != new && is_nonzero(&old) && is_nonzero(new);
            if !differs || !self.may_decay(disk, BlockIndex(block)) {
                return false;
            }
            lost.push(Decay {
                is_lost_write: true,
                ..Decay::new(new.to_vec(), old)
            });
        }
        if doom == Doom::Misdirected {
            let in_use = self.stack.in_use(disk);
            let choices = (in_use.blocks() + 1).saturating_sub(count).max(1);
            let target = in_use.block(self.losing_writes.below(choices));
            let struck = (target..)
                .zip(written)
                .map(|(block, new)| (BlockIndex(block), new));
            let is_struck = |(block, new): (BlockIndex, &[u8])| {
                let is_apart = !(first..first + count).contains(&block.0);
                is_apart
                    && self.may_decay(disk, block)
                    && self.stack.disk_block(disk, block, View::Current) != new
            };
            if !struck.clone().all(is_struck) {
                return false;
            }
            for (block, new) in struck {
                self.note(&format!(
                    "a write to another block lands on block {block} of disk {disk}"
                ));
                let right = self.stack.disk_block(disk, block, View::Current);
                self.stack.put_disk_block(disk, block, new);
                let wrong = new.to_vec();
                self.stack
                    .decayed
                    .insert((disk, block.0), Decay::new(right, wrong));
            }
        }
        for (block, decay) in (first..).zip(lost) {
            self.note(&format!(
                "what is written to block {block} of disk {disk} does not land"
            ));
            self.stack.decayed.insert((disk, block), decay);
        }
        self.devices.doom_write(None);
        self.log.count("write did not land", 1);
        true
    }
}
