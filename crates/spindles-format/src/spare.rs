//! The record that marks a device as a spare: a device set aside to replace a member of an array.
//!
//! It lies in the slot of superblocks of even generations. The first of these overwrites it, and
//! any good superblock takes precedence over it. So at every moment a device is a spare or a
//! member, never both.

use crate::page::{FIELDS, Page};
use crate::{DecodeError, SUPERBLOCK_BYTES, Uuid};
use alloc::vec::Vec;

/// The most arrays that a spare can list.
pub const SPARE_ARRAYS_MAX: usize = 64;

/// The first bytes.
const MAGIC: [u8; 8] = *b"SPINDSPR";
const ARRAYS_AT: usize = 64;
const UUID_BYTES: usize = 16;

const _: () = assert!(ARRAYS_AT + SPARE_ARRAYS_MAX * UUID_BYTES <= FIELDS.end);

/// Every field, in order: offset, length, name. The table of `docs/reference/format.md`.
pub const SPARE_FIELDS: &[(usize, usize, &str)] = &[
    (0, 8, "magic"),
    (8, 4, "version"),
    (12, 4, "arrays"),
    (16, 16, "device UUID"),
    (32, 8, "device bytes"),
    (40, 24, "reserved"),
    (64, 1024, "array UUIDs, 16 bytes each"),
    (1088, 3004, "reserved"),
    (4092, 4, "checksum"),
];

/// The record of a spare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareRecord {
    /// Its identity. A member gets a new identity.
    pub device_uuid: Uuid,
    /// Its length when it became a spare.
    pub device_bytes: u64,
    /// The arrays that may take it, for themselves or for the arrays inside them. Empty for a
    /// shared spare, which any array may take.
    pub arrays: Vec<Uuid>,
}

impl SpareRecord {
    /// Returns true if any array may take it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.arrays.is_empty()
    }

    /// Returns true if this array may take it.
    #[must_use]
    pub fn serves(&self, array: Uuid) -> bool {
        self.is_shared() || self.arrays.contains(&array)
    }

    /// The same spare, reserved for `array`, which is about to take it.
    #[must_use]
    pub fn claimed_by(&self, array: Uuid) -> Self {
        Self {
            arrays: alloc::vec![array],
            ..self.clone()
        }
    }

    /// The same spare, serving one more array; `None` if there is no room.
    #[must_use]
    pub fn serving(&self, array: Uuid) -> Option<Self> {
        let mut more = self.clone();
        if !self.serves(array) {
            more.arrays.push(array);
        }
        (more.arrays.len() <= SPARE_ARRAYS_MAX).then_some(more)
    }

    /// Returns the other arrays that may take the spare; `None` if the spare doesn't list `array`.
    #[must_use]
    pub fn arrays_but(&self, array: Uuid) -> Option<Vec<Uuid>> {
        let others = self.arrays.iter().filter(|it| **it != array);
        self.arrays
            .contains(&array)
            .then(|| others.copied().collect())
    }

    /// The same spare, shared by all arrays.
    #[must_use]
    pub fn serving_all(&self) -> Self {
        Self {
            arrays: Vec::new(),
            ..self.clone()
        }
    }

    /// Encodes it as it lies on the device.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        assert!(self.arrays.len() <= SPARE_ARRAYS_MAX);
        let mut page = Page::new(MAGIC);
        let count = u32::try_from(self.arrays.len()).expect("at most 64");
        page.set(12, &count.to_le_bytes());
        page.set(16, &self.device_uuid.0);
        page.set(32, &self.device_bytes.to_le_bytes());
        for (index, array) in self.arrays.iter().enumerate() {
            page.set(ARRAYS_AT + index * UUID_BYTES, &array.0);
        }
        let bytes = page.seal();
        assert_eq!(Self::decode(&bytes).as_ref(), Ok(self));
        bytes
    }

    /// Decodes the first `SUPERBLOCK_BYTES` of `bytes`; `NotOurs` if they hold no spare record.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let page = Page::open(bytes, MAGIC)?;
        let count = usize::try_from(page.u32(12)).unwrap_or(usize::MAX);
        if count > SPARE_ARRAYS_MAX {
            return Err(DecodeError::Invalid {
                what: "a spare of more arrays than it has room for",
            });
        }
        let arrays = (0..count).map(|index| page.uuid(ARRAYS_AT + index * UUID_BYTES));
        let record = Self {
            device_uuid: page.uuid(16),
            device_bytes: page.u64(32),
            arrays: arrays.collect(),
        };
        if record.device_uuid == Uuid::NIL || record.arrays.contains(&Uuid::NIL) {
            return Err(DecodeError::Invalid {
                what: "a spare without an identity, or of an array without one",
            });
        }
        Ok(record)
    }
}
