//! Full-row writes to groups with parity, which are not logged: the blocks of them that a crash may
//! destroy, and the errors that this excuses.

use crate::disk::View;
use crate::stack::Row;
use crate::stack::superblocks::newest_superblock;
use crate::stack::{Array, Below, Stack};
use crate::world::World;
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_layout::{Group, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Sectors with uncertain contents after a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt {
    /// Sectors not read or written since the crash.
    pub(crate) now: BTreeSet<u64>,
    /// Sectors that were read or written since, each with the last request submitted before the
    /// answer. Requests up to that one may have seen the uncertain contents.
    lately: BTreeMap<u64, u64>,
}

impl Doubt {
    /// Returns true if a request may have seen uncertain contents in these sectors.
    pub(crate) fn meets(&self, sectors: &Range<u64>, token: u64) -> bool {
        let mut lately = self.lately.range(sectors.clone());
        self.has(sectors.clone()) || lately.any(|(_, &last)| token <= last)
    }

    /// Returns true if any of these sectors is uncertain now.
    pub(crate) fn has(&self, sectors: Range<u64>) -> bool {
        self.now.range(sectors).next().is_some()
    }

    /// Records that the sectors were read or written. `last` is the last request submitted before
    /// the answer.
    pub(crate) fn end(&mut self, sectors: &Range<u64>, last: u64) {
        let ended = self.now.extract_if(sectors.clone(), |_| true);
        self.lately.extend(ended.map(|sector| (sector, last)));
    }
}

/// Full-row writes and the sectors that a crash may destroy with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unlogged {
    /// For each write of this session, the blocks that it covers with whole rows, if it need not be
    /// logged.
    writes: BTreeMap<u64, BTreeSet<u64>>,
    /// The writes in flight that `writes` already covers.
    noted: BTreeSet<u64>,
    /// Sectors of those writes that were not durable at a crash, until the array has resynced.
    pub(crate) sectors: Doubt,
    /// Subset that was unreadable at some time since the crash. Other sectors must survive.
    gone: Doubt,
}

impl Unlogged {
    /// Records that sectors were read or written.
    pub(crate) fn end(&mut self, sectors: &Range<u64>, last: u64) {
        self.sectors.end(sectors, last);
        self.gone.end(sectors, last);
    }

    /// Forgets all writes: they are durable in their places and no longer logged.
    pub(crate) fn forget_writes(&mut self) {
        self.writes.clear();
    }
}

/// Returns the blocks of an array that hold the data of a row.
fn data_of(group: &Group, row: u64) -> impl Iterator<Item = u64> {
    let (first, blocks) = (group.first_block.0, u64::from(group.blocks));
    (0..u64::from(group.data_chunks)).map(move |chunk| first + chunk * blocks + row)
}

impl Stack {
    /// Returns true if corruption in a row can be proved. This requires that, with corruption
    /// undone, parity matches the data and the stored checksums of parity are current.
    fn row_is_whole(&self, array: usize, group: &Group, row: u64) -> bool {
        let this = &self.arrays[array];
        let mut held = Vec::new();
        for slot in group.slots() {
            if this.lost.contains(slot.member) {
                continue;
            }
            let offset = slot.offset.plus(row);
            let block = this.data_start[usize::from(slot.member.0)].plus(offset.0);
            let mut bytes = vec![0; self.block_bytes];
            if let Some((disk, block)) = self.disk_place(array, slot.member, block) {
                self.disk_block(disk, block, View::Current, &mut bytes);
                if self.is_rotten(disk, block) {
                    bytes.clone_from(&self.decayed[&(disk, block.0)].right);
                }
            } else if !self.raw_block(array, slot.member, block, View::Current, &mut bytes) {
                return false;
            }
            let is_parity = matches!(slot.role, Role::Parity(_));
            if is_parity && !self.is_summed(array, slot.member, offset, &bytes) {
                return false;
            }
            held.push((slot, bytes));
        }
        let code = spindles_parity::by_parity_chunks(group.parity_chunks);
        let count = usize::from(group.data_chunks);
        let (Some(sources), Some(others)) = (held.get(..count), held.get(count..)) else {
            return true;
        };
        let sources: Vec<_> = sources
            .iter()
            .map(|(s, b)| (s.code_index, &b[..]))
            .collect();
        others.iter().all(|(slot, bytes)| {
            let mut right = vec![0; self.block_bytes];
            let mut targets = [(slot.code_index, &mut right[..])];
            spindles_parity::solve(code, group.data_chunks, &sources, &mut targets);
            right == *bytes
        })
    }
}

