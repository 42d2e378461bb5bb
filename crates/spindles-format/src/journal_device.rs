//! The record that marks a journal device of an array, and the layout of that device.

use crate::page::Page;
use crate::{ArrayRecord, DecodeError, SLOT_BYTES, SUPERBLOCK_BYTES, Uuid};
use spindles_block::{BlockIndex, BlockSize, MEMBERS_MAX};

/// The first bytes.
const MAGIC: [u8; 8] = *b"SPINDJNL";
/// Where the journals begin: past both superblock slots.
const FIRST_BYTES: u64 = 65536;
/// The smallest useful device: 64 KiB for each position.
pub const JOURNAL_DEVICE_BYTES_MIN: u64 = FIRST_BYTES + 65536 * MEMBERS_MAX as u64;

/// Every field, in order: offset, length, name. The table of `docs/reference/format.md`.
pub const JOURNAL_DEVICE_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 4, "version"),
    (12, 4, "reserved"),
    (16, 16, "device UUID"),
    (32, 16, "array UUID"),
    (48, 8, "device bytes"),
    (56, 8, "stamps"),
    (64, 8, "nonce"),
    (72, 8, "ended nonce"),
    (80, 4012, "reserved"),
    (4092, 4, "checksum"),
];

/// The record of a journal device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalDevice {
    /// Its identity.
    pub device_uuid: Uuid,
    /// The identity of its array.
    pub array: Uuid,
    /// The length of the device when it got the journal.
    pub device_bytes: u64,
    /// The number of stamps since the device got the journal: each opening that logs on the device
    /// adds one.
    pub stamps: u64,
    /// The nonce of the batches on the device; 0 before the first stamp.
    pub nonce: u64,
    /// The nonce of the log that superblocks counted on at the last stamp; 0 if they counted on
    /// none. By that stamp the whole log was durable in its final places.
    pub ended: u64,
}

impl JournalDevice {
    /// The start of the journal of the first position.
    #[must_use]
    pub fn first_block(&self, block_size: BlockSize) -> BlockIndex {
        BlockIndex(FIRST_BYTES / u64::from(block_size.bytes()))
    }

    /// The number of journal blocks of each position. The device is divided for the most positions
    /// that an array can grow to.
    #[must_use]
    pub fn ring_blocks(&self, block_size: BlockSize) -> u64 {
        let bytes = self.device_bytes.saturating_sub(FIRST_BYTES) / u64::from(MEMBERS_MAX);
        bytes / u64::from(block_size.bytes())
    }

    /// The record of an opening that logs on the device with this nonce, while superblocks still
    /// count on the log with the nonce `ended`.
    #[must_use]
    pub const fn stamped(mut self, nonce: u64, ended: u64) -> Self {
        self.stamps += 1;
        self.nonce = nonce;
        self.ended = ended;
        self
    }

    /// The block this record is written to: the previous one stays in the other slot.
    #[must_use]
    pub fn slot_block(&self, block_size: BlockSize) -> BlockIndex {
        let slot = usize::from(self.stamps % 2 == 1);
        BlockIndex(SLOT_BYTES[slot] / u64::from(block_size.bytes()))
    }

    /// Returns true if the array counts on a log that the device doesn't know: the device is an old
    /// copy, or went back in time.
    #[must_use]
    pub fn is_outdated(&self, array: &ArrayRecord) -> bool {
        let journal = &array.journal;
        let knows = [self.nonce, self.ended].contains(&journal.nonce);
        !array.clean && journal.on_device && journal.tail > 0 && !knows
    }

    /// Encodes the record for one of the slots, which lie at the same offsets as members'
    /// superblocks.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut page = Page::new(MAGIC);
        page.set(16, &self.device_uuid.0);
        page.set(32, &self.array.0);
        page.set(48, &self.device_bytes.to_le_bytes());
        page.set(56, &self.stamps.to_le_bytes());
        page.set(64, &self.nonce.to_le_bytes());
        page.set(72, &self.ended.to_le_bytes());
        let bytes = page.seal();
        assert_eq!(Self::decode(&bytes).as_ref(), Ok(self));
        bytes
    }

    /// Decodes the first `SUPERBLOCK_BYTES` of `bytes`; `NotOurs` if they hold no journal device
    /// record.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let page = Page::open(bytes, MAGIC)?;
        let device = Self {
            device_uuid: page.uuid(16),
            array: page.uuid(32),
            device_bytes: page.u64(48),
            stamps: page.u64(56),
            nonce: page.u64(64),
            ended: page.u64(72),
        };
        let what = "the device of a journal without an identity, without an array or too small";
        let makes_sense = device.device_uuid != Uuid::NIL
            && device.array != Uuid::NIL
            && device.device_bytes >= JOURNAL_DEVICE_BYTES_MIN;
        makes_sense
            .then_some(device)
            .ok_or(DecodeError::Invalid { what })
    }
}
