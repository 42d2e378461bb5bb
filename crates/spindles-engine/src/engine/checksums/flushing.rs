//! Flushes members for the engine itself. Flushes that rely on checksums wait until changed pages
//! are written.

use crate::{Engine, Mutation, checksums::pages::Flush, system_io::Purpose};
use spindles_block::MemberSet;

impl Engine {
    /// Flushes all present members for the engine itself. Returns the number of flushes.
    pub(crate) fn flush_active(&mut self, purpose: Purpose) -> u32 {
        self.flush_counted(self.present(), purpose)
    }

    /// Flushes these members for the engine itself. `flushed` is called when the last flush with
    /// this purpose has ended. Returns the number of flushes.
    pub(crate) fn flush_counted(&mut self, members: MemberSet, purpose: Purpose) -> u32 {
        self.own_flushes.begin(purpose, members.count());
        self.flush(members, purpose);
        members.count()
    }

    /// Flushes these members for the engine itself. If others build on the flush, changed checksums
    /// are written first.
    pub(crate) fn flush(&mut self, members: MemberSet, purpose: Purpose) {
        if !self.defers_flush(members, purpose) {
            self.send_flush(members, purpose);
        }
    }

    /// Defers a flush until the pages that changed before are written. Returns false if the flush
    /// need not wait for pages.
    pub(crate) fn defers_flush(&mut self, members: MemberSet, purpose: Purpose) -> bool {
        let careless = purpose == Purpose::JournalRelease
            && self.mutated(Mutation::ReuseJournalWithoutChecksums);
        let Some(pages) = &mut self.pages else {
            return false;
        };
        purpose.needs_pages() && !careless && pages.defer(Flush::System(purpose, members))
    }
}