impl World {
    /// Records full-row writes that need not be logged. Called after a client write and after a
    /// member returns. Includes rows that several writes in flight cover together, since they may
    /// be merged.
    pub(crate) fn note_rows(&mut self) {
        // A member that the array grows onto, now or soon, is not missing from rows that have not
        // moved yet.
        let is_degraded = |array: &Array| {
            let own = MemberSet::all(array.geometry.members());
            array.geometry.older().is_none() && !array.lost.intersection(own).is_empty()
        };
        let is_logged = |array: &Array| is_degraded(array) || array.checksums.is_none();
        let has_parity = |array: &Array| array.geometry.parity_chunks() > 0;
        let mut arrays = self.stack.arrays.iter();
        if arrays.all(|array| !has_parity(array) || is_logged(array)) {
            return;
        }
        let this = &self.stack.arrays[self.stack.top()];
        // Rows of arrays below, and of growing arrays, are not distinguished.
        let any = !self.stack.has_maps_below_only() || this.geometry.older().is_some();
        let writes: Vec<_> = self.client.writes().collect();
        let is_written = |block| writes.iter().any(|(_, blocks)| blocks.contains(&block));
        let mut group = Group::empty();
        let is_noted = |write: &u64| self.unlogged.noted.contains(write);
        let new: Vec<_> = (writes.iter())
            .filter(|(write, _)| !is_noted(write))
            .collect();
        for (_, new) in new {
            for block in new.clone() {
                let location = this.geometry.locate(BlockIndex(block));
                this.geometry.group_into(location.group, &mut group);
                let row = || data_of(&group, u64::from(location.block_in_chunk));
                let row: BTreeSet<u64> = if any {
                    [block].into()
                } else if row().all(is_written) {
                    row().collect()
                } else {
                    continue;
                };
                for (write, blocks) in &writes {
                    let rows = self.unlogged.writes.entry(*write).or_default();
                    rows.extend(row.iter().filter(|block| blocks.contains(block)));
                }
            }
        }
        self.unlogged.noted = writes.into_iter().map(|(write, _)| write).collect();
    }

    /// Records which sectors of full-row writes a crash may have destroyed. Must run before the
    /// history learns of the crash.
    pub(crate) fn note_rows_after_crash(&mut self, power: bool) {
        let writes = std::mem::take(&mut self.unlogged.writes);
        if self.is_any_member_out() {
            return; // Unlogged writes were flushed before that became durable.
        }
        let per_block = self.client.sectors_per_block;
        let of_row = |&(sector, write): &(u64, u64)| {
            (writes.get(&write)).is_some_and(|blocks| blocks.contains(&(sector / per_block)))
        };
        let volatile = self.client.history.volatile_writes(power).filter(of_row);
        let sectors = volatile.map(|(sector, _)| sector);
        self.unlogged.sectors.now.extend(sectors);
    }

    /// Returns true if a disk durably records that a member of its array is out.
    fn is_any_member_out(&self) -> bool {
        let this = &self.stack.arrays[self.stack.top()];
        if this.geometry.older().is_some() {
            return false; // It may be a member that the array grows onto.
        }
        let mut members = (0..).map(MemberIndex).zip(&this.members);
        members.any(|(member, below)| {
            let newest = match *below {
                Below::Disk(disk) => newest_superblock(&self.stack.disks[disk], View::Durable),
                Below::Array(below) if self.stack.arrays[below].is_map() => {
                    self.stack.newest_superblock(below, View::Durable)
                }
                Below::Array(_) => None,
            };
            !this.lost.contains(member) && newest.is_some_and(|it| !it.missing().is_empty())
        })
    }

    /// Returns true if a block is unreadable in its place, corrupt, or on a member with a damaged
    /// log.
    pub(crate) fn is_gone_from(&self, block: u64) -> bool {
        let this = &self.stack.arrays[self.stack.top()];
        if this.geometry.older().is_some() && !this.lost.is_empty() {
            return true; // A growth is moving blocks between members.
        }
        let location = this.geometry.locate(BlockIndex(block));
        let at = usize::from(location.member.0);
        let block = this.data_start[at].plus(location.offset.0);
        let place = (self.stack).disk_place(self.stack.top(), location.member, block);
        let Some((disk, block)) = place else {
            return true;
        };
        let missing = this.lost.contains(location.member);
        missing
            || this.damaged == Some(location.member)
            || self.stack.decayed.contains_key(&(disk, block.0))
            || self.stack.disks[disk].is_unreadable(self.stack.sectors(disk, block))
    }

