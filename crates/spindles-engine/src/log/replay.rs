//! The machine of a replay of the journals: its stages, its rows, and its findings.
//!
//! ```text
//!  Due ──▶ Scanning ──▶ Recording ──▶ Checking ──▶ Placing ──▶ Flushing ──▶ Listing ──▶ Ended
//!                                                     ▲            ▲           │
//!                                                     │ next rows  │           │ records are
//!                                                     └───┘     Proving        │ not whole
//!                                                                  ▲           ▼
//!                                                                  └─────── Resuming
//! ```
//!
//! Rows go one after the other: the machine asks for them with `Action::Take`, and the caller
//! reports `Input::RowsDone` or `Input::RecordBroken`. If the array fails, the replay is abandoned.

use crate::{
    RangeId,
    log::{relog::Proving, scan::Scanner},
    recovery::log_index::{LogIndex, Part, Run},
    slots::SlotSet,
};
use alloc::{collections::BTreeSet, vec::Vec};
use core::{mem::take, ops::Range};
use spindles_format::{JournalKind, RowSum};
use spindles_layout::GroupIndex;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waiting until the state found at opening is durable.
    Due,
    Scanning,
    /// Recording in the superblocks which members are missing.
    Recording,
    /// Reading the records of the last batch, to see whether they are whole.
    Checking,
    /// Writing the records that count to their places.
    Placing,
    /// Recording in the superblocks that the log continues after the last batch.
    Resuming,
    /// Completing the records that are not whole, if they can be proved, and logging them again.
    Proving,
    /// Removing blocks that are no longer lost from the list of bad blocks.
    Listing {
        resumes: bool,
    },
    Flushing {
        resumes: bool,
    },
    /// The replay ended, or was given up.
    Ended,
}

/// An event of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The state found at opening is durable.
    Found,
    /// The last journal ends.
    Scanned,
    /// The superblocks may be durable now.
    Recorded,
    /// The contents of the current rows are known. They can go to their places.
    RowsRead,
    /// The current rows, this many, are done.
    RowsDone(u32),
    /// The current record is not whole, and its batch may not be durable.
    RecordBroken,
    /// The log has no room for another record.
    LogIsFull,
    /// The log is lost. A resync settles what it held.
    LogLost,
    /// The flush of all members has ended.
    Flushed,
    /// The list of bad blocks may be durable now.
    Listed,
    /// The log can't be carried out in this opening.
    Abandoned,
}

/// The reply to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Wait for the next event.
    Wait,
    /// Read all journals.
    Scan,
    /// Begin with the next rows.
    Take,
    /// Write the current rows to their places.
    Place,
    /// Flush all members.
    Flush,
    /// Write the list of bad blocks.
    List,
    /// Let the log continue with batch `first` at `place`, and note that batches up to `last` were
    /// found. The superblocks record that.
    Resume { first: u64, place: u32, last: u64 },
    /// Begin a new log, and end the replay.
    End,
    /// Decide what to do without the log, whose device is lost.
    LoseLog,
    /// End the replay without a new log. These groups have rows in the log; `None` if unknown.
    Abandon(Option<Vec<u64>>),
}

/// The state of the superblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Superblocks {
    /// An update is under way.
    Busy,
    /// No update is under way. True if two generations of this opening are durable.
    Quiet { recorded: bool },
    /// Writing has stopped.
    Broken,
}

/// The parts of the array on which a replay depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) superblocks: Superblocks,
    /// True if the array has failed.
    pub(crate) has_failed: bool,
    /// True if the log's own device is lost.
    pub(crate) log_is_lost: bool,
    /// True if the list of bad blocks is durable, or can't be written.
    pub(crate) list_is_stored: bool,
    /// The first batch that counts.
    pub(crate) tail: u64,
}

impl Context {
    /// Returns true if the log can't be carried out: too many members failed, or members lack space
    /// and may not be put out, since they alone hold some blocks.
    fn fails(self) -> bool {
        self.has_failed || self.superblocks == Superblocks::Broken
    }
}

