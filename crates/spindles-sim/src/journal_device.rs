//! A disk of its own that an array has for its journal.

use crate::create::uuid;
use crate::disk::{Disk, Landing};
use crate::options::Options;
use crate::random::Random;
use crate::world::World;
use spindles_engine::WriteHole;
use spindles_format::{ArrayRecord, JOURNAL_DEVICE_BYTES_MIN, JournalDevice};

/// The disk with the journal of the outermost array.
#[derive(Clone, Debug)]
pub(crate) struct JournalDisk {
    pub(crate) disk: Disk,
    pub(crate) gone: bool,
    pub(crate) device: JournalDevice,
}

/// What a disk says of itself that gets the journal of an array, if that one is to have it.
pub(crate) fn device_for(options: &Options, record: &ArrayRecord) -> Option<JournalDevice> {
    let logs = options.policy(true).write_hole == WriteHole::Closed;
    let random = &mut Random::new(options.seed, "journal device");
    let wanted = options.journal_device && logs && record.region_groups > 0;
    wanted.then(|| JournalDevice {
        device_uuid: uuid(random),
        array: record.uuid,
        device_bytes: JOURNAL_DEVICE_BYTES_MIN,
    })
}

impl World {
    /// Puts the disk there.
    pub(crate) fn add_journal_device(&mut self, device: JournalDevice) {
        let sector_bytes = self.options.sector_bytes;
        let sectors = device.device_bytes / u64::from(sector_bytes);
        self.journal = Some(JournalDisk {
            disk: Disk::new(self.options.model, sector_bytes, sectors),
            gone: false,
            device,
        });
    }

    /// The number of the disk with the journal.
    pub(crate) fn journal_number(&self) -> usize {
        self.beside_number() + 1
    }

    /// Whether an array should have a disk for its journal, and it does not answer.
    pub(crate) fn journal_is_gone(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.gone)
    }

    /// What the disk says of itself, if it is that of this array, and answers.
    pub(crate) fn journal_of(&self, array: usize) -> Option<JournalDevice> {
        let journal = self.journal.as_ref().filter(|journal| !journal.gone)?;
        (array == self.stack.top()).then_some(journal.device)
    }

    /// The disk with the journal stops answering. Whether it did before.
    pub fn drop_journal(&mut self) -> bool {
        let number = self.journal_number();
        let Some(journal) = self.journal.as_mut().filter(|journal| !journal.gone) else {
            return false;
        };
        journal.gone = true;
        for io in self.ios.iter_mut().flatten().filter(|io| io.disk == number) {
            io.lost = true;
            if let Some(data) = &io.data {
                let landing = Landing::random(&mut self.faults);
                journal.disk.land(&mut self.faults, data, landing);
            }
        }
        self.note("the disk with the journal drops out");
        let top = self.stack.top();
        if self.is_open(top) && !self.engine(top).is_settled() {
            // In the middle of a replay: checksums that are durable are all that tells of what was written.
            // Where a member is missing too, or will be, parity is not to be trusted.
            self.in_doubt.extend(self.client.history.in_doubt(true));
            self.errors_excused |= self.stack.arrays[top].geometry.parity_chunks() > 0;
        }
        true
    }

    /// It answers again, with what it held.
    pub(crate) fn bring_back_journal(&mut self) {
        self.note("the disk with the journal is back");
        self.journal.as_mut().expect("it was there").gone = false;
    }
}