    /// Records blocks of full-row writes that may be lost with members that have gone missing.
    pub(crate) fn note_gone_rows(&mut self) {
        let per_block = self.client.sectors_per_block;
        let sectors = self.unlogged.sectors.now.iter().copied();
        let gone = sectors.filter(|sector| self.is_gone_from(sector / per_block));
        let gone: Vec<u64> = gone.collect();
        self.unlogged.gone.now.extend(gone);
    }

    /// Records that the array has resynced: no more blocks of full-row writes can be lost.
    pub(crate) fn rows_have_settled(&mut self) {
        if !self.unlogged.sectors.now.is_empty() {
            self.note_gone_rows();
            let Unlogged { sectors, gone, .. } = &mut self.unlogged;
            sectors.now.clone_from(&gone.now);
        }
    }

    /// Records that the array reported blocks of unresynced rows as lost. They stay lost until
    /// written.
    pub(crate) fn rows_are_lost(&mut self, sectors: Range<u64>) {
        self.unlogged.sectors.now.extend(sectors.clone());
        self.unlogged.gone.now.extend(sectors);
    }

    /// Returns why a request over sectors in doubt after a crash may fail; `None` if it must
    /// succeed.
    pub(crate) fn excuse(&self, sectors: &Range<u64>, token: u64) -> Option<&'static str> {
        if !self.in_doubt.meets(sectors, token) && !self.unlogged.sectors.meets(sectors, token) {
            None
        } else if !self.stack.has_maps_below_only() {
            Some("lost in an array below")
        } else if self.unlogged.gone.meets(sectors, token) {
            Some("lost of an unlogged row")
        } else if self.without_log.meets(sectors, token) {
            Some("lost without its log")
        } else {
            None
        }
    }

    /// Records the loss of the log: of unfinished writes, and of answered writes not durable in
    /// their places. Restores corrupt blocks in these rows.
    pub(crate) fn lose_log(&mut self) {
        let in_doubt = self.client.history.in_doubt(true);
        self.in_doubt.now.extend(&in_doubt);
        self.without_log.now.extend(in_doubt);
        self.cure_rows_in_doubt();
    }

    /// Returns true if a block of a disk is in a row that a crash left partly written and that was
    /// not repaired since. Corruption there is indistinguishable from the partial write.
    pub(crate) fn is_of_half_written_row(&self, disk: usize, block: BlockIndex) -> bool {
        let Some(row) = self.row_of(disk, block) else {
            return false;
        };
        let Row { array, group, .. } = &row;
        let per_block = self.client.sectors_per_block;
        let row = u64::from(row.block_in_chunk);
        let unlogged = [&self.unlogged.sectors, &self.without_log];
        let is_unlogged = if *array == self.stack.top() {
            data_of(group, row).any(|block| {
                let sectors = block * per_block..(block + 1) * per_block;
                unlogged.iter().any(|all| all.has(sectors.clone()))
            })
        } else {
            // The blocks are not mapped to the outermost array: doubt about any block counts.
            !self.in_doubt.now.is_empty() || unlogged.iter().any(|all| !all.now.is_empty())
        };
        group.parity_chunks > 0 && is_unlogged && !self.stack.row_is_whole(*array, group, row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Token, Wish};
    use crate::disk::View;
    use crate::stack::Decay;
    use crate::{Ending, Fixed, Options, create};
    use spindles_block::{MemberIndex, Operation, Reply};
    use spindles_layout::Level;

    /// Returns a small `raid5` that no engine has open.
    fn world() -> World {
        let fixed = Fixed {
            level: Level::by_name("raid5"),
            members: Some(3),
            depth: Some(8),
            faults: Some(Vec::new()),
            ending: Some(Ending::Close),
            checksums: Some(true),
            sizes: Some(false),
            ..Fixed::default()
        };
        let mut options = (0..).map(|seed| Options::swarm(seed, &fixed));
        let small = |options: &Options| {
            let stack = create::blank(options);
            options.sums() && options.sector_bytes == 512 && stack.geometry().stripe_blocks() == 4
        };
        let options = options.find(small).expect("some seed has such a stripe");
        let stack = create::blank(&options);
        let mut world = World::new(options, stack, false);
        create::write_superblocks(&mut world);
        world
    }

    fn ask(world: &mut World, operation: Operation, block: u64, blocks: u32) -> u64 {
        let wish = Wish {
            operation,
            block,
            blocks,
            issue: None,
        };
        let now = world.now();
        let request = world.client.request(now, wish, world.arrays.memory_mut());
        if operation.is_write() {
            world.note_rows();
        }
        request.token
    }

    /// Returns the blocks that may be lost if they are on a missing member.
    fn unlogged(mut world: World, power: bool) -> BTreeSet<u64> {
        world.note_rows_after_crash(power);
        let per_block = world.client.sectors_per_block;
        let sectors = world.unlogged.sectors.now.iter();
        sectors.map(|sector| sector / per_block).collect()
    }

    const WRITE: Operation = Operation::Write { fua: false };

    #[test]
    fn only_wholly_unlogged_rows_may_be_lost() {
        for power in [false, true] {
            let mut part = world();
            ask(&mut part, WRITE, 0, 2);
            assert_eq!(unlogged(part, power), [].into());
            // Rows of blocks 0 and 2, and 1 and 3.
            let mut row = world();
            ask(&mut row, WRITE, 1, 3);
            assert_eq!(unlogged(row, power), [1, 3].into());
            let mut both = world();
            ask(&mut both, WRITE, 0, 2);
            ask(&mut both, WRITE, 2, 1);
            assert_eq!(unlogged(both, power), [0, 2].into());
        }
    }

    /// A write is answered but not flushed, and another block of its row is corrupted. The
    /// corruption is detected while the log exists; once the log is lost it is in a named gap. Rows
    /// without writes in flight are in no gap.
    #[test]
    fn corruption_next_to_answered_writes_is_a_gap_once_the_log_is_lost() {
        let mut world = world();
        let token = ask(&mut world, WRITE, 0, 1);
        let now = world.now();
        let flight = world.client.take(
            now,
            Reply {
                token,
                result: Ok(()),
                exchanged: None,
            },
        );
        let Some(Token::Write { token, fua }) = flight.map(|flight| flight.token) else {
            panic!("a write was asked");
        };
        world.client.history.write_answered(token, true, fua);
        world.crash(false);
        // Blocks 0 and 2 are a row.
        let places = [1, 2].map(|block| {
            let geometry = world.stack.geometry();
            let at = geometry.locate(BlockIndex(block));
            let top = world.stack.top();
            let start = world.stack.arrays[top].data_start[usize::from(at.member.0)];
            let place = world
                .stack
                .disk_place(top, at.member, start.plus(at.offset.0));
            place.expect("it is on a disk")
        });
        for (disk, block) in places {
            let mut right = vec![0; world.stack.block_bytes];
            (world.stack).disk_block(disk, block, View::Current, &mut right);
            let wrong: Vec<u8> = right.iter().map(|byte| !byte).collect();
            world.stack.put_disk_block(disk, block, &wrong);
            let decay = Decay::new(right, wrong);
            world.stack.decayed.insert((disk, block.0), decay);
        }
        let rotten = |world: &World| places.map(|(disk, block)| world.stack.is_rotten(disk, block));
        world.cure_gaps(&BTreeSet::new());
        assert_eq!(rotten(&world), [true, true]);
        world.lose_log();
        assert_eq!(rotten(&world), [true, false]);
    }

    #[test]
    fn only_blocks_on_a_missing_member_are_excused_until_read() {
        let mut world = world();
        ask(&mut world, WRITE, 0, 4);
        world.note_rows_after_crash(true);
        let per_block = world.client.sectors_per_block;
        let sectors = |block: u64| block * per_block..(block + 1) * per_block;
        let member = |block| world.stack.geometry().locate(BlockIndex(block)).member;
        let (here, there) = (member(0), member(2));
        assert!(here != there && here != MemberIndex(u8::MAX));
        assert_eq!(world.excuse(&sectors(0), 9), None);
        let top = world.stack.top();
        let lost = &mut world.stack.arrays[top].lost;
        *lost = lost.with(here);
        world.note_gone_rows();
        assert!(world.excuse(&sectors(0), 9).is_some());
        assert_eq!(world.excuse(&sectors(2), 9), None);
        // A member that returns has lost its blocks all the same; a member that goes missing later
        // has not.
        world.rows_have_settled();
        let lost = &mut world.stack.arrays[top].lost;
        *lost = lost.without(here).with(there);
        world.note_gone_rows();
        assert!(world.excuse(&sectors(0), 9).is_some());
        assert_eq!(world.excuse(&sectors(2), 9), None);
        world.unlogged.end(&sectors(0), 4);
        assert_eq!(world.excuse(&sectors(0), 9), None);
        assert!(world.excuse(&sectors(0), 4).is_some(), "it looked before");
    }
}
