//! Disks that do not answer for a while, and hedged reads in the meantime: the owners of their
//! buffers, their number, and the time that clients wait.

use crate::checkers::Seen;
use crate::world::{DiskIo, World, index};
use spindles_block::{BufferId, BufferSlice, Instant, Operation};

/// The answers that a disk delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// None.
    None,
    /// All, until then.
    Until(Instant),
    /// The next read that it would have answered, by `ns` nanoseconds.
    NextRead { ns: u64 },
}

/// Counters of the outermost array's reads since its opening.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    /// Reads of members.
    pub(crate) of_members: u64,
    /// Reads that the engine hedged.
    pub(crate) hedged: u64,
}

impl World {
    /// Delays all answers of a disk for a while, or one of its reads.
    pub fn stall(&mut self, disk: usize, ns: u64, one_read: bool) {
        let what = if one_read { "one read" } else { "everything" };
        self.note(&format!("disk {disk} stalls for {ns} ns: {what}"));
        let now = self.now();
        self.client.stalled_at.get_or_insert(now);
        self.stalls[disk] = if one_read {
            Stall::NextRead { ns }
        } else {
            Stall::Until(self.now().plus_ns(ns))
        };
    }

    /// Returns until when the answer to an operation is delayed; `None` if it is not.
    pub(crate) fn held_up(&mut self, io: &DiskIo) -> Option<Instant> {
        let stall = self.stalls.get_mut(io.disk)?;
        match *stall {
            Stall::Until(until) if until > self.queue.now() => Some(until),
            Stall::NextRead { ns } if io.io.operation == Operation::Read => {
                *stall = Stall::None;
                Some(self.queue.now().plus_ns(ns))
            }
            Stall::None | Stall::Until(_) | Stall::NextRead { .. } => None,
        }
    }

    /// Lends buffers for hedges to the outermost array, which was just opened.
    pub(crate) fn lend(&mut self, array: usize) {
        if array != self.stack.top() {
            return;
        }
        self.reads = Reads::default();
        let hedges = self.options.limit_hedges;
        let lent = self.client.own_all_buffers(hedges);
        if hedges == 0 {
            return;
        }
        let blocks = self.options.request_blocks_max.max(64);
        let bytes = index(blocks) * self.stack.block_bytes;
        let first = index(lent.end - hedges - self.options.depth);
        for buffer in &mut self.buffers[first..] {
            buffer.resize(buffer.len().max(bytes), 0xdd);
        }
        for buffer in lent {
            let engine = self.engines[array].as_mut().expect("it was opened");
            let area = BufferSlice {
                buffer: BufferId(buffer),
                first_block: 0,
            };
            engine.lend(area, blocks);
        }
    }

    /// Checks the buffer that a disk is about to fill with data read.
    pub(crate) fn fills(&mut self, io: &DiskIo) {
        let buffer = io.io.buffer.buffer;
        let clients = self.client.keeps(buffer);
        if clients {
            let disk = io.disk;
            self.show(&Seen::DiskRead { disk, clients });
        }
    }

    /// Counts the reads that the engine hedged since the last call.
    pub(crate) fn watch_hedges(&mut self, array: usize) {
        if array != self.stack.top() || !self.is_open(array) {
            return;
        }
        let hedged = self.engine(array).hedged_reads();
        let more = hedged - self.reads.hedged;
        if more > 0 {
            self.reads.hedged = hedged;
            *self.struck.entry("hedged").or_default() += more;
            let reads = self.reads.of_members;
            self.show(&Seen::Hedged { hedged, reads });
        }
    }
}