/// A replay under way. It may allocate, because the array does not serve requests yet.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    stage: Stage,
    scanner: Scanner,
    log: LogIndex,
    /// The rows being checked, placed or proved, and the index of the next of them.
    runs: Vec<Run>,
    next: usize,
    /// Finished rows of the next run.
    done_rows: u32,
    /// Incomplete records of batches that may not be durable.
    broken: Vec<Run>,
    proving: Proving,
    range: RangeId,
    replayed: u64,
    /// True while writes wait until it is durable which members are out.
    waits: bool,
}

impl Replay {
    /// Creates a replay that is due. It works with this stripe range.
    pub(crate) fn new(scanner: Scanner, range: RangeId) -> Self {
        Self {
            stage: Stage::Due,
            scanner,
            log: LogIndex::default(),
            runs: Vec::new(),
            next: 0,
            done_rows: 0,
            broken: Vec::new(),
            proving: Proving::Log,
            range,
            replayed: 0,
            waits: false,
        }
    }

    /// Handles an event.
    pub(crate) fn step(&mut self, input: Input, context: Context) -> Action {
        match (self.stage, input) {
            (Stage::Due, Input::Found) if context.has_failed => self.abandon(),
            (Stage::Due, Input::Found) => {
                self.stage = Stage::Scanning;
                Action::Scan
            }
            (Stage::Scanning, Input::Scanned) => {
                self.stage = Stage::Recording;
                self.recorded(context)
            }
            (_, Input::Recorded) => self.recorded(context),
            (_, Input::RowsRead) => self.place(context),
            (_, Input::RowsDone(rows)) => {
                self.done_rows += rows;
                self.next_rows(context)
            }
            (_, Input::RecordBroken) => {
                let run = self.runs[self.next].clone();
                self.log.drop_record(&run);
                self.broken.push(run);
                self.skip_run();
                self.next_rows(context)
            }
            (_, Input::LogIsFull) => self.flush(true),
            (_, Input::LogLost) => self.flush(false),
            (Stage::Flushing { resumes }, Input::Flushed) => {
                self.stage = Stage::Listing { resumes };
                Action::List
            }
            (Stage::Listing { resumes }, Input::Listed) => self.listed(resumes, context),
            (_, Input::Found | Input::Listed) => Action::Wait,
            (_, Input::Abandoned) => self.abandon(),
            (stage, input) => panic!("{input:?} in stage {stage:?} of a replay"),
        }
    }

    /// Continues when the superblocks record the missing members. After another crash, a replay
    /// with these members must not decide differently from this replay without them.
    fn recorded(&mut self, context: Context) -> Action {
        let (broken, recorded) = match context.superblocks {
            Superblocks::Busy => return Action::Wait,
            Superblocks::Quiet { recorded } => (false, recorded),
            Superblocks::Broken => (true, true),
        };
        let waits = take(&mut self.waits);
        let begins = self.stage == Stage::Recording && recorded;
        let resumes = self.stage == Stage::Resuming;
        if broken && (waits || begins || resumes) {
            self.abandon()
        } else if waits {
            self.place(context)
        } else if begins {
            self.check_last_batch(context)
        } else if resumes {
            self.prove(context)
        } else {
            Action::Wait
        }
    }

    /// Checks the last batch. A batch is durable if the next one was begun; of the last, a crash
    /// may have left a part.
    fn check_last_batch(&mut self, context: Context) -> Action {
        let is_durable = |batch| self.scanner.is_durable(batch);
        self.runs = self.log.undecided(is_durable);
        self.begin_runs(Stage::Checking, context)
    }

    /// Begins to prove the records that are not whole, now that the log continues.
    fn prove(&mut self, context: Context) -> Action {
        self.stage = Stage::Proving;
        if self.broken.is_empty() {
            return self.next_rows(context); // The log was full: continue with the same records.
        }
        self.runs = take(&mut self.broken);
        let log = &self.log;
        self.runs.retain(|run| !log.is_superseded(run));
        self.begin_runs(Stage::Proving, context)
    }

