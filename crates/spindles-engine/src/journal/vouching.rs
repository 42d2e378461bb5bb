//! After a crash, without the log: what vouches for what blocks hold that have checksums.
//!
//! The log may have been on a device that is lost. Then it is known of regions alone that they were
//! being written, and of blocks what their checksums say: of what is durable they are so too
//! (`checksums_count`), of what was being written they may be older or newer than the block.
//! So a block is as it was written if it fits its checksum; and the blocks of a row that fit
//! together, all of them, vouch for one another. In a row that does not:
//!
//! ```text
//!  rows: pages ──▶ reading ──▶ comparing ──all fit together──▶ keeping their checksums
//!                                  └──not──▶ row by row: data that fits stays
//!                   each set of data that may be wrong ──▶ recovering it ──fits its checksums──▶ the rest is right too
//!                                  └──none does──▶ what does not fit goes into the list of bad blocks
//!        ──▶ redundancy is made from that ──▶ writing
//! ```
//!
//! So no checksum is ever made from data that nothing vouches for. What goes into the list was being
//! written when the crash came, or was not durable, or is rot beyond what the rest can tell.
//! Copies, and blocks that stand for themselves, are dealt with as in `choosing`.

use super::{checksum_range, replay::Stage};
use crate::{
    Engine, Mutation, index,
    plan::{Plan, Shape, Strategy, Work},
    slots::SlotSet,
};
use alloc::vec::Vec;
use spindles_block::{ComputeResult, Operation};
use spindles_format::stored_checksum;
use spindles_layout::GroupIndex;

/// So many sets of blocks are tried at most for one row.
const TRIES_MAX: usize = 4096;

/// What is being done with the rows under way, of a group with parity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// They are read, summed up, and then compared.
    #[default]
    Reading,
    /// One row is read anew, for another try.
    Rereading,
    /// What may be wrong is recovered from the rest.
    Trying,
    /// That is summed up.
    Proving,
    /// What is lost is being put into the list.
    Listing,
    /// Redundancy is made from data.
    Encoding,
    /// That is summed up.
    Summing,
    Writing,
}

/// Data that may be wrong, and what it is recovered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Try {
    erased: SlotSet,
    sources: SlotSet,
}

/// How far this is.
#[derive(Clone, Debug, Default)]
pub(super) struct Vouching {
    step: Step,
    /// The rows that come next.
    group: u64,
    row: u32,
    /// Of the row under way: which slots could be read, and the checksums of what they hold.
    here: SlotSet,
    sums: Vec<u32>,
    /// All that could be read fits together.
    agrees: bool,
    tries: Vec<Try>,
    tried: usize,
    /// What is recovered, and what is lost.
    erased: SlotSet,
    lost: SlotSet,
}

impl Engine {
    /// Whether a durable write is one only when its checksums are durable too: where it is not logged,
    /// or the log may be lost, they are all that tells of it.
    pub(crate) fn checksums_count(&self, copies: bool) -> bool {
        let journal = self.journal.as_ref();
        self.has_checksums()
            && (copies || journal.is_some_and(|journal| journal.home.is_device()))
            && !self.mutated(Mutation::SkipPagesOfDurable)
    }

    /// Whether what was in flight at a crash is to be told without a log.
    pub(crate) fn vouches(&self) -> bool {
        let replay = self.replay.as_ref();
        replay.is_some_and(|replay| replay.without_log)
    }

    /// Begins with what is not settled.
    pub(super) fn begin_vouching(&mut self) {
        let replay = self.replay();
        replay.stage = Stage::Vouching;
        replay.vouching = Vouching::default();
        self.vouch_next();
    }

