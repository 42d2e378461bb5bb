//! After a crash: rows of which the log does not have all contents, but checksums.
//!
//! Some were being written as a whole. Of others, a write that was carried out lacks a part of its log:
//! that is made of slots that hold what was written last.
//!
//! ```text
//!  rows: pages ──▶ reading what is in place ──▶ summing it up ──▶ judging
//!                                                                   └──▶ making what is not there ──▶ summing that up ──▶ writing
//! ```
//!
//! As many chunks as there are data chunks that hold what was written last give all others. Where
//! there are fewer, each chunk of data stays what it is, old or new, and redundancy is made from them:
//! if the log has a checksum of it, as of something that was written there or was there before.
//!
//! A chunk of which it has none is rotten, or torn. If the rest is as it was before the rows were written
//! as a whole, that gives it. So it gives one that a disk lost a write to, which holds something older; but
//! if the log of that write has the block, it goes to its place first. A chunk of which a damaged log has no
//! checksum is as it was if what follows from it fits the log. What a missing member held follows from the
//! rest too. Otherwise it can't be told what was there, and it goes into the list of bad blocks. Only where blocks can be torn, and in arrays
//! without checksums, where the log knows nothing of what was there before, it stays what it is.

use super::replay::{Proof, Tried, is_known};
use crate::{
    Engine, Mutation,
    checksums::Pages,
    index,
    output::OutReason,
    plan::{Plan, Strategy, Work},
    slots::SlotSet,
};
use core::ops::Range;
use spindles_block::MemberError;
use spindles_format::{JournalKind, stored_checksum};

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is left alone: it is all there, or nothing was begun, and redundancy still knows what can't be
    /// read.
    Leave,
    /// These slots, which are of one mind, give all others.
    From(SlotSet),
    /// So these do, if what they give fits the checksums of what was there.
    Prove { sources: SlotSet, by: SlotSet },
    /// A slot gets what it held before, which the log has, in this of its parts.
    Logged(usize),
    /// Data stays what it is, except for what is gone, and redundancy is made from it.
    Stay { gone: SlotSet },
    /// These slots give what is to be made.
    Make(SlotSet),
    /// What these slots are to hold can't be told.
    Unknown(SlotSet),
}

impl Engine {
    /// What is in place is about to be read: its checksums are needed too.
    pub(super) fn begin_settling_logged(&mut self) {
        self.replay().made = SlotSet::EMPTY;
        let id = self.replay().column;
        let there = self.shape(id).all().minus(self.missing_slots(id));
        if self.hold_pages_of(id, there) {
            self.read_settling();
        }
    }

    /// Reads what is in place.
    pub(super) fn read_settling(&mut self) {
        if !self.geometry.survives(self.lost) {
            return self.give_up_replay();
        }
        let id = self.replay().column;
        let there = self.shape(id).all().minus(self.missing_slots(id));
        let column = &mut self.columns[index(id)];
        column.log_data = there;
        self.read_in_place(id, there);
    }

    /// The checksum that an intent under way, or a write after it, was last to leave in a slot in one
    /// of the rows under way, as far as the log tells.
    fn expected(&self, slot: u8, row: u32) -> Option<u32> {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let intent = &replay.span.parts;
        let later = self.last_applied(slot, row, intent.start + 1);
        replay.checksum_of(later.unwrap_or(intent), slot, row)
    }

    /// The last write, of those whose parts begin at `from` or later, that was carried out and wrote a
    /// slot in one of the rows under way.
    pub(super) fn last_applied(&self, slot: u8, row: u32, from: usize) -> Option<&Range<usize>> {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let group = self.columns[index(replay.column)].group.0;
        let of_group = (replay.applied).partition_point(|applied| applied.group < group);
        let wrote = replay.applied[of_group..]
            .iter()
            .take_while(|applied| applied.group == group)
            .filter(|applied| applied.parts.start >= from && applied.rows.contains(&row))
            .filter(|applied| {
                let slots = replay.parts[applied.parts.start].entry.slots;
                SlotSet::from_bits(slots).contains(slot)
            });
        wrote.last().map(|last| &last.parts)
    }