    fn begin_runs(&mut self, stage: Stage, context: Context) -> Action {
        (self.stage, self.next, self.done_rows) = (stage, 0, 0);
        self.next_rows(context)
    }

    fn skip_run(&mut self) {
        self.next += 1;
        self.done_rows = 0;
    }

    /// Continues with the next rows.
    fn next_rows(&mut self, context: Context) -> Action {
        if context.fails() {
            return self.abandon();
        }
        if context.log_is_lost {
            return Action::LoseLog;
        }
        while let Some(run) = self.runs.get(self.next) {
            if run.rows().start + self.done_rows < run.rows().end {
                return Action::Take;
            }
            self.skip_run();
        }
        self.runs_ended(context)
    }

    /// Continues after the last run: with the records to place, or with the flush of all places.
    fn runs_ended(&mut self, context: Context) -> Action {
        match self.stage {
            Stage::Placing => self.flush(!self.broken.is_empty()),
            Stage::Proving => self.flush(false),
            _ => {
                self.runs = self.log.runs();
                self.replayed = self.log.records();
                self.begin_runs(Stage::Placing, context)
            }
        }
    }

    /// Lets the current rows go to their places.
    fn place(&mut self, context: Context) -> Action {
        if context.fails() {
            return self.abandon();
        }
        if context.superblocks == Superblocks::Busy {
            // A member went out. Blocks decided without this member are placed only after the
            // superblocks record its loss.
            self.waits = true;
            return Action::Wait;
        }
        Action::Place
    }

    /// Makes the placed blocks durable. Afterwards the log continues if `resumes`, or else the
    /// replay ends.
    fn flush(&mut self, resumes: bool) -> Action {
        self.stage = Stage::Flushing { resumes };
        Action::Flush
    }

    /// Continues when the placed blocks and the list of lost blocks are durable. A new log begins,
    /// or the log continues without these records.
    fn listed(&mut self, resumes: bool, context: Context) -> Action {
        if !context.list_is_stored {
            return Action::Wait;
        }
        if context.fails() {
            return self.abandon();
        }
        if !resumes {
            self.stage = Stage::Ended;
            return Action::End;
        }
        self.stage = Stage::Resuming;
        let (first, place) = self.scanner.undecided(context.tail);
        let last = self.scanner.last();
        Action::Resume { first, place, last }
    }

    /// Gives up the replay. Later results must not continue it.
    fn abandon(&mut self) -> Action {
        let is_known = match self.stage {
            Stage::Due | Stage::Scanning | Stage::Recording | Stage::Checking => false,
            Stage::Placing
            | Stage::Resuming
            | Stage::Proving
            | Stage::Flushing { .. }
            | Stage::Listing { .. }
            | Stage::Ended => true,
        };
        (self.stage, self.waits) = (Stage::Ended, false);
        Action::Abandon(is_known.then(|| {
            // Records that are not whole may still count.
            let runs = [&self.log.runs()[..], &self.broken, &self.runs].concat();
            let groups: BTreeSet<u64> = runs.iter().map(|run| run.group().0).collect();
            groups.into_iter().collect()
        }))
    }

    // ---- the log ------------------------------------------------------------------------------

    /// Returns the reader of the journals, and the index of their records.
    pub(crate) fn reading(&mut self) -> (&mut Scanner, &mut LogIndex) {
        assert_eq!(self.stage, Stage::Scanning, "scanned twice");
        (&mut self.scanner, &mut self.log)
    }

    /// Drops all records: every logged block is in place.
    pub(crate) fn drop_all(&mut self) {
        self.log = LogIndex::default();
    }