    /// On to the next rows.
    pub(super) fn vouch_next(&mut self) {
        if !self.geometry.survives(self.lost) || self.metadata.broken {
            return self.give_up_replay();
        }
        loop {
            let replay = self.replay.as_mut().expect("a replay is under way");
            let (id, vouching) = (replay.column, &mut replay.vouching);
            let group = self.regions.next_unsettled(GroupIndex(vouching.group));
            if group.0 != vouching.group {
                (vouching.group, vouching.row) = (group.0, 0);
            }
            let row = vouching.row;
            if group.0 >= self.geometry.groups() {
                return self.all_vouched();
            }
            let holds = self.regions.is_live(group) && self.regions.is_written(group);
            if holds && !self.grow.is_staged(group) {
                self.take_group(id, group);
                let left = self.groups[index(id)].blocks - row;
                let shape = Shape::of(&self.groups[index(id)]);
                let gone = !shape.copies && !self.slots_of(id, self.lost).is_empty();
                if gone && !self.trust_unsettled {
                    // It went out meanwhile: what it holds can't be told before the log is back.
                    self.unreplayed = true;
                    return self.give_up_replay();
                }
                if left > 0 && !gone {
                    let rows = row..row + left.min(self.rows_at_once(group, row));
                    let there = shape.all().minus(self.missing_slots(id));
                    self.replay().vouching.step = Step::Reading;
                    if self.begin_rows(id, group, rows, Strategy::Settle, there) {
                        self.choose_paged(id);
                    }
                    return;
                }
            }
            let vouching = &mut self.replay().vouching;
            (vouching.group, vouching.row) = (group.0 + 1, 0);
        }
    }

    /// The rows under way are done.
    pub(super) fn rows_vouched(&mut self, id: u32) {
        self.let_go_pages(id);
        let column = &mut self.columns[index(id)];
        column.zeros = SlotSet::EMPTY;
        let row = column.low + column.blocks;
        let replay = self.replay();
        replay.vouching.row = row;
        replay.replayed += 1;
        self.vouch_next();
    }

    /// All that was not settled is.
    fn all_vouched(&mut self) {
        self.regions.unsettled.clear_all();
        self.all_settled = true;
        self.regions.want_sweep();
        self.flush_replayed();
    }

    /// All reads, or all writes, of the rows under way are back: rows of a group with parity.
    pub(super) fn vouch_io_done(&mut self, id: u32) {
        let column = &mut self.columns[index(id)];
        let unreadable = core::mem::take(&mut column.unreadable);
        column.plan.reads = column.plan.reads.minus(unreadable);
        let here = column.plan.reads;
        let vouching = &mut self.replay().vouching;
        match vouching.step {
            Step::Writing => self.rows_vouched(id),
            Step::Rereading => {
                vouching.here = vouching.here.and(here);
                self.try_one(id);
            }
            _ if here.is_empty() => self.rows_in_doubt(id, false),
            _ => self.work_step(id, Work::Verify),
        }
    }

    /// A computation for rows of a group with parity came back.
    pub(super) fn vouch_computed(&mut self, id: u32, work: Work, result: ComputeResult) {
        let column = &self.columns[index(id)];
        let (reads, shape) = (column.plan.reads, column.shape);
        match (self.replay().vouching.step, work) {
            (Step::Reading, Work::Verify) => {
                if reads.count() > u32::from(shape.data) {
                    return self.work_step(id, Work::Locate);
                }
                self.rows_in_doubt(id, false);
            }
            (Step::Reading, Work::Locate) => {
                let agrees = result == ComputeResult::Done;
                if !agrees || reads != shape.all() {
                    return self.rows_in_doubt(id, agrees);
                }
                for slot in reads.iter() {
                    self.keep_read(id, reads, slot);
                }
                self.rows_vouched(id);
            }
            (Step::Trying, Work::Recover) => {
                let vouching = &mut self.replay().vouching;
                vouching.step = Step::Proving;
                let erased = vouching.erased;
                self.columns[index(id)].plan.reads = erased;
                self.work_step(id, Work::Verify);
            }
            (Step::Proving, Work::Verify) => {
                let vouching = &self.replay.as_ref().expect("under way").vouching;
                let erased = vouching.erased;
                let fits = |slot| self.row_fits(id, slot, self.sum_of(id, erased, slot));
                if vouching.agrees || erased.iter().all(fits) {
                    return self.settle_row(id);
                }
                self.replay().vouching.tried += 1;
                self.try_next(id);
            }
            (Step::Encoding, Work::Recover) => {
                let vouching = &mut self.replay().vouching;
                vouching.step = Step::Summing;
                let made = vouching.erased.or(shape.redundant());
                self.columns[index(id)].plan.reads = made;
                self.work_step(id, Work::Verify);
            }
            (Step::Summing, Work::Verify) => self.write_row(id),
            (step, work) => panic!("{work:?} came back in step {step:?}"),
        }
    }

