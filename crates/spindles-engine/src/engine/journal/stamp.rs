//! The stamp of the journal's own device. Each opening that logs on the device stamps it before
//! superblocks count on that log, so that an old copy of the device has another stamp. The log then
//! begins with headers without entries, one in the journal of each position. So a log that is
//! absent or has a gap is known to be damaged. It counts as lost, and so does a log that can't be
//! read completely.
//!
//! Blocks are written one after another, so that a crash tears at most one block.
//!
//! A log ended by a stamp is no longer needed: every logged block is durably in place.

use crate::{
    Engine,
    journal::{JOURNAL_DEVICE, stamp::Stamp},
    recovery::log_index::LogIndex,
    system_io::Purpose,
};
use spindles_block::{MemberError, MemberResult, Operation};
use spindles_format::{JournalBatch, JournalWriter};

impl Engine {
    /// Returns true if superblocks may count on the log that was begun.
    pub(crate) fn journal_is_stamped(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_none_or(|journal| journal.stamp == Stamp::Done)
    }

    /// Stamps the device, unless that is under way. The update of superblocks continues afterwards.
    pub(crate) fn stamp_journal(&mut self) {
        let Some(mut journal) = self.journal.take_if(|it| it.stamp == Stamp::Wanted) else {
            return;
        };
        let left = self.present();
        journal.stamp = Stamp::UnderWay { left };
        let device = journal.device.expect("the log lies on a device");
        if device.nonce == journal.nonce {
            self.journal = Some(journal);
            return self.stamp_next();
        }
        let device = device.stamped(journal.nonce, self.log_counted_on());
        journal.device = Some(device);
        let bytes = self.metadata_buffer.bytes_mut(journal.page, 0);
        bytes.copy_from_slice(&device.encode());
        self.system_io(
            Purpose::JournalStamp,
            JOURNAL_DEVICE,
            Operation::Write { fua: true },
            device.slot_block(self.block_size),
            journal.page.blocks,
            self.metadata_buffer.slice(journal.page, 0),
        );
        self.journal = Some(journal);
    }

    /// Returns the nonce of the log on the device that superblocks count on; 0 if there is none.
    fn log_counted_on(&self) -> u64 {
        let persistence = self.metadata.persistence();
        let counted = persistence.map(|persistence| &persistence.array.journal);
        let counted = counted.filter(|journal| journal.on_device && journal.tail > 0);
        counted.map_or(0, |journal| journal.nonce)
    }

    /// Begins the next journal of the log, or continues with the superblocks.
    fn stamp_next(&mut self) {
        let mut journal = self.journal.take().expect("it is stamped");
        let Stamp::UnderWay { left } = journal.stamp else {
            panic!("stamped in state {:?}", journal.stamp);
        };
        let Some(member) = left.first().filter(|_| !journal.placement.is_lost()) else {
            journal.stamp = Stamp::Done;
            if journal.placement.is_lost() {
                journal.placement.choose();
                journal.record.on_device = false;
            }
            self.journal = Some(journal);
            return self.begin_update();
        };
        journal.stamp = Stamp::UnderWay {
            left: left.without(member),
        };
        let part = JournalBatch {
            array: journal.array,
            nonce: journal.record.nonce,
            sequence: journal.record.tail,
            member,
            place: 0,
        };
        JournalWriter::new(&part, &mut journal.draft).finish();
        let bytes = self.metadata_buffer.bytes_mut(journal.headers, member.0);
        bytes.copy_from_slice(journal.draft.bytes());
        let (device, start) = journal.placement.place(member);
        self.system_io_on(
            device,
            Purpose::JournalStamp,
            member,
            Operation::Write { fua: true },
            start,
            journal.headers.blocks,
            self.metadata_buffer.slice(journal.headers, member.0),
        );
        self.journal = Some(journal);
    }

    /// Handles the result of a write of the stamp. If the device failed, the members log.
    pub(crate) fn journal_stamped(&mut self, result: MemberResult) {
        self.log_failed(JOURNAL_DEVICE, result);
        self.stamp_next();
    }

    /// Returns true if the log lies on a device of its own, which may be lost.
    pub(super) fn logs_on_device(&self) -> bool {
        self.journal
            .as_ref()
            .is_some_and(|journal| journal.placement.is_device())
    }

    /// Checks a log that was read completely. If it lies on a device of its own and is not whole,
    /// the device counts as lost.
    pub(super) fn judge_log(&mut self) {
        let journal = self.journal.as_ref().expect("a replay has a journal");
        let replay = self.opening.replay_mut().expect("a replay is under way");
        if !journal.placement.is_device() || journal.placement.is_lost() {
            return;
        }
        if journal
            .device
            .is_some_and(|device| device.nonce != journal.record.nonce)
        {
            // The device was stamped since, and superblocks do not count on the stamp yet: every
            // logged block is in place.
            replay.log = LogIndex::default();
            return;
        }
        // Everything logged before a newer log is in place, if superblocks do not count on the
        // newer log yet.
        let begun = replay.begun;
        replay.log.forget_before(begun);
        if !replay.is_whole(journal.record.tail) {
            self.log_failed(JOURNAL_DEVICE, Err(MemberError::Corrupt));
        }
    }
}
