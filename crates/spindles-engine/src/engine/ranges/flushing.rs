//! Flushes of all members for stripe ranges: those of clients, and those before certain answers.

use crate::{
    Engine, RangeId, SLOT_BITS,
    output::Output,
    stripe::{Next, Past, Stage},
};
use spindles_block::{
    BlockIndex, BufferSlice, MemberIo, MemberIoId, MemberSet, Operation, RequestError,
};

impl Engine {
    /// Flushes all members before a stripe range that wrote is answered.
    #[cold]
    pub(crate) fn flush_for(&mut self, id: RangeId, past: Past) {
        self.ranges[id].move_to(Stage::Flushing(past));
        self.flush_of_range(id);
    }

    /// Flushes all members for a stripe range.
    pub(crate) fn flush_members(&mut self, id: RangeId, skip: bool) -> Next {
        let range = &mut self.ranges[id];
        range.reset();
        range.low = 0;
        range.blocks = 0;
        range.end = 0;
        if skip {
            return Next::Acknowledge(Past::NOTHING);
        }
        self.flush_of_range(id);
        Next::Wait
    }

    /// Flushes all members for a stripe range, and for all others that join before the flush
    /// begins.
    fn flush_of_range(&mut self, id: RangeId) {
        self.rounds.join(id);
        self.begin_flush();
    }

    fn begin_flush(&mut self) {
        let Some(first) = self.rounds.begin() else {
            return;
        };
        self.ranges[first].covers = self.flushes.begins();
        if let Some(staging) = &mut self.staging {
            (_, staging.round) = staging.stage.flush();
            // Settled rows, and checksums that follow, do not count as writes.
            let is_clients = |id: RangeId| self.ranges[id].blocks == 0;
            let is_clients = self.rounds.sharing().all(is_clients);
            if is_clients && self.flushes.is_all_durable() {
                // Only staged writes are not durable: pages and places have time (rule 1).
                return self.flush_staged(first);
            }
        }
        if !self.defers_flush_of_range(first) {
            self.send_flush_of_range(first);
        }
    }

    /// Handles the end of the flush that `first` sent for all stripe ranges that share it.
    pub(super) fn flush_of_range_ended(&mut self, first: RangeId) {
        if self.has_failed() {
            self.ranges[first].error = Some(RequestError::BeyondTolerance);
        }
        let error = self.ranges[first].error;
        if error.is_none() {
            self.flushes.ended(self.ranges[first].covers);
            if let Some(staging) = &mut self.staging {
                staging.stage.flushed(staging.round);
            }
        }
        while let Some(id) = self.rounds.next_ended() {
            self.ranges[id].error = self.ranges[id].error.or(error);
            if self.keep_late_checksums(id) {
                self.rounds.join(id);
            } else {
                let past = self.ranges[id].stage().past();
                self.ranges[id].move_to(Stage::Acknowledging(past));
                self.waits.is_ready(id);
            }
        }
        self.begin_flush();
    }

    /// Flushes the holders of staged writes.
    fn flush_staged(&mut self, id: RangeId) {
        let staging = self.staging.as_ref().expect("it has staged writes");
        let (holders, _) = staging.stage.flush();
        let lost = self.members.lost();
        self.send_flush_to(id, holders.difference(lost));
    }

    pub(crate) fn send_flush_of_range(&mut self, id: RangeId) {
        self.send_flush_to(id, self.present());
    }

    fn send_flush_to(&mut self, id: RangeId, active: MemberSet) {
        if active.is_empty() {
            return self.flush_of_range_ended(id);
        }
        self.ranges[id].pending = active.count();
        for member in active.iter() {
            self.outbox.put(Output::Member(MemberIo {
                id: MemberIoId(id.0 << SLOT_BITS | u32::from(member.0)),
                member,
                operation: Operation::Flush,
                block: BlockIndex(0),
                blocks: 0,
                buffer: BufferSlice::NONE,
            }));
        }
    }
}
