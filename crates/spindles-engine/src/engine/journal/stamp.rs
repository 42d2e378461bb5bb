//! A device of its own for the journal is stamped by each opening that logs on it, before superblocks
//! count on that: an old copy of the device has another stamp. Its log then begins with headers without
//! entries, one in the journal of each position. So a log of which nothing is there, or that has a gap,
//! is known to be damaged: it counts as lost, as it does where a part of it can't be read.
//!
//! What is written comes one after another, so that a crash tears at most one of the blocks.
//!
//! The log that a stamp puts an end to is not needed any more: all that it held is in its place, durably.

use crate::{
    Engine,
    journal::{JOURNAL_DEVICE, stamp::Stamp},
    recovery::log_index::LogIndex,
    system_io::Purpose,
};
use spindles_block::{MemberError, MemberResult, MemberSet, Operation};
use spindles_format::{JournalBatch, JournalWriter};

impl Engine {
    /// Whether superblocks may count on the log that is begun.
    pub(crate) fn journal_is_stamped(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_none_or(|journal| journal.stamp == Stamp::Done)
    }

    /// Stamps the device, where that is not under way. The update of superblocks goes on afterwards.
    pub(crate) fn stamp_journal(&mut self) {
        let Some(mut journal) = self.journal.take_if(|it| it.stamp == Stamp::Wanted) else {
            return;
        };
        let left = MemberSet::all(self.geometry.members()).difference(self.missing);
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

    /// The nonce of the log on the device that superblocks count on.
    fn log_counted_on(&self) -> u64 {
        let persistence = self.metadata.persistence();
        let counted = persistence.map(|persistence| &persistence.array.journal);
        let counted = counted.filter(|journal| journal.on_device && journal.tail > 0);
        counted.map_or(0, |journal| journal.nonce)
    }

    /// Begins the next journal of the log, or goes on to the superblocks.
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

    /// A part of the stamp was written. Where the device fails the members log.
    pub(crate) fn journal_stamped(&mut self, result: MemberResult) {
        self.log_failed(JOURNAL_DEVICE, result);
        self.stamp_next();
    }

    /// Whether what is logged lies on a device of its own, which may be lost.
    pub(super) fn logs_on_device(&self) -> bool {
        self.journal
            .as_ref()
            .is_some_and(|journal| journal.placement.is_device())
    }

    /// All of the log was read. Where it lies on a device of its own and is not whole, the device counts
    /// as lost.
    pub(super) fn judge_log(&mut self) {
        let journal = self.journal.as_ref().expect("a replay has a journal");
        let replay = self.opening.replay_mut().expect("a replay is under way");
        if !journal.placement.is_device() || journal.placement.is_lost() {
            return;
        }
        if journal
            .device
            .is_some_and(|it| it.nonce != journal.record.nonce)
        {
            // It was stamped since, and superblocks do not count on that yet: all is in its place.
            replay.log = LogIndex::default();
            return;
        }
        // What was logged before a log that was begun, and that superblocks do not count on yet, is
        // in its place.
        let begun = replay.begun;
        replay.log.forget_before(begun);
        if !replay.is_whole(journal.record.tail) {
            self.log_failed(JOURNAL_DEVICE, Err(MemberError::Corrupt));
        }
    }
}
