//! Scrubs of the simulator itself, and what scrubs report.

use crate::checkers::Seen;
use crate::session::drain;
use crate::world::World;
use spindles_engine::{Command, Event, Repair, Scrub};

impl World {
    /// Scrubs an array from start to end.
    pub(crate) fn scrub_quietly(&mut self, array: usize) {
        self.scrubs_quietly = true;
        let scrub = Scrub {
            anew: true,
            repair: Repair::Located,
        };
        self.command(array, Command::Scrub(scrub));
        drain(self);
        self.scrubs_quietly = false;
    }

    /// Returns true if an array is open, in sync, not given up, and has redundancy left.
    pub(crate) fn may_be_scrubbed(&self, array: usize) -> bool {
        let this = &self.stack.arrays[array];
        self.arrays.is_open(array)
            && this.geometry.redundancy() > 0
            && this.geometry.survives(this.lost)
            && !self.stack.is_given_up(array)
            && !this.unsettled
    }

    /// Handles an event of a scrub.
    pub(crate) fn note_scrub_event(&mut self, event: &Event) {
        self.reported.push(*event);
        if !self.scrubs_quietly && !self.excuses_errors() {
            self.show(&Seen::Reported { event });
        }
    }

    /// Makes all writes durable.
    pub(crate) fn flush_disks(&mut self) {
        for disk in &mut self.stack.disks {
            let covered = disk.flush_begins();
            disk.flush_ends(covered);
        }
    }
}
