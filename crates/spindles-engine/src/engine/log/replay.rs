//! Replays the journals after a crash, before the array serves requests.
//!
//! ```text
//!  waiting ──▶ scanning ──▶ recording the missing members ──▶ checking the last batch
//!      ──▶ placing, rows by rows ──▶ flushing ──▶ delisting blocks that are no longer lost
//!      ├──▶ a new log, in which no replayed record counts
//!      └──▶ if records are not whole: the log continues without the placed records
//!               ──▶ proving these records ──▶ logging them again ──▶ placing, as above
//! ```
//!
//! For each block, only the last logged contents go to its place (`recovery/log_index`).
//!
//! *All batches but the last* are durable, since a batch begins only when the one before it is
//! durable. If a block of such a batch is unreadable in the log, the log has rotted there. The
//! block's place then gets the logged checksum, or the mark of a lost checksum if the logged one
//! has rotted too. The old block in the place does not fit this checksum, so settling reconstructs
//! the block from the rest of its row. If the rest does not prove the block, it is lost.
//!
//! *The last batch* may not be durable. An incomplete record of this batch was either never
//! acknowledged, and no block of the record is in place, or has rotted in part since. The record
//! counts if redundancy gives the missing parts, and its row sums prove the result (`relog`).
//!
//! A replay that is interrupted is repeated. The superblocks record the missing members before the
//! first block goes to its place, so that the repetition decides the same.

