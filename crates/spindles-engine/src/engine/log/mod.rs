//! Hands inputs to the redo log, and carries out what it asks for. The log closes the write hole on
//! the members themselves: the new blocks of a write, and parity, are durable in the log before the
//! first of them goes to its place (`docs/reference/format.md`).
//!
//! ```text
//!  stripe range:  commit ──▶ queued ──▶ writing ──▶ durable ──▶ in place ──▶ acknowledged
//! ```
//!
//! Work that does not change the contents of the array (settling, repairing) is not logged:
//! replaying an older batch over it gives the same bytes.

mod relog;
mod replay;
mod stamping;

use crate::{
    Engine, Mutation, RangeId,
    agenda::Due,
    checksums::ChecksumsOf,
    log::{Append, BatchEvent, Context, Failure, JOURNAL_DEVICE, Next, Record},
    output::{Event, OutReason, Output},
    plan::Ask,
    stripe::{Owner, Stage},
    system_io::Purpose,
};
use spindles_block::{MemberIndex, MemberResult};
use spindles_format::DeviceRecord;

impl Engine {
    /// Returns true if a stripe range wrote durably, by the log, while the rest of its rows may be
    /// only in the members' caches. If that rest and a member were lost, the logged parity would be
    /// worthless.
    pub(crate) fn rests_on_caches(&self, id: RangeId) -> bool {
        let range = &self.ranges[id];
        let is_durable = || {
            let last = self.log.last_unlogged(range.group);
            self.flushes.is_durable(last)
        };
        range.is_logged() && !is_durable() && self.requests.write_kind(&self.ranges, id).0
    }

    // ---- the writes of stripe ranges ----------------------------------------------------------

    /// Logs a stripe range. It continues with `commit` when its new blocks are durable in the log.
    pub(crate) fn queue_for_log(&mut self, id: RangeId) {
        let replays = self.ranges[id].owner == Owner::Replay;
        if self.writes_nothing() || replays && self.mutated(Mutation::PlaceInferred) {
            self.ranges[id].move_to(Stage::Begin);
            self.waits.is_ready(id);
            return;
        }
        self.ranges[id].move_to(Stage::Queued);
        let checksums = self
            .workspace
            .checksums_range(&self.ranges, id, ChecksumsOf::New, 0)
            .start;
        let row_sums = self.row_sums(id);
        let record = Record::new(id, &self.ranges[id], checksums, row_sums);
        self.log.queue(record);
    }

    /// Notes that a stripe range has written everything to its places.
    pub(crate) fn writing_ended(&mut self, id: RangeId) {
        let range = &self.ranges[id];
        let writes = range.ask == Ask::Write;
        let logged = range.is_logged() && !self.log.is_on_device();
        let was_unlogged = self.log.exists() && !range.is_logged();
        let (group, parity) = (range.group, !range.shape.copies);
        let write = if writes && !logged {
            self.flushes.write_ended()
        } else {
            0
        };
        if !was_unlogged {
            return;
        }
        let write = (writes && parity).then_some(write);
        if self.log.bypass_ended(group, write) {
            self.log_goes_on();
            if self.metadata.slot().is_due() {
                self.agenda.add(Due::Update);
            }
        }
    }

    /// Notes that the writes of a stripe range have ended.
    pub(crate) fn log_done(&mut self, id: RangeId) {
        if let Some(segment) = self.ranges[id].leaves_log() {
            let survives = self.geometry.survives(self.members.missing());
            if !survives || self.ranges[id].error.is_some() {
                self.leave_to_opening(id);
            }
            if survives {
                // If the array has failed, blocks may be missing in place: their log stays.
                self.log.placed(segment);
            }
        }
        if self.log.is_begun() {
            self.log_goes_on();
        }
    }

    // ---- beginning and ending -----------------------------------------------------------------

    /// Begins to log writes, if they are not logged yet and the array is dirty.
    pub(crate) fn log_from_now_on(&mut self) {
        if self.log.exists() && !self.log.is_begun() && self.metadata.is_dirty() {
            self.log.start();
            self.log_goes_on();
        }
    }

    /// Wakes the stripe ranges that wait to be logged: nothing can be written from now on.
    pub(crate) fn log_abandons(&mut self) {
        while let Some(id) = self.log.abandon_next() {
            self.ranges[id].move_to(Stage::Begin);
            self.waits.is_ready(id);
        }
        self.agenda.add(Due::Zeroing);
    }

    /// Begins a new log, because a device takes a position: old records must never be replayed onto
    /// it. Nothing is under way now, and nothing begins until the old records are void.
    pub(crate) fn restart_log_on(&mut self, member: MemberIndex, device: &DeviceRecord) {
        self.log.moves(member, device);
        self.restart_log();
    }

