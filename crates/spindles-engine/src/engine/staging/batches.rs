//! Batches: the writes that wait go to their holders with one write each.

use crate::{
    Engine, RangeId,
    engine::Closing,
    output::Output,
    stage::{BatchEvent, ColumnWrite, Context, Next, WriteId},
    staging::{Life, STAGE_STEP},
    stripe::{self, Past},
    system_io::Purpose,
};
use spindles_block::{BufferSlice, MemberIndex, MemberIo, MemberResult, Operation, RequestError};

impl Engine {
    /// Forms the next batch. The loss of all members that are out is durable before a batch without
    /// their columns begins.
    pub(crate) fn append_stage(&mut self) -> bool {
        let is_recorded = self.metadata.is_recorded();
        if !is_recorded || self.metadata.may_count_on(self.members.missing()) {
            return false;
        }
        let staging = self.staging.as_ref().expect("the array has a stage");
        let is_in_haste = self.closing != Closing::Open || staging.is_awaited;
        if !is_in_haste && staging.pace.waits_until(self.now).is_some() {
            return false;
        }
        let (present, lost) = (self.holders(), self.members.lost().count());
        let parity = u32::from(self.geometry.parity_chunks()).saturating_sub(lost);
        let staging = self.staging.as_mut().expect("the array has a stage");
        let context = Context {
            present,
            slow: self.slow.avoided().difference(self.members.lost()),
            parity: u8::try_from(parity).expect("as the array has"),
        };
        let header = self.metadata_buffer.bytes_mut(staging.header, 0);
        let next = staging.stage.append(&context, header);
        self.stage_goes_on(next)
    }

    /// Handles the end of a computation of the batch.
    pub(crate) fn batch_computed(&mut self) {
        if self.staging().life == Life::Loading {
            return self.load_computed();
        }
        let staging = self.staging.as_mut().expect("the array has a stage");
        let header = self.metadata_buffer.bytes_mut(staging.header, 0);
        let next = staging.stage.computed(header);
        self.stage_goes_on(next);
    }

    fn stage_goes_on(&mut self, next: Next) -> bool {
        match next {
            Next::Nothing | Next::TooFew => false,
            Next::Full => {
                self.staging().is_awaited = true;
                false
            }
            Next::Compute => {
                self.outbox.put(Output::Compute(STAGE_STEP));
                true
            }
            Next::Write => {
                while let Some(column) = self.staging().stage.next_column() {
                    self.write_column(column);
                }
                true
            }
        }
    }

    fn write_column(&mut self, column: ColumnWrite) {
        let staging = self.staging();
        let (header, header_blocks) = (staging.header, staging.header_blocks());
        let buffer = match column.blocks {
            0 => self.metadata_buffer.slice(header, 0),
            _ => BufferSlice::PIECES,
        };
        let holder = column.to.holder;
        let io = MemberIo {
            id: Purpose::StageBatch.id(holder),
            member: holder,
            operation: Operation::Write { fua: column.fua },
            block: self.stage_block(holder, column.to.place),
            blocks: header_blocks + column.blocks,
            buffer,
        };
        self.outbox.put(Output::Member(io));
    }

    /// Handles the result of a column's write. A holder that failed is out, durably, before the
    /// batch is written again.
    pub(crate) fn column_written(&mut self, holder: MemberIndex, result: MemberResult) {
        self.stage_io_failed(holder, result);
        let now = self.now;
        let event = self.staging().stage.column_done(result.is_ok(), now);
        if event != BatchEvent::Answered {
            return;
        }
        self.staging().answered(now);
        while let Some(WriteId(id)) = self.staging().stage.next_answered() {
            self.go_on(RangeId(id), stripe::Next::Acknowledge(Past::NOTHING));
        }
    }

    /// Gives up the writes that wait, because nothing is written from now on.
    pub(crate) fn abandon_staged(&mut self) -> bool {
        let staging = self.staging();
        if staging.stage.is_under_way() {
            return false;
        }
        let Some(WriteId(id)) = staging.stage.abandon_next() else {
            return false;
        };
        self.ranges[RangeId(id)].error = Some(RequestError::BeyondTolerance);
        self.go_on(RangeId(id), stripe::Next::Acknowledge(Past::NOTHING));
        true
    }
}
