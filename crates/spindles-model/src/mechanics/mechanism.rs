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
    pub(crate) sectors_per_track: u32,
    /// Sectors in a row before the first that passed while the head waited.
    pub(crate) before: u64,
}

impl Pass {
    pub(crate) const fn end_sector(&self) -> u64 {
        self.first + self.count
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

    pub(crate) fn pass_ns(&self, pass: &Pass, sectors: u64) -> u64 {
        self.spindle.pass_ns(sectors, pass.sectors_per_track)
    }

    pub(crate) fn end(&self, pass: &Pass) -> u64 {
        pass.start + self.pass_ns(pass, pass.count)
    }

    /// The next pass of a read of sectors `from` to `to`, not before `now`.
    pub(crate) fn read(&mut self, from: u64, to: u64, now: u64, counts: bool) -> Pass {
        let piece = self.geometry.piece(from, to - from);
        let moved = self.move_ns(piece.cylinder, piece.surface, false);
        let start = self.reach(&piece, now, false, counts);
        let sector_ns = self.spindle.pass_ns(1, piece.sectors_per_track).max(1);
        Pass {
            first: from,
            count: piece.count,
            start,
            sectors_per_track: piece.sectors_per_track,
            before: piece.before.min((start - now - moved) / sector_ns),
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
                sectors_per_track: piece.sectors_per_track,
                before: 0,
            };
            let there = self.there_in_time(&pass, done, inflow);
            if there == 0 {
                let late = inflow.there(done).max(reached + 1);
                self.rotation_ns += late - reached;
                now = late;
                continue;
            }
            pass.count = there;
            let passed = self.pass_ns(&pass, there);
            self.transfer_ns += passed;
            now = reached + passed;
            done += there;
        }
        self.free_at = now;
        now
    }

    /// Sectors of a pass that flow in before their places pass. Both grow evenly, so the last
    /// sector decides; else a search finds the first that is late.
    fn there_in_time(&self, pass: &Pass, done: u64, inflow: Inflow) -> u64 {
        let is_there =
            |index: u64| inflow.there(done + index) <= pass.start + self.pass_ns(pass, index);
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
}
