//! Full-row writes to groups with parity, which are not logged: the blocks of them that a crash may
//! destroy.

use super::doubt::Doubt;
use crate::client::Client;
use crate::disk::View;
use crate::stack::superblocks::newest_superblock;
use crate::stack::{Array, Below, Stack, group_of};
use spindles_block::{BlockIndex, MemberIndex, MemberSet};
use spindles_layout::Group;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Full-row writes and the sectors that a crash may destroy with them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unlogged {
    /// For each write of this session, the blocks that it covers with whole rows, if it need not be
    /// logged.
    writes: BTreeMap<u64, BTreeSet<u64>>,
    /// The writes in flight that `writes` already covers.
    noted: BTreeSet<u64>,
    /// Sectors of those writes that were not durable at a crash, until the array has resynced.
    pub(super) sectors: Doubt,
    /// Subset that was unreadable at some time since the crash. Other sectors must survive.
    pub(super) gone: Doubt,
}

impl Unlogged {
    /// Records that sectors were read or written.
    pub(super) fn end(&mut self, sectors: &Range<u64>, last: u64) {
        self.sectors.end(sectors, last);
        self.gone.end(sectors, last);
    }

    /// Forgets all writes: they are durable in their places and no longer logged.
    pub(super) fn forget_writes(&mut self) {
        self.writes.clear();
    }

    /// Records full-row writes that need not be logged. Called after a client write and after a
    /// member returns. Includes rows that several writes in flight cover together, since they may
    /// be merged.
    pub(super) fn note_rows(&mut self, stack: &Stack, writes: &[(u64, Range<u64>)]) {
        // A member that the array grows onto, now or soon, is not missing from rows that have not
        // moved yet.
        let is_degraded = |array: &Array| {
            let own = MemberSet::all(array.geometry.members());
            array.geometry.older().is_none() && !array.lost.intersection(own).is_empty()
        };
        let is_logged = |array: &Array| is_degraded(array) || array.checksums.is_none();
        let has_parity = |array: &Array| array.geometry.parity_chunks() > 0;
        let mut arrays = stack.arrays.iter();
        if arrays.all(|array| !has_parity(array) || is_logged(array)) {
            return;
        }
        let this = &stack.arrays[stack.top()];
        // Rows of arrays below, and of growing arrays, are not distinguished.
        let any = !stack.has_maps_below_only() || this.geometry.older().is_some();
        let is_written = |block| writes.iter().any(|(_, blocks)| blocks.contains(&block));
        let is_noted = |write: &u64| self.noted.contains(write);
        let new: Vec<_> = (writes.iter())
            .filter(|(write, _)| !is_noted(write))
            .collect();
        for (_, new) in new {
            for block in new.clone() {
                let location = this.geometry.locate(BlockIndex(block));
                let group = group_of(&this.geometry, location.group);
                let row = || data_of(&group, u64::from(location.block_in_chunk));
                let row: BTreeSet<u64> = if any {
                    [block].into()
                } else if row().all(is_written) {
                    row().collect()
                } else {
                    continue;
                };
                for (write, blocks) in writes {
                    let rows = self.writes.entry(*write).or_default();
                    rows.extend(row.iter().filter(|block| blocks.contains(block)));
                }
            }
        }
        self.noted = writes.iter().map(|(write, _)| *write).collect();
    }

    /// Records which sectors of full-row writes a crash may have destroyed. Must run before the
    /// history learns of the crash.
    pub(super) fn note_crash(&mut self, stack: &Stack, client: &Client, power: bool) {
        let writes = std::mem::take(&mut self.writes);
        if stack.is_any_member_out() {
            return; // Unlogged writes were flushed before that became durable.
        }
        let per_block = client.sectors_per_block;
        let of_row = |&(sector, write): &(u64, u64)| {
            (writes.get(&write)).is_some_and(|blocks| blocks.contains(&(sector / per_block)))
        };
        let volatile = client.history.volatile_writes(power).filter(of_row);
        let sectors = volatile.map(|(sector, _)| sector);
        self.sectors.now.extend(sectors);
    }

    /// Records blocks of full-row writes that may be lost with members that have gone missing.
    pub(super) fn note_gone(&mut self, stack: &Stack, per_block: u64) {
        let sectors = self.sectors.now.iter().copied();
        let gone = sectors.filter(|sector| stack.is_gone_from(sector / per_block));
        self.gone.now.extend(gone);
    }

    /// Records that the array has resynced: no more blocks of full-row writes can be lost.
    pub(super) fn settled(&mut self, stack: &Stack, per_block: u64) {
        if !self.sectors.now.is_empty() {
            self.note_gone(stack, per_block);
            self.sectors.now.clone_from(&self.gone.now);
        }
    }

    /// Records that the array reported blocks of unresynced rows as lost. They stay lost until
    /// written.
    pub(super) fn are_lost(&mut self, sectors: Range<u64>) {
        self.sectors.now.extend(sectors.clone());
        self.gone.now.extend(sectors);
    }
}

/// Returns the blocks of an array that hold the data of a row.
pub(super) fn data_of(group: &Group, row: u64) -> impl Iterator<Item = u64> {
    let (first, blocks) = (group.first_block.0, u64::from(group.blocks));
    (0..u64::from(group.data_chunks)).map(move |chunk| first + chunk * blocks + row)
}

impl Stack {
    /// Returns true if a disk durably records that a member of its array is out.
    pub(super) fn is_any_member_out(&self) -> bool {
        let this = &self.arrays[self.top()];
        if this.geometry.older().is_some() {
            return false; // It may be a member that the array grows onto.
        }
        let mut members = (0..).map(MemberIndex).zip(&this.members);
        members.any(|(member, below)| {
            let newest = match *below {
                Below::Disk(disk) => newest_superblock(&self.disks[disk], View::Durable),
                Below::Array(below) if self.arrays[below].is_map() => {
                    self.newest_superblock(below, View::Durable)
                }
                Below::Array(_) => None,
            };
            !this.lost.contains(member) && newest.is_some_and(|newest| !newest.missing().is_empty())
        })
    }

    /// Returns true if a block is unreadable in its place, corrupt, or on a member with a damaged
    /// log.
    pub(super) fn is_gone_from(&self, block: u64) -> bool {
        let this = &self.arrays[self.top()];
        if this.geometry.older().is_some() && !this.lost.is_empty() {
            return true; // A growth is moving blocks between members.
        }
        let location = this.geometry.locate(BlockIndex(block));
        let at = usize::from(location.member.0);
        let block = this.data_start[at].plus(location.offset.0);
        let place = self.disk_place(self.top(), location.member, block);
        let Some((disk, block)) = place else {
            return true;
        };
        let missing = this.lost.contains(location.member);
        missing
            || this.damaged == Some(location.member)
            || self.decayed.contains_key(&(disk, block.0))
            || self.disks[disk].is_unreadable(self.sectors(disk, block))
    }
}