    /// Drops the records before the newest log: they are in place, even if superblocks do not count
    /// on the newer log yet. Returns true if the log is whole from `tail` on.
    pub(crate) fn drop_old(&mut self, tail: u64) -> bool {
        self.log.forget_before(self.scanner.begun());
        self.scanner.is_whole(tail)
    }

    /// Returns the number of records that were replayed.
    pub(crate) fn replayed(&self) -> u64 {
        self.replayed
    }

    // ---- the current rows ---------------------------------------------------------------------

    /// Returns the stripe range that the replay works with.
    pub(crate) fn range(&self) -> RangeId {
        self.range
    }

    fn run(&self) -> &Run {
        &self.runs[self.next]
    }

    /// Returns the group of the current rows, and the rows that are left of their run.
    pub(crate) fn rows(&self) -> (GroupIndex, Range<u32>) {
        let run = self.run();
        let left = run.rows().start + self.done_rows..run.rows().end;
        (run.group(), left)
    }

    /// Returns the slots of the current rows whose newest contents are blocks in the log, and those
    /// whose contents are zeros.
    pub(crate) fn slots(&self) -> (SlotSet, SlotSet) {
        let (mut data, mut zeros) = (SlotSet::EMPTY, SlotSet::EMPTY);
        for (slot, kind) in self.log.slots(self.run()) {
            match kind {
                JournalKind::Data => data = data.with(slot),
                JournalKind::Zeros => zeros = zeros.with(slot),
            }
        }
        (data, zeros)
    }

    /// Returns the slots of the current rows whose newest part is missing from the log.
    pub(crate) fn lacks(&self) -> SlotSet {
        self.run().lacks()
    }

    /// Returns the slots that the current record wrote.
    pub(crate) fn record_slots(&self) -> SlotSet {
        self.log.record_slots(self.run())
    }

    /// Returns the slots that the current rows have after the replay as they were logged.
    pub(crate) fn replayed_slots(&self) -> SlotSet {
        match self.stage {
            Stage::Proving => self.record_slots(),
            _ => self.log.all_slots(self.run()),
        }
    }

    /// Returns the newest logged part of a slot of the current rows.
    pub(crate) fn part(&self, slot: u8) -> &Part {
        self.log.part(self.run(), slot)
    }

    /// Returns the logged checksums of these rows of a slot.
    pub(crate) fn checksums(&self, slot: u8, low: u32, blocks: u32) -> &[u32] {
        self.log.checksums(self.part(slot), low, blocks)
    }

    /// Returns the logged checksum of a row of a slot; `None` for zeros.
    pub(crate) fn checksum(&self, slot: u8, row: u32) -> Option<u32> {
        self.log.checksum(self.part(slot), row)
    }

    /// Returns the logged row sum of a row of a slot.
    pub(crate) fn row_sum(&self, slot: u8, row: u32) -> RowSum {
        self.log.row_sum(self.part(slot), row)
    }

    /// Returns true if the current rows are only checked.
    pub(crate) fn is_checking(&self) -> bool {
        self.stage == Stage::Checking
    }

    /// Returns true if the current rows go to their places.
    pub(crate) fn is_placing(&self) -> bool {
        self.stage == Stage::Placing
    }

    /// Returns true if the current rows are of a record that is not whole.
    pub(crate) fn is_proving(&self) -> bool {
        self.stage == Stage::Proving
    }

    /// Returns the progress with the proof of the current rows.
    pub(crate) fn proving(&self) -> Proving {
        self.proving
    }

