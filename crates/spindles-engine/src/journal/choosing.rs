//! After a crash: what blocks hold that have no parity, but checksums. They stand for themselves, or
//! have copies.
//!
//! Their log says of each block which contents it may have: every one that was being written to it, as
//! a checksum or as a whole, and what was there before. What holds one of these is as good as it was
//! written; the latest of those on all copies, or of those that the log has as a whole, goes to all
//! copies, and so does its checksum. What holds nothing of that is rotten, or was torn.
//!
//! ```text
//!  rows: pages ──▶ reading all copies ──▶ choosing ──▶ writing what differs
//!                                            └──the log has it──▶ reading that ──▶ writing all
//!                                                    ▲                 └──not whole: never begun
//!                                                    └─────────────────────────────────┘
//! ```
//!
//! A block that can be torn has its contents in the log where it has no second copy to tell that from
//! rot. Where several copies are all unlike what is logged, they were torn: more rot than there are
//! copies but one is not promised to be found. Where a single one is left, and the log has nothing, it
//! can't be told, and the block goes into the list of bad blocks.

use super::checksum_range;
use crate::{
    Engine, Mutation,
    columns::Phase,
    index,
    plan::{Shape, Strategy, Work},
    slots::SlotSet,
};
use alloc::vec::Vec;
use core::cmp::Reverse;
use spindles_block::{BlockIndex, BufferSlice, Operation};
use spindles_format::{JournalKind, stored_checksum};
use spindles_layout::{Group, GroupIndex};

/// What a block of a redundancy group without parity was to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    group: u64,
    row: u32,
    sequence: u64,
    /// Its checksum.
    new: u32,
    /// That of what it took the place of, as it was kept, where the log has it.
    old: Option<u32>,
    contents: Contents,
}

impl Version {
    fn place(&self) -> (u64, u32) {
        (self.group, self.row)
    }
}

/// Where what a block was to hold can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// In its place, if it is there.
    InPlace,
    Zeros,
    /// In the log: a part of the replay.
    Logged(usize),
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// What a slot holds goes to the others.
    Slot {
        slot: u8,
        others: SlotSet,
    },
    /// What the log has goes to all.
    Logged(usize),
    Zeros,
    /// Torn or rotten: it goes into the list.
    Lost,
    /// It is rotten, and that is found by whoever reads it.
    Nothing,
}

impl Engine {
    /// Notes what the log says of groups without parity.
    pub(super) fn find_versions(&mut self) {
        let mut replay = self.replay.take().expect("a replay is under way");
        let mut versions = Vec::new();
        let mut group = Group::empty();
        for (at, part) in replay.parts.iter().enumerate() {
            let entry = &part.entry;
            self.geometry
                .group_into(GroupIndex(entry.group), &mut group);
            if !Shape::of(&group).copies {
                continue;
            }
            let rows = entry.low..entry.low + entry.blocks;
            versions.extend(rows.map(|row| Version {
                group: entry.group,
                row,
                sequence: part.sequence,
                new: replay.checksum(part, row),
                old: replay.old_checksum(part, row),
                contents: match entry.kind {
                    JournalKind::Data => Contents::Logged(at),
                    JournalKind::Zeros => Contents::Zeros,
                    JournalKind::Intent => Contents::InPlace,
                },
            }));
        }
        versions.sort_by_key(|version| (version.place(), version.sequence));
        replay.versions = versions;
        self.replay = Some(replay);
    }

    /// On to the next rows that something is known of.
    pub(super) fn choose_next(&mut self) {
        if !self.geometry.survives(self.lost) || self.metadata.broken {
            return self.give_up_replay();
        }
        let trusts = self.mutated(Mutation::TrustIntents);
        let (group, low, blocks) = loop {
            let replay = self.replay.as_ref().expect("a replay is under way");
            let from = replay.choose_from;
            let first = replay.versions.partition_point(|it| it.place() < from);
            let rest = &replay.versions[first..];
            let Some(&Version {
                group, row: low, ..
            }) = rest.first().filter(|_| !trusts)
            else {
                return self.sum_replayed();
            };
            if !self.regions.is_written(GroupIndex(group)) {
                self.replay().choose_from = (group + 1, 0);
                continue;
            }
            let limit = self.rows_at_once(GroupIndex(group), low);
            let mut blocks = 1;
            for version in rest {
                let next = version.row == low + blocks && blocks < limit;
                if version.group != group || version.row >= low + blocks && !next {
                    break;
                }
                blocks += u32::from(next);
            }
            break (GroupIndex(group), low, blocks);
        };
        let id = self.replay().column;
        self.take_group(id, group);
        let there = self.shape(id).all().minus(self.missing_slots(id));
        if self.begin_rows(id, group, low..low + blocks, Strategy::Settle, there) {
            self.choose_paged(id);
        }
    }

