//! Lost bytes of arrays.

use std::ops::Range;

/// Bytes of an array that neither its members nor redundancy could provide during recovery from a
/// crash. Reads of lost bytes fail until a write replaces these bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostBytes {
    /// The array.
    pub array: String,
    /// The range of lost bytes.
    pub bytes: Range<u64>,
}

impl LostBytes {
    /// Returns the number of bytes.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}
