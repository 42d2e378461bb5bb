//! The arm, the heads and the medium: when a piece passes under its head.

use super::geometry::{Geometry, Piece};
use super::seek::Seeks;
use super::spindle::Spindle;

/// A piece that passes under the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) start: u64,
    pub(crate) sector_fs: u64,
    /// Sectors in a row before the first that passed while the head waited.
    pub(crate) before: u64,
}

impl Pass {
    pub(crate) const fn end_sector(&self) -> u64 {
        self.first + self.count
    }

    /// The transfer time of a number of sectors.
    pub(crate) const fn ns(&self, sectors: u64) -> u64 {
        sectors * self.sector_fs / 1_000_000
    }

    /// The moment at which the last sector has passed.
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.ns(self.count)
    }
}

/// Data of a write that flows in: sector `i` is there at `from + (i + 1) * sector_ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inflow {
    pub(crate) from: u64,
    pub(crate) sector_ps: u64,
}

impl Inflow {
    fn there(&self, index: u64) -> u64 {
        self.from + (index + 1) * self.sector_ps / 1000
    }
}

#[derive(Debug)]
pub(crate) struct Mechanism {
    pub(crate) geometry: Geometry,
    pub(crate) spindle: Spindle,
    pub(crate) seeks: Seeks,
    pub(crate) head_switch_ns: u64,
    /// Added to a move before a write.
    pub(crate) write_settle_ns: i64,
    pub(crate) cylinder: u32,
    pub(crate) surface: u32,
    /// The work so far ends at this moment.
    pub(crate) free_at: u64,
    pub(crate) seek_ns: u64,
    pub(crate) rotation_ns: u64,
    pub(crate) transfer_ns: u64,
}

impl Mechanism {
    /// The time of a move to a cylinder and surface.
    pub(crate) fn move_ns(&self, cylinder: u32, surface: u32, is_write: bool) -> u64 {
        let seek = self.seeks.ns(self.cylinder.abs_diff(cylinder));
        let switch = if self.surface == surface {
            0
        } else {
            self.head_switch_ns
        };
        let moved = seek.max(switch);
        if is_write && (self.cylinder != cylinder || self.surface != surface) {
            moved.saturating_add_signed(self.write_settle_ns)
        } else {
            moved
        }
    }

    /// Moves to a piece; returns the time when its first sector starts to pass.
    fn reach(&mut self, piece: &Piece, now: u64, is_write: bool, counts: bool) -> u64 {
        let moved = self.move_ns(piece.cylinder, piece.surface, is_write);
        let wait = self.spindle.wait_ns(now + moved, piece.angle);
        self.cylinder = piece.cylinder;
        self.surface = piece.surface;
        if counts {
            self.seek_ns += moved;
            self.rotation_ns += wait;
        }
        now + moved + wait
    }

    /// The next pass of a read of sectors `from` to `to`, not before `now`.
    pub(crate) fn read(&mut self, from: u64, to: u64, now: u64, counts: bool) -> Pass {
        let piece = self.geometry.piece(from, to - from);
        let moved = self.move_ns(piece.cylinder, piece.surface, false);
        let start = self.reach(&piece, now, false, counts);
        let waited_fs = (start - now - moved) * 1_000_000;
        Pass {
            first: from,
            count: piece.count,
            start,
            sector_fs: piece.sector_fs,
            before: piece.before.min(waited_fs / piece.sector_fs),
        }
    }

    /// Writes sectors in order. A sector that is not there when its place passes costs a turn.
    pub(crate) fn write(&mut self, first: u64, count: u64, start: u64, inflow: Inflow) -> u64 {
        let mut now = start.max(self.free_at);
        let mut done = 0;
        while done < count {
            let piece = self.geometry.piece(first + done, count - done);
            let reached = self.reach(&piece, now, true, true);
            let mut pass = Pass {
                first: piece.first,
                count: piece.count,
                start: reached,
                sector_fs: piece.sector_fs,
                before: 0,
            };
            let there = there_in_time(&pass, done, inflow);
            if there == 0 {
                let late = inflow.there(done).max(reached + 1);
                self.rotation_ns += late - reached;
                now = late;
                continue;
            }
            pass.count = there;
            let passed = pass.ns(there);
            self.transfer_ns += passed;
            now = reached + passed;
            done += there;
        }
        self.free_at = now;
        now
    }
}

/// Sectors of a pass that flow in before their places pass. Both grow evenly, so the last
/// sector decides; else a search finds the first that is late.
fn there_in_time(pass: &Pass, done: u64, inflow: Inflow) -> u64 {
    let is_there = |index: u64| inflow.there(done + index) <= pass.start + pass.ns(index);
    if is_there(0) && is_there(pass.count - 1) {
        return pass.count;
    }
    let (mut least, mut most) = (0, pass.count);
    while least < most {
        let middle = least.midpoint(most);
        if is_there(middle) {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    least
}
