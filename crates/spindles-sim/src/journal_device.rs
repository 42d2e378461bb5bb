//! A disk of its own that an array has for its journal.

use crate::create::uuid;
use crate::disk::{Disk, Landing};
use crate::options::Options;
use crate::random::Random;
use crate::world::World;
use spindles_engine::WriteHole;
use spindles_format::{
    ArrayRecord, JOURNAL_DEVICE_BYTES_MIN, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES,
};
use std::ops::Range;

/// Where the disk says what it is.
const PAGE_BYTES: Range<usize> = 4096..8192;
const OTHER_PAGE_BYTES: Range<usize> = 32768..36864;

/// The disk with the journal of the outermost array.
#[derive(Clone, Debug)]
pub(crate) struct JournalDisk {
    pub(crate) disk: Disk,
    pub(crate) gone: bool,
    /// A crash that comes finds it damaged.
    doomed: bool,
    /// It is, and superblocks may count on it still.
    damaged: bool,
    /// What it held when nobody had it open.
    copy: Option<Disk>,
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
        stamps: 0,
        nonce: 0,
        ended: 0,
    })
}

impl World {
    /// Puts the disk there.
    pub(crate) fn add_journal_device(&mut self, device: JournalDevice) {
        let sector_bytes = self.options.sector_bytes;
        let sectors = device.device_bytes / u64::from(sector_bytes);
        let mut disk = Disk::new(self.options.model, sector_bytes, sectors);
        disk.write(
            SLOT_BYTES[0] / u64::from(sector_bytes),
            &device.encode(),
            true,
        );
        self.journal = Some(JournalDisk {
            disk,
            gone: false,
            doomed: false,
            damaged: false,
            copy: None,
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
        let sector_bytes = u64::try_from(journal.disk.sector_bytes()).expect("small");
        let slots = SLOT_BYTES.into_iter().filter_map(|at| {
            let mut bytes = [0; SUPERBLOCK_BYTES];
            journal.disk.read(at / sector_bytes, &mut bytes).ok()?;
            JournalDevice::decode(&bytes).ok()
        });
        let device = slots.max_by_key(|device| device.stamps);
        device.filter(|_| array == self.stack.top())
    }

    /// Whether the disk with the journal of this array answers, and holds what was logged.
    pub(crate) fn journal_tells(&self, array: usize) -> bool {
        !self.journal_is_damaged() && self.journal_of(array).is_some()
    }

    /// Whether the disk with the journal does not give what was logged on it.
    pub(crate) fn journal_is_damaged(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.damaged)
    }

    /// The next crash finds the disk with the journal damaged. Whether there is one.
    pub fn doom_journal_device(&mut self) -> bool {
        let Some(journal) = &mut self.journal else {
            return false;
        };
        !std::mem::replace(&mut journal.doomed, true)
    }

    /// Nothing runs: somebody may copy the disk with the journal.
    pub(crate) fn copy_journal_device(&mut self) {
        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.doomed)
            && self.rotting.percent(50)
        {
            journal.copy = Some(journal.disk.clone());
        }
    }

    /// Nothing runs: after a crash the disk with the journal is an old copy of itself, holds anything in
    /// the place of the log, or can't be read there. Whether it was to be damaged.
    pub(crate) fn damage_journal_device(&mut self) -> bool {
        let Some(journal) = &mut self.journal else {
            return false;
        };
        if journal.gone || !std::mem::take(&mut journal.doomed) {
            return false;
        }
        journal.damaged = true;
        let block_size = self.options.block_size;
        let contents = journal.disk.contents();
        let device = JournalDevice::decode(&contents[PAGE_BYTES])
            .or_else(|_| JournalDevice::decode(&contents[OTHER_PAGE_BYTES]));
        let log = device.map_or(0, |it| {
            it.first_block(block_size).0 * u64::from(block_size.bytes())
        });
        let sector_bytes = u64::try_from(journal.disk.sector_bytes()).expect("small");
        let sectors = journal.disk.bytes() / sector_bytes;
        let log = log / sector_bytes..sectors;
        let what = match (self.rotting.below(3), journal.copy.take()) {
            (0, Some(copy)) => {
                journal.disk = copy;
                "is an old copy"
            }
            (0 | 1, _) => {
                let garbage = vec![0xa5; journal.disk.sector_bytes()];
                for sector in log {
                    journal.disk.write(sector, &garbage, true);
                }
                "rots in its log"
            }
            _ => {
                // The first of them begins the log.
                for sector in log.step_by(5) {
                    journal.disk.make_unreadable(sector);
                }
                "can't be read in its log"
            }
        };
        self.note(&format!("the disk with the journal {what}"));
        true
    }

    /// The array is opened: superblocks `count` on what was logged on the disk, or not.
    pub(crate) fn journal_counts(&mut self, count: bool) {
        if let Some(journal) = self
            .journal
            .as_mut()
            .filter(|journal| !count && journal.damaged)
        {
            journal.damaged = false;
            let unreadable: Vec<u64> = journal.disk.unreadable().collect();
            for sector in unreadable {
                journal.disk.make_readable(sector);
            }
        }
    }

    /// The disk with the journal stops answering. Whether it did before.
    pub fn drop_journal(&mut self) -> bool {
        let number = self.journal_number();
        let spared = self.stack.is_short_of_space;
        let there = |journal: &&mut JournalDisk| !journal.gone && !spared;
        let Some(journal) = self.journal.as_mut().filter(there) else {
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
            self.lose_log();
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
