//! What crashes took of arrays.

use std::ops::Range;

/// Bytes of an array that a crash took: they answer errors until they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostBytes {
    /// The array.
    pub array: String,
    /// Which bytes of it.
    pub bytes: Range<u64>,
}

impl LostBytes {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }
}