    /// The pages of the rows under way are there: all copies are read.
    pub(super) fn choose_paged(&mut self, id: u32) {
        let reads = self.columns[index(id)].plan.reads;
        self.read_in_place(id, reads);
    }

    /// All reads, or all writes, of the rows under way are back.
    pub(super) fn chosen_io_done(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        let unreadable = core::mem::take(&mut column.unreadable);
        if column.phase == Phase::Writing {
            return self.rows_chosen(id);
        }
        column.plan.reads = column.plan.reads.minus(unreadable);
        if !column.plan.reads.is_empty() {
            return self.work_step(id, Work::Verify);
        }
        self.chosen_summed(id);
    }

    /// What was read of the rows under way is summed up.
    pub(super) fn chosen_summed(&mut self, id: u32) {
        if self.metadata.broken {
            // What can't be read now may be there when its member is back.
            self.let_go_pages(id);
            return self.give_up_replay();
        }
        if let Some(part) = self.replay().from_log.take() {
            return self.log_summed(id, part);
        }
        let column = &self.columns[index(id)];
        let (low, end) = (column.low, column.low + column.blocks);
        let choice = self.choose(id, low);
        let alike = (low..end).take_while(|&row| self.choose(id, row) == choice);
        let blocks = u32::try_from(alike.count()).expect("rows of a column");
        let there = self.shape(id).all().minus(self.missing_slots(id));
        match choice {
            Choice::Nothing => {
                let read = column.plan.reads;
                self.columns[index(id)].blocks = blocks;
                self.lose_checksums(id, read);
                self.rows_chosen(id);
            }
            Choice::Slot { slot, others } => {
                let (reads, all) = (column.plan.reads, column.blocks);
                let sums = checksum_range(id, reads, slot, all, self.checksums_of_column);
                self.columns[index(id)].blocks = blocks;
                self.keep_chosen(id, there, Some(sums.start));
                let source = self.row(id, slot);
                self.write_chosen(id, others, source);
            }
            Choice::Lost => {
                self.columns[index(id)].blocks = blocks;
                if !self.lose_rows(id, 0) {
                    self.let_go_pages(id);
                    return self.too_much_lost();
                }
                self.list_lost();
            }
            Choice::Zeros => {
                self.columns[index(id)].blocks = blocks;
                self.write_chosen_zeros(id);
            }
            Choice::Logged(at) => {
                self.columns[index(id)].blocks = blocks;
                self.read_logged(id, at);
            }
        }
    }

    /// The rows under way are lost, and in the list: they count as zeros from now on.
    pub(super) fn write_chosen_zeros(&mut self, id: u32) {
        let there = self.shape(id).all().minus(self.missing_slots(id));
        self.keep_chosen(id, there, None);
        self.write_chosen(id, there, BufferSlice::ZEROS);
    }

    /// What becomes of one of the rows under way.
    fn choose(&self, id: u32, row: u32) -> Choice {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let pages = self
            .pages
            .as_ref()
            .expect("what has no parity has checksums");
        let column = &self.columns[index(id)];
        let (read, blocks) = (column.plan.reads, column.blocks);
        let there = self.shape(id).all().minus(self.missing_slots(id));
        let held = read
            .and(there)
            .minus(self.slots_not_held(id, column.low + blocks));
        let place = (column.group.0, row);
        let versions = &replay.versions;
        let first = versions.partition_point(|version| version.place() < place);
        let end = versions.partition_point(|version| version.place() <= place);
        let versions = &versions[first..end];
        let sum = |slot| {
            let sums = checksum_range(id, read, slot, blocks, self.checksums_of_column);
            self.checksums[sums.start + index(row - column.low)]
        };
        // Which of the versions a slot holds, counted from 1; 0 for what was there before.
        let age = |slot| {
            let (sum, first) = (sum(slot), self.block_of_slot(id, slot));
            let is_new = versions.iter().rposition(|version| version.new == sum);
            let is_old = || {
                let of = (id, slot, first);
                let block = first.plus(u64::from(row - column.low));
                let old = Some(stored_checksum(sum));
                versions.iter().any(|version| version.old == old)
                    || pages.agrees_at(&self.metadata_buffer, of, block, sum)
            };
            is_new.map(|at| at + 1).or_else(|| is_old().then_some(0))
        };
        let ages = held
            .iter()
            .filter_map(|slot| Some((age(slot)?, Reverse(slot))));
        let best = ages.max();
        let is_void = |version: &Version| match version.contents {
            Contents::Logged(at) => replay.parts[at].void,
            Contents::InPlace | Contents::Zeros => false,
        };
        // Where parts of the log are not whole, the write was never begun.
        let last = versions.iter().rposition(|version| !is_void(version));
        let later = last.filter(|&last| best.is_none_or(|(age, _)| age <= last));
        match later.map(|last| versions[last].contents) {
            Some(Contents::Logged(at)) => return Choice::Logged(at),
            Some(Contents::Zeros) => return Choice::Zeros,
            Some(Contents::InPlace) | None => {}
        }
        // Without a log those that are alike vouch for one another. With it, what fits nothing that
        // is in it was torn, if a second copy says so.
        let first = held.first().filter(|_| held.count() > 1);
        let torn = || {
            first.filter(|&first| {
                let alike = || held.iter().all(|slot| sum(slot) == sum(first));
                if replay.without_log {
                    alike()
                } else {
                    self.tears
                }
            })
        };
        let Some(slot) = best.map(|(_, Reverse(slot))| slot).or_else(torn) else {
            return if (self.tears || replay.without_log) && self.bad.is_kept() {
                Choice::Lost
            } else {
                Choice::Nothing
            };
        };
        let same = read.iter().filter(|&other| sum(other) == sum(slot));
        let same = same.fold(SlotSet::EMPTY, SlotSet::with);
        Choice::Slot {
            slot,
            others: there.minus(same),
        }
    }