use crate::{
    Engine, Mutation, RangeId, SLOT_BITS,
    log::{
        ScanRead,
        relog::Proving,
        replay::{Replay, Stage},
    },
    output::{Event, OutReason, Output},
    plan::{Ask, Plan, Step, Steps, Strategy},
    recovery::log_index::LogIndex,
    slots::SlotSet,
    stripe::{Owner, Stage as RangeStage, Way},
    system_io::Purpose,
};
use alloc::{collections::BTreeSet, vec::Vec};
use spindles_block::{
    MemberError, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::{AreaKind, JournalEntry, JournalKind, JournalSums};
use spindles_layout::{Geometry, Group, GroupIndex};

/// Bytes of a journal that are read at once.
const WINDOW_BYTES: u32 = 64 << 10;

impl Engine {
    /// Reserves the space to read the journals. `None` if the array has no journals.
    pub(crate) fn new_replay(&mut self) -> Option<Replay> {
        if !self.log.exists() {
            return None;
        }
        let blocks = WINDOW_BYTES / self.settings.block_size.bytes();
        let members = self.geometry.members();
        let window = self.metadata_buffer.reserve(members, blocks);
        Some(Replay {
            stage: Stage::Due,
            scanner: self.log.scanner(members, window),
            log: LogIndex::default(),
            runs: Vec::new(),
            next: 0,
            done_rows: 0,
            broken: Vec::new(),
            proving: Proving::Log,
            range: self.ranges.take_for_job(),
            replayed: 0,
            waits: false,
        })
    }

    /// Begins the replay once the state found at opening is durable.
    pub(crate) fn begin_replay(&mut self) {
        if !self.opening.replay_is(Stage::Due) {
            return;
        }
        if self.has_failed() {
            return self.abandon_replay();
        }
        if self.mutated(Mutation::SkipReplay) {
            return self.flush_replayed();
        }
        let all = MemberSet::all(self.geometry.members());
        self.opening.replay_under_way().stage = Stage::Scanning;
        for member in all.iter() {
            self.scan_on(member);
        }
    }

    /// Reads the next window of a journal. Continues with the log after the last of all.
    fn scan_on(&mut self, member: MemberIndex) {
        let is_absent = self.log.is_lost() || self.log.is_missing(&self.members, member);
        let (sought, buffer) = (self.log.sought(), &self.metadata_buffer);
        let replay = self.opening.replay_mut().expect("a replay is under way");
        assert_eq!(replay.stage, Stage::Scanning, "scanned twice");
        let read = (replay.scanner).next_read(member, is_absent, &sought, buffer);
        match read {
            ScanRead::Window {
                block,
                blocks,
                buffer,
            } => {
                let (device, start) = self.log.place(member);
                let block = start.plus(u64::from(block));
                let (purpose, read) = (Purpose::JournalScan, Operation::Read);
                self.system_io_on(device, purpose, member, read, block, blocks, buffer);
            }
            ScanRead::Ended => {}
            ScanRead::AllEnded => {
                self.judge_log();
                self.opening.replay_under_way().stage = Stage::Recording;
                self.replay_recorded();
            }
        }
    }

    /// Handles the result of a read of a window.
    pub(crate) fn journal_read(&mut self, member: MemberIndex, result: MemberResult) {
        match result {
            Ok(()) => self.look_for_headers(member),
            Err(error) if error == MemberError::Gone || self.log.is_on_device() => {
                // Skip the rest of this journal, even if its member stays as the last copy. On a
                // device of its own the unreadable block may be the only header of a batch: that
                // fails the log.
                self.opening.replay_under_way().scanner.skip(member);
                self.log_failed(member, result);
            }
            Err(_) => {
                let sought = self.log.sought();
                self.opening
                    .replay_under_way()
                    .scanner
                    .read_failed(member, &sought);
            }
        }
        self.scan_on(member);
    }

    fn look_for_headers(&mut self, member: MemberIndex) {
        let replay = self.opening.replay_mut().expect("a replay is under way");
        let (sought, index, ring) = (self.log.sought(), &mut replay.log, self.log.ring_blocks());
        let is_missing = self.members.missing().contains(member);
        let found = |sequence, entry: JournalEntry, sums: JournalSums<'_>| {
            let is_live = self.regions.is_live(GroupIndex(entry.group));
            let sane = || is_sane(&self.geometry, ring, &entry, member);
            if !is_missing && is_live && sane() {
                index.add(sequence, member, entry, sums);
            }
        };
        let buffer = &self.metadata_buffer;
        (replay.scanner).window_read(member, &sought, buffer, found);
    }

    /// Continues when the superblocks record the missing members. After another crash, a replay
    /// with these members must not decide differently from this replay without them.
    pub(crate) fn replay_recorded(&mut self) {
        let Some(replay) = self.opening.replay_mut() else {
            return;
        };
        let broken = self.metadata.is_broken();
        if self.metadata.busy() && !broken {
            return;
        }
        let waits = core::mem::take(&mut replay.waits);
        let begins = replay.stage == Stage::Recording && (self.metadata.is_recorded() || broken);
        let resumes = replay.stage == Stage::Resuming;
        if broken && (waits || begins || resumes) {
            self.abandon_replay();
        } else if waits {
            self.place_rows();
        } else if begins {
            self.check_last_batch();
        } else if resumes {
            self.log_resumed();
        }
    }

    /// Checks the last batch. A batch is durable if the next one was begun; of the last, a crash
    /// may have left a part.
    fn check_last_batch(&mut self) {
        let replay = self.opening.replay_under_way();
        let undecided = (replay.log).undecided(|batch| replay.scanner.is_durable(batch));
        replay.runs = undecided;
        replay.stage = Stage::Checking;
        self.next_run();
    }

    /// Continues with the first rows of the runs to check, or to place.
    pub(super) fn next_run(&mut self) {
        let replay = self.opening.replay_under_way();
        (replay.next, replay.done_rows) = (0, 0);
        self.next_rows();
    }

    /// Continues after the last run: with the records to place, or with the flush of all places.
    fn runs_ended(&mut self) {
        let replay = self.opening.replay_under_way();
        match replay.stage {
            Stage::Placing if !replay.broken.is_empty() => self.resume_log(),
            Stage::Placing | Stage::Proving => self.flush_replayed(),
            _ => {
                replay.runs = replay.log.runs();
                replay.replayed = replay.log.records();
                replay.stage = Stage::Placing;
                self.next_run();
            }
        }
    }

    /// Continues with the next rows, as many as scratch space allows.
    pub(super) fn next_rows(&mut self) {
        if self.places_fail() {
            return self.abandon_replay();
        }
        if self.log.is_lost() {
            return self.replay_lost();
        }
        let replay = self.opening.replay_mut().expect("a replay is under way");
        let Some(run) = replay.runs.get(replay.next).cloned() else {
            return self.runs_ended();
        };
        let low = run.rows.start + replay.done_rows;
        if low == run.rows.end {
            replay.next += 1;
            replay.done_rows = 0;
            return self.next_rows();
        }
        let (id, placing) = (replay.range, replay.stage == Stage::Placing);
        let group = GroupIndex(run.group);
        self.ranges.take_group(&self.geometry, id, group);
        let blocks = (run.rows.end - low).min(self.settings.limits.range_blocks);
        let (mut data, mut zeros) = (SlotSet::EMPTY, SlotSet::EMPTY);
        for slot in self.opening.replay_under_way().log.slots(&run) {
            match slot {
                (slot, JournalKind::Data) => data = data.with(slot),
                (slot, JournalKind::Zeros) => zeros = zeros.with(slot),
            }
        }
        let missing = self.ranges.missing_slots(&self.members, id);
        let lacks = run.lacks.minus(missing);
        if self.opening.replay_is(Stage::Checking) && !lacks.is_empty() {
            return self.record_is_broken();
        }
        let range = &mut self.ranges[id];
        range.reset();
        range.group = group;
        range.owner = Owner::Replay;
        range.ask = Ask::Settle;
        range.touched = SlotSet::EMPTY;
        (range.low, range.blocks, range.end) = (low, blocks, low + blocks);
        range.rows.zeros = zeros;
        range.written.data = data.minus(missing);
        // Slots that the log lacks count as writes too, to correct their checksums.
        let writes = data.or(zeros).or(lacks).minus(missing);
        range.plan = Plan {
            strategy: Strategy::Reconstruct,
            steps: Steps::NONE
                .with(Step::Read)
                .with(Step::Checksum)
                .with(Step::Write),
            reads: SlotSet::EMPTY,
            recover: SlotSet::EMPTY,
            encode: SlotSet::EMPTY,
            writes,
            writes_always: writes,
        };
        range.move_to(RangeStage::Paging);
        if self.opening.replay_is(Stage::Proving) {
            return self.prove_record(id);
        }
        if writes.is_empty() && placing {
            return self.rows_placed();
        }
        if writes.is_empty() {
            return self.rows_replayed();
        }
        if !placing || !self.has_checksums() || self.pin_pages(id) {
            self.read_log(id);
        }
    }

    /// Continues when the pages of the current rows are pinned.
    pub(crate) fn replay_paged(&mut self, id: RangeId) {
        self.read_log(id);
    }

    /// Sets the current record aside: an incomplete record, whose batch may not be durable.
    fn record_is_broken(&mut self) {
        let replay = self.opening.replay_under_way();
        let run = replay.runs[replay.next].clone();
        replay.log.drop_record(&run);
        replay.broken.push(run);
        replay.next += 1;
        replay.done_rows = 0;
        self.next_rows();
    }

    /// Reads the logged blocks of the current rows.
    pub(super) fn read_log(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        let (data, low, blocks) = (range.written.data, range.low, range.blocks);
        range.move_to(RangeStage::Reading { failed: false });
        range.pending = data.count();
        if data.is_empty() {
            return self.log_read(id);
        }
        for slot in data.iter() {
            let replay = self.opening.replay().expect("a replay is under way");
            let part = replay.log.part(&replay.runs[replay.next], slot);
            let (device, start) = self.log.place(part.member);
            let block = start.plus(u64::from(part.entry.place + low - part.entry.low));
            let member = part.member;
            if self.ranges[id].shape.mirrors() {
                self.members.load_mut(member).in_flight += 1;
            }
            let buffer = self.row(id, slot);
            self.outbox.put(Output::Member(MemberIo {
                id: MemberIoId(id.0 << SLOT_BITS | u32::from(slot)),
                member: device,
                operation: Operation::Read,
                block,
                blocks,
                buffer,
            }));
        }
    }

    /// Handles the result of a member I/O of the replay's stripe range.
    pub(crate) fn replay_io_done(&mut self, id: RangeId, slot: u8, result: MemberResult) {
        let member = self.ranges.member(id, slot);
        let range = &mut self.ranges[id];
        let writing = range.stage().is_placing();
        if let Err(error) = result {
            range.rows.unreadable = range.rows.unreadable.with(slot);
            let gone = error == MemberError::Gone;
            let reads_log = !writing && self.opening.replay_under_way().proving == Proving::Log;
            if reads_log && (gone || self.log.is_on_device()) {
                self.log_failed(member, result);
            } else if writing || gone {
                self.put_out(member, OutReason::Error(error));
            }
        }
        if self.ranges[id].pending > 0 {
            return;
        }
        if writing {
            return self.rows_placed();
        }
        if self.opening.replay_under_way().proving != Proving::Log {
            return self.record_io_done(id);
        }
        let range = &self.ranges[id];
        let unreadable = range
            .rows
            .unreadable
            .minus(self.ranges.missing_slots(&self.members, id));
        if !unreadable.is_empty() && range.blocks > 1 {
            // After a read error, retry row by row.
            self.ranges[id].blocks = 1;
            self.ranges[id].rows.unreadable = SlotSet::EMPTY;
            return self.read_log(id);
        }
        self.log_read(id);
    }

    /// Continues when the logged blocks of the current rows are read, as far as possible.
    fn log_read(&mut self, id: RangeId) {
        let range = &mut self.ranges[id];
        range.rows.new_checksums = range.written.data.minus(range.rows.unreadable);
        if range.rows.new_checksums.is_empty() {
            return self.log_checksummed(id);
        }
        self.take_step(id, Step::Checksum);
    }

    /// Handles the result of a computation of the replay's stripe range.
    pub(crate) fn replay_computed(&mut self, id: RangeId, step: Step) {
        match (self.opening.replay_under_way().proving, step) {
            (Proving::Log, Step::Checksum) => self.log_checksummed(id),
            (_, step) => self.record_computed(id, step),
        }
    }

    fn log_checksummed(&mut self, id: RangeId) {
        let range = self.ranges[id];
        let replay = self.opening.replay().expect("a replay is under way");
        let run = &replay.runs[replay.next];
        let is_whole = |&slot: &u8| {
            let part = replay.log.part(run, slot);
            let sums = self.written_checksums(id, slot);
            let logged = replay.log.checksums(part, range.low, range.blocks);
            self.workspace.checksums()[sums] == *logged
        };
        let whole = range.rows.new_checksums.iter().filter(is_whole);
        let whole = whole.fold(SlotSet::EMPTY, SlotSet::with);
        let lacks = range
            .written
            .data
            .minus(whole)
            .minus(self.ranges.missing_slots(&self.members, id));
        if self.opening.replay_is(Stage::Checking) {
            if !lacks.is_empty() {
                return self.record_is_broken();
            }
            return self.rows_replayed();
        }
        if self.opening.replay_is(Stage::Proving) {
            return self.record_read(id, whole);
        }
        if !lacks.is_empty() && range.blocks > 1 {
            self.ranges[id].blocks = 1;
            return self.read_log(id);
        }
        if lacks.is_empty() || !self.mutated(Mutation::ForgetRotten) {
            self.keep_logged_checksums(id);
        }
        let zeros = range.rows.zeros.and(range.plan.writes);
        self.ranges[id].plan.writes = whole.or(zeros);
        self.place_rows();
    }

    /// Sets the checksums of all logged blocks to those in the log. Blocks that can't be read back
    /// from the log get them too: then the old contents in their places do not fit.
    fn keep_logged_checksums(&mut self, id: RangeId) {
        if !self.has_checksums() || self.mutated(Mutation::SkipReplayedChecksums) {
            return;
        }
        let range = self.ranges[id];
        let of_zeros = self.checksum_of_zeros();
        let writes = range
            .plan
            .writes
            .minus(self.ranges.missing_slots(&self.members, id));
        for slot in writes.iter() {
            for row in 0..range.blocks {
                let replay = self.opening.replay().expect("a replay is under way");
                let run = &replay.runs[replay.next];
                if run.lacks.contains(slot) {
                    if !self.mutated(Mutation::KeepUnlogged) {
                        self.lose_entry(id, slot, row);
                    }
                    continue;
                }
                let part = replay.log.part(run, slot);
                let sum = replay.log.checksum(part, range.low + row);
                let row_sum = replay.log.row_sum(part, range.low + row);
                self.correct_entry(id, slot, row, sum.unwrap_or(of_zeros), row_sum);
            }
        }
    }

    /// Writes the logged blocks of the current rows to their places.
    pub(super) fn place_rows(&mut self) {
        if self.places_fail() {
            return self.abandon_replay();
        }
        if self.metadata.busy() && !self.metadata.is_broken() {
            // A member went out. Blocks decided without this member are placed only after the
            // superblocks record its loss.
            self.opening.replay_under_way().waits = true;
            return;
        }
        let id = self.opening.replay_under_way().range;
        let missing = self.ranges.missing_slots(&self.members, id);
        let range = &mut self.ranges[id];
        let writes = range.plan.writes.minus(missing);
        range.move_to(RangeStage::Placing(Way::Unlogged));
        range.pending = writes.count();
        if writes.is_empty() {
            return self.rows_placed();
        }
        for slot in writes.iter() {
            let place = self.read_place(id, slot);
            self.slot_io(id, slot, Operation::Write { fua: false }, place);
        }
    }

    pub(super) fn rows_replayed(&mut self) {
        let id = self.opening.replay_under_way().range;
        self.unpin_pages(id);
        let blocks = self.ranges[id].blocks;
        self.opening.replay_under_way().done_rows += blocks;
        self.next_rows();
    }

    /// Removes the current rows from the list of lost blocks, after the logged contents were
    /// placed.
    fn rows_placed(&mut self) {
        let id = self.opening.replay_under_way().range;
        let replay = self.opening.replay().expect("a replay is under way");
        let run = &replay.runs[replay.next];
        let logged = match replay.stage {
            Stage::Proving => replay.log.record_slots(run),
            _ => replay.log.all_slots(run),
        };
        self.bad.remove_lost(&self.ranges, id, logged);
        self.rows_replayed();
    }

    /// Returns true if the log can't be carried out: too many members failed, or members lack space
    /// and may not be put out, since they alone hold some blocks.
    fn places_fail(&self) -> bool {
        self.has_failed() || self.metadata.is_broken()
    }

    /// Ends the replay without a new log: the journals may be needed when members are back.
    pub(super) fn abandon_replay(&mut self) {
        self.unreplayed = true;
        self.all_settled = false; // Nothing is read without a plan.
        let replay = self.opening.replay_under_way();
        let is_known = match replay.stage {
            Stage::Due | Stage::Scanning | Stage::Recording | Stage::Checking => false,
            Stage::Placing
            | Stage::Resuming
            | Stage::Proving
            | Stage::Flushing { .. }
            | Stage::Listing { .. }
            | Stage::Ended => true,
        };
        // Records that are not whole may still count.
        let runs = [&replay.log.runs()[..], &replay.broken, &replay.runs].concat();
        self.unplaced = is_known.then(|| {
            let groups: BTreeSet<u64> = runs.iter().map(|run| run.group).collect();
            groups.into_iter().collect()
        });
        let replay = self.opening.replay_under_way();
        (replay.stage, replay.waits) = (Stage::Ended, false); // Later results must not continue it.
        self.stop_writing();
        self.end_replay();
    }

    pub(super) fn flush_replayed(&mut self) {
        self.flush_replay(false);
    }

    /// Makes the placed blocks durable. Afterwards the log continues if `resumes`, or else the
    /// replay ends.
    pub(super) fn flush_replay(&mut self, resumes: bool) {
        self.opening.replay_under_way().stage = Stage::Flushing { resumes };
        self.flush_active(Purpose::ReplayFlush);
    }

    pub(crate) fn replay_flushed(&mut self) {
        let Stage::Flushing { resumes } = self.opening.replay_under_way().stage else {
            panic!("a flush of a replay came back twice");
        };
        self.opening.replay_under_way().stage = Stage::Listing { resumes };
        self.write_area(AreaKind::BAD_BLOCKS);
        self.replay_listed();
    }

    /// Continues when the placed blocks and the list of lost blocks are durable. A new log begins,
    /// or the log continues without these records.
    pub(crate) fn replay_listed(&mut self) {
        let stage = self.opening.replay().map(|replay| replay.stage);
        let Some(Stage::Listing { resumes }) = stage else {
            return;
        };
        if !self.bad_blocks_are_stored() {
            return;
        }
        if self.places_fail() {
            return self.abandon_replay();
        }
        if resumes {
            return self.resume_flushed();
        }
        self.begin_new_log();
        self.end_replay();
    }

    fn begin_new_log(&mut self) {
        if self.metadata.is_broken() {
            return;
        }
        let generation = self.metadata.generation();
        self.metadata.set_dirty(!self.all_settled);
        // A log that begins now does not cover rows that are still to be settled.
        let logs = self.metadata.is_dirty() && self.may_log();
        let kept = self.log.record().copied();
        let kept = kept.filter(|_| self.mutated(Mutation::KeepReplayed));
        if logs {
            self.log.begin(generation + 1);
        } else {
            self.log.end();
        }
        if let Some(kept) = kept.filter(|_| logs) {
            self.log.count_on(&kept);
        }
        self.want_update();
        self.regions.want_sweep();
    }

    pub(crate) fn end_replay(&mut self) {
        let replay = self.opening.replayed();
        self.unpin_pages(replay.range);
        let range = &mut self.ranges[replay.range];
        range.move_to(RangeStage::Free);
        range.owner = Owner::Nobody;
        range.rows.zeros = SlotSet::EMPTY;
        self.ranges.give_back_of_job(replay.range);
        if !self.settings.read_only {
            self.outbox.put(Output::Event(Event::Replayed {
                writes: replay.replayed,
            }));
        }
        self.try_to_serve();
    }
}

/// Returns true if an entry is plausible for this array, with journals of `ring_blocks` blocks.
/// Implausible entries are corrupt.
fn is_sane(
    geometry: &Geometry,
    ring_blocks: u32,
    entry: &JournalEntry,
    member: MemberIndex,
) -> bool {
    if entry.group >= geometry.groups() {
        return false;
    }
    let mut group = Group::empty();
    geometry.group_into(GroupIndex(entry.group), &mut group);
    let rows = entry.low.checked_add(entry.blocks);
    let place = entry.place.checked_add(entry.blocks);
    rows.is_some_and(|end| end <= group.blocks)
        && (group.slots().get(usize::from(entry.slot))).is_some_and(|slot| slot.member == member)
        && (entry.kind != JournalKind::Data || place.is_some_and(|end| end <= ring_blocks))
}