    /// Slots that others can be made of, in one of the rows under way.
    fn sources(&self, row: u32) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let id = replay.column;
        let lacks = replay.remaking.or(self.slots_not_held(id, row + 1));
        if self.mutated(Mutation::ReplayLaunders) {
            return self.columns[index(id)].log_data.minus(lacks);
        }
        self.right(row, lacks).minus(replay.anew)
    }

    /// Slots that hold what was written last, in one of the rows under way, and what was there if
    /// no write carried out wrote them and it is none of those that may lack something.
    fn right(&self, row: u32, lacks: SlotSet) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let read = self.columns[index(replay.column)].log_data;
        let holds = |&slot: &u8| match self.last_applied(slot, row, 0) {
            Some(last) => replay.checksum_of(last, slot, row) == Some(self.found_sum(slot, row)),
            None => !lacks.contains(slot) && self.is_as_it_was(slot, row),
        };
        let right = read.iter().filter(holds);
        right.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// What becomes of one of the rows under way, in which a write was not begun as far as the log tells, and of
    /// which too much is rotten for redundancy to be made anew of data. A part without a log may be new all
    /// the same: then what follows from it is no data. The others are as they were, and give all if they are as
    /// many as that takes; if not, what is rotten shows by its checksum whether what follows is right.
    fn judge_rotten(&self, row: u32) -> Verdict {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let id = replay.column;
        let shape = self.shape(id);
        let data = u32::from(shape.data);
        let entry = &replay.parts[replay.span.parts.start].entry;
        let written = SlotSet::from_bits(entry.slots).and(shape.all());
        let unlogged = written.minus(self.logged(written));
        let all_there = self.lost.union(self.missing).is_empty();
        // It was not begun where more lack their log than may be damaged.
        if !self.has_checksums() || !all_there || unlogged.count() > u32::from(shape.parity()) {
            return Verdict::Leave;
        }
        let right = self.right(row, SlotSet::EMPTY);
        let sure = right.minus(unlogged);
        if sure.count() >= data {
            return Verdict::From(sure);
        }
        let rotten = shape.all_data().minus(right);
        let had_checksum = |&slot: &u8| self.had_checksum(slot, row);
        let telling = rotten.iter().filter(had_checksum);
        let by = telling.fold(SlotSet::EMPTY, SlotSet::with);
        if by.is_empty() {
            return Verdict::Leave;
        }
        let assumed = right.and(unlogged).lowest(data - sure.count());
        let sources = sure.or(assumed);
        let can_tell = sources.count() == data && by.count() >= assumed.count();
        if can_tell && replay.tried(row).proof != Proof::Failed {
            return Verdict::Prove { sources, by };
        }
        Verdict::Stay { gone: rotten }
    }

    /// Whether one of the rows under way is an intent's: some slots may hold what was there before
    /// it. When that is settled, it is made of those that belong together.
    fn is_intended(&self, row: u32) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let group = self.columns[index(replay.column)].group.0;
        replay.spans[replay.intents..].iter().any(|span| {
            let of = replay.parts[span.parts.start].entry.group;
            of == group && span.rows.contains(&row)
        })
    }

    /// Whether a slot, in one of the rows under way, fits to the checksum that is kept.
    pub(super) fn is_as_it_was(&self, slot: u8, row: u32) -> bool {
        let id = self.replay.as_ref().expect("a replay is under way").column;
        let (sum, first) = (self.found_sum(slot, row), self.block_of_slot(id, slot));
        let block = first.plus(u64::from(row - self.columns[index(id)].low));
        let fits =
            |pages: &Pages| pages.agrees_at(&self.metadata_buffer, (id, slot, first), block, sum);
        self.pages.as_ref().is_none_or(fits)
    }

    /// Whether a checksum is kept of a slot in one of the rows under way.
    fn had_checksum(&self, slot: u8, row: u32) -> bool {
        let id = self.replay.as_ref().expect("a replay is under way").column;
        let first = self.block_of_slot(id, slot);
        let block = first.plus(u64::from(row - self.columns[index(id)].low));
        self.pages.as_ref().is_some_and(|pages| {
            let kept = pages.kept_at(&self.metadata_buffer, (id, slot, first), block);
            is_known(kept)
        })
    }

    /// Slots that hold what was last to be there, in one of the rows under way.
    fn known(&self, row: u32) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let read = self.columns[index(replay.column)].log_data;
        let known = (read.iter())
            .filter(|&slot| self.expected(slot, row) == Some(self.found_sum(slot, row)));
        known.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// Slots that hold what they did before the intent under way, in one of the rows under way: all of
    /// them are of one mind.
    fn known_before(&self, row: u32) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let intent = replay.parts[replay.span.parts.clone()].iter();
        let held = self.held(row).iter().filter(|&slot| {
            let sum = Some(stored_checksum(self.found_sum(slot, row)));
            let mut intent = intent.clone();
            let part = intent.find(|part| part.entry.slot == slot);
            part.is_some_and(|part| replay.old_checksum(part, row) == sum)
        });
        held.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// As many slots as give all others, which hold what they did before the intent under way, in one of the
    /// rows under way, if those do that fit their checksums and of which the log says nothing. What is
    /// made of them tells that: of as many slots as are assumed, so that no two wrong ones make up for
    /// each other. None where nothing does, or told otherwise.
    fn assumed_before(&self, row: u32, before: SlotSet) -> Option<Verdict> {
        let replay = self.replay.as_ref().expect("a replay is under way");
        if replay.tried(row).proof == Proof::Failed {
            return None;
        }
        let shape = self.shape(replay.column);
        let data = u32::from(shape.data);
        let held = self.held(row).minus(self.logged(shape.all())).iter();
        let fits = held.filter(|&slot| self.is_as_it_was(slot, row));
        let fits = fits.fold(SlotSet::EMPTY, SlotSet::with);
        let lacks = data.saturating_sub(before.count());
        let assumed = fits.lowest(lacks);
        let sources = before.lowest(data).or(assumed);
        let by = self.telling(row, shape.all().minus(sources));
        let can_tell = sources.count() == data && !by.is_empty() && by.count() >= assumed.count();
        can_tell.then_some(Verdict::Prove { sources, by })
    }

    /// Those of these slots of which the log says what was there before the intent under way, in one of
    /// the rows under way.
    fn telling(&self, row: u32, slots: SlotSet) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let id = replay.column;
        let slots = slots.minus(self.missing_slots(id));
        let slots = slots.minus(self.slots_not_held(id, row + 1));
        let tells = |&slot: &u8| {
            let part = replay.part(slot);
            part.is_some_and(|part| replay.old_checksum(part, row).is_some())
        };
        let telling = slots.iter().filter(tells);
        telling.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// A block of one of these slots that the log of an earlier write has, in one of the rows under way:
    /// what was there before the intent under way. The part of the log.
    fn logged_before(&self, row: u32, slots: SlotSet) -> Option<usize> {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let intent = &replay.span.parts;
        let mut slots = slots.minus(replay.tried(row).restored).iter();
        slots.find_map(|slot| {
            if self.last_applied(slot, row, intent.start + 1).is_some() {
                return None;
            }
            let part = replay.part(slot)?;
            let at = replay.last_before(part, row)?;
            let logged = &replay.parts[at];
            let sum = stored_checksum(replay.checksum(logged, row));
            let has = logged.entry.kind == JournalKind::Data;
            (has && replay.old_checksum(part, row) == Some(sum)).then_some(at)
        })
    }

    /// What the log has of a slot is summed up: if it is whole it goes to its place, and the row is looked
    /// at again.
    fn logged_summed(&mut self, id: u32, at: usize) {
        let column = &self.columns[index(id)];
        let (low, read) = (column.low, column.log_data);
        let replay = self.replay.as_ref().expect("a replay is under way");
        let part = &replay.parts[at];
        let slot = part.entry.slot;
        let is_whole =
            read.contains(slot) && self.found_sum(slot, low) == replay.checksum(part, low);
        let replay = self.replay();
        let tried = replay.tried(low);
        replay.tried = Tried {
            restored: tried.restored.with(slot),
            again: true,
            ..tried
        };
        let writes = if is_whole {
            self.keep_settled(id, SlotSet::one(slot), 1);
            SlotSet::one(slot)
        } else {
            SlotSet::EMPTY
        };
        self.columns[index(id)].plan.writes = writes;
        self.write_replayed();
    }

    /// Whether what was made of these slots, in the first row under way, is what was there before: what
    /// the log of an intent says, or else their checksums.
    fn is_proved(&self, id: u32, by: SlotSet) -> bool {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let row = self.columns[index(id)].low;
        if !replay.remaking.is_empty() {
            return by.iter().all(|slot| self.is_as_it_was(slot, row));
        }
        by.iter().all(|slot| {
            let part = replay.part(slot).expect("it tells of each");
            let sum = stored_checksum(self.found_sum(slot, row));
            replay.old_checksum(part, row) == Some(sum)
        })
    }

    /// Slots that hold something that the log knows, or what their checksums say, in one of the rows
    /// under way.
    fn told(&self, row: u32) -> SlotSet {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let group = self.columns[index(replay.column)].group.0;
        let held = self.held(row).iter().filter(|&slot| {
            let sum = self.found_sum(slot, row);
            let parts = replay.parts_of_row(group, row);
            let mut of_slot = parts.filter(|part| part.entry.slot == slot);
            let told = of_slot.any(|part| {
                let old = replay.old_checksum(part, row);
                replay.checksum(part, row) == sum || old == Some(stored_checksum(sum))
            });
            told || self.is_as_it_was(slot, row)
        });
        held.fold(SlotSet::EMPTY, SlotSet::with)
    }

    /// Slots whose block in one of the rows under way was read, and is counted on.
    pub(super) fn held(&self, row: u32) -> SlotSet {
        let id = self.replay.as_ref().expect("a replay is under way").column;
        let read = self.columns[index(id)].log_data;
        read.minus(self.slots_not_held(id, row + 1))
    }

    /// The checksum of what was read of a slot in one of the rows under way.
    pub(super) fn found_sum(&self, slot: u8, row: u32) -> u32 {
        let id = self.replay.as_ref().expect("a replay is under way").column;
        let column = &self.columns[index(id)];
        let (read, blocks) = (column.log_data, column.blocks);
        let sums = super::checksum_range(id, read, slot, blocks, self.checksums_of_column);
        self.checksums[sums.start + index(row - column.low)]
    }

    /// What becomes of one of the rows under way.
    fn judge(&self, row: u32) -> Verdict {
        let replay = self.replay.as_ref().expect("a replay is under way");
        let id = replay.column;
        let shape = self.shape(id);
        let data = u32::from(shape.data);
        if !replay.remaking.is_empty() {
            if self.is_intended(row) {
                return Verdict::Leave;
            }
            let sources = self.sources(row);
            let lacking = replay.remaking.minus(sources);
            return if lacking.minus(self.missing_slots(id)).is_empty() {
                Verdict::Leave
            } else if sources.count() >= data {
                Verdict::Make(sources)
            } else if lacking.minus(replay.anew).is_empty() {
                self.judge_rotten(row)
            } else {
                Verdict::Unknown(lacking)
            };
        }
        let known = self.known(row);
        if known == shape.all().minus(self.missing_slots(id)) {
            return Verdict::Leave;
        }
        if known.count() >= data {
            return Verdict::From(known);
        }
        let before = self.known_before(row);
        let neither = shape.all_data().minus(known.or(before));
        if !neither.is_empty() && before.count() >= data {
            return Verdict::From(before);
        }
        let there = shape.all().minus(self.slots_not_held(id, row + 1));
        let lacks = there.minus(known.or(before));
        if !neither.is_empty()
            && let Some(at) = self.logged_before(row, lacks)
        {
            return Verdict::Logged(at);
        }
        if !neither.is_empty()
            && let Some(proof) = self.assumed_before(row, before)
        {
            return proof;
        }
        let untold = neither.minus(self.told(row));
        let believes = self.tears || !self.has_checksums() || self.mutated(Mutation::TrustUntold);
        let gone = if believes {
            untold.minus(self.held(row))
        } else {
            untold
        };
        Verdict::Stay { gone }
    }

    /// What is in place is summed up, or what was made for it.
    pub(super) fn settle_summed(&mut self, id: u32) {
        if let Some(at) = self.replay().from_log.take() {
            return self.logged_summed(id, at);
        }
        let made = self.replay().made;
        if made.is_empty() {
            return self.settle_checked(id);
        }
        if let Proof::UnderWay { by } = self.replay().tried.proof {
            let is_proved = self.is_proved(id, by);
            let tried = &mut self.replay().tried;
            tried.proof = if is_proved {
                Proof::Unknown
            } else {
                Proof::Failed
            };
            if !is_proved {
                tried.again = true; // What was read was overwritten.
                return self.rows_replayed();
            }
        }
        self.keep_settled(id, made, self.columns[index(id)].blocks);
        self.write_replayed();
    }

    /// It is known what the rows under way hold: the first of them, as many as are alike, are dealt
    /// with.
    fn settle_checked(&mut self, id: u32) {
        let column = &self.columns[index(id)];
        let (low, end) = (column.low, column.low + column.blocks);
        let verdict = self.judge(low);
        let alike = (low..end).take_while(|&row| self.judge(row) == verdict);
        let blocks = u32::try_from(alike.count()).expect("rows of a column");
        let shape = self.shape(id);
        let there = shape.all().minus(self.missing_slots(id));
        match verdict {
            Verdict::Leave => {
                self.take_rows(id, blocks);
                self.rows_replayed();
            }
            Verdict::From(known) => {
                self.keep_settled(id, known, blocks);
                self.take_rows(id, blocks);
                self.settle(known, there.minus(known), SlotSet::EMPTY);
            }
            Verdict::Prove { sources, by } => {
                self.keep_settled(id, sources, 1);
                self.take_rows(id, 1);
                let replay = self.replay();
                replay.tried = Tried {
                    proof: Proof::UnderWay { by },
                    ..replay.tried(low)
                };
                self.settle(sources, there.minus(sources), SlotSet::EMPTY);
            }
            Verdict::Logged(at) => {
                self.take_rows(id, 1);
                let slot = self.replay().parts[at].entry.slot;
                self.columns[index(id)].log_data = SlotSet::one(slot);
                self.read_logged(id, at);
            }
            Verdict::Stay { gone } => {
                let stays = shape.all_data().minus(gone);
                self.keep_settled(id, stays, blocks);
                self.take_rows(id, blocks);
                for slot in gone.iter() {
                    if !self.lose_rows(id, slot) {
                        return self.too_much_lost();
                    }
                }
                self.columns[index(id)].zeros = gone;
                if gone.is_empty() {
                    return self.settle_staying(id);
                }
                self.list_lost();
            }
            Verdict::Make(sources) => {
                self.take_rows(id, blocks);
                let lacking = self.replay().remaking.minus(sources);
                self.settle(sources, lacking.and(there), SlotSet::EMPTY);
            }
            Verdict::Unknown(lacking) => {
                self.take_rows(id, blocks);
                self.rows_not_made(id, lacking);
            }
        }
    }

    /// Data stays what it is, except for what is gone, and counts as zeros: that is durable in the list.
    pub(super) fn settle_staying(&mut self, id: u32) {
        let (shape, zeros) = (self.shape(id), self.columns[index(id)].zeros);
        let redundant = shape.redundant().minus(self.missing_slots(id));
        self.settle(shape.all_data(), redundant, zeros);
    }

    /// What was to be made in the rows under way can't be: nobody takes what is there for it.
    fn rows_not_made(&mut self, id: u32, slots: SlotSet) {
        if self.has_checksums() {
            self.lose_checksums(id, slots);
        } else {
            for slot in slots.and(self.slots_of(id, self.lost)).iter() {
                let member = self.groups[index(id)].slots()[usize::from(slot)].member;
                self.put_out(member, OutReason::Error(MemberError::Medium));
            }
        }
        self.rows_replayed();
    }

    /// No more of the rows under way than these are dealt with.
    pub(super) fn take_rows(&mut self, id: u32, blocks: u32) {
        let column = &mut self.columns[index(id)];
        column.blocks = blocks;
        column.end = column.low + blocks;
    }

    /// Makes `recover` from `known`, of which `zeros` count as zeros and are made so.
    fn settle(&mut self, known: SlotSet, recover: SlotSet, zeros: SlotSet) {
        let id = self.replay().column;
        let writes = recover.or(zeros);
        let column = &mut self.columns[index(id)];
        column.zeros = zeros;
        column.plan = Plan {
            strategy: Strategy::Reconstruct,
            reads: known,
            recover,
            encode: SlotSet::EMPTY,
            writes,
            writes_always: writes,
        };
        for slot in zeros.minus(self.missing_slots(id)).iter() {
            self.keep_slot(id, slot, self.columns[index(id)].blocks, None);
        }
        if recover.is_empty() {
            return self.write_replayed();
        }
        self.work_step(id, Work::Recover);
    }

    /// What was made of the rows under way is summed up, where blocks have checksums.
    pub(super) fn sum_settled(&mut self, id: u32) {
        if !self.has_checksums() {
            return self.write_replayed();
        }
        let column = &mut self.columns[index(id)];
        let made = column.plan.recover;
        column.log_data = made;
        self.replay().made = made;
        self.work_step(id, Work::Checksum);
    }

    /// Blocks of slots in the first `blocks` of the rows that were summed up get the checksums of that.
    fn keep_settled(&mut self, id: u32, slots: SlotSet, blocks: u32) {
        for slot in slots.iter() {
            let column = &self.columns[index(id)];
            let (summed, all) = (column.log_data, column.blocks);
            let sums = super::checksum_range(id, summed, slot, all, self.checksums_of_column);
            self.keep_slot(id, slot, blocks, Some(sums.start));
        }
    }

    /// The first blocks of a slot in the rows under way get the checksums from `sums` on, or of zeros.
    pub(super) fn keep_slot(&mut self, id: u32, slot: u8, blocks: u32, sums: Option<usize>) {
        if self.mutated(Mutation::SkipSumming) {
            return;
        }
        if self.missing_slots(id).contains(slot) {
            return; // It went out meanwhile.
        }
        let first = self.block_of_slot(id, slot);
        let Some(pages) = self.pages.as_mut() else {
            return;
        };
        for row in 0..blocks {
            let sum = sums.map_or(pages.of_zeros, |at| self.checksums[at + index(row)]);
            let (of, block) = ((id, slot, first), first.plus(u64::from(row)));
            if !pages.agrees_at(&self.metadata_buffer, of, block, sum) {
                pages.set_at(&mut self.metadata_buffer, of, block, sum);
            }
        }
    }
}
