//! What is lost of arrays.

use std::ops::Range;

/// Bytes of an array that neither its members nor redundancy had any more when what a crash left was put
/// in order: they answer errors until they are written.
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