    /// Nothing vouches for what slots hold in the rows under way, and there is no list to put it into:
    /// it has no checksum from now on.
    pub(super) fn lose_checksums(&mut self, id: u32, slots: SlotSet) {
        let blocks = u64::from(self.columns[index(id)].blocks);
        for slot in slots.minus(self.missing_slots(id)).iter() {
            let first = self.block_of_slot(id, slot);
            let pages = self.pages.as_mut().expect("there are checksums");
            for block in (first.0..first.0 + blocks).map(BlockIndex) {
                pages.lose_at(&mut self.metadata_buffer, (id, slot, first), block);
            }
        }
    }

    /// The slots get the checksums from `sums` on, those of the rows under way; or of zeros.
    fn keep_chosen(&mut self, id: u32, slots: SlotSet, sums: Option<usize>) {
        let blocks = self.columns[index(id)].blocks;
        for slot in slots.iter() {
            self.keep_slot(id, slot, blocks, sums);
        }
    }

    /// Reads what the log has of the rows under way.
    pub(super) fn read_logged(&mut self, id: u32, at: usize) {
        let column = &self.columns[index(id)];
        let (low, blocks) = (column.low, column.blocks);
        let replay = self.replay.as_mut().expect("a replay is under way");
        replay.from_log = Some(at);
        let part = &replay.parts[at];
        let (slot, member) = (part.entry.slot, part.member);
        let journal = self.journal.as_ref().expect("a replay has a journal");
        let (device, start) = journal.home.place(member);
        let block = start.plus(u64::from(part.entry.place + low - part.entry.low));
        let column = &mut self.columns[index(id)];
        column.plan.reads = SlotSet::one(slot);
        column.phase = Phase::Reading;
        column.pending = 1;
        let place = self.row(id, slot);
        self.journal_io(id, slot, device, Operation::Read, block, blocks, place);
    }

    /// What the log has of the rows under way is summed up.
    fn log_summed(&mut self, id: u32, at: usize) {
        let column = &self.columns[index(id)];
        let (low, blocks, read) = (column.low, column.blocks, column.plan.reads);
        let replay = self.replay.as_mut().expect("a replay is under way");
        let part = &mut replay.parts[at];
        let first = part.checksums.start + index(low - part.entry.low);
        let logged = &replay.checksums[first..first + index(blocks)];
        let sums = index(id) * self.checksums_of_column;
        let whole = self.checksums[sums..sums + index(blocks)] == *logged;
        let Some(slot) = read.first().filter(|_| whole) else {
            part.void = true;
            self.let_go_pages(id);
            return self.choose_next(); // Once more.
        };
        let there = self.shape(id).all().minus(self.missing_slots(id));
        self.keep_chosen(id, there, Some(sums));
        let source = self.row(id, slot);
        self.write_chosen(id, there, source);
    }

    /// The slots get what was chosen.
    fn write_chosen(&mut self, id: u32, slots: SlotSet, source: BufferSlice) {
        let slots = slots.minus(self.missing_slots(id));
        let column = &mut self.columns[index(id)];
        if slots.is_empty() {
            return self.rows_chosen(id);
        }
        column.phase = Phase::Writing;
        column.pending = slots.count();
        for slot in slots.iter() {
            self.slot_io(id, slot, Operation::Write { fua: false }, source);
        }
    }

    fn rows_chosen(&mut self, id: u32) {
        if self.vouches() {
            return self.rows_vouched(id);
        }
        self.let_go_pages(id);
        let column = &self.columns[index(id)];
        let next = (column.group.0, column.low + column.blocks);
        let replay = self.replay();
        replay.choose_from = next;
        replay.replayed += 1;
        self.choose_next();
    }
}
