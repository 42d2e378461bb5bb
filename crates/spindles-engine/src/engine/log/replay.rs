//! Replays the journals after a crash, before the array serves requests.
//!
//! The stages are drawn in `log/replay.rs`.
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
    Engine, JOURNAL_DEVICE, Mutation, RangeId, SLOT_BITS,
    agenda::Due,
    log::{
        ScanRead,
        relog::{Proving, RELOGGED},
        replay::{Action, Context, Input, Replay, Superblocks},
    },
    output::{Event, OutReason, Output},
    plan::{Ask, Plan, Step, Steps, Strategy},
    slots::SlotSet,
    stripe::{Owner, Stage as RangeStage, Way},
    system_io::Purpose,
};
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
        let scanner = self.log.scanner(members, window);
        Some(Replay::new(scanner, self.ranges.take_for_job()))
    }

    /// Begins the replay once the state found at opening is durable.
    pub(crate) fn begin_replay(&mut self) {
        let skips = self.mutated(Mutation::SkipReplay) && !self.has_failed();
        self.step_replay(if skips { Input::LogLost } else { Input::Found });
    }

    /// Hands an event to the replay, if there is one, and does what it asks for.
    pub(crate) fn step_replay(&mut self, input: Input) {
        let context = Context {
            superblocks: match (self.metadata.is_broken(), self.metadata.busy()) {
                (true, _) => Superblocks::Broken,
                (false, true) => Superblocks::Busy,
                (false, false) => Superblocks::Quiet {
                    recorded: self.metadata.is_recorded(),
                },
            },
            has_failed: self.has_failed(),
            log_is_lost: self.log.is_lost(),
            list_is_stored: self.bad_blocks_are_stored(),
            tail: self.log.tail(),
        };
        let Some(replay) = self.opening.replay_mut() else {
            return;
        };
        match replay.step(input, context) {
            Action::Wait => {}
            Action::Scan => {
                for member in MemberSet::all(self.geometry.members()).iter() {
                    self.scan_on(member);
                }
            }
            Action::Take => self.take_rows(),
            Action::Place => self.place_rows(),
            Action::Flush => {
                self.flush_active(Purpose::ReplayFlush);
            }
            Action::List => {
                self.write_area(AreaKind::BAD_BLOCKS);
                self.step_replay(Input::Listed);
            }
            Action::Resume { first, place, last } if !self.mutated(Mutation::DropBroken) => {
                self.log.resume(first, place, last + RELOGGED);
                self.want_update();
                self.step_replay(Input::Recorded);
            }
            Action::End | Action::Resume { .. } => {
                self.begin_new_log();
                self.end_replay();
            }
            Action::LoseLog => self.replay_lost(),
            Action::Abandon(groups) => {
                // The journals may be needed when members are back.
                self.settled.leave_all(groups);
                self.stop_writing();
                self.end_replay();
            }
        }
    }

    /// Reads the next window of a journal. Continues with the log after the last of all.
    fn scan_on(&mut self, member: MemberIndex) {
        let is_absent = self.log.is_lost() || self.log.is_missing(&self.members, member);
        let (sought, buffer) = (self.log.sought(), &self.metadata_buffer);
        let (scanner, _) = self.opening.replay_under_way().reading();
        match scanner.next_read(member, is_absent, &sought, buffer) {
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
                self.step_replay(Input::Scanned);
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
                self.opening.replay_under_way().reading().0.skip(member);
                self.log_failed(member, result);
            }
            Err(_) => {
                let sought = self.log.sought();
                let (scanner, _) = self.opening.replay_under_way().reading();
                scanner.read_failed(member, &sought);
            }
        }
        self.scan_on(member);
    }

    fn look_for_headers(&mut self, member: MemberIndex) {
        let (sought, ring) = (self.log.sought(), self.log.ring_blocks());
        let (scanner, index) = self.opening.replay_under_way().reading();
        let is_missing = self.members.missing().contains(member);
        let found = |sequence, entry: JournalEntry, sums: JournalSums<'_>| {
            let is_live = self.regions.is_live(GroupIndex(entry.group));
            let sane = || is_sane(&self.geometry, ring, &entry, member);
            if !is_missing && is_live && sane() {
                index.add(sequence, member, entry, sums);
            }
        };
        let buffer = &self.metadata_buffer;
        scanner.window_read(member, &sought, buffer, found);
    }

    /// Begins with the next rows, as many as scratch space allows.
    fn take_rows(&mut self) {
        let replay = self.opening.replay_under_way();
        let (id, placing) = (replay.range(), replay.is_placing());
        let (group, rows) = replay.rows();
        self.ranges.take_group(&self.geometry, id, group);
        let blocks = (rows.end - rows.start).min(self.settings.limits.range_blocks);
        let missing = self.ranges.missing_slots(&self.members, id);
        let lacks = replay.lacks().minus(missing);
        if replay.is_checking() && !lacks.is_empty() {
            return self.step_replay(Input::RecordBroken);
        }
        let (data, zeros) = replay.slots();
        let range = &mut self.ranges[id];
        range.reset();
        range.group = group;
        range.owner = Owner::Replay;
        range.ask = Ask::Settle;
        range.touched = SlotSet::EMPTY;
        (range.low, range.blocks, range.end) = (rows.start, blocks, rows.start + blocks);
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
        if self.opening.replay_under_way().is_proving() {
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
            let part = self.opening.replay_under_way().part(slot);
            let member = part.member();
            let (device, start) = self.log.place(member);
            let block = start.plus(u64::from(part.place_of(low)));
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
            let reads_log = !writing && self.opening.replay_under_way().proving() == Proving::Log;
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
        if self.opening.replay_under_way().proving() != Proving::Log {
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
        match (self.opening.replay_under_way().proving(), step) {
            (Proving::Log, Step::Checksum) => self.log_checksummed(id),
            (_, step) => self.record_computed(id, step),
        }
    }

    fn log_checksummed(&mut self, id: RangeId) {
        let range = self.ranges[id];
        let replay = self.opening.replay().expect("a replay is under way");
        let is_whole = |&slot: &u8| {
            let sums = self.written_checksums(id, slot);
            let logged = replay.checksums(slot, range.low, range.blocks);
            self.workspace.checksums()[sums] == *logged
        };
        let whole = range.rows.new_checksums.iter().filter(is_whole);
        let whole = whole.fold(SlotSet::EMPTY, SlotSet::with);
        let lacks = range
            .written
            .data
            .minus(whole)
            .minus(self.ranges.missing_slots(&self.members, id));
        if replay.is_checking() {
            if !lacks.is_empty() {
                return self.step_replay(Input::RecordBroken);
            }
            return self.rows_replayed();
        }
        if replay.is_proving() {
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
        self.step_replay(Input::RowsRead);
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
                if replay.lacks().contains(slot) {
                    if !self.mutated(Mutation::KeepUnlogged) {
                        self.lose_entry(id, slot, row);
                    }
                    continue;
                }
                let sum = replay.checksum(slot, range.low + row);
                let row_sum = replay.row_sum(slot, range.low + row);
                self.correct_entry(id, slot, row, sum.unwrap_or(of_zeros), row_sum);
            }
        }
    }

    /// Writes the logged blocks of the current rows to their places.
    fn place_rows(&mut self) {
        let id = self.opening.replay_under_way().range();
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
        let id = self.opening.replay_under_way().range();
        self.unpin_pages(id);
        self.step_replay(Input::RowsDone(self.ranges[id].blocks));
    }

    /// Removes the current rows from the list of lost blocks, after the logged contents were
    /// placed.
    fn rows_placed(&mut self) {
        let replay = self.opening.replay_under_way();
        let (id, logged) = (replay.range(), replay.replayed_slots());
        self.bad.remove_lost(&self.ranges, id, logged);
        self.rows_replayed();
    }

    fn begin_new_log(&mut self) {
        if self.metadata.is_broken() {
            return;
        }
        let generation = self.metadata.generation();
        self.metadata.set_dirty(!self.settled.everywhere());
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

    fn end_replay(&mut self) {
        let replay = self.opening.replayed();
        let id = replay.range();
        self.unpin_pages(id);
        let range = &mut self.ranges[id];
        range.move_to(RangeStage::Free);
        range.owner = Owner::Nobody;
        range.rows.zeros = SlotSet::EMPTY;
        self.ranges.give_back_of_job(id);
        if !self.settings.read_only {
            self.outbox.put(Output::Event(Event::Replayed {
                writes: replay.replayed(),
            }));
        }
        self.agenda.add(Due::Serve);
    }

    /// Checks a log that was read completely. If it lies on a device of its own and is not whole,
    /// the device counts as lost.
    pub(super) fn judge_log(&mut self) {
        let replay = self.opening.replay_under_way();
        if !self.log.is_on_device() || self.log.is_lost() {
            return;
        }
        if self.log.is_stamped_since() {
            // Every logged block is in place.
            replay.drop_all();
            return;
        }
        // Everything logged before a newer log is in place, if superblocks do not count on the
        // newer log yet.
        if !replay.drop_old(self.log.tail()) {
            self.log_failed(JOURNAL_DEVICE, Err(MemberError::Corrupt));
        }
    }

    /// Handles the loss of the journal's device during the replay.
    pub(super) fn replay_lost(&mut self) {
        let in_doubt = !self.members.lost().is_empty() && !self.shape.copies;
        if in_doubt || !self.regions.are_stored() {
            // Parity can't be trusted, and a member is missing. A replay will place the logged
            // contents once the device is back. Until then no client may see contents that will
            // change.
            return self.step_replay(Input::Abandoned);
        }
        self.log.forget();
        if self.settled.everywhere() {
            self.settled.set_everywhere(false);
            self.find_unsettled(true);
        }
        self.step_replay(Input::LogLost);
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
