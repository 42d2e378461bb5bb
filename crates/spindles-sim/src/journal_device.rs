//! A separate disk for the journal of an array.

use crate::disk::{Disk, Landing};
use crate::options::Options;
use crate::random::Random;
use crate::world::World;
use spindles_engine::WriteHole;
use spindles_format::{
    ArrayRecord, JOURNAL_DEVICE_BYTES_MIN, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES,
};
use std::ops::Range;

/// The pages in which the disk describes itself.
const PAGE_BYTES: Range<usize> = 4096..8192;
const OTHER_PAGE_BYTES: Range<usize> = 32768..36864;

/// The disk with the journal of the outermost array.
#[derive(Clone, Debug)]
pub(crate) struct JournalDisk {
    pub(crate) disk: Disk,
    pub(crate) gone: bool,
    /// Set if the next crash damages it.
    doomed: bool,
    /// Set once it is damaged, while superblocks may still rely on it.
    damaged: bool,
    /// A copy of its contents from an earlier time between sessions.
    copy: Option<Disk>,
}

/// Returns the description of the journal disk for an array; `None` if the array gets none.
pub(crate) fn device_for(options: &Options, record: &ArrayRecord) -> Option<JournalDevice> {
    let logs = options.policy(true).write_hole == WriteHole::Closed;
    let random = &mut Random::new(options.seed, "journal device");
    let wanted = options.journal_device && logs && record.region_groups > 0;
    wanted.then(|| JournalDevice {
        device_uuid: random.uuid(),
        array: record.uuid,
        device_bytes: JOURNAL_DEVICE_BYTES_MIN,
        stamps: 0,
        nonce: 0,
        ended: 0,
    })
}

impl World {
    /// Adds the disk.
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
        self.replacement_number() + 1
    }

    /// Returns true if an array has a journal disk and it does not answer.
    pub(crate) fn journal_is_gone(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.gone)
    }

    /// Returns the disk's description of itself, if it is the journal of this array and answers.
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

    /// Returns true if the journal disk of this array answers and holds the log.
    pub(crate) fn journal_tells(&self, array: usize) -> bool {
        !self.journal_is_damaged() && self.journal_of(array).is_some()
    }

    /// Returns true if the journal disk has lost its log to damage.
    pub(crate) fn journal_is_damaged(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.damaged)
    }

    /// Makes the next crash damage the journal disk. Returns false without a journal disk, or if
    /// damage was already planned.
    pub fn doom_journal_device(&mut self) -> bool {
        let Some(journal) = &mut self.journal else {
            return false;
        };
        !std::mem::replace(&mut journal.doomed, true)
    }

    /// Between sessions: may copy the journal disk.
    pub(crate) fn copy_journal_device(&mut self) {
        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.doomed)
            && self.rotting.percent(50)
        {
            journal.copy = Some(journal.disk.clone());
        }
    }

    /// Between sessions, after a crash: replaces the journal disk with an old copy, or makes its
    /// log garbage or unreadable. Returns true if it was to be damaged.
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
                // The first of these sectors begins the log.
                for sector in log.step_by(5) {
                    journal.disk.make_unreadable(sector);
                }
                "can't be read in its log"
            }
        };
        self.note(&format!("the disk with the journal {what}"));
        true
    }

    /// Called when the array is opened. `count`: the superblocks rely on the log on the disk.
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

    /// Makes the journal disk stop answering. Returns false if there is none, or it did not answer
    /// before.
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
        if self.arrays.is_open(top) && !self.arrays.engine(top).is_settled() {
            // In the middle of a replay, durable checksums are the only record of recent writes. If
            // a member is missing too, now or later, parity can't be trusted.
            self.lose_log();
            self.errors_excused |= self.stack.arrays[top].geometry.parity_chunks() > 0;
        }
        true
    }

    /// Makes the disk answer again, with its old contents.
    pub(crate) fn bring_back_journal(&mut self) {
        self.note("the disk with the journal is back");
        self.journal.as_mut().expect("it was there").gone = false;
    }
}
