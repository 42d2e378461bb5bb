//! Records of the last batch that are not whole in the log.
//!
//! ```text
//!  reading the logged blocks ──▶ reading the rest of the rows ──▶ (recovering missing blocks)
//!      ──▶ proving ──▶ encoding ──▶ computing checksums ──▶ logging again ──▶ placing
//! ```
//!
//! If such a record was never durable, its write was not acknowledged: the record may count or not.
//! Otherwise a part of the record has rotted since. Its parity, as far as it suffices, gives the
//! missing blocks: from the other blocks of the record, and from blocks of its rows that it did not
//! write. If the row sums prove the result, the record counts.
//!
//! The record is logged again as a whole before its first block goes to its place. Otherwise a
//! second crash, with a member missing, could leave only a part of the record in place, and no way
//! to determine the rest.
//!
//! All other records that count are durably in place by then, so that the segment of the log
//! without the last batch is free. Relogged batches get numbers that do not follow the last one. A
//! batch is known to be durable by the next number, and the last batch may not be durable.

use crate::{
    Engine, RangeId,
    checksums::ChecksumsOf,
    index,
    log::{relog::Proving, replay::Input},
    plan::{Step, Steps},
    slots::SlotSet,
    stripe::Stage as RangeStage,
};
use spindles_block::Operation;
use spindles_format::RowSum;

impl Engine {
    /// Begins to prove the current rows, which are of a record that is not whole.
    pub(super) fn prove_record(&mut self, id: RangeId) {
        self.opening.replay_under_way().set_proving(Proving::Log);
        let rest = self.rest_of_rows(id);
        let plan = &mut self.ranges[id].plan;
        plan.reads = rest;
        plan.steps = [Step::Recover, Step::Prove, Step::Encode, Step::Log]
            .into_iter()
            .fold(plan.steps, Steps::with);
        if !self.has_checksums() || self.pin_pages(id) {
            self.read_log(id);
        }
    }

    /// Returns the slots of data that the current record did not write.
    fn rest_of_rows(&self, id: RangeId) -> SlotSet {
        let missing = self.ranges.slots_of(id, self.members.lost());
        let replay = self.opening.replay().expect("a replay is under way");
        let wrote = replay.record_slots();
        self.ranges[id].shape.all_data().minus(wrote).minus(missing)
    }

    /// Reads the rest of the rows. The slots of the record that are whole in the log are known.
    pub(super) fn record_read(&mut self, id: RangeId, whole: SlotSet) {
        let range = &mut self.ranges[id];
        let logged = whole.or(range.rows.zeros);
        self.opening
            .replay_under_way()
            .set_proving(Proving::Rest { logged });
        let rest = self.rest_of_rows(id);
        let range = &mut self.ranges[id];
        range.rows.unreadable = SlotSet::EMPTY;
        range.rows.read_checksums = SlotSet::EMPTY;
        range.plan.reads = rest;
        range.move_to(RangeStage::Reading { failed: false });
        range.pending = rest.count();
        if rest.is_empty() {
            return self.record_io_done(id);
        }
        for slot in rest.iter() {
            let place = self.row(id, slot);
            self.slot_io(id, slot, Operation::Read, place);
        }
    }

    /// Recovers the data that the record lacks. The rest of the rows is read.
    pub(super) fn record_io_done(&mut self, id: RangeId) {
        let Proving::Rest { logged } = self.opening.replay_under_way().proving() else {
            panic!("nothing was being read");
        };
        if logged.is_empty() {
            return self.record_is_void(id);
        }
        let range = &mut self.ranges[id];
        let shape = range.shape;
        let known = logged.or(range.plan.reads.minus(range.rows.unreadable));
        let data = known.and(shape.all_data());
        let lacks = shape.all_data().minus(data);
        let parity = logged.and(shape.redundant()).lowest(lacks.count());
        if parity.count() < lacks.count() {
            return self.record_is_void(id);
        }
        range.plan.reads = data.or(parity);
        range.plan.recover = lacks;
        if lacks.is_empty() {
            return self.checksum_record(id, logged);
        }
        self.opening
            .replay_under_way()
            .set_proving(Proving::Recovering { logged });
        self.take_step(id, Step::Recover);
    }

    fn checksum_record(&mut self, id: RangeId, logged: SlotSet) {
        if !self.has_checksums() {
            // Nothing proves the record. Everything else of the rows was logged, and is in place.
            return self.encode_record(id);
        }
        self.opening
            .replay_under_way()
            .set_proving(Proving::Checksumming { logged });
        let data = self.ranges[id].shape.all_data();
        self.checksum_made(id, Step::Prove, data);
    }