    /// The checksum of the first row of a slot, one of those that were read.
    fn sum_of(&self, id: u32, reads: SlotSet, slot: u8) -> u32 {
        let blocks = self.columns[index(id)].blocks;
        let sums = checksum_range(id, reads, slot, blocks, self.checksums_of_column);
        self.checksums[sums.start]
    }

    /// Whether what has this checksum is what a slot should hold in the row under way.
    fn row_fits(&self, id: u32, slot: u8, sum: u32) -> bool {
        let pages = self.pages.as_ref().expect("there are checksums");
        let first = self.block_of_slot(id, slot);
        pages.kept_at(&self.metadata_buffer, (id, slot, first), first) == stored_checksum(sum)
    }

    /// Keeps the checksums of what was read of a slot.
    fn keep_read(&mut self, id: u32, reads: SlotSet, slot: u8) {
        let blocks = self.columns[index(id)].blocks;
        let sums = checksum_range(id, reads, slot, blocks, self.checksums_of_column);
        for (row, at) in (0..blocks).zip(sums) {
            self.keep_sum(id, slot, row, self.checksums[at]);
        }
    }

    fn keep_sum(&mut self, id: u32, slot: u8, row: u32, sum: u32) {
        if self.missing_slots(id).contains(slot) {
            return; // It went out meanwhile.
        }
        let first = self.block_of_slot(id, slot);
        let block = first.plus(u64::from(row));
        let pages = self.pages.as_mut().expect("there are checksums");
        let of = (id, slot, first);
        if !pages.agrees_at(&self.metadata_buffer, of, block, sum) {
            pages.set_at(&mut self.metadata_buffer, of, block, sum);
        }
    }

    /// The rows under way don't fit together, or can't all be read; then whether the rest `agrees`.
    fn rows_in_doubt(&mut self, id: u32, agrees: bool) {
        let column = &self.columns[index(id)];
        let (reads, shape) = (column.plan.reads, column.shape);
        if column.blocks > 1 {
            self.take_care(id);
            return self.vouch_next();
        }
        let mut sums = Vec::new();
        let mut good = SlotSet::EMPTY;
        for slot in shape.all().iter() {
            let sum = if reads.contains(slot) {
                self.sum_of(id, reads, slot)
            } else {
                0
            };
            if reads.contains(slot) && (agrees || self.row_fits(id, slot, sum)) {
                good = good.with(slot);
            }
            sums.push(sum);
        }
        if self.mutated(Mutation::VouchBlindly) {
            good = reads;
        }
        let wrong = shape.all_data().minus(good);
        let tries = if agrees {
            let sources = reads.lowest(u32::from(shape.data));
            [Try {
                erased: wrong,
                sources,
            }]
            .into()
        } else {
            tries(shape, reads, wrong)
        };
        let vouching = &mut self.replay().vouching;
        vouching.here = reads;
        vouching.sums = sums;
        vouching.agrees = agrees;
        vouching.tries = tries;
        vouching.tried = 0;
        vouching.erased = SlotSet::EMPTY;
        vouching.lost = wrong;
        if wrong.is_empty() {
            return self.settle_row(id);
        }
        self.try_next(id);
    }

    /// Another set of data may be what is wrong. What was read may be overwritten by what was
    /// recovered for the one before.
    fn try_next(&mut self, id: u32) {
        let vouching = &mut self.replay().vouching;
        if vouching.tried == 0 {
            return self.try_one(id);
        }
        if vouching.tried == vouching.tries.len() {
            return self.lose_row(id);
        }
        vouching.step = Step::Rereading;
        let here = vouching.here;
        self.columns[index(id)].plan.reads = here;
        self.choose_paged(id);
    }

    fn try_one(&mut self, id: u32) {
        let vouching = &mut self.replay().vouching;
        let here = vouching.here;
        let next = |it: &Try| it.sources.minus(here).is_empty();
        let rest = vouching.tries[vouching.tried..].iter();
        let Some(at) = rest.clone().position(next) else {
            return self.lose_row(id);
        };
        vouching.tried += at;
        let Try { erased, sources } = vouching.tries[vouching.tried];
        vouching.step = Step::Trying;
        vouching.erased = erased;
        let plan = &mut self.columns[index(id)].plan;
        (plan.reads, plan.recover) = (sources, erased);
        self.work_step(id, Work::Recover);
    }

