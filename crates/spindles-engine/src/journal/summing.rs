//! After a replay: the checksums of what it wrote, or found written, are put in order.
//!
//! A block that fits to its checksum keeps it. One that holds what the log says gets the checksum
//! that the log has. Where a whole stripe was being written that is old, new or torn, and parity was
//! made from that, blocks get the checksum of what is there. Any other is left as it is: it was not in
//! flight, so it is rotten, and whoever reads it finds that out.

use super::replay::Stage;
use crate::{
    Engine, Mutation, index,
    plan::{Strategy, Work},
    slots::SlotSet,
};
use alloc::vec::Vec;
use spindles_format::JournalKind;
use spindles_layout::GroupIndex;

impl Engine {
    /// All is in its place: on to the checksums of that, where there are any.
    pub(super) fn sum_replayed(&mut self) {
        let sums = self.pages.is_some() && !self.mutated(Mutation::SkipSumming);
        let Some(replay) = self.replay.as_mut().filter(|_| sums) else {
            return self.flush_replayed();
        };
        replay.stage = Stage::Summing { part: 0, rows: 0 };
        self.sum_next();
    }

    /// On to the next rows of a part.
    pub(super) fn sum_next(&mut self) {
        loop {
            let replay = self.replay.as_ref().expect("a replay is under way");
            let Stage::Summing {
                part: at,
                rows: done,
            } = replay.stage
            else {
                panic!("nothing is being summed up");
            };
            let Some(part) = replay.parts.get(at) else {
                return self.flush_replayed();
            };
            let (id, entry, group) = (replay.column, part.entry, GroupIndex(part.entry.group));
            let is_there = !self.missing.contains(part.member);
            self.take_group(id, group);
            // Copies were summed up when one was chosen.
            if !is_there || done == entry.blocks || self.shape(id).copies {
                self.replay().stage = Stage::Summing {
                    part: at + 1,
                    rows: 0,
                };
                continue;
            }
            let low = entry.low + done;
            let left = entry.blocks - done;
            let rows = low..low + left.min(self.rows_at_once(group, low));
            let reads = SlotSet::one(entry.slot);
            if self.begin_rows(id, group, rows, Strategy::Direct, reads) {
                self.sum_paged(id);
            }
            return;
        }
    }

    /// The pages of the rows under way are there.
    pub(super) fn sum_paged(&mut self, id: u32) {
        let reads = self.columns[index(id)].plan.reads;
        self.read_in_place(id, reads);
    }

    /// The rows under way were read, or could not be.
    pub(super) fn sum_read(&mut self, id: u32) {
        if self.columns[index(id)].unreadable.is_empty() {
            return self.work_step(id, Work::Verify);
        }
        self.rows_summed(id);
    }

    /// The rows under way are summed up.
    pub(super) fn summed(&mut self, id: u32) {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let Stage::Summing { part, rows } = replay.stage else {
            panic!("nothing is being summed up");
        };
        let later = part + 1;
        let part = &replay.parts[part];
        if self.missing.contains(part.member) {
            return self.rows_summed(id); // It went out meanwhile.
        }
        let slot = part.entry.slot;
        let (low, blocks) = (self.columns[index(id)].low, self.columns[index(id)].blocks);
        let first = self.block_of_slot(id, slot);
        let sums = index(id) * self.checksums_of_column;
        let sums = &self.checksums[sums..sums + index(blocks)];
        let logged = match part.entry.kind {
            JournalKind::Zeros => None,
            JournalKind::Data | JournalKind::Intent => {
                let start = part.checksums.start + index(rows);
                Some(&replay.checksums[start..start + index(blocks)])
            }
        };
        // What a later write wrote, or was to write, is not what this one did.
        let is_last = |row| self.last_applied(slot, row, later).is_none();
        let last: Vec<bool> = (low..low + blocks).map(is_last).collect();
        let pages = self.pages.as_mut().expect("something was summed up");
        for (row, &sum) in (0..).zip(sums) {
            let expected = logged.map_or(pages.of_zeros, |logged| logged[index(row)]);
            let block = first.plus(u64::from(row));
            let of = (id, slot, first);
            if last[index(row)]
                && expected == sum
                && !pages.agrees_at(&self.metadata_buffer, of, block, sum)
            {
                pages.set_at(&mut self.metadata_buffer, of, block, sum);
            }
        }
        self.rows_summed(id);
    }

    fn rows_summed(&mut self, id: u32) {
        self.let_go_pages(id);
        let blocks = self.columns[index(id)].blocks;
        let replay = self.replay.as_mut().expect("a replay is under way");
        let Stage::Summing { rows, .. } = &mut replay.stage else {
            panic!("nothing is being summed up");
        };
        *rows += blocks;
        self.sum_next();
    }
}