    /// Handles the result of a computation for rows of a record that is not whole.
    pub(super) fn record_computed(&mut self, id: RangeId, step: Step) {
        match (self.opening.replay_under_way().proving(), step) {
            (Proving::Recovering { logged }, Step::Recover) => self.checksum_record(id, logged),
            (Proving::Checksumming { logged }, Step::Prove) => self.judge_record(id, logged),
            (Proving::Encoding, Step::Encode) => self.checksum_to_log(id),
            (Proving::Logging, Step::Checksum) => self.log_record(id),
            (proving, step) => panic!("{step:?} came back while {proving:?}"),
        }
    }

    fn judge_record(&mut self, id: RangeId, logged: SlotSet) {
        let range = self.ranges[id];
        let data = range.shape.all_data();
        let part = logged.first().expect("a part was found");
        for row in 0..range.blocks {
            let replay = self.opening.replay().expect("a replay is under way");
            let sum = replay.row_sum(part, range.low + row);
            let made = |slot| (slot, self.checksum_at(id, ChecksumsOf::Made, slot, row));
            if RowSum::of(data.iter().map(made)) != sum {
                return self.record_is_disproved(id, logged);
            }
            let at = self.workspace.row_sums_start(id) + index(row);
            self.workspace.set_row_sum(at, Some(sum));
        }
        self.encode_record(id);
    }

    /// Handles a record that its row sum disproves. Blocks that the record did not write may be
    /// rotten: row by row, blocks that do not fit their checksums are recovered too.
    fn record_is_disproved(&mut self, id: RangeId, logged: SlotSet) {
        let range = &mut self.ranges[id];
        if range.blocks > 1 {
            range.blocks = 1;
            range.rows.unreadable = SlotSet::EMPTY;
            self.opening.replay_under_way().set_proving(Proving::Log);
            return self.read_log(id);
        }
        let rest = self.ranges[id].plan.reads.minus(logged);
        let fits = |slot| {
            let sum = self.checksum_at(id, ChecksumsOf::Made, slot, 0);
            self.entry(id, slot, 0).known() == Some(sum)
        };
        let rotten = rest.iter().filter(|&slot| !fits(slot));
        let rotten = rotten.fold(SlotSet::EMPTY, SlotSet::with);
        if rotten.is_empty() {
            return self.record_is_void(id);
        }
        let range = &mut self.ranges[id];
        range.rows.unreadable = range.rows.unreadable.or(rotten);
        self.opening
            .replay_under_way()
            .set_proving(Proving::Rest { logged });
        self.record_io_done(id);
    }

    fn encode_record(&mut self, id: RangeId) {
        let missing = self.ranges.missing_slots(&self.members, id);
        self.opening
            .replay_under_way()
            .set_proving(Proving::Encoding);
        let range = &mut self.ranges[id];
        range.plan.recover = SlotSet::EMPTY;
        range.plan.encode = range.shape.redundant().minus(missing);
        self.take_step(id, Step::Encode);
    }

    /// Drops a record whose contents nothing proves. It was never acknowledged, or more is lost
    /// than the level survives.
    fn record_is_void(&mut self, id: RangeId) {
        self.opening.replay_under_way().set_proving(Proving::Log);
        let range = &mut self.ranges[id];
        range.plan.writes = SlotSet::EMPTY;
        self.rows_replayed();
    }

    /// Computes checksums, to log the record as a whole. All blocks of the record are known.
    fn checksum_to_log(&mut self, id: RangeId) {
        let missing = self.ranges.missing_slots(&self.members, id);
        let replay = self.opening.replay_under_way();
        replay.set_proving(Proving::Logging);
        let wrote = replay.record_slots();
        let range = &mut self.ranges[id];
        let wrote = wrote.minus(missing);
        range.written.slots = wrote;
        range.written.data = wrote;
        range.rows.new_checksums = wrote;
        range.plan.writes = wrote;
        range.plan.writes_always = wrote;
        self.take_step(id, Step::Checksum);
    }

    fn log_record(&mut self, id: RangeId) {
        if !self.log.has_room(self.ranges[id].blocks) {
            // The records relogged so far are in place. A flush frees their room in the log.
            self.unpin_pages(id);
            return self.step_replay(Input::LogIsFull);
        }
        self.queue_for_log(id);
    }

    /// Places the record, which is durable in the log.
    pub(crate) fn record_logged(&mut self, id: RangeId) {
        self.opening.replay_under_way().set_proving(Proving::Log);
        let range = self.ranges[id];
        let mut writes = range
            .plan
            .writes
            .minus(self.ranges.missing_slots(&self.members, id));
        if !self.has_checksums() {
            writes = SlotSet::EMPTY;
        }
        let row_sums = self.row_sums(id);
        for slot in writes.iter() {
            for row in 0..range.blocks {
                let sums = self.written_checksums(id, slot);
                let sum = self.workspace.checksums()[sums.start + index(row)];
                let row_sum = row_sums.of(self.workspace.row_sums(), index(row));
                self.correct_entry(id, slot, row, sum, row_sum);
            }
        }
        self.step_replay(Input::RowsRead);
    }
}
