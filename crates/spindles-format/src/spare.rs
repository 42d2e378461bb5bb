//! What marks a device as a spare: no member of an array, and set aside to take the place of one.
//!
//! It lies where superblocks of even generations do. The first of them overwrites it, and any good
//! superblock counts for more: so a device is a spare or a member at every moment, never both.

use crate::page::{FIELDS, Page};
use crate::{DecodeError, SUPERBLOCK_BYTES, Uuid};
use alloc::vec::Vec;

/// The most arrays that a spare serves by name.
pub const SPARE_ARRAYS_MAX: usize = 64;

/// The first bytes.
const MAGIC: [u8; 8] = *b"SPINDSPR";
const ARRAYS_AT: usize = 64;
const UUID_BYTES: usize = 16;

const _: () = assert!(ARRAYS_AT + SPARE_ARRAYS_MAX * UUID_BYTES <= FIELDS.end);

/// Every field, in order: offset, length, name. The table of `docs/format.md`.
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

/// What a spare says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpareRecord {
    /// Its identity. As a member it gets another one.
    pub device_uuid: Uuid,
    /// How long it was when it became a spare.
    pub device_bytes: u64,
    /// The arrays that may take it, and with them the arrays inside them; none for a spare that is
    /// shared: any may.
    pub arrays: Vec<Uuid>,
}

impl SpareRecord {
    /// Whether any array may take it.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.arrays.is_empty()
    }

    /// Whether this array may take it.
    #[must_use]
    pub fn serves(&self, array: Uuid) -> bool {
        self.is_shared() || self.arrays.contains(&array)
    }

    /// The same spare once `array` is about to take it: nobody else may from then on.
    #[must_use]
    pub fn claimed_by(&self, array: Uuid) -> Self {
        Self {
            arrays: alloc::vec![array],
            ..self.clone()
        }
    }

    /// The same spare, of one array more; `None` where there is no room.
    #[must_use]
    pub fn serving(&self, array: Uuid) -> Option<Self> {
        let mut more = self.clone();
        if !self.serves(array) {
            more.arrays.push(array);
        }
        (more.arrays.len() <= SPARE_ARRAYS_MAX).then_some(more)
    }

    /// The arrays that may take it without this one; `None` if this one is not listed by name.
    #[must_use]
    pub fn arrays_but(&self, array: Uuid) -> Option<Vec<Uuid>> {
        let others = self.arrays.iter().filter(|it| **it != array);
        self.arrays
            .contains(&array)
            .then(|| others.copied().collect())
    }

    /// The same spare, of all arrays.
    #[must_use]
    pub fn serving_all(&self) -> Self {
        Self {
            arrays: Vec::new(),
            ..self.clone()
        }
    }

    /// As it lies on the device.
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

    /// Reads it from the first `SUPERBLOCK_BYTES` of `bytes`; `NotOurs` where there is none.
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
