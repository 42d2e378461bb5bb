//! Closes an array: waits for work under way, flushes all members, clears the dirty bits, and marks
//! the superblocks clean.

use super::Closing;
use crate::{
    Engine,
    member::ArrayState,
    output::{Event, Output},
    system_io::Purpose,
};

impl Engine {
    pub(super) fn pump_closing(&mut self) {
        self.begin_closing();
        self.bits_cleared_while_closing();
        self.update_done_while_closing();
    }

    fn begin_closing(&mut self) {
        if self.closing != Closing::Draining || !self.idle() {
            return;
        }
        let active = self.present();
        if active.is_empty() {
            self.closed(false);
            return;
        }
        self.flush_active(Purpose::ClosingFlush);
        self.closing = Closing::Flushing;
    }

    /// Begins the last steps of a close: clears the dirty bits if everything is settled. Then the
    /// array is marked clean if it is.
    pub(crate) fn mark_closed(&mut self) {
        self.clear_all_bits();
        self.closing = Closing::Clearing;
        self.write_bitmaps();
    }

    fn bits_cleared_while_closing(&mut self) {
        let done = self.bitmaps_are_stored() || self.metadata.is_broken();
        let done = done && self.bad_blocks_are_stored();
        if self.closing != Closing::Clearing || !done {
            return;
        }
        let clean = self.settled.everywhere()
            && !self.metadata.is_broken()
            && self.state() != ArrayState::Failed;
        self.closing = Closing::Marking;
        if self.note_scrub_mark() {
            self.want_update();
        }
        if clean && self.metadata.is_dirty() {
            self.metadata.set_dirty(false);
            self.want_update();
        }
        if self.note_marks_at_close() {
            self.want_update();
        }
        if self.metadata.has_new_errors() && !self.has_failed() {
            self.want_update();
        }
    }

    /// Ends a close when its superblock update is durable, and so is the loss of any member during
    /// it.
    fn update_done_while_closing(&mut self) {
        let quiet = !self.metadata.busy() && self.areas_are_quiet();
        if self.closing == Closing::Marking && quiet {
            self.closed(!self.metadata.is_dirty() && !self.metadata.is_broken());
        }
    }

    fn closed(&mut self, clean: bool) {
        self.closing = Closing::Closed;
        self.outbox.put(Output::Event(Event::Closed { clean }));
    }
}
