//! Disks that do not answer for a while, and hedged reads in the meantime: the owners of their
//! buffers, their number, and the time that clients wait.

use crate::devices::DiskIo;
use crate::world::World;
use spindles_block::{Instant, Operation};

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
            Stall::Until(until) if until > self.clock.now() => Some(until),
            Stall::NextRead { ns } if io.io.operation == Operation::Read => {
                *stall = Stall::None;
                Some(self.clock.now().plus_ns(ns))
            }
            Stall::None | Stall::Until(_) | Stall::NextRead { .. } => None,
        }
    }
}
