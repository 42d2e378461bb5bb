//! A separate disk for the journal of an array.

use crate::disk::Disk;
use crate::options::Options;
use crate::random::Random;
use spindles_block::BlockSize;
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
    /// Set once it is damaged, while superblocks may still rely on it.
    damaged: bool,
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

impl JournalDisk {
    pub(crate) fn new(options: &Options, device: &JournalDevice) -> Self {
        let sector_bytes = options.sector_bytes;
        let sectors = device.device_bytes / u64::from(sector_bytes);
        let mut disk = Disk::new(options.model, sector_bytes, sectors);
        let sector = SLOT_BYTES[0] / u64::from(sector_bytes);
        disk.write(sector, &device.encode(), true);
        Self {
            disk,
            gone: false,
            damaged: false,
        }
    }

    /// Returns the disk's description of itself; `None` if it does not answer.
    pub(crate) fn device(&self) -> Option<JournalDevice> {
        if self.gone {
            return None;
        }
        let sector_bytes = u64::try_from(self.disk.sector_bytes()).expect("small");
        let slots = SLOT_BYTES.into_iter().filter_map(|at| {
            let mut bytes = [0; SUPERBLOCK_BYTES];
            self.disk.read(at / sector_bytes, &mut bytes).ok()?;
            JournalDevice::decode(&bytes).ok()
        });
        slots.max_by_key(|device| device.stamps)
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Replaces the disk with its old copy, or makes its log garbage or unreadable. Returns in
    /// words what happened.
    pub(crate) fn damage(
        &mut self,
        copy: Option<Disk>,
        block_size: BlockSize,
        random: &mut Random,
    ) -> &'static str {
        self.damaged = true;
        let contents = self.disk.contents();
        let device = JournalDevice::decode(&contents[PAGE_BYTES])
            .or_else(|_| JournalDevice::decode(&contents[OTHER_PAGE_BYTES]));
        let log = device.map_or(0, |device| {
            device.first_block(block_size).0 * u64::from(block_size.bytes())
        });
        let sector_bytes = u64::try_from(self.disk.sector_bytes()).expect("small");
        let log = log / sector_bytes..self.disk.bytes() / sector_bytes;
        match (random.below(3), copy) {
            (0, Some(copy)) => {
                self.disk = copy;
                "is an old copy"
            }
            (0 | 1, _) => {
                let garbage = vec![0xa5; self.disk.sector_bytes()];
                for sector in log {
                    self.disk.write(sector, &garbage, true);
                }
                "rots in its log"
            }
            _ => {
                // The first of these sectors begins the log.
                for sector in log.step_by(5) {
                    self.disk.make_unreadable(sector);
                }
                "can't be read in its log"
            }
        }
    }

    /// Called when the array is opened and its superblocks do not rely on the log on the disk.
    pub(crate) fn does_not_count(&mut self) {
        if !std::mem::take(&mut self.damaged) {
            return;
        }
        let unreadable: Vec<u64> = self.disk.unreadable().collect();
        for sector in unreadable {
            self.disk.make_readable(sector);
        }
    }
}