    /// Voids the log so far. Returns true if that takes time: the end makes `Due::Zeroing`
    /// due.
    pub(crate) fn restart_log(&mut self) -> bool {
        let (survives, was_on) = (
            self.geometry.survives(self.members.missing()),
            self.log.is_on(),
        );
        let takes_time = self.log.restart();
        if was_on {
            self.log_goes_on();
        }
        takes_time && survives
    }

    /// Does for the log what is due now.
    fn log_goes_on(&mut self) {
        let (geometry, missing) = (&self.geometry, self.members.missing());
        match self.log.next(|| geometry.survives(missing)) {
            Next::Nothing => {}
            Next::FlushToStart => {
                self.flush_active(Purpose::JournalStart);
            }
            Next::FlushToRelease => {
                self.flush_active(Purpose::JournalRelease);
            }
            Next::Abandon => self.log_abandons(),
        }
    }

    pub(crate) fn log_start_flushed(&mut self) {
        self.log.start_flushed(self.metadata.generation() + 1);
        self.want_update();
    }

    pub(crate) fn log_release_flushed(&mut self) {
        self.log.release_flushed();
        self.want_update();
    }

    /// Continues when the log's part of the superblocks is durable.
    pub(crate) fn log_recorded(&mut self) {
        if !self.log.exists() {
            return;
        }
        if self.log.recorded() {
            self.regions.forget_released();
            self.agenda.add(Due::Zeroing);
        }
        self.log_goes_on();
    }

    /// Flushes the log's own device if a part of the log that counts may be in its cache only.
    pub(crate) fn flush_log_at_opening(&mut self) {
        if self.log.is_on_device() {
            self.own_flushes.begin(Purpose::OpeningFlush, 1);
            self.flush_device(JOURNAL_DEVICE, Purpose::OpeningFlush);
        }
    }

    // ---- batches ------------------------------------------------------------------------------

    /// Begins a batch of the stripe ranges that wait. Does nothing while a batch is under way, or
    /// another stripe range is about to join.
    pub(crate) fn begin_batch(&mut self) {
        if !self.log.is_due() {
            return;
        }
        if self.log.others_join(&self.ranges) {
            return self.log.postpone();
        }
        let row_sums = self.pages.is_some().then_some(self.workspace.row_sums());
        let context = Context::new(self.ranges.groups(), self.workspace.checksums(), row_sums);
        match self.log.append(&context, &mut self.metadata_buffer) {
            Append::Waits => return,
            Append::Begins { switched: false } => {}
            Append::Begins { switched: true } => self.log_goes_on(),
        }
        let (segment, records) = self.log.batch();
        for record in records {
            self.ranges[record.range()].move_to(Stage::Logging { segment });
        }
        while let Some(write) = self.log.next_write(&self.metadata_buffer) {
            self.outbox.put(Output::Member(write));
        }
    }

    /// Handles the result of a write of a batch, or of its flush.
    pub(crate) fn batch_io_done(&mut self, member: MemberIndex, result: MemberResult) {
        self.log_failed(member, result);
        let trusts = self.mutated(Mutation::TrustLostJournal);
        match self.log.io_done(self.members.missing(), trusts) {
            BatchEvent::Waits => {}
            BatchEvent::Flush(members) => self.flush(members, Purpose::JournalCommit),
            BatchEvent::FlushDevice => self.flush_device(JOURNAL_DEVICE, Purpose::JournalCommit),
            BatchEvent::Committed => {
                while let Some(id) = self.log.next_committed() {
                    self.ranges[id].is_committed();
                    self.waits.is_ready(id);
                }
                self.begin_batch();
            }
            BatchEvent::Lost => {
                // A new log on the members takes them when all blocks logged before are in place.
                while let Some(id) = self.log.next_lost() {
                    self.ranges[id].move_to(Stage::Queued);
                }
                if self.writes_nothing() {
                    return self.log_abandons();
                }
                self.log_goes_on();
            }
        }
    }

    /// Handles an error of a device that did not take or return its part of the log. If the array
    /// can't continue without the member, nothing that was to be logged there may go to its place.
    pub(crate) fn log_failed(&mut self, member: MemberIndex, result: MemberResult) {
        let Err(error) = result else {
            return;
        };
        let was_on = self.log.is_on();
        match self.log.failed() {
            Failure::Known => {}
            Failure::Member => {
                if !self.put_out(member, OutReason::Error(error)) && self.shape.copies {
                    self.stop_writing();
                }
            }
            Failure::Device => {
                self.outbox
                    .put(Output::Event(Event::JournalDeviceOut { error }));
                if was_on {
                    // An idle log has no batch or write that would do this later.
                    self.log_goes_on();
                }
            }
        }
    }

    // ---- the stamp ----------------------------------------------------------------------------

    /// Leaves the rows of a stripe range to the next opening. It may carry out the log, or take the
    /// old or the new contents of a failed write. Until then the blocks in place are no answer.
    #[cold]
    pub(crate) fn leave_to_opening(&mut self, id: RangeId) {
        self.settled.leave(self.ranges[id].group);
    }
}