    /// What of the row nothing vouches for goes into the list. That is durable before it is made zeros:
    /// nobody may take these for its contents.
    fn lose_row(&mut self, id: u32) {
        let vouching = &mut self.replay().vouching;
        vouching.step = Step::Listing;
        vouching.erased = SlotSet::EMPTY;
        for slot in vouching.lost.iter() {
            if !self.lose_rows(id, slot) {
                self.let_go_pages(id);
                return self.too_much_lost();
            }
        }
        self.list_lost();
    }

    /// What is lost is durable in the list.
    pub(super) fn lost_is_listed(&mut self, id: u32) {
        if self.shape(id).copies {
            return self.write_chosen_zeros(id);
        }
        if self.replay().stage == Stage::Rolling {
            return self.settle_staying(id);
        }
        self.encode_row(id);
    }

    /// All data of the row is right now, or recovered.
    fn settle_row(&mut self, id: u32) {
        self.replay().vouching.lost = SlotSet::EMPTY;
        self.encode_row(id);
    }

    /// Redundancy of the row is made from its data, of which what is lost counts as zeros.
    fn encode_row(&mut self, id: u32) {
        let vouching = &mut self.replay().vouching;
        vouching.step = Step::Encoding;
        let (erased, lost) = (vouching.erased, vouching.lost);
        let column = &mut self.columns[index(id)];
        let (data, redundant) = (column.shape.all_data(), column.shape.redundant());
        let writes = redundant.or(erased).or(lost);
        column.zeros = lost;
        column.plan = Plan {
            strategy: Strategy::Reconstruct,
            reads: data,
            recover: redundant,
            encode: SlotSet::EMPTY,
            writes,
            writes_always: writes,
        };
        self.work_step(id, Work::Recover);
    }

    /// The row is what it is to be: checksums are kept, and what differs is written.
    fn write_row(&mut self, id: u32) {
        let column = &self.columns[index(id)];
        let (made, writes, shape) = (column.plan.reads, column.plan.writes, column.shape);
        let vouching = &mut self.replay().vouching;
        vouching.step = Step::Writing;
        let sums = core::mem::take(&mut vouching.sums);
        let lost = vouching.lost;
        let of_zeros = self.pages.as_ref().expect("there are checksums").of_zeros;
        for slot in shape.all().minus(self.missing_slots(id)).iter() {
            let sum = if made.contains(slot) {
                self.sum_of(id, made, slot)
            } else if lost.contains(slot) {
                of_zeros
            } else {
                sums[usize::from(slot)]
            };
            self.keep_sum(id, slot, 0, sum);
        }
        let writes = writes.minus(self.missing_slots(id));
        let column = &mut self.columns[index(id)];
        column.phase = crate::columns::Phase::Writing;
        column.pending = writes.count();
        if writes.is_empty() {
            return self.rows_vouched(id);
        }
        for slot in writes.iter() {
            let source = self.read_place(id, slot);
            self.slot_io(id, slot, Operation::Write { fua: false }, source);
        }
    }
}

/// The sets of data that may be all that is wrong in a row, the smallest first: some of `wrong`, and
/// all that is not `here`. Each can be recovered from all other data and as much redundancy.
fn tries(shape: Shape, here: SlotSet, wrong: SlotSet) -> Vec<Try> {
    let gone = shape.all_data().minus(here);
    let parity: Vec<u8> = shape.redundant().and(here).iter().collect();
    let doubtful: Vec<u8> = wrong.minus(gone).iter().collect();
    let mut tries = Vec::new();
    for count in 1..=parity.len() {
        let Some(more) = count.checked_sub(index(gone.count())) else {
            continue;
        };
        for_each_subset(&doubtful, more, &mut |chosen| {
            let erased = gone.or(chosen);
            for_each_subset(&parity, count, &mut |parity| {
                let sources = shape.all_data().minus(erased).or(parity);
                tries.push(Try { erased, sources });
                tries.len() < TRIES_MAX
            })
        });
    }
    tries
}

/// Calls `each` with every set of `count` of the slots, until it says no. Whether it never did.
fn for_each_subset(slots: &[u8], count: usize, each: &mut dyn FnMut(SlotSet) -> bool) -> bool {
    if count == 0 {
        return each(SlotSet::EMPTY);
    }
    (0..slots.len()).all(|at| {
        let (slot, rest) = (slots[at], &slots[at + 1..]);
        rest.len() + 1 < count || for_each_subset(rest, count - 1, &mut |set| each(set.with(slot)))
    })
}
