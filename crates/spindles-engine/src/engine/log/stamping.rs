//! Stamps the log's own device before superblocks count on its records.

use crate::{Engine, agenda::Due, output::Output};

impl Engine {
    /// Stamps the log's own device, unless that is under way. The update of superblocks continues
    /// afterwards.
    pub(crate) fn stamp_log(&mut self) {
        let persistence = self.metadata.persistence();
        let counted = persistence.map(|persistence| &persistence.array.journal);
        let counted = counted.filter(|log| log.on_device && log.tail > 0);
        let counted_on = counted.map_or(0, |log| log.nonce);
        if self.log.begin_stamp(counted_on, self.present()) {
            self.stamp_next();
        }
    }

    /// Writes the next block of the stamp, or continues with the superblocks.
    pub(crate) fn stamp_next(&mut self) {
        match self.log.next_stamp(&mut self.metadata_buffer) {
            Some(write) => self.outbox.put(Output::Member(write)),
            None => self.agenda.add(Due::Update),
        }
    }
}