    /// Sets the progress with the proof of the current rows.
    pub(crate) fn set_proving(&mut self, proving: Proving) {
        self.proving = proving;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{log::scan::Sought, system_io::MetadataBuffer};
    use spindles_block::{BlockSize, BufferId, MemberIndex};
    use spindles_format::{JOURNAL_HEADER_BYTES, JournalBatch, JournalEntry, JournalWriter, Uuid};

    const QUIET: Context = Context {
        superblocks: Superblocks::Quiet { recorded: true },
        has_failed: false,
        log_is_lost: false,
        list_is_stored: true,
        tail: 1,
    };
    const BUSY: Context = Context {
        superblocks: Superblocks::Busy,
        ..QUIET
    };
    const BROKEN: Context = Context {
        superblocks: Superblocks::Broken,
        ..QUIET
    };
    const FAILED: Context = Context {
        has_failed: true,
        ..QUIET
    };

    /// Returns a replay whose journals are read. The log writes zeros to row 0 of slot 0 of each of
    /// these groups, with a batch for each.
    fn scanned(groups: &[u64]) -> Replay {
        let mut buffer = MetadataBuffer::new(BufferId::NONE, BlockSize::B4096, 1);
        let window = buffer.reserve(1, 8);
        buffer.provide();
        let sought = Sought {
            array: Uuid([1; 16]),
            nonce: 7,
            tail: QUIET.tail,
            ring_blocks: 8,
            header_blocks: 1,
        };
        let member = MemberIndex(0);
        let mut headers = buffer
            .bytes_mut(window, 0)
            .chunks_exact_mut(JOURNAL_HEADER_BYTES);
        for (place, group) in (0..).zip(groups) {
            let batch = JournalBatch {
                array: sought.array,
                nonce: sought.nonce,
                sequence: QUIET.tail + u64::from(place),
                place,
                member,
            };
            let out = headers.next().expect("a short log");
            let mut header = JournalWriter::new(&batch, out, JOURNAL_HEADER_BYTES);
            let zeros = JournalEntry {
                group: *group,
                low: 0,
                blocks: 1,
                slots: 1,
                slot: 0,
                kind: JournalKind::Zeros,
                row_sums: false,
                place: 0,
            };
            header.entry(&zeros, &[], &[]);
            header.finish();
        }
        let mut replay = Replay::new(Scanner::new(1, window), RangeId(9));
        assert_eq!(replay.step(Input::Found, QUIET), Action::Scan);
        let (scanner, log) = replay.reading();
        scanner.next_read(member, false, &sought, &buffer);
        scanner.window_read(member, &sought, &buffer, |batch, entry, sums| {
            log.add(batch, member, entry, sums);
        });
        replay
    }

    fn is_at(replay: &Replay, group: u64) -> bool {
        replay.rows() == (GroupIndex(group), 0..1)
    }

    #[test]
    fn the_last_batch_is_checked_before_anything_is_placed() {
        let mut replay = scanned(&[4, 7]);
        assert_eq!(replay.step(Input::Scanned, QUIET), Action::Take);
        assert!(replay.is_checking() && is_at(&replay, 7));
        assert_eq!(replay.step(Input::RowsDone(1), QUIET), Action::Take);
        for group in [4, 7] {
            assert!(replay.is_placing() && is_at(&replay, group));
            assert_eq!(replay.step(Input::RowsRead, QUIET), Action::Place);
            replay.step(Input::RowsDone(1), QUIET);
        }
        assert_eq!(replay.step(Input::Flushed, QUIET), Action::List);
        assert_eq!(replay.step(Input::Listed, QUIET), Action::End);
        assert_eq!(replay.replayed(), 2);
    }

    #[test]
    fn nothing_is_decided_before_the_missing_members_are_recorded() {
        let mut replay = scanned(&[4]);
        let unrecorded = Context {
            superblocks: Superblocks::Quiet { recorded: false },
            ..QUIET
        };
        assert_eq!(replay.step(Input::Scanned, BUSY), Action::Wait);
        assert_eq!(replay.step(Input::Recorded, unrecorded), Action::Wait);
        assert_eq!(replay.step(Input::Recorded, QUIET), Action::Take);
    }

    #[test]
    fn rows_are_placed_when_the_loss_of_a_member_is_recorded() {
        let mut replay = scanned(&[4]);
        replay.step(Input::Scanned, QUIET);
        replay.step(Input::RowsDone(1), QUIET);
        assert_eq!(replay.step(Input::RowsRead, BUSY), Action::Wait);
        assert_eq!(replay.step(Input::Recorded, BUSY), Action::Wait);
        assert_eq!(replay.step(Input::Recorded, QUIET), Action::Place);
        assert_eq!(replay.step(Input::Recorded, QUIET), Action::Wait, "once");
    }

    #[test]
    fn a_record_that_is_not_whole_is_proved_after_the_others_are_durable() {
        let mut replay = scanned(&[4, 7]);
        replay.step(Input::Scanned, QUIET);
        assert_eq!(replay.step(Input::RecordBroken, QUIET), Action::Take);
        assert!(replay.is_placing() && is_at(&replay, 4));
        assert_eq!(replay.step(Input::RowsDone(1), QUIET), Action::Flush);
        assert_eq!(replay.step(Input::Flushed, QUIET), Action::List);
        let resume = Action::Resume {
            first: 2,
            place: 1,
            last: 2,
        };
        assert_eq!(replay.step(Input::Listed, QUIET), resume);
        assert_eq!(replay.step(Input::Recorded, QUIET), Action::Take);
        assert!(replay.is_proving() && is_at(&replay, 7));
        // Without room, the records logged again become durable, and the same record follows.
        assert_eq!(replay.step(Input::LogIsFull, QUIET), Action::Flush);
        replay.step(Input::Flushed, QUIET);
        assert_eq!(replay.step(Input::Listed, QUIET), resume);
        assert_eq!(replay.step(Input::Recorded, QUIET), Action::Take);
        assert!(replay.is_proving() && is_at(&replay, 7));
        assert_eq!(replay.step(Input::RowsDone(1), QUIET), Action::Flush);
        replay.step(Input::Flushed, QUIET);
        assert_eq!(replay.step(Input::Listed, QUIET), Action::End);
    }

    #[test]
    fn the_list_is_durable_before_the_log_ends() {
        let mut replay = scanned(&[]);
        assert_eq!(replay.step(Input::Scanned, QUIET), Action::Flush);
        assert_eq!(replay.step(Input::Listed, QUIET), Action::Wait, "too early");
        replay.step(Input::Flushed, QUIET);
        let unlisted = Context {
            list_is_stored: false,
            ..QUIET
        };
        assert_eq!(replay.step(Input::Listed, unlisted), Action::Wait);
        assert_eq!(replay.step(Input::Listed, QUIET), Action::End);
    }

    #[test]
    fn an_abandoned_replay_names_the_groups_once_it_knows_them() {
        let mut replay = scanned(&[4, 7]);
        assert_eq!(replay.step(Input::Scanned, BROKEN), Action::Abandon(None));
        let mut replay = scanned(&[4, 7]);
        replay.step(Input::Scanned, QUIET);
        let abandon = Action::Abandon(None);
        assert_eq!(replay.step(Input::RowsDone(1), FAILED), abandon);
        let mut replay = scanned(&[7, 4]);
        replay.step(Input::Scanned, QUIET);
        replay.step(Input::RecordBroken, QUIET);
        let abandon = Action::Abandon(Some(vec![4, 7]));
        assert_eq!(replay.step(Input::RowsRead, FAILED), abandon);
        assert_eq!(replay.step(Input::Recorded, QUIET), Action::Wait);
        assert_eq!(replay.step(Input::Listed, QUIET), Action::Wait);
    }

    #[test]
    fn a_log_that_is_lost_ends_the_rows() {
        let mut replay = scanned(&[4]);
        let lost = Context {
            log_is_lost: true,
            ..QUIET
        };
        assert_eq!(replay.step(Input::Scanned, lost), Action::LoseLog);
        assert_eq!(replay.step(Input::LogLost, lost), Action::Flush);
    }

    #[test]
    #[should_panic(expected = "Flushed in stage Scanning of a replay")]
    fn an_event_that_no_stage_awaits_is_a_bug() {
        scanned(&[4]).step(Input::Flushed, QUIET);
    }
}
