//! The one definition of a degraded array, for reports on disks and on open arrays.

/// The facts that decide whether an array is degraded, apart from the arrays inside it.
#[derive(Clone, Copy, Debug)]
pub struct Lacks {
    /// True if members are missing or not filled yet.
    pub members: bool,
    /// True if its journal device is missing.
    pub journal: bool,
    /// Blocks, or bytes, that were found wrong and could not be repaired.
    pub left: u64,
    /// Blocks, or bytes, that can't be read until they are written.
    pub lost: u64,
    /// True if it has redundancy.
    pub is_redundant: bool,
}

impl Lacks {
    /// Returns true if an array is degraded. `is_redundant_above`: true if an array around it has
    /// redundancy.
    #[must_use]
    pub fn is_degraded(&self, is_redundant_above: bool) -> bool {
        self.members || self.journal || self.lost > 0 || self.leaves(is_redundant_above)
    }

    /// Returns true if blocks found wrong count: an array around it does not repair them.
    #[must_use]
    pub fn leaves(&self, is_redundant_above: bool) -> bool {
        self.left > 0 && (self.is_redundant || !is_redundant_above)
    }
}
